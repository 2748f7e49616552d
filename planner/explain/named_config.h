// The one configuration that a partial one names, where every other key has its usual value.
#pragma once

#include <cstdint>
#include <string>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// Returns the configuration with the values that `named` pins, each to a single one. Keys left out
/// have their usual values:
///
///   - dp: as many replicas as `gpus` have room for;
///   - the schedule: 1f1b, or interleaved with several chunks; vpp: the one that the schedule has;
///   - recomputed modules: what the stack usually repeats; any other key: ParallelConfig's default.
///
/// Throws Error, naming `place`, for a key with several values, a schedule that needs a vpp, and
/// degrees that need more than `gpus`; the last has status kNothingFits.
[[nodiscard]] ParallelConfig named_config(const SearchSpace& named, const Scenario& scenario,
                                          std::int64_t gpus, const std::string& place);

}  // namespace ptdp
