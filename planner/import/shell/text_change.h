// What ${X...} makes of a value: parts cut off, replaced, in capitals.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "planner/import/shell/shell_limits.h"

namespace ptdp {

/// A change of a value, with its operands filled in.
struct TextChange {
  char kind = '\0';         ///< One of # % , ^ / : as in ParameterChange.
  bool is_twice = false;    ///< ${X##p}, ${X%%p}, ${X,,}, ${X^^}, ${X//a/b}.
  std::string first = {};   ///< A pattern.
  std::string second = {};  ///< What replaces it.
  /// First place of ${X:begin:length}, negative from the end; nullopt if it is not known.
  std::optional<std::int64_t> begin = {};
  /// Number of places; negative: the end, counted from the end; nullopt if it is not known.
  std::optional<std::int64_t> length = std::numeric_limits<std::int64_t>::max();
  std::string written = {};  ///< As the script has it.

  [[nodiscard]] bool is_unknown() const { return kind == ':' && !(begin && length); }
};

/// Returns a text with the change; an unknown value where the change is not known.
[[nodiscard]] std::string changed_text(const std::string& text, const TextChange& change,
                                       ShellLimits& limits);

/// Returns the values of an array with the change, each changed or some of them. It is known.
[[nodiscard]] std::vector<std::string> changed_values(const std::vector<std::string>& values,
                                                      const TextChange& change,
                                                      ShellLimits& limits);

}  // namespace ptdp
