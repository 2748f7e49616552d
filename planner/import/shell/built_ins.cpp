#include "planner/import/shell/built_ins.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "planner/import/shell/arithmetic_word.h"
#include "planner/import/shell/simple_command.h"
#include "planner/import/shell/unknown_value.h"

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

namespace {

/// Forgets what the words name, "X" or "A[1]".
void unset(const std::vector<std::string>& words, ShellVariables& variables) {
  for (const std::string& word : words) {
    const auto member = assignment_in(word + "=");
    const auto found = variables.values.find(member ? member->name : word);
    const auto index = member ? shell_integer(member->subscript) : std::nullopt;
    if (found == variables.values.end() || !index) {
      variables.values.erase(word);
    } else if (*index >= 0 && *index < std::ssize(found->second)) {
      found->second.erase(found->second.begin() + *index);
    }
  }
}

/// Carries out a command that sets variables or positional parameters; returns whether it is one.
bool sets_variables(const std::vector<std::string>& words, ShellState& state) {
  const std::string& name = words.front();
  ShellVariables& variables = state.script.variables;
  std::vector<std::string>& positional = variables.positional;
  if (name == "unset") {
    unset({words.begin() + 1, words.end()}, variables);
  } else if (name == "shift") {
    const std::int64_t count = words.size() > 1 ? shell_integer(words[1]).value_or(-1) : 1;
    if (count >= 0 && count < std::ssize(positional)) {
      positional.erase(positional.begin() + 1, positional.begin() + 1 + count);
    }
  } else if (name == "set" && words.size() > 1 && words[1] == "--") {
    const std::string zero = positional.empty() ? "" : positional.front();
    positional.assign(words.begin() + 1, words.end());
    positional.front() = zero;
  } else if (name == "let") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      static_cast<void>(arithmetic_word(words[i], variables, state.limits));
    }
  } else if (name == "read" || (name == "printf" && words.size() > 2 && words[1] == "-v")) {
    const std::size_t end = name == "read" ? words.size() : 3;
    for (std::size_t i = 1; i < end; ++i) {
      if (!words[i].starts_with('-')) {
        variables.values[words[i]] = {unknown_value("$(" + name + ")")};
      }
    }
  } else {
    return false;
  }
  return true;
}

bool is_shell(const std::string& word) {
  return word == "sh" || word == "bash" || word.ends_with("/sh") || word.ends_with("/bash");
}

}  // namespace

std::optional<ShellTruth> built_in(const ShellCommand& command, ShellState& state) {
  const std::vector<std::string>& words = command.words;
  const std::string& name = words.front();
  if (name == "[" || name == "test") {
    const bool is_closed = name == "[" && command.words.back() == "]";
    const auto end = command.words.end() - (is_closed ? 1 : 0);
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i - 1] != "-z" && words[i - 1] != "-n") {
        is_unset_alone(words[i], command.line, state);
      }
    }
    return shell_test({command.words.begin() + 1, end}, false, state.limits);
  }
  if (name == ":" || name == "true" || is_declaration(name)) {
    for (std::size_t i = 1; i < words.size() && name == "local"; ++i) {
      make_local(words[i], state);
      state.script.variables.values.erase(words[i]);
    }
    return ShellTruth::kYes;
  }
  if (name == "false") {
    return ShellTruth::kNo;
  }
  if (name == "return" && state.calls > 0) {
    const bool fails = words.size() > 1 && words[1] != "0";
    state.returned = truth_of(!fails);
    state.is_active = false;
    return state.returned;
  }
  if (sets_variables(words, state)) {
    return ShellTruth::kYes;
  }
  if (name == "source" || name == ".") {
    const std::string file = command.words.size() > 1 ? command.words[1] : "a file";
    add_note(state.script, command.line, file + " sets more; it is not read", state.limits);
    return ShellTruth::kYes;
  }
  return std::nullopt;
}

std::optional<InnerScript> inner_script(const std::vector<std::string>& words,
                                        const std::vector<std::string>& positional) {
  if (words.front() == "eval") {
    const std::string text = joined_values({words.begin() + 1, words.end()});
    if (!text.empty()) {
      return InnerScript{.text = text, .is_eval = true, .positional = positional};
    }
  }
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    const std::string& flag = words[i + 1];
    if (is_shell(words[i]) && (flag == "-c" || flag == "-lc" || flag == "-xc") &&
        !words[i + 2].empty()) {
      return InnerScript{
          .text = words[i + 2],
          .positional = {words.begin() + static_cast<std::ptrdiff_t>(i) + 3, words.end()}};
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
