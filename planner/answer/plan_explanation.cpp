// Explains the first plan of an answer, and writes the explanation as sentences and as JSON.
#include "planner/answer/plan_explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "planner/explain/explain.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr std::size_t kToldGains = 3;

/// The second plan of an answer, and what would have to change for it to win.
struct RunnerUp {
  const Plan& plan;
  double behind = 0.0;       ///< What it loses, in what the objective counts; below 0 in a tie.
  std::string_view term;     ///< The term by which it loses most.
  double of_term = 0.0;      ///< All that it spends on that term.
  double of_ours = 0.0;      ///< The term of the first plan, in the same unit.
  std::optional<Flip> wins;  ///< The smallest change of an input at which it wins.
};

std::optional<RunnerUp> runner_up(const PlanningResult& result) {
  if (result.plans.size() < 2) {
    return std::nullopt;
  }
  const Objective objective = result.options.objective;
  const auto cost_of = [&](const Plan& plan) {
    return counted(plan.predicted.breakdown, plan.config, objective);
  };
  const CostBreakdown best = cost_of(result.plans.front());
  const Plan& plan = result.plans[1];
  const CostBreakdown cost = cost_of(plan);
  const std::vector<TermDifference> terms = differences(cost, best);
  const auto largest = std::ranges::max_element(terms, {}, &TermDifference::difference);
  RunnerUp second{
      .plan = plan, .behind = (cost.total() - best.total()).value(), .term = largest->term};
  for (const CostTerm& term : kCostTerms) {
    if (term.name == second.term) {
      second.of_term = (cost.*term.time).value();
      second.of_ours = (best.*term.time).value();
    }
  }
  for (const InputFlips& input : result.explanation->flips.inputs) {
    for (const FlipPoint& point : input.points) {
      if (point.best && point.best->config == plan.config &&
          (!second.wins || std::abs(point.change) < std::abs(second.wins->point->change))) {
        second.wins = Flip{input.input, &point};
      }
    }
  }
  return second;
}

std::string memory_sentence(const PlanningResult& result) {
  const Plan& plan = result.plans.front();
  const Binding& binding = result.explanation->binding;
  const Bytes usable = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  return fmt::format(
      "Stage {} of {} holds most memory, {} of {}, the largest part of which is {} with {}; {} are "
      "free.",
      binding.rank + 1, plan.config.pp, binary_size(plan.memory.peak()), binary_size(usable),
      binding.category, binary_size(binding.of_category), binary_size(binding.free));
}

std::string time_sentence(const PlanningResult& result) {
  const Binding& binding = result.explanation->binding;
  const Seconds time = result.plans.front().predicted.iteration_time.value;
  return fmt::format(
      "Of {}, the model's FLOPs (causal attention) alone take {} at the peak of the GPUs in use; "
      "the largest part above that is {}, {} ({}).",
      duration(time), duration(binding.at_peak),
      binding.largest.term == kBelowPeak ? fmt::format("what {} take below that peak", kBelowPeak)
                                         : std::string(binding.largest.term),
      duration(binding.largest.time), percent(binding.largest.time / time));
}

std::string link_sentence(const PlanningResult& result) {
  const Binding& binding = result.explanation->binding;
  const ParallelConfig& config = result.plans.front().config;
  std::string text = binding.link
                         ? fmt::format(
                               "The longest communication that compute does not hide is {}, {}, "
                               "over the {}.",
                               binding.link->part.term, duration(binding.link->part.time),
                               name_of(binding.link->link, NamedValues<Link>(kLinkNames)))
                         : "Compute hides all communication.";
  if (config.pp > 1) {
    text += fmt::format(" The bubble is {}; (p-1)/(vm) = {}/{}, {} of the time of a rank's passes.",
                        duration(binding.bubble), config.pp - 1,
                        config.vpp * result.plans.front().schedule.num_microbatches,
                        percent(binding.bubble_formula));
  }
  return text;
}

std::string gain_text(const Gain& gain) {
  return fmt::format("{} less with {}", percent(gain.saved), gain.change);
}

