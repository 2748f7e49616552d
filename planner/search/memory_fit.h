// Whether configurations fit into memory, with what several of them share worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/memory/memory.h"
#include "planner/constraints/constraint.h"

namespace ptdp {

/// Whether a configuration fits, and how much its stages hold.
struct MemoryVerdict {
  /// Memory of the heaviest stage when the configuration fits; else a lower bound of it. Under
  /// MemoryFit::walks_orders() it is a lower bound of MemoryFit::largest() in either case.
  Bytes largest;
  /// The first constraint of memory that is violated; nullopt when all stages fit.
  std::optional<Constraint> violation = std::nullopt;
};

/// A relative error that rounding stays below in sums of some hundred terms of memory.
inline constexpr double kMemoryRounding = 1e-11;

/// Judges whether configurations fit into a capacity. Keeps a reference to the scenario.
class MemoryFit {
 public:
  MemoryFit(const Scenario& scenario, Bytes capacity);

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Returns whether memory follows from walking through the orders of schedules
  /// (MemoryModel::kPtdp).
  [[nodiscard]] bool walks_orders() const { return walks_orders_; }
  /// Returns whether the first stage or the last is the heaviest, and both grow with the microbatch
  /// size.
  [[nodiscard]] bool grows_with_size(const ParallelConfig& config) const {
    return config.layers_per_stage.empty() && !walks_orders_ && is_uniform_ &&
           !may_reduce_by_chunk(config);
  }

  /// Checks the stages in the order of find_memory_violation(). `largest` depends on the case:
  ///
  ///   - grows_with_size(): the memory of the larger of first and last stage;
  ///   - the first stage or the last does not fit: the memory of that stage;
  ///   - walks_orders(): a lower bound, since orders are walked only where bounds do not decide.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config);
  /// Returns the exact memory of the heaviest stage, or an upper bound where orders are not walked.
  [[nodiscard]] Bytes largest(const ParallelConfig& config);

 private:
  /// The orders of a schedule.
  struct Orders {
    Schedule compute;                       ///< The orders of compute alone.
    std::optional<Schedule> with_messages;  ///< The orders with messages, set when first needed.
  };
  using OrdersKey = std::tuple<ScheduleKind, int, int, std::int64_t>;

  [[nodiscard]] MemoryVerdict judge_by_bounds(const ParallelConfig& config);
  [[nodiscard]] bool walks(const ParallelConfig& config) const;
  /// Finds or makes the orders of a configuration for which walks() is true.
  [[nodiscard]] Orders& orders_of(const ParallelConfig& config);
  [[nodiscard]] static const Schedule& with_messages(Orders& orders);
  void keep(double actions);

  const Scenario& scenario_;
  Bytes capacity_;
  bool walks_orders_;
  bool is_uniform_;  ///< Whether all layers are alike.
  std::map<OrdersKey, Orders> orders_;
  double num_kept_actions_ = 0.0;
};

}  // namespace ptdp
