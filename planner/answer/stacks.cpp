// Plans with one stack after another, and prints them side by side.
#include "planner/answer/stacks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/least_step.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/text/csv_columns.h"
#include "cost_model/text/object_writer.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/planning.h"
#include "planner/constraints/constraint.h"
#include "planner/formatting.h"
#include "planner/search/derived_search.h"

namespace ptdp {
namespace {

double score_of(const Plan& plan, Objective objective) {
  return score(plan.predicted.iteration_time.value, plan.config, objective);
}

StackResult best_with(const StackChoice& choice, const SearchOptions& options,
                      const CalibrationSource& calibration) {
  StackResult result{
      .stack = choice.stack, .plan = std::nullopt, .reason = choice.reason, .search = {}};
  if (!choice.scenario) {
    return result;
  }
  const Scenario& scenario = *choice.scenario;
  const PublishedRuns& published = calibration.published();
  result.search = search(scenario, options);
  SearchResult& found = result.search;
  derive_and_choose(scenario, options, found);
  if (found.best.empty()) {
    result.reason = found.unseen      ? "nothing was found before the search ended"
                    : found.shortfall ? fmt::format("out of memory: {:.1f} GiB short at least",
                                                    found.shortfall->missing.value() / kGibi)
                                      : "nothing can run";
    return result;
  }
  const Candidate& best = found.best.front();
  result.plan =
      make_plan({scenario, best.config, best.costs.get()}, options.gpus, options.memory_headroom,
                calibration.fit_if_known(scenario, options.gpus, published)
                    .at(run_point(scenario, best.config)),
                calibration.memory(scenario, options.gpus, published));
  return result;
}

std::string to_text(const StackComparison& comparison,
                    const std::vector<std::string>& assumptions) {
  const Scenario& scenario = comparison.scenario;
  const Objective objective = comparison.options.objective;
  std::string text = fmt::format(
      "Train {} on {} ({}), batch {}: each stack at its best\n\n"
      "  {:<33} {:>9} {:>8} {:>6} {:>8}\n",
      scenario.job.model_name, devices(comparison.options.gpus, scenario.cluster.gpu),
      scenario.cluster.name, scenario.job.global_batch_size, "stack", "time", "MFU", "GiB",
      objective == Objective::kCost ? "cost" : "slower");
  std::vector<std::string> without;
  for (const StackResult& result : comparison.results) {
    if (!result.plan) {
      without.push_back(result.stack + ": " + result.reason);
      continue;
    }
    const Plan& plan = *result.plan;
    const double lost = loss(comparison, result);
    text += fmt::format(
        "  {:<33} {:>9} {:>8} {:>6.1f} {:>8}\n      {}{}{}\n", result.stack,
        duration(plan.predicted.iteration_time.value), percent(plan.predicted.mfu.value),
        plan.memory.peak().value() / kGibi, lost == 0.0 ? "best" : signed_percent(lost),
        to_string(plan.config),
        plan.config.world_size() < plan.gpus
            ? fmt::format("; {} idle", plan.gpus - plan.config.world_size())
            : "",
        lost == 0.0
            ? ""
            : fmt::format("; {:.0f} % likely the faster one",
                          100.0 * probability_faster(
                                      plan.predicted.iteration_time,
                                      comparison.results.front().plan->predicted.iteration_time)));
  }
  return text + titled("Without a plan", without) + titled("Assumed", assumptions);
}

std::string to_json(const StackComparison& comparison) {
  std::vector<ObjectWriter> stacks;
  for (const StackResult& result : comparison.results) {
    ObjectWriter json;
    json.name("stack", result.stack);
    json.flag("fits", result.plan.has_value());
    if (result.plan) {
      json.object("config", result.plan->config);
      json.count("gpus_used", result.plan->config.world_size());
      json.object("predicted", result.plan->predicted);
      json.object("memory", result.plan->memory);
      json.number("faster_than_best",
                  probability_faster(result.plan->predicted.iteration_time,
                                     comparison.results.front().plan->predicted.iteration_time));
    } else {
      json.text("reason", result.reason);
    }
    stacks.push_back(std::move(json));
  }
  ObjectWriter json;
  json.text("schema", "ptdp.stacks/1");
  json.text("tool_version", PTDP_VERSION);
  json.child("inputs", inputs_json(comparison.scenario, comparison.options));
  json.children("stacks", std::move(stacks));
  return json.dump();
}

std::string to_csv(const StackComparison& comparison) {
  using Column = CsvColumn<StackResult>;
  const auto planned = [](std::string name, auto number) -> Column {
    return {std::move(name), [=](const StackResult& result) {
              return result.plan ? fmt::format("{:.6g}", number(*result.plan)) : "";
            }};
  };
  return csv_text<StackResult>(
      {{"stack", [](const auto& r) { return r.stack; }},
       {"fits", [](const auto& r) { return r.plan ? "1" : "0"; }},
       planned("iteration_time_s",
               [](const Plan& p) { return p.predicted.iteration_time.value.value(); }),
       planned("mfu", [](const Plan& p) { return p.predicted.mfu.value; }),
       planned("peak_GiB", [](const Plan& p) { return p.memory.peak().value() / kGibi; }),
       {"gpus_used",
        [](const auto& r) { return r.plan ? std::to_string(r.plan->config.world_size()) : ""; }},
       {"config", [](const auto& r) { return r.plan ? to_string(r.plan->config) : ""; }},
       {"reason", [](const auto& r) { return r.reason; }}},
      comparison.results);
}

}  // namespace

double loss(const StackComparison& comparison, const StackResult& result) {
  const Objective objective = comparison.options.objective;
  return score_of(*result.plan, objective) / score_of(*comparison.results.front().plan, objective) -
         1.0;
}

double probability_faster(const Estimate<Seconds>& time, const Estimate<Seconds>& other) {
  const double gain = std::log(other.value / time.value);
  const double deviation = std::hypot(log_deviation(time), log_deviation(other));
  if (deviation == 0.0) {
    return gain > 0.0 ? 1.0 : gain < 0.0 ? 0.0 : 0.5;
  }
  return 0.5 * std::erfc(-gain / (deviation * std::numbers::sqrt2));
}

StackComparison compare_stacks(const Scenario& scenario, const std::vector<StackChoice>& choices,
                               const SearchOptions& options, const CalibrationSource& calibration) {
  StackComparison comparison{.scenario = scenario, .options = options, .results = {}};
  comparison.options.num_best = 1;
  comparison.options.wants_front = false;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    SearchOptions searched = comparison.options;
    searched.limit = options.limit.share(1.0 / static_cast<double>(choices.size() - i));
    comparison.results.push_back(best_with(choices[i], searched, calibration));
  }
  std::ranges::stable_sort(comparison.results, [&](const StackResult& a, const StackResult& b) {
    return a.plan && b.plan
               ? score_of(*a.plan, options.objective) < score_of(*b.plan, options.objective)
               : a.plan.has_value() && !b.plan;
  });
  return comparison;
}

