// Finds where two plans differ, and how likely one is faster.
#include "planner/answer/comparison.h"

#include <fmt/format.h>

#include <utility>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "planner/answer/stacks.h"

namespace ptdp {
namespace {

/// Adds a key if the plans have two values of it.
void add_key(std::vector<ComparedKey>& keys, std::string_view key, std::string first,
             std::string second) {
  if (first != second) {
    keys.push_back({key, {std::move(first), std::move(second)}});
  }
}

std::vector<ComparedKey> different_inputs(const Plan& first, const Plan& second) {
  std::vector<ComparedKey> keys;
  const Scenario& a = first.scenario;
  const Scenario& b = second.scenario;
  // Two profiles may have one name: a file that somebody changed between two plans.
  const auto add_profile = [&](std::string_view key, const std::string& of_first,
                               const std::string& of_second, bool is_equal) {
    const bool is_renamed = !is_equal && of_first == of_second;
    add_key(keys, key, of_first, of_second + (is_renamed ? ", changed" : ""));
  };
  TransformerConfig model = b.job.model;
  model.seq_length = a.job.model.seq_length;
  add_profile("model", a.job.model_name, b.job.model_name, a.job.model == model);
  add_key(keys, "seq_length", spelled(a.job.model.seq_length), spelled(b.job.model.seq_length));
  add_key(keys, "global_batch_size", std::to_string(a.job.global_batch_size),
          std::to_string(b.job.global_batch_size));
  add_key(keys, "gpus", std::to_string(first.gpus), std::to_string(second.gpus));
  add_profile("cluster", a.cluster.name, b.cluster.name, a.cluster == b.cluster);
  add_profile("stack", a.stack.name, b.stack.name, a.stack == b.stack);
  add_key(keys, "precision", std::string(name_of(a.stack.precision)),
          std::string(name_of(b.stack.precision)));
  add_key(keys, "memory_headroom", fmt::format("{:.4g}", first.memory_headroom),
          fmt::format("{:.4g}", second.memory_headroom));
  add_key(keys, "calibration_factor", fmt::format("{:.6g}", first.predicted.calibration_factor),
          fmt::format("{:.6g}", second.predicted.calibration_factor));
  return keys;
}

std::vector<ComparedKey> different_fields(const ParallelConfig& first,
                                          const ParallelConfig& second) {
  std::vector<ComparedKey> keys;
  for_each_config_field([&](const auto& field) {
    const auto value = [&](const ParallelConfig& config) {
      const std::string text = field.applies(config) ? spelled(config.*field.member) : "-";
      return text.empty() ? "-" : text;
    };
    if (first.*field.member != second.*field.member) {
      add_key(keys, field.key, value(first), value(second));
    }
  });
  return keys;
}

std::vector<ComparedStage> stages_of(const Plan& plan) {
  const PlannedJob job(plan.scenario, plan.config);
  const auto times = static_cast<double>(job.microbatches());
  std::vector<ComparedStage> stages;
  for (int rank = 0; rank < plan.config.pp; ++rank) {
    const RankCosts costs = rank_costs(job, rank);
    const Seconds busy = costs.total() * times + costs.gradient_accumulation * (times - 1.0);
    stages.push_back({busy * plan.predicted.calibration_factor,
                      plan.memory.stages[static_cast<std::size_t>(rank)].total()});
  }
  return stages;
}

/// Finds how likely the first plan is faster, or why that cannot be said.
void add_probability(PlanComparison& comparison, const CalibrationSource& calibration) {
  const Plan& first = comparison.plans[0].plan;
  const Plan& second = comparison.plans[1].plan;
  if (!comparison.is_one_job()) {
    comparison.reason = "they train different jobs";
    return;
  }
  const bool is_one_machine = first.scenario.cluster == second.scenario.cluster &&
                              first.scenario.stack.name == second.scenario.stack.name &&
                              first.gpus == second.gpus;
  if (!is_one_machine) {
    comparison.first_faster =
        probability_faster(first.predicted.iteration_time, second.predicted.iteration_time);
    return;
  }
  if (first.predicted.calibration_factor != second.predicted.calibration_factor) {
    comparison.reason = "they are calibrated by different runs";
    return;
  }
  const CalibrationFit fit = calibration.fit(first.scenario, first.gpus, calibration.published());
  if (!fit.is_calibrated()) {
    comparison.reason = "no runs say how layouts of this job scatter";
    return;
  }
  comparison.first_faster =
      probability_of_order(first.predicted.iteration_time.value,
                           second.predicted.iteration_time.value, fit.layout_variance);
}

}  // namespace

bool PlanComparison::is_one_job() const {
  return plans[0].plan.scenario.job.model == plans[1].plan.scenario.job.model &&
         plans[0].plan.scenario.job.global_batch_size ==
             plans[1].plan.scenario.job.global_batch_size;
}

PlanComparison compare_plans(std::array<NamedPlan, 2> plans, const CalibrationSource& calibration) {
  PlanComparison comparison{.plans = std::move(plans)};
  const Plan& first = comparison.plans[0].plan;
  const Plan& second = comparison.plans[1].plan;
  comparison.inputs = different_inputs(first, second);
  comparison.config = different_fields(first.config, second.config);
  comparison.stages = {stages_of(first), stages_of(second)};
  add_probability(comparison, calibration);
  return comparison;
}

}  // namespace ptdp
