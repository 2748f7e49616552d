// What the ranks of a run should send and hold if they train as their strategy says, and whether
// they do.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "runtime/executor/step_record.h"
#include "runtime/launch/launch.h"

namespace ptdp {

/// Bytes by group, in the order of kTrafficGroups, and by CollectiveKind.
using TrafficTable = std::array<std::array<std::int64_t, kNumCollectiveKinds>, kNumTrafficGroups>;

/// What a step of a run should send and hold.
struct StepExpectation {
  TrafficTable sent{};                  ///< Bytes that all ranks together send in one step.
  std::vector<Bytes> peak_memory = {};  ///< Largest memory by pipeline rank; empty when not known.
};

/// What a rank has sent and held since its run began.
struct RankTotals {
  const RankRecord* record = nullptr;
  std::int64_t steps = 1;  ///< Number of steps of the run so far.
  int pipeline_rank = 0;
};

/// Returns whether a measured peak differs from the expected one by more than the little that is
/// not modeled. A strategy that is not followed holds whole what it should divide.
[[nodiscard]] bool peak_differs(Bytes expected, Bytes measured);

/// Sums what all ranks did and returns what differs, a line each: "data reduce-scatter: ...". Every
/// rank of `host` calls it with the same expectation and gets the same lines.
[[nodiscard]] std::vector<std::string> find_differences(const StepExpectation& expected,
                                                        const RankTotals& own,
                                                        const HostSide& host);

}  // namespace ptdp