std::string faster_stack_remark(const Plan& plan, const std::vector<StackChoice>& choices,
                                const CalibrationSource& calibration) {
  const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  struct Rival {
    const Scenario* scenario;
    Calibration calibration;
    Seconds least;         ///< Lower bound of the time, calibrated.
    bool is_dear = false;  ///< Whether a simulation has to let transfers share links.
  };
  const Seconds time = plan.predicted.iteration_time.value;
  std::vector<Rival> rivals;
  for (const StackChoice& choice : choices) {
    if (!choice.scenario || choice.stack == plan.scenario.stack.name ||
        choice.scenario->stack.memory_model == MemoryModel::kPtdp) {
      continue;
    }
    const Scenario& scenario = *choice.scenario;
    const PlannedJob job(scenario, plan.config);
    if (find_violation(job, capacity)) {
      continue;
    }
    Calibration own = calibration.fit_if_known(scenario, plan.gpus, calibration.published())
                          .at(run_point(scenario, plan.config));
    // What is not simulated costs little to predict.
    const bool is_cheap = !is_simulated(plan.config);
    const Seconds least = is_cheap ? Seconds(0.0) : least_step_time(job) * own.factor;
    if (least >= time * (1.0 - kFasterStack)) {
      continue;
    }
    const bool is_dear = !is_cheap && is_contended(step_times(job), step_actions(job));
    rivals.push_back({&scenario, std::move(own), least, is_dear});
  }
  std::ranges::stable_sort(rivals, [](const Rival& a, const Rival& b) {
    return std::pair(a.is_dear, a.least) < std::pair(b.is_dear, b.least);
  });
  StepSimulations simulations;
  Seconds fastest = time;
  std::string text;
  for (const Rival& rival : rivals) {
    const Seconds enough = fastest * (1.0 - kFasterStack);
    if (rival.least >= enough) {
      continue;
    }
    const PlannedJob job(*rival.scenario, plan.config);
    const Estimate<Seconds> predicted = with_interval(
        job, iteration_time(job, simulations) * rival.calibration.factor, rival.calibration);
    if (predicted.value < enough) {
      fastest = predicted.value;
      text = fmt::format(
          "With --stack {} this configuration takes {}, {} less ({:.0f} % likely faster); --stack "
          "all compares all.",
          rival.scenario->stack.name, duration(fastest), percent(1.0 - fastest / time),
          100.0 * probability_faster(predicted, plan.predicted.iteration_time));
    }
  }
  return text;
}

std::string in_format(AnswerFormat format, const StackComparison& comparison,
                      const std::vector<std::string>& assumptions) {
  switch (format) {
    case AnswerFormat::kJson:
      return to_json(comparison);
    case AnswerFormat::kCsv:
      return to_csv(comparison);
    default:
      return to_text(comparison, assumptions);
  }
}

}  // namespace ptdp
