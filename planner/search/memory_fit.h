// Whether configurations fit into memory, with what they share worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "cost_model/inputs/scenario.h"
#include "cost_model/inputs/zero_sharding.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/memory/memory.h"
#include "planner/constraints/constraint.h"

namespace ptdp {

/// What a configuration's stages hold that were looked at, and which of them is out of memory.
struct MemoryVerdict {
  Bytes largest;  ///< Of all stages where the configuration fits; no more than that elsewhere.
  std::optional<Constraint> violation = std::nullopt;
};

/// More than sums of some hundred terms of memory are off, as a fraction.
inline constexpr double kMemoryRounding = 1e-11;

/// Judges configurations under a capacity. Keeps a reference to the scenario.
class MemoryFit {
 public:
  MemoryFit(const Scenario& scenario, Bytes capacity);

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Whether memory is that of the orders of schedules (MemoryModel::kPtdp).
  [[nodiscard]] bool walks_orders() const { return walks_orders_; }
  /// Whether the first stage or the last is the heaviest, and both grow with the microbatch size.
  [[nodiscard]] bool grows_with_size(const ParallelConfig& config) const {
    return config.layers_per_stage.empty() && !walks_orders_ && is_uniform_ &&
           !may_reduce_by_chunk(config);
  }

  /// In find_violation's order. Where the first stage or the last does not fit, `largest` is its
  /// memory; where memory grows_with_size(), that of the larger. Where it walks_orders(), `largest`
  /// is a lower bound: orders are walked through only where bounds do not decide.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config);
  /// What the heaviest stage holds.
  [[nodiscard]] Bytes largest(const ParallelConfig& config);

 private:
  /// Orders of a schedule, those with messages once they are needed.
  struct Orders {
    Schedule compute;
    std::optional<Schedule> with_messages;
  };
  using OrdersKey = std::tuple<ScheduleKind, int, int, std::int64_t>;

  [[nodiscard]] MemoryVerdict judge_by_bounds(const ParallelConfig& config);
  [[nodiscard]] bool walks(const ParallelConfig& config) const;
  /// Finds or makes the orders of a configuration that walks().
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
