// Conditions of a script: [ ... ] and [[ ... ]].
#pragma once

#include <string>
#include <vector>

#include "planner/import/shell/shell_limits.h"

namespace ptdp {

/// Whether a condition holds, as far as it is known without running anything.
enum class ShellTruth { kNo, kYes, kUnknown };

[[nodiscard]] inline ShellTruth truth_of(bool holds) {
  return holds ? ShellTruth::kYes : ShellTruth::kNo;
}
[[nodiscard]] inline ShellTruth negated(ShellTruth truth) {
  return truth == ShellTruth::kUnknown ? truth : truth_of(truth == ShellTruth::kNo);
}

/// Judges the words between the brackets, filled in. With `has_patterns` = and != compare with a
/// pattern, as within [[ ]]. Tests of files, =~ and what is not understood are unknown.
[[nodiscard]] ShellTruth shell_test(std::vector<std::string> words, bool has_patterns,
                                    ShellLimits& limits);

}  // namespace ptdp
