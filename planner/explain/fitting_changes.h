// The smallest changes after which a configuration that cannot run does.
#pragma once

#include <string_view>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// A configuration that can run, near one that cannot.
struct FittingChange {
  Candidate candidate;  ///< The changed configuration with its time, not calibrated, and memory.
  /// Keys of the fields that somebody has to change, in the order of kConfigFields.
  std::vector<std::string_view> fields;
};

/// Changes of a configuration after which it can run, the smallest first.
struct FittingChanges {
  std::vector<FittingChange> found;
  bool is_complete = true;  ///< Whether all were looked at before the limit was over.
};

/// The most changes that smallest_fitting_changes() returns.
inline constexpr std::size_t kMostFittingChanges = 3;

/// Returns the keys of the fields by which `to` differs from `from`, as far as they mean something
/// in `to`. Modules that selective recomputation usually repeats are no change of their own, nor is
/// the method beside another number of layers.
[[nodiscard]] std::vector<std::string_view> changed_fields(const ParallelConfig& from,
                                                           const ParallelConfig& to,
                                                           const StackCapabilities& can_run);

/// Finds at most kMostFittingChanges configurations near `config` that can run. Every one passes
/// find_violation() and changes only fields that the pins leave free. The order is:
///
///   - first those on at most `options.gpus`, then on 2, 4 and 8 times as many;
///   - then those that change fewer fields;
///   - then those with the better score under the objective, by the exact time.
///
/// All changes of one field and of two are looked at, and of three those in which two belong
/// together: tp and dp on as many GPUs, a schedule and its chunks, layers per stage and anything.
/// Layers are split as evenly as they can be. On more GPUs one field is changed. A
/// change is left out where an earlier one needs no other field and is as good. A schedule or an
/// uneven split that `config` has counts as run by the stack.
[[nodiscard]] FittingChanges smallest_fitting_changes(const Scenario& scenario,
                                                      const SearchOptions& options,
                                                      const ParallelConfig& config);

}  // namespace ptdp
