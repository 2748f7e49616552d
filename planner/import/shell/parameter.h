// Parts of ${...}: the name, and what is done to its value.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// What stands within ${...}.
struct ShellParameter {
  bool is_length = false;    ///< ${#X}
  bool is_indirect = false;  ///< ${!X}
  std::string name = {};
  std::string subscript = {};    ///< Between brackets behind the name; empty: none.
  std::string_view change = {};  ///< All that follows, as it is written; empty: nothing.

  /// Returns whether all values are meant: ${X[@]}, ${X[*]}, $@ or $*.
  [[nodiscard]] bool is_all() const { return is_all_subscript() || name == "@" || name == "*"; }
  [[nodiscard]] bool is_all_subscript() const { return subscript == "@" || subscript == "*"; }
  /// Returns whether each value stays a word of its own within quotes.
  [[nodiscard]] bool keeps_words() const { return subscript != "*" && name != "*"; }
};

/// Cuts the inside of ${...} into its parts. Any text can be cut.
[[nodiscard]] ShellParameter parameter_in(std::string_view inside);

/// What a change does, and its operands as they are written.
struct ParameterChange {
  /// One of - = + ? for a value that is missing, else one of # % , ^ / : or any other character,
  /// which means nothing.
  char kind = '\0';
  bool tests_empty = false;  ///< Whether an empty value counts as missing: ${X:-d}.
  bool is_twice = false;     ///< ${X##p}, ${X%%p}, ${X,,}, ${X^^}, ${X//a/b}.
  bool has_second = false;
  std::string_view first = {};
  std::string_view second = {};  ///< Behind the second slash or colon.

  [[nodiscard]] bool is_for_missing() const {
    return std::string_view("-=+?").find(kind) != std::string_view::npos;
  }
};

/// Cuts a change, which is not empty, into its parts.
[[nodiscard]] ParameterChange change_in(std::string_view change);

}  // namespace ptdp
