// Suggestions for misspelt names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// Edits (insert, delete, replace one character; letters compare without case) between two names.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// A tail for an error message: `; did you mean "1T" or "1.7B"?`, empty when nothing in `known` is
/// near. At most three names, nearest first, equal distances in the order of `known`.
[[nodiscard]] std::string did_you_mean(std::string_view found, std::span<const std::string> known);

/// The name in `known` that is nearest to `found`, if any is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view found,
                                                 std::span<const std::string> known);

/// The index of `found` in `choices`. Throws Error at `place`, with all choices, where it is not
/// there.
[[nodiscard]] std::size_t find_choice(std::string_view found, std::span<const std::string> choices,
                                      const std::string& place);
/// The value that `found` names in `table`. Throws Error at `place`, with all names, for no name.
template <class Value>
[[nodiscard]] Value choose(std::string_view found, NamedValues<Value> table,
                           const std::string& place) {
  return table[find_choice(found, names_of(table), place)].value;
}

}  // namespace ptdp
