// The batch that would put idle GPUs to work.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/search/search.h"

namespace ptdp {

/// Idle GPUs, as a share of all, from which another batch is looked for.
inline constexpr double kMuchIdle = 0.1;

/// A batch near the job's that uses all GPUs.
struct FullerBatch {
  std::int64_t global_batch_size = 0;  ///< Sequences per iteration.
  Candidate best;                      ///< The best configuration with that batch.
};

/// Finds the batch nearest to the job's with which the best configuration uses all GPUs and trains
/// more sequences a second. Tries the nearest multiples of the replicas that all GPUs make. Returns
/// nullopt where `best` leaves at most kMuchIdle of the GPUs idle, or no batch tried helps.
[[nodiscard]] std::optional<FullerBatch> batch_that_uses_gpus(const Scenario& scenario,
                                                              SearchOptions options,
                                                              const Candidate& best);

}  // namespace ptdp
