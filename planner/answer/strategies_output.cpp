// Prints the comparison of strategies as text, JSON and CSV.
#include <fmt/format.h>

#include "cost_model/text/csv_columns.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/planning.h"
#include "planner/answer/strategies.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

CostBreakdown cost_of(const StrategyComparison& comparison, const StrategyResult& result) {
  return counted(result.plan->predicted.breakdown, result.plan->config,
                 comparison.options.objective);
}

std::string figures(const StrategyComparison& comparison, const StrategyResult& result) {
  const Plan& plan = *result.plan;
  const double lost = loss(comparison, result);
  return fmt::format(
      "{:>10} {:>8.4g} {:>8} {:>10} {:>7} {:>9}", duration(plan.predicted.iteration_time.value),
      plan.predicted.per_gpu.value.value() / kTera, percent(plan.predicted.mfu.value),
      fmt::format("{:.1f} GiB", plan.memory.peak().value() / kGibi), plan.config.world_size(),
      &result == comparison.best() ? "best" : signed_percent(lost));
}

std::string block(const StrategyComparison& comparison, const StrategyResult& result) {
  const std::string not_run =
      result.is_run_by_stack ? "" : fmt::format(" (not run by {})", comparison.scenario.stack.name);
  const std::string remarked = remark_on(comparison, result);
  const std::string note = remarked.empty() ? "" : "    " + remarked + "\n";
  if (!result.plan.has_value()) {
    return fmt::format("  {:<12} none{}\n    {}\n{}", result.name.name, not_run, result.reason,
                       note);
  }
  std::string text = fmt::format(
      "  {:<12} {}\n    {}{}{}\n{}", result.name.name, figures(comparison, result),
      to_string(result.plan->config), not_run,
      fitting_remark(result.plan->memory.probability_of_fitting, comparison.memory), note);
  if (!result.search.is_proven) {
    text += fmt::format("    not proven: what was not looked at takes at least {}\n",
                        duration(result.search.unseen->least_time * comparison.calibration.factor));
  }
  const StrategyResult& best = *comparison.best();
  if (&result != &best && loss(comparison, result) > 0.0) {
    text += fmt::format("    {}\n",
                        describe_differences(cost_of(comparison, result), cost_of(comparison, best),
                                             unit_of(comparison.options.objective)));
  }
  return text;
}

ObjectWriter result_json(const StrategyComparison& comparison, const StrategyResult& result) {
  ObjectWriter json;
  json.name("strategy", std::string(result.name.key));
  json.flag("run_by_stack", result.is_run_by_stack);
  json.flag("fits", result.plan.has_value());
  json.child("candidates", candidates_json(result.search, comparison.calibration.factor));
  if (!result.plan.has_value()) {
    json.text("reason", result.reason);
    return json;
  }
  const Plan& plan = *result.plan;
  json.object("config", plan.config);
  json.count("gpus_used", plan.config.world_size());
  json.object("predicted", plan.predicted);
  json.object("memory", plan.memory);
  json.number("loss", loss(comparison, result));
  ObjectWriter terms;
  for (const TermDifference& term :
       differences(cost_of(comparison, result), cost_of(comparison, *comparison.best()))) {
    terms.number(std::string(term.term), term.difference.value());
  }
  json.child(
      comparison.options.objective == Objective::kCost ? "differences_gpu_s" : "differences_s",
      std::move(terms));
  return json;
}

}  // namespace

std::string strategies_text() {
  std::string text;
  for (const StrategyName& strategy : kStrategies) {
    text += fmt::format("{}{}: {}.", text.empty() ? "" : " ", strategy.name, strategy.meaning);
  }
  return text;
}

std::string remark_on(const StrategyComparison& comparison, const StrategyResult& result) {
  const std::int64_t batch = comparison.scenario.job.global_batch_size;
  const std::int64_t gpus = comparison.options.gpus;
  const bool is_dp_only = result.name.strategy == Strategy::kZero3;
  if (is_dp_only && batch < gpus) {
    return fmt::format("a batch of {} keeps no more than {} busy", batch, plural(batch, "GPU"));
  }
  if (result.plan.has_value() && result.plan->config.world_size() < gpus) {
    return plural(gpus - result.plan->config.world_size(), "GPU") + " idle";
  }
  return "";
}

