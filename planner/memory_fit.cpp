#include "planner/memory_fit.h"

#include <algorithm>

#include "cost_model/spec/layer_kinds.h"

namespace ptdp {
namespace {

constexpr double kMostWalkedActions = 2e5;  // of a schedule whose memory is walked through
constexpr double kMostKeptActions = 2e6;    // of all of them: 32 MB

}  // namespace

MemoryFit::MemoryFit(const Scenario& scenario, Bytes capacity)
    : scenario_(scenario),
      capacity_(capacity),
      walks_orders_(scenario.stack.memory_model == MemoryModel::kPtdp),
      is_uniform_(has_one_kind(scenario.job.model)) {}

MemoryVerdict MemoryFit::judge(const ParallelConfig& config) {
  if (walks_orders_) {
    const std::vector<MemoryBreakdown> stages = memory_of_stages(config);
    MemoryVerdict verdict{.violation = find_memory_violation(stages, capacity_)};
    for (const MemoryBreakdown& stage : stages) {
      verdict.largest = std::max(verdict.largest, stage.total());
    }
    return verdict;
  }
  const Bytes first = stage_memory(scenario_, config, 0).total();
  const bool looks_at_both = grows_with_size(config);
  if (first > capacity_ && !looks_at_both) {
    return {first, Constraint::kMemoryFirstStage};
  }
  const Bytes last = stage_memory(scenario_, config, config.pp - 1).total();
  if (looks_at_both) {
    return {std::max(first, last), first > capacity_  ? std::optional(Constraint::kMemoryFirstStage)
                                   : last > capacity_ ? std::optional(Constraint::kMemoryLastStage)
                                                      : std::nullopt};
  }
  if (last > capacity_) {
    return {last, Constraint::kMemoryLastStage};
  }
  const Bytes largest = peak_memory(scenario_, config);
  return {largest,
          largest > capacity_ ? std::optional(Constraint::kMemoryMiddleStage) : std::nullopt};
}

/// By orders that several configurations share. Those that depend on durations, and long ones, are
/// not made here, where every candidate comes by.
std::vector<MemoryBreakdown> MemoryFit::memory_of_stages(const ParallelConfig& config) {
  const double actions = num_actions_with_messages(scenario_, config);
  if (config.pp == 1 || config.schedule == ScheduleKind::kZbAuto || actions > kMostWalkedActions) {
    std::vector<MemoryBreakdown> stages;
    stages.reserve(static_cast<std::size_t>(config.pp));
    for (int stage = 0; stage < config.pp; ++stage) {
      stages.push_back(stage_memory(scenario_, config, stage));
    }
    return stages;
  }
  const OrdersKey key = {config.schedule, config.pp, config.vpp,
                         num_microbatches(scenario_.job.global_batch_size, config)};
  auto found = orders_.find(key);
  if (found == orders_.end()) {
    num_kept_actions_ += actions;
    if (num_kept_actions_ > kMostKeptActions) {
      orders_.clear();
      num_kept_actions_ = actions;
    }
    found = orders_.emplace(key, schedule_with_messages(scenario_, config)).first;
  }
  return memory_by_stage(scenario_, config, found->second);
}

}  // namespace ptdp