std::string gains_sentence(const PlanningResult& result) {
  const std::vector<Gain>& gains = result.explanation->gains.found;
  if (gains.empty()) {
    return result.explanation->gains.is_complete
               ? "No single change of memory, inputs or software makes it faster."
               : "What single changes gain was not looked at: time was short.";
  }
  std::string text = fmt::format(
      "{} of a sequence by one change, the largest gains{}:",
      result.options.objective == Objective::kCost ? "Cost" : "Time",
      result.explanation->gains.is_complete ? "" : " of those that there was time to look at");
  const std::size_t told = std::min(gains.size(), kToldGains);
  for (std::size_t i = 0; i < told; ++i) {
    text += fmt::format("{} {}", i == 0 ? "" : ";", gain_text(gains[i]));
  }
  const auto is_software = [](const Gain& gain) { return gain.kind == GainKind::kSoftware; };
  const auto best_software = std::ranges::find_if(gains, is_software);
  if (best_software != gains.end() && best_software >= gains.begin() + kToldGains) {
    text += fmt::format("; of software: {}", gain_text(*best_software));
  }
  return text + ".";
}

/// Returns an amount of what the objective counts: "7.476 s", "31.2 GPU-s".
std::string amount(double value, Objective objective) {
  return objective == Objective::kCost ? fmt::format("{:.4g} {}", value, unit_of(objective))
                                       : duration(Seconds(value));
}

std::string runner_up_sentence(const PlanningResult& result) {
  const auto second = runner_up(result);
  if (!second) {
    return "";
  }
  const Objective objective = result.options.objective;
  const std::string name = to_string(second->plan.config);
  if (second->behind <= 0.0) {
    return fmt::format("The runner-up, {}, takes no longer: the two tie.", name);
  }
  std::string text =
      fmt::format("The runner-up, {}, loses by {}", name, amount(second->behind, objective));
  if (result.calibration.is_calibrated()) {
    text += fmt::format(" ({:.0f} % likely better)",
                        100.0 * probability_better(second->plan, result.plans.front(), result));
  }
  text += second->of_term > second->behind
              ? fmt::format(
                    ": its {}, {} where this plan has {}, would have to shrink by {} "
                    "for it to win",
                    second->term, amount(second->of_term, objective),
                    amount(second->of_ours, objective), percent(second->behind / second->of_term))
              : fmt::format("; no {} at all would not be enough for it to win", second->term);
  if (second->wins) {
    text += fmt::format(". It wins with {:+.3g} % {}", 100.0 * second->wins->point->change,
                        text_of(second->wins->input).name);
  }
  return text + ".";
}

/// Says which numbers of GPUs and batches flip the choice by no larger a change than the one told
/// first; an empty string if none does.
std::string earlier_flips(const Flips& flips, const FlipPoint& told) {
  std::string text;
  for (const InputFlips& input : flips.inputs) {
    for (const FlipPoint& point : input.points) {
      if (point.value > 0 && !point.is_same && &point != &told &&
          std::abs(point.change) <= std::abs(told.change)) {
        text += fmt::format("{} {:+.3g} % {}", text.empty() ? "" : ",", 100.0 * point.change,
                            text_of(input.input).name);
      }
    }
  }
  return text.empty()
             ? ""
             : " Another plan is needed anyway where the degrees don't divide:" + text + ".";
}

std::string flip_sentence(const PlanningResult& result) {
  const Flips& flips = result.explanation->flips;
  const auto flip = smallest_flip(flips);
  if (!flip) {
    return grid_text(flips) +
           (flips.inputs.empty() ? "" : " None of those searched flips the choice.");
  }
  const FlipPoint& point = *flip->point;
  std::string text = fmt::format("{} The choice flips first with {:+.3g} % {}: then ",
                                 grid_text(flips), 100.0 * point.change, text_of(flip->input).name);
  if (!point.best) {
    return text + "nothing fits.";
  }
  const Objective objective = result.options.objective;
  const auto told = [&](Seconds time, const ParallelConfig& config) {
    return amount(score(time * result.calibration.factor, config, objective), objective);
  };
  text += fmt::format("{} wins with {}", to_string(point.best->config),
                      told(point.best->time, point.best->config));
  text += point.same
              ? fmt::format(", this one takes {}.", told(*point.same, result.plans.front().config))
              : ", this one cannot run.";
  return text + earlier_flips(flips, point);
}

ObjectWriter bound_json(const BoundTime& part) {
  ObjectWriter json;
  json.text("term", std::string(part.term));
  json.number("time_s", part.time.value());
  return json;
}

ObjectWriter binding_json(const Binding& binding) {
  ObjectWriter json;
  json.count("stage", binding.rank);
  json.text("category", std::string(binding.category));
  json.number("category_GiB", binding.of_category.value() / kGibi);
  json.number("free_GiB", binding.free.value() / kGibi);
  json.number("at_peak_s", binding.at_peak.value());
  json.child("largest", bound_json(binding.largest));
  if (binding.link) {
    ObjectWriter link = bound_json(binding.link->part);
    link.choice("crosses", binding.link->link, NamedValues<Link>(kLinkNames));
    json.child("link", std::move(link));
  }
  json.number("bubble_s", binding.bubble.value());
  json.number("bubble_formula", binding.bubble_formula);
  return json;
}

