// Prints what tuning found, for people and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "cost_model/text/object_writer.h"
#include "planner/formatting.h"
#include "planner/profile_fit/tuning.h"

namespace ptdp {
namespace {

/// Returns the rank of each plan, from 1, by what `time` says of it; equal ones in their order.
template <class Time>
std::vector<int> ranks_by(const std::vector<TunedPlan>& plans, const Time& time) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    int rank = 1;
    for (std::size_t j = 0; j < plans.size(); ++j) {
      const Seconds mine = time(plans[i]);
      const Seconds other = time(plans[j]);
      rank += other < mine || (other == mine && j < i) ? 1 : 0;
    }
    ranks.push_back(rank);
  }
  return ranks;
}

std::string plans_text(const Tuning& tuning) {
  const std::vector<int> planned = ranks_by(tuning.plans, std::mem_fn(&TunedPlan::planned_time));
  const std::vector<int> corrected =
      ranks_by(tuning.plans, std::mem_fn(&TunedPlan::corrected_time));
  const std::vector<int> measured =
      ranks_by(tuning.plans, [](const TunedPlan& plan) { return plan.measured(); });
  std::string text = fmt::format("{:>12}{:>10}{:>12}{:>10}{:>12}{:>10}  {:<11} plan\n", "predicted",
                                 "error", "refitted", "error", "measured", "spread", "ranks");
  for (std::size_t i = 0; i < tuning.plans.size(); ++i) {
    const TunedPlan& plan = tuning.plans[i];
    text += fmt::format(
        "{:>12}{:>10}{:>12}{:>10}{:>12}{:>10}  {:<11} {}{}\n", duration(plan.planned_time()),
        error_of(plan.planned_time(), plan.measured()), duration(plan.corrected_time()),
        error_of(plan.corrected_time(), plan.measured()), duration(plan.measured()),
        duration(Seconds(plan.spread())),
        fmt::format("{} > {} > {}", planned[i], corrected[i], measured[i]),
        to_string(plan.plan.config), plan.is_new ? " (new)" : "");
  }
  return text + "ranks: as predicted > with refitted profiles > as measured\n";
}

std::string gain_text(const Tuning& tuning, std::size_t plan) {
  return fmt::format("gain: predicted {:+.1f} %, measured {:+.1f} %{}\n",
                     100.0 * tuning.predicted_gain(plan), 100.0 * tuning.measured_gain(plan),
                     is_tie(tuning.plans[tuning.chosen_first], tuning.plans[plan])
                         ? ": a tie, as single steps differ by more"
                         : "");
}

/// Returns why another plan than the first choice is the tuned one.
std::string reason_text(const Tuning& tuning) {
  const std::size_t best = tuning.best();
  if (tuning.predicted_gain(best) <= 0.0) {
    return "because it ran faster; the refitted profiles do not explain why\n";
  }
  const ChangedTerm term = find_changed_term(tuning);
  const auto signed_time = [](Seconds time) {
    return time.value() < 0.0 ? "-" + duration(Seconds(-time.value())) : "+" + duration(time);
  };
  return fmt::format("because of {}: the first plan's differs from the second's by {}, not by {}\n",
                     term.name, signed_time(term.after), signed_time(term.before));
}

std::string choice_text(const Tuning& tuning) {
  const std::size_t best = tuning.best();
  const auto config_of = [&](std::size_t plan) {
    return to_string(tuning.plans[plan].plan.config);
  };
  std::string text;
  if (tuning.has_changed()) {
    text = fmt::format("The choice has changed:\n  from {}\n  to   {}\n{}{}",
                       config_of(tuning.chosen_first), config_of(best), reason_text(tuning),
                       gain_text(tuning, best));
  } else {
    text = "The choice has not changed: " + config_of(best) + '\n';
  }
  if (tuning.chosen_again != best) {
    text += fmt::format("The refitted profiles would choose {}\n{}", config_of(tuning.chosen_again),
                        gain_text(tuning, tuning.chosen_again));
  }
  if (tuning.not_run) {
    text += fmt::format("Of all plans they would choose one that was not run: {}, predicted {}\n",
                        to_string(tuning.not_run->config),
                        duration(tuning.not_run->predicted.iteration_time.value));
  }
  return text;
}

