// Variables of a script: what they hold and how they are set.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/shell/shell_limits.h"

namespace ptdp {

/// Variables of a script: a list of values each, of one value for what is no array.
struct ShellVariables {
  /// A member whose subscript is no index is a variable of its own: "M[key]".
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::vector<std::string> positional;  ///< $0, $1, ...
  /// Arrays of `declare -A`, all of whose subscripts are texts.
  std::set<std::string, std::less<>> keyed = {};
};

/// Returns the values of a name: of a variable, or of 1, @, * and #. Returns nullopt if it is not
/// set.
[[nodiscard]] std::optional<std::vector<std::string>> values_of(const ShellVariables& variables,
                                                                const std::string& name,
                                                                ShellLimits& limits);

/// Returns values as one text, with a blank between two.
[[nodiscard]] std::string joined_values(const std::vector<std::string>& values);

/// Returns the characters that values take up, with one more for each.
[[nodiscard]] std::size_t size_of_values(const std::vector<std::string>& values);

/// Returns the characters that all variables take up, with their names.
[[nodiscard]] std::size_t size_of_variables(const ShellVariables& variables);

/// Returns a whole number of decimal digits; nullopt for any other text.
[[nodiscard]] std::optional<std::int64_t> shell_integer(std::string_view text);

/// An assignment as it is written: NAME=value, NAME+=value, NAME[subscript]=value.
struct ShellAssignment {
  std::string name;
  std::string subscript = {};
  bool adds = false;
  std::string value = {};
};

/// Returns the assignment that a word is; nullopt for any other word.
[[nodiscard]] std::optional<ShellAssignment> assignment_in(const std::string& word);

/// What an assignment gives: one value, or the values within parentheses.
struct ShellAssigned {
  std::vector<std::string> values;
  bool is_array = false;
};

/// Returns the number of members "M[key]" of an array of `declare -A`.
[[nodiscard]] std::size_t count_members(const std::string& name, const ShellVariables& variables);
/// Forgets the members "M[key]" of an array of `declare -A`.
void forget_members(const std::string& name, ShellVariables& variables);

/// Sets a variable. Throws Error if it grows beyond 4 MiB.
void assign(const ShellAssignment& assignment, ShellAssigned assigned, ShellVariables& variables,
            ShellLimits& limits);

}  // namespace ptdp
