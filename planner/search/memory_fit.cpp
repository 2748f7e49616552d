// Judges memory by formulas, or by bounds and by walking through a schedule's orders.
#include "planner/search/memory_fit.h"

#include <algorithm>
#include <utility>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/memory/runtime_memory.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/passes/communication.h"

namespace ptdp {
namespace {

constexpr double kMostWalkedActions = 2e5;  // actions of a schedule whose orders are walked
constexpr double kMostKeptActions = 6e6;    // actions of all kept schedules: 96 MB at most

/// The memory of a configuration's stages under MemoryModel::kPtdp: bounds, and the exact value.
class RuntimeStages {
 public:
  RuntimeStages(const Scenario& scenario, const ParallelConfig& config)
      : scenario_(scenario),
        config_(config),
        layers_(scenario.job.model, config),
        states_({scenario, config}) {}

  /// Returns a lower bound of of_rank() for any orders: parameters and their states alone.
  [[nodiscard]] Bytes state(int stage) const {
    return states_.state_of_rank(config_, layers_, stage).total() * (1.0 - kMemoryRounding);
  }
  /// Returns a lower bound of of_rank() for any orders: states and the activations of a
  /// microbatch.
  [[nodiscard]] Bytes least(int stage) {
    return state(stage) + ranks().least(stage) * (1.0 - kMemoryRounding);
  }
  /// Returns an upper bound of of_rank() for any orders.
  [[nodiscard]] Bytes most(int stage) { return with(ranks().bound(stage), stage); }
  /// Returns a lower and an upper bound of of_rank() for the orders whose compute is `compute`.
  [[nodiscard]] std::pair<Bytes, Bytes> by_compute(const Schedule& compute, int stage) {
    ActivationPeak peak = ranks().peak_of_compute(compute, stage);
    const Bytes least = with(peak, stage);
    peak.waiting = ranks().waiting();
    return {least * (1.0 - kMemoryRounding), with(peak, stage) * (1.0 + kMemoryRounding)};
  }
  /// Returns the memory of a stage under orders with messages.
  [[nodiscard]] Bytes of_rank(const Schedule& orders, int stage) {
    return with(ranks().peak(orders, stage), stage);
  }

 private:
  /// Returns the memory of activations, set up on first use: states alone often decide.
  [[nodiscard]] RankMemories& ranks() {
    if (!ranks_) {
      ranks_.emplace(PlannedJob(scenario_, config_));
    }
    return *ranks_;
  }
  [[nodiscard]] Bytes with(const ActivationPeak& peak, int stage) const {
    MemoryBreakdown memory = states_.state_of_rank(config_, layers_, stage);
    set_activations(memory, peak, scenario_.stack);
    return memory.total();
  }

