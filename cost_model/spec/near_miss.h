// Suggestions for misspelt names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ptdp {

/// Edits (insert, delete, replace one character; letters compare without case) between two names.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// A tail for an error message: `; did you mean "1T" or "1.7B"?`, empty when nothing in `known` is
/// near. At most three names, nearest first, equal distances in the order of `known`.
[[nodiscard]] std::string did_you_mean(std::string_view found, std::span<const std::string> known);

}  // namespace ptdp
