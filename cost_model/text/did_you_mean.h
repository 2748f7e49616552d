// Suggestions for misspelled names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// Returns the least number of edits that turn one name into another. An edit inserts, deletes or
/// replaces one character; letters compare without case.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// Returns a tail for an error message: `; did you mean "1T" or "1.7B"?`. It has at most three
/// names, nearest first, equal distances in the order of `known`. It is empty when no known name is
/// near. Names of more than 80 characters are near to none.
[[nodiscard]] std::string did_you_mean(std::string_view found, std::span<const std::string> known);

/// Returns the name in `known` that is nearest to `found`, or nullopt if none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view found,
                                                 std::span<const std::string> known);

/// Returns the index of `found` in `choices`. Throws Error at `place`, listing all choices, if it
/// is none of them.
[[nodiscard]] std::size_t find_choice(std::string_view found, std::span<const std::string> choices,
                                      const std::string& place);
/// Returns the value that `found` names in `table`. Throws Error at `place`, listing all names, if
/// it names none.
template <class Value>
[[nodiscard]] Value choose(std::string_view found, NamedValues<Value> table,
                           const std::string& place) {
  return table[find_choice(found, names_of(table), place)].value;
}

}  // namespace ptdp
