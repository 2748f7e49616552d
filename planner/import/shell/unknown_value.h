// Values that nobody knows without running a program.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ptdp {

/// Returns a text that stands for a value that nobody knows without running the script. `what` says
/// why: "$NAME" for a variable that is not set, "$(date)" for a command.
[[nodiscard]] std::string unknown_value(std::string_view what);
/// Returns what the first unknown part of a word is: "$NAME" or "$(date)"; nullopt if all is known.
[[nodiscard]] std::optional<std::string> unknown_part(std::string_view word);
/// Returns the word with variables that are not set taken as empty, as the shell takes them.
[[nodiscard]] std::string without_unset(std::string_view word);

/// Marks the beginning of an unknown part within a word; no script has such a character.
inline constexpr char kUnknownBegin = '\x01';
/// Marks the end of an unknown part within a word.
inline constexpr char kUnknownEnd = '\x02';

}  // namespace ptdp
