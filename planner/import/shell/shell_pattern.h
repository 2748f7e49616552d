// Patterns of the shell, and what they take out of a text.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/shell/shell_limits.h"

namespace ptdp {

/// Returns whether a text matches a pattern of * ? and [...], as in `case`.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern,
                                   ShellLimits& limits);

/// Where a pattern is looked for, and whether the longest match counts or the shortest.
struct ShellTrim {
  bool at_start = true;  ///< At the start of the text, as ${X#p}; else at its end, as ${X%p}.
  bool longest = false;
};

/// Returns the text without what a pattern matches at its start or its end.
[[nodiscard]] std::string without_match(const std::string& text, std::string_view pattern,
                                        ShellTrim trim, ShellLimits& limits);

/// Returns the text with the first match of a pattern replaced, the longest at its place, or with
/// each of them. A pattern that begins with # or % matches at the start or the end alone.
[[nodiscard]] std::string with_replaced(const std::string& text, std::string_view pattern,
                                        const std::string& to, bool every, ShellLimits& limits);

/// How letters change: ${X^^} makes capitals of all, ${X,} a small letter of the first.
struct ShellCase {
  bool is_upper = false;
  bool is_every = false;
};

/// Returns the text with the letters changed that a pattern matches; all, for an empty pattern.
[[nodiscard]] std::string with_case(std::string text, ShellCase change, std::string_view pattern,
                                    ShellLimits& limits);

}  // namespace ptdp