std::vector<ObjectWriter> gains_json(const std::vector<Gain>& gains, double factor) {
  std::vector<ObjectWriter> list;
  for (const Gain& gain : gains) {
    ObjectWriter& json = list.emplace_back();
    json.choice("kind", gain.kind, NamedValues<GainKind>(kGainKinds));
    json.text("change", gain.change);
    json.number("saved", gain.saved);
    json.number("iteration_time_s", gain.time.value() * factor);
    json.object("config", gain.config);
  }
  return list;
}

ObjectWriter point_json(const FlipPoint& point, double factor) {
  ObjectWriter json;
  json.number("change", point.change);
  if (point.value > 0) {
    json.count("value", point.value);
  }
  if (point.same) {
    json.number("same_plan_s", point.same->value() * factor);
  }
  json.flag("same_plan_wins", point.is_same);
  if (point.best) {
    json.child("best", candidate_json(*point.best, factor));
  }
  return json;
}

ObjectWriter flips_json(const Flips& flips, double factor) {
  std::vector<ObjectWriter> inputs;
  for (const InputFlips& input : flips.inputs) {
    std::vector<ObjectWriter> points;
    for (const FlipPoint& point : input.points) {
      points.push_back(point_json(point, factor));
    }
    ObjectWriter& json = inputs.emplace_back();
    json.text("input", std::string(text_of(input.input).key));
    json.children("points", std::move(points));
  }
  std::vector<std::string> left_out;
  for (const ChangedInput input : flips.left_out) {
    left_out.emplace_back(text_of(input).key);
  }
  ObjectWriter json;
  json.flag("coarse", flips.is_coarse);
  json.texts("left_out", left_out);
  json.children("inputs", std::move(inputs));
  return json;
}

}  // namespace

std::string grid_text(const Flips& flips) {
  std::string text =
      flips.inputs.empty()
          ? "No other input was searched: each search takes long (--time-limit gives more)"
      : flips.is_coarse ? "Of each input only about -20 and +20 % were searched: each search takes "
                          "long (--time-limit gives more)"
                        : "Each input was searched from about -20 to +20 %";
  if (flips.inputs.empty()) {
    return text + ".";
  }
  for (const ChangedInput input : flips.left_out) {
    text += fmt::format("{} {}", input == flips.left_out.front() ? "; not searched:" : ",",
                        text_of(input).name);
  }
  return text + ".";
}

PlanExplanation explain_plan(const PlanningResult& result) {
  const Plan& plan = result.plans.front();
  const Candidate& chosen = result.search.best.front();
  const Scenario widened = as_searched(result.scenario, result.options.space);
  PlanExplanation explanation;
  explanation.binding = find_binding(
      {widened, chosen.config, chosen.costs.get()}, plan.predicted.breakdown, plan.memory.stages,
      usable_memory(result.scenario.cluster.gpu, result.options.memory_headroom));
  const Answer answer{result.scenario, result.options, chosen};
  Gains gains = find_gains(answer);
  explanation.flips = find_flips(result.scenario, result.options, chosen.config);
  explanation.gains = with_inputs(std::move(gains), answer, explanation.flips);
  return explanation;
}

std::vector<std::string> explanation_sentences(const PlanningResult& result) {
  std::vector<std::string> sentences = {memory_sentence(result),    time_sentence(result),
                                        link_sentence(result),      gains_sentence(result),
                                        runner_up_sentence(result), flip_sentence(result)};
  std::erase(sentences, "");
  return sentences;
}

ObjectWriter explanation_json(const PlanningResult& result) {
  const PlanExplanation& explanation = *result.explanation;
  const double factor = result.calibration.factor;
  ObjectWriter json;
  json.child("binding", binding_json(explanation.binding));
  json.flag("gains_complete", explanation.gains.is_complete);
  json.children("gains", gains_json(explanation.gains.found, factor));
  if (const auto second = runner_up(result)) {
    ObjectWriter other;
    other.object("config", second->plan.config);
    other.number("behind", second->behind);
    other.text("term", std::string(second->term));
    other.number("of_term", second->of_term);
    if (second->wins) {
      other.text("wins_with", std::string(text_of(second->wins->input).key));
      other.number("change", second->wins->point->change);
    }
    json.child("runner_up", std::move(other));
  }
  json.child("flips", flips_json(explanation.flips, factor));
  return json;
}

}  // namespace ptdp
