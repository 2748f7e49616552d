#include "tools/run/rehearsal_measurement.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/measured/quantile.h"
#include "cost_model/schedule/validator/validator.h"
#include "planner/plan/plan_simulation.h"

namespace ptdp {
namespace {

using PassKey = std::pair<ActionKind, int>;  ///< Kind and virtual stage.

bool is_measured(ActionKind kind) {
  return duration_of(kind) != nullptr || kind == ActionKind::kReduceNorm ||
         kind == ActionKind::kOptimizer;
}

/// Returns the time of every action of a step without the collectives in it [s]. Collectives that
/// gather a message end before the pass begins, and are not subtracted.
std::vector<double> times_without_collectives(const StepRecord& step) {
  std::vector<double> times;
  times.reserve(step.actions.size());
  for (const Span& span : step.actions) {
    times.push_back(span.length().value());
  }
  for (const SubSpan& sub : step.sub_spans) {
    if (sub.span.start >= step.actions[sub.action].start) {
      times[sub.action] = std::max(times[sub.action] - sub.exposed().value(), 0.0);
    }
  }
  return times;
}

double share_of(double part, double whole) {
  return whole > 0.0 ? std::clamp(part / whole, 0.0, 1.0) : 0.0;
}

/// Returns the median; 0 where a rehearsal had no step that timed operations.
double median_or_zero(std::vector<double> values) {
  return values.empty() ? 0.0 : median(std::move(values));
}

Bytes of_count(std::int64_t count) {
  return Bytes(static_cast<double>(count));
}

}  // namespace

std::vector<RehearsedMemory> compare_rehearsed_memory(const MemoryBreakdown& predicted,
                                                      const RehearsalRecord& record) {
  const KeptMemory& kept = record.kept;
  const std::int64_t rest = record.rank.peak_bytes - kept.weights - kept.gradients - kept.optimizer;
  return {
      {.category = "weights", .size = {predicted.weights, of_count(kept.weights)}},
      {.category = "gradients", .size = {predicted.gradients, of_count(kept.gradients)}},
      {.category = "optimizer", .size = {predicted.optimizer, of_count(kept.optimizer)}},
      {.category = "the rest",
       .size = {predicted.activations + predicted.working_set + predicted.buffers, of_count(rest)}},
      {.category = "peak",
       .size = {predicted.total() - predicted.reserve, of_count(record.rank.peak_bytes)}}};
}

RehearsedTimes rehearsed_times(const TrainingSettings& settings, int rank,
                               const RehearsalRecord& record) {
  const std::vector<Action>& order = settings.schedule.orders[static_cast<std::size_t>(rank)];
  std::map<PassKey, std::vector<double>> measured;
  std::vector<double> matmul_shares;
  std::vector<double> attention_shares;
  for (const StepRecord& step : record.rank.steps) {
    const std::vector<double> times = times_without_collectives(step);
    double compute = 0.0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (is_measured(order[i].kind)) {
        measured[{order[i].kind, order[i].stage}].push_back(times[i]);
      }
      compute += is_compute(order[i].kind) ? times[i] : 0.0;
    }
    if (step.operations) {
      const auto& [matmul, attention] = *step.operations;
      matmul_shares.push_back(share_of(matmul, compute));
      attention_shares.push_back(share_of(attention, compute));
    }
  }
  RehearsedTimes result{.rank = rank,
                        .matmul_share = median_or_zero(std::move(matmul_shares)),
                        .attention_share = median_or_zero(std::move(attention_shares))};
  for (auto& [key, times] : measured) {
    const Seconds typical(median(std::move(times)));
    if (key.first == ActionKind::kReduceNorm) {
      result.norm = typical;
    } else if (key.first == ActionKind::kOptimizer) {
      result.optimizer = typical;
    } else if (const auto pass = duration_of(key.first)) {
      result.stages[key.second].*pass = typical;
    }
  }
  return result;
}

RehearsedRank rehearsed_rank(const Plan& plan, const TrainingSettings& settings,
                             const RehearsedTimes& times, const RehearsalRecord& record,
                             const Composition& composition) {
  const auto rank = static_cast<std::size_t>(times.rank);
  const ParallelConfig& config = plan.config;
  const Schedule schedule = complete_schedule(plan);
  const ComputeTimes predicted = predicted_alone(plan);
  RehearsedRank result{
      .pipeline_rank = times.rank,
      .rank = std::int64_t{times.rank} * config.tp * config.dp,
      .microbatches = settings.schedule.num_microbatches,
      .activations = {peak_activations(schedule)[rank], record.rank.peak_activations}};
  std::map<PassKey, std::int64_t> counts;
  for (const Action& action : schedule.orders[rank]) {
    if (is_measured(action.kind)) {
      ++counts[{action.kind, action.stage}];
    }
  }
  for (const auto& [key, count] : counts) {
    const auto& [kind, stage] = key;
    const auto of_rank = static_cast<std::size_t>(stage);
    RehearsedAction action{.kind = std::string(spelling_of(kind)), .stage = stage, .count = count};
    if (kind == ActionKind::kReduceNorm) {
      action.time.predicted = predicted.norm[rank];
      action.time.measured = times.norm;
      action.composed = composition.times.norm;
    } else if (kind == ActionKind::kOptimizer) {
      action.time.predicted = predicted.optimizer[rank];
      action.time.measured = times.optimizer;
      action.composed = composition.times.optimizer[rank];
    } else if (const auto pass = duration_of(kind)) {
      action.time.predicted = predicted.stages[of_rank].*pass;
      action.time.measured = times.stages.at(stage).*pass;
      action.collectives = composition.collectives[of_rank].*pass;
      action.composed = composition.times.stages[of_rank].*pass;
    }
    result.compute.predicted += static_cast<double>(count) * action.time.predicted;
    result.compute.measured += static_cast<double>(count) * action.time.measured;
    result.actions.push_back(std::move(action));
  }
  return result;
}

}  // namespace ptdp