std::string regret_text(const Tuning& tuning) {
  const TunedPlan& fastest = tuning.plans[tuning.fastest];
  const auto line = [&](const char* what, std::size_t chosen) {
    const bool is_tied = chosen != tuning.fastest && is_tie(tuning.plans[chosen], fastest);
    return fmt::format("regret of the {} choice (its time over the fastest): {:.1f} %{}\n", what,
                       100.0 * tuning.regret_of(chosen),
                       is_tied ? " (a tie with the fastest)" : "");
  };
  return "fastest measured: " + to_string(fastest.plan.config) + '\n' +
         line("first", tuning.chosen_first) + line("refitted", tuning.chosen_again) +
         "tuned plan: " + to_string(tuning.plans[tuning.best()].plan.config) + '\n';
}

/// Returns a line on the knobs that no run spends time on: of these the second search knew no more
/// than the first.
std::string unmeasured_text(const Tuning& tuning) {
  const bool has_nodes = tuning.plans.front().plan.gpus > tuning.fit.cluster.gpus_per_node;
  std::string names;
  for (const KnobFit& knob : tuning.fit.knobs) {
    const bool is_between_nodes =
        knob.knob == ProfileKnob::kNetworkLatency || knob.knob == ProfileKnob::kNetworkRate;
    if (knob.num_runs == 0 && (has_nodes || !is_between_nodes)) {
      const std::string_view name = kProfileKnobs[static_cast<std::size_t>(knob.knob)].name;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
  }
  return names.empty()
             ? ""
             : "left as they were, since these plans spend too little time on them: " + names +
                   " (--tune also takes files of plans that do)\n";
}

}  // namespace

std::string to_text(const Tuning& tuning) {
  return plans_text(tuning) + '\n' + choice_text(tuning) + regret_text(tuning) +
         unmeasured_text(tuning) + '\n' + to_text(tuning.fit);
}

std::string to_json(const Tuning& tuning) {
  std::vector<ObjectWriter> plans;
  for (const TunedPlan& plan : tuning.plans) {
    ObjectWriter& json = plans.emplace_back();
    json.object("config", plan.plan.config);
    json.flag("is_new", plan.is_new);
    json.number("predicted_s", plan.planned_time().value());
    json.number("refitted_s", plan.corrected_time().value());
    json.number("measured_s", plan.measured().value());
    json.number("spread_s", plan.spread());
    json.count("steps", static_cast<std::int64_t>(plan.run.step_times.size()));
  }
  std::vector<ObjectWriter> corrections;
  for (const KnobFit& knob : tuning.fit.knobs) {
    ObjectWriter& json = corrections.emplace_back();
    json.text("knob", std::string(kProfileKnobs[static_cast<std::size_t>(knob.knob)].name));
    json.number("factor", knob.factor);
    json.count("runs", knob.num_runs);
    json.flag("at_bound", knob.is_at_bound);
  }
  const std::size_t best = tuning.best();
  ObjectWriter json;
  json.text("schema", "ptdp.tuning/1");
  json.children("plans", std::move(plans));
  json.count("chosen_first", static_cast<std::int64_t>(tuning.chosen_first));
  json.count("chosen_again", static_cast<std::int64_t>(tuning.chosen_again));
  json.count("fastest", static_cast<std::int64_t>(tuning.fastest));
  json.count("best", static_cast<std::int64_t>(best));
  json.flag("changed", tuning.has_changed());
  if (tuning.has_changed() && tuning.predicted_gain(best) > 0.0) {
    json.name("changed_term", find_changed_term(tuning).name);
  }
  if (tuning.chosen_again != tuning.chosen_first) {
    json.flag("tie", is_tie(tuning.plans[tuning.chosen_first], tuning.plans[tuning.chosen_again]));
  }
  if (tuning.not_run) {
    json.object("not_run", tuning.not_run->config);
  }
  json.number("regret_first_pct", 100.0 * tuning.regret_of(tuning.chosen_first));
  json.number("regret_again_pct", 100.0 * tuning.regret_of(tuning.chosen_again));
  json.number("predicted_gain_pct", 100.0 * tuning.predicted_gain(best));
  json.number("measured_gain_pct", 100.0 * tuning.measured_gain(best));
  json.children("corrections", std::move(corrections));
  return json.dump();
}

std::string in_format(AnswerFormat format, const Tuning& tuning) {
  return format == AnswerFormat::kJson ? to_json(tuning) : to_text(tuning);
}

}  // namespace ptdp
