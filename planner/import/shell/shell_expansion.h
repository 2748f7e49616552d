// Words of a shell script with their variables filled in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Variables of a script: a list of values each, of one value for what is no array.
struct ShellVariables {
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::vector<std::string> positional;  ///< $0, $1, ...
};

/// Returns a text that stands for a value that nobody knows without running the script. `what` says
/// why: "$NAME" for a variable that is not set, "$(date)" for a command.
[[nodiscard]] std::string unknown_value(std::string_view what);
/// Returns what the first unknown part of a word is: "$NAME" or "$(date)"; nullopt if all is known.
[[nodiscard]] std::optional<std::string> unknown_part(std::string_view word);
/// Returns the word with variables that are not set taken as empty, as the shell takes them.
[[nodiscard]] std::string without_unset(std::string_view word);

/// Returns the words that the shell makes of a word as it is written: quotes removed, variables and
/// arithmetic filled in, values outside quotes split at blanks. Commands are not run, file names
/// not matched. "${X:=d}" sets a variable. Throws Error for words that grow beyond 4 MiB.
[[nodiscard]] std::vector<std::string> expanded(std::string_view word, ShellVariables& variables);
/// Returns the word with variables filled in and not split, as in an assignment.
[[nodiscard]] std::string expanded_to_one(std::string_view word, ShellVariables& variables);
/// Returns the text of a here-document with variables filled in.
[[nodiscard]] std::string expanded_document(std::string_view text, ShellVariables& variables);

/// Returns whether a text matches a pattern of * ? and [...], as in `case`.
[[nodiscard]] bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace ptdp