  const Scenario& scenario_;
  const ParallelConfig& config_;
  LayersOfRanks layers_;
  MemoryOfRanks states_;
  std::optional<RankMemories> ranks_;
};

/// Returns the constraint that a stage violates, with the stages in the order of
/// find_memory_violation(). `fits(stage)` is asked of every stage in between when the ends fit.
template <class Fits>
std::optional<Constraint> find_stage(const ParallelConfig& config, const Fits& fits) {
  if (!fits(0)) {
    return Constraint::kMemoryFirstStage;
  }
  if (!fits(config.pp - 1)) {
    return Constraint::kMemoryLastStage;
  }
  bool all_fit = true;
  for (int stage = 1; stage < config.pp - 1; ++stage) {
    all_fit = fits(stage) && all_fit;
  }
  return all_fit ? std::nullopt : std::optional(Constraint::kMemoryMiddleStage);
}

}  // namespace

MemoryFit::MemoryFit(const Scenario& scenario, Bytes capacity)
    : scenario_(scenario),
      capacity_(capacity),
      walks_orders_(scenario.stack.memory_model == MemoryModel::kPtdp),
      is_uniform_(has_one_kind(scenario.job.model)) {}

MemoryVerdict MemoryFit::judge(const ParallelConfig& config) {
  if (walks_orders_) {
    return judge_by_bounds(config);
  }
  const Bytes first = rank_memory({scenario_, config}, 0).total();
  const bool looks_at_both = grows_with_size(config);
  if (first > capacity_ && !looks_at_both) {
    return {first, Constraint::kMemoryFirstStage};
  }
  const Bytes last = rank_memory({scenario_, config}, config.pp - 1).total();
  if (looks_at_both) {
    return {std::max(first, last), first > capacity_  ? std::optional(Constraint::kMemoryFirstStage)
                                   : last > capacity_ ? std::optional(Constraint::kMemoryLastStage)
                                                      : std::nullopt};
  }
  if (last > capacity_) {
    return {last, Constraint::kMemoryLastStage};
  }
  const Bytes largest = peak_memory({scenario_, config});
  return {largest,
          largest > capacity_ ? std::optional(Constraint::kMemoryMiddleStage) : std::nullopt};
}

MemoryVerdict MemoryFit::judge_by_bounds(const ParallelConfig& config) {
  RuntimeStages stages(scenario_, config);
  Orders* orders = nullptr;
  const bool has_orders = walks(config);
  MemoryVerdict verdict;
  const auto note = [&](Bytes least) { verdict.largest = std::max(verdict.largest, least); };
  verdict.violation = find_stage(config, [&](int stage) {
    const Bytes state = stages.state(stage);
    note(state);
    if (state > capacity_) {
      return false;
    }
    const Bytes least = stages.least(stage);
    note(least);
    if (least > capacity_) {
      return false;
    }
    const Bytes most = stages.most(stage);
    if (most <= capacity_ || !has_orders) {
      note(has_orders ? least : most);
      return most <= capacity_;
    }
    if (orders == nullptr) {
      orders = &orders_of(config);
    }
    const auto [walked, with_waiting] = stages.by_compute(orders->compute, stage);
    note(walked);
    if (walked > capacity_ || with_waiting <= capacity_) {
      return walked <= capacity_;
    }
    const Bytes exact = stages.of_rank(with_messages(*orders), stage);
    note(exact);
    return exact <= capacity_;
  });
  return verdict;
}

Bytes MemoryFit::largest(const ParallelConfig& config) {
  if (!walks_orders_) {
    return peak_memory({scenario_, config});
  }
  RuntimeStages stages(scenario_, config);
  const Schedule* orders = walks(config) ? &with_messages(orders_of(config)) : nullptr;
  Bytes largest;
  for (int stage = 0; stage < config.pp; ++stage) {
    largest =
        std::max(largest, orders == nullptr ? stages.most(stage) : stages.of_rank(*orders, stage));
  }
  return largest;
}

/// Returns whether the orders of a configuration are walked. Orders that depend on durations and
/// long ones are not: every candidate of a search comes by here.
bool MemoryFit::walks(const ParallelConfig& config) const {
  return config.pp > 1 && !traits_of(config.schedule).is_searched &&
         num_actions_with_messages({scenario_, config}) <= kMostWalkedActions;
}

MemoryFit::Orders& MemoryFit::orders_of(const ParallelConfig& config) {
  const OrdersKey key = {config.schedule, config.pp, config.vpp,
                         num_microbatches(scenario_.job.global_batch_size, config)};
  auto found = orders_.find(key);
  if (found == orders_.end()) {
    keep(num_actions_with_messages({scenario_, config}));
    found = orders_.emplace(key, Orders{.compute = compute_schedule({scenario_, config})}).first;
  }
  return found->second;
}

const Schedule& MemoryFit::with_messages(Orders& orders) {
  if (!orders.with_messages) {
    orders.with_messages = insert_messages(orders.compute);
  }
  return *orders.with_messages;
}

/// Makes room for orders of `actions` more actions: drops the kept ones when there are too many.
void MemoryFit::keep(double actions) {
  num_kept_actions_ += actions;
  if (num_kept_actions_ > kMostKeptActions) {
    orders_.clear();
    num_kept_actions_ = actions;
  }
}

}  // namespace ptdp
