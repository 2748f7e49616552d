// The candidates of a search: every configuration that the pins allow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/spec/parallel_config.h"
#include "cost_model/spec/scenario.h"
#include "planner/integer_ranges.h"

namespace ptdp {

/// What a user fixed; whatever is empty is free.
struct Pins {
  IntegerRanges tp;
  IntegerRanges pp;
  IntegerRanges dp;
  IntegerRanges vpp;
  IntegerRanges micro_batch_size;
  IntegerRanges zero_stage;
  std::vector<Schedule> schedules;
  std::vector<Recompute> recompute;
  std::optional<bool> sequence_parallel;
};

/// The tensor-parallel sizes: 1 to the number of heads (or what is pinned), at most `gpus`.
[[nodiscard]] std::vector<int> enumerate_tp(const Scenario& scenario, std::int64_t gpus,
                                            const Pins& pins);

/// The (tp, pp, dp) with this tp: pp from 1 to the number of layers, and dp = floor(gpus/(tp·pp)),
/// so that fewer GPUs stay idle than one replica needs. A pinned dp may leave more idle; of a
/// range, only the divisors of the batch are candidates.
[[nodiscard]] std::vector<ParallelConfig> enumerate_layouts(const Scenario& scenario,
                                                            std::int64_t gpus, const Pins& pins,
                                                            int tp);

/// The layout with every vpp (1 to the layers per stage), schedule, recomputation, sequence
/// parallelism and ZeRO stage that the stack can run or that is pinned.
[[nodiscard]] std::vector<ParallelConfig> enumerate_variants(const Scenario& scenario,
                                                             const Pins& pins,
                                                             const ParallelConfig& layout);

/// The microbatch sizes that divide the batch of a replica, and those pinned as single numbers,
/// ascending.
[[nodiscard]] std::vector<int> enumerate_micro_batch_sizes(std::int64_t batch_per_replica,
                                                           const Pins& pins);

}  // namespace ptdp
