// A shell script cut into words and operators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

enum class ShellTokenKind { kWord, kOperator, kNewline, kEnd };

/// One word, operator or line end of a script.
struct ShellToken {
  ShellTokenKind kind = ShellTokenKind::kEnd;
  std::string text;           ///< As it is written, a word with its quotes; "((x))" is one word.
  int line = 1;               ///< Line of the script on which it begins.
  bool is_joined = false;     ///< Whether nothing separates it from the token before.
  std::string document = {};  ///< Text of the here-document that a "<<" operator begins.
};

/// Cuts a bash script into tokens, the last of which is kEnd. Comments and continued lines are left
/// out. Any text can be cut: a quote without an end reaches to the end of the script.
[[nodiscard]] std::vector<ShellToken> shell_tokens(std::string_view script);

/// Returns the place behind the quotes, braces or parentheses that open at `begin`: "...", '...',
/// `...`, ${...}, $(...), $'...'. Returns begin + 1 for any other character, and the length of the
/// text where nothing closes them.
[[nodiscard]] std::size_t end_of_quoted(std::string_view text, std::size_t begin);

}  // namespace ptdp
