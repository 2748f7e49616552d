// What a shell may complete a command line with. The scripts of the shells (tools/completion) ask
// the command itself, so that they know no flags.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/shared/command_table.h"

namespace ptdp {

/// The first argument of a request for completions; the words typed so far follow, the last one
/// unfinished.
inline constexpr const char* kCompletionRequest = "__complete";

/// What may stand in place of the last word.
struct WordChoices {
  /// A word, and what it means; empty if that is clear.
  struct Word {
    std::string text;
    std::string meaning = {};
  };
  std::vector<Word> words;
  bool has_files = false;        ///< Whether a file may stand there.
  bool has_directories = false;  ///< Whether a directory may stand there.
};

/// Returns what may stand in place of the last of `typed`, the words after the command.
[[nodiscard]] WordChoices complete(const CommandTable& table, std::vector<std::string> typed);

/// Returns the lines that the scripts read: a word and behind a tab its meaning; ":files" or
/// ":directories" at the end.
[[nodiscard]] std::string to_lines(const WordChoices& completions);

/// Returns the answer to a request for completions; nullopt for any other command line.
[[nodiscard]] std::optional<std::string> completion_answer(int argc, const char* const* argv,
                                                           const CommandTable& table);

}  // namespace ptdp