std::string to_text(const StrategyComparison& comparison,
                    const std::vector<std::string>& assumptions) {
  const Scenario& scenario = comparison.scenario;
  std::string text = fmt::format(
      "Train {} on {} ({} with {}), batch {}: each strategy at its best\n\n"
      "  {:<12} {:>10} {:>8} {:>8} {:>10} {:>7} {:>9}\n",
      scenario.job.model_name, plural(comparison.options.gpus, "GPU"), scenario.cluster.name,
      scenario.stack.name, scenario.job.global_batch_size, "strategy", "time", "TFLOP/s", "MFU",
      "memory", "GPUs", comparison.options.objective == Objective::kCost ? "cost" : "slower");
  for (const StrategyResult& result : comparison.results) {
    text += block(comparison, result);
  }
  text +=
      '\n' +
      paragraph(strategies_text() + " TFLOP/s count what recomputation repeats; MFU does not.", "");
  text += comparison.calibration.is_calibrated()
              ? fmt::format("\nAll times are calibrated with one factor, which rests on {}.\n",
                            to_text(comparison.calibration.support))
              : "\nNot calibrated.\n";
  text += beyond_line(comparison.memory, scenario.cluster.gpu.memory,
                      comparison.options.memory_headroom);
  if (!assumptions.empty()) {
    text += "\nAssumed\n";
  }
  for (const std::string& assumption : assumptions) {
    text += "  " + assumption + "\n";
  }
  return text;
}

std::string to_json(const StrategyComparison& comparison) {
  std::vector<ObjectWriter> strategies;
  for (const StrategyResult& result : comparison.results) {
    strategies.push_back(result_json(comparison, result));
  }
  ObjectWriter json;
  json.text("schema", "ptdp.strategies/1");
  json.text("tool_version", PTDP_VERSION);
  json.child("inputs", inputs_json(comparison.scenario, comparison.options));
  json.children("strategies", std::move(strategies));
  return json.dump();
}

std::string to_csv(const StrategyComparison& comparison) {
  using Column = CsvColumn<StrategyResult>;
  const auto flag = [](bool is_set) { return is_set ? "1" : "0"; };
  // Makes a column that is empty for a strategy without a plan.
  const auto planned = [](std::string name, auto number) -> Column {
    return {std::move(name), [=](const StrategyResult& result) {
              return result.plan ? fmt::format("{:.6g}", number(result)) : "";
            }};
  };
  const auto predicted = [](const StrategyResult& r) { return r.plan->predicted; };
  return csv_text<StrategyResult>(
      {{"strategy", [](const auto& r) { return std::string(r.name.key); }},
       {"run_by_stack", [=](const auto& r) { return flag(r.is_run_by_stack); }},
       {"fits", [=](const auto& r) { return flag(r.plan.has_value()); }},
       planned("iteration_time_s",
               [=](const auto& r) { return predicted(r).iteration_time.value.value(); }),
       planned("tflops_per_gpu",
               [=](const auto& r) { return predicted(r).per_gpu.value.value() / kTera; }),
       planned("mfu", [=](const auto& r) { return predicted(r).mfu.value; }),
       planned("peak_GiB", [](const auto& r) { return r.plan->memory.peak().value() / kGibi; }),
       planned("loss", [&](const auto& r) { return loss(comparison, r); }),
       {"gpus_used",
        [](const auto& r) { return r.plan ? std::to_string(r.plan->config.world_size()) : ""; }},
       {"config", [](const auto& r) { return r.plan ? to_string(r.plan->config) : ""; }},
       {"reason", [](const auto& r) { return r.reason; }}},
      comparison.results);
}

std::string in_format(AnswerFormat format, const StrategyComparison& comparison,
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
