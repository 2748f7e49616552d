#include "planner/import/shell/built_ins.h"

#include "planner/import/shell/simple_command.h"

namespace ptdp {

void drop_unset(ShellCommand& command, ShellState& state) {
  std::vector<std::string> words;
  words.reserve(command.words.size());
  for (std::string& word : command.words) {
    // Behind a flag it stands for the flag's value, which is missed where the flag is read.
    const bool is_value = !words.empty() && words.back().starts_with("--");
    if (!is_unset_alone(word, command.line, state) || is_value) {
      words.push_back(std::move(word));
    }
  }
  command.words = std::move(words);
}

std::optional<ShellTruth> built_in(const ShellCommand& command, ShellState& state) {
  const std::string& name = command.words.front();
  if (name == "[" || name == "test") {
    const bool is_closed = name == "[" && command.words.back() == "]";
    const auto end = command.words.end() - (is_closed ? 1 : 0);
    return shell_test({command.words.begin() + 1, end}, false, state.limits);
  }
  if (name == ":" || name == "true" || is_declaration(name)) {
    return ShellTruth::kYes;
  }
  if (name == "false") {
    return ShellTruth::kNo;
  }
  if (name == "source" || name == ".") {
    const std::string file = command.words.size() > 1 ? command.words[1] : "a file";
    add_note(state.script, command.line, file + " sets more; it is not read", state.limits);
    return ShellTruth::kYes;
  }
  return std::nullopt;
}

}  // namespace ptdp
