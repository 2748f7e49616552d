// Which runs say how much memory lies beyond the formulas, and what that means for a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/levels.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/measured/memory_belief.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/accuracy/published_runs.h"

namespace ptdp {

/// Returns the memory of a run as measured and by the formulas; nullopt if none was measured.
[[nodiscard]] std::optional<MemoryRun> memory_run(const CostedRun& run, ProfileCache& profiles);

/// Memory of the GPUs that most runs with measured memory had. What other clusters say shrinks in
/// proportion on smaller ones: most of it is what the allocator of PyTorch keeps, and that gives
/// its cache back where an allocation fails (torch.cuda.memory_stats, num_alloc_retries). Assumed:
/// six runs on GPUs with 32 GiB are all that is known.
inline constexpr Bytes kUsualCard(80.0 * kGibi);

/// A row that reports its memory.
struct MemoryRow {
  std::size_t place = 0;  ///< Place of the row among all runs.
  std::string group;      ///< Name of its group.
  LevelPath path;         ///< Levels that it belongs to.
  MemoryRun memory;
  Bytes card = kUsualCard;  ///< Memory of its GPU.
};
/// Computes the memory of the runs that report it, in their order.
[[nodiscard]] std::vector<MemoryRow> memory_rows(const std::vector<CostedRun>& runs);
/// Returns what the rows say by the levels that they belong to.
[[nodiscard]] RunsByScope memory_runs_by_path(std::span<const MemoryRow> rows);

/// Computes what the published runs of other jobs on the scenario's cluster and stack, and the
/// shipped levels, say of the memory of its job. Nothing is known of this project's runtime.
[[nodiscard]] MemoryBelief published_memory(const PublishedRuns& published,
                                            const Scenario& scenario, std::int64_t gpus);

/// The probability with which what is reserved beyond the formulas is enough, unless another one is
/// asked for.
inline constexpr double kReservedProbability = 0.9;
/// A scenario with what is reserved beyond the formulas.
struct ReservedScenario {
  Scenario scenario;
  /// Probability that the reserve is enough; nullopt where it is the stack's own fraction.
  std::optional<double> probability = {};
  double asked = kReservedProbability;  ///< Probability that was asked for.
  Support support = {};                 ///< Runs behind the probability.
};
/// Returns the scenario with the reserve that a belief asks for in place of the stack's fraction:
/// what runs stay below with `probability`. A reserve of 0 may be enough with more, and the most
/// that a stack may reserve with less. Returns the scenario as it is where nothing is known, and
/// for this project's runtime, whose fraction is measured.
[[nodiscard]] ReservedScenario with_reserve(const Scenario& scenario, const MemoryBelief& belief,
                                            double probability = kReservedProbability);

/// Computes what a user's own runs of the scenario's cluster and stack, and what the shipped levels
/// say of another cluster with this stack, say of the memory of its job.
[[nodiscard]] MemoryBelief own_memory(const std::vector<MemoryRun>& runs, const Scenario& scenario,
                                      std::int64_t gpus);
/// Returns for each of a user's own runs, in order, what own_memory() says by the others.
[[nodiscard]] std::vector<MemoryBelief> leave_own_memory_out(const std::vector<MemoryRun>& runs,
                                                             const Scenario& scenario);

/// Returns for each row, in order, what the other rows say of its memory, by the shipped constants;
/// nullopt where there is no other row.
[[nodiscard]] std::vector<std::optional<MemoryBelief>> memory_leave_one_out(
    std::span<const MemoryRow> rows);
/// Returns for each row, in order, what the rows of other groups say of its memory; nullopt where
/// there is no other group. Constants are fitted to these, too, or else the shipped ones.
[[nodiscard]] std::vector<std::optional<MemoryBelief>> memory_leave_group_out(
    std::span<const MemoryRow> rows);

}  // namespace ptdp
