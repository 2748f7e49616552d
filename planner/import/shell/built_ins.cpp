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
    const std::int64_t index = member ? shell_integer(member->subscript).value_or(-1) : -1;
    const bool is_key = member && variables.keyed.contains(member->name);
    if (variables.keyed.contains(word)) {
      forget_members(word, variables);
      variables.values.erase(word);
      variables.keyed.erase(word);
    } else if (found == variables.values.end() || index < 0 || is_key) {
      variables.values.erase(word);
    } else if (index < std::ssize(found->second)) {
      found->second.erase(found->second.begin() + index);
    }
  }
}

/// Returns the fields that `read` makes of a text for so many names: the last one has the rest.
std::vector<std::string> fields_of(std::string text, const std::string& separators,
                                   std::size_t most) {
  const std::string blanks = " \t\n";
  const auto is_separator = [&](char c) { return separators.find(c) != std::string::npos; };
  const auto is_blank = [&](char c) {
    return is_separator(c) && blanks.find(c) != std::string::npos;
  };
  while (!text.empty() && is_blank(text.back())) {
    text.pop_back();
  }
  std::vector<std::string> fields;
  std::size_t at = 0;
  while (at < text.size()) {
    while (at < text.size() && is_blank(text[at])) {
      ++at;
    }
    std::size_t end = at;
    while (end < text.size() && (!is_separator(text[end]) || fields.size() + 1 == most)) {
      ++end;
    }
    fields.push_back(text.substr(at, end - at));
    at = end;
    while (at < text.size() && is_blank(text[at])) {
      ++at;
    }
    at += at < text.size() && is_separator(text[at]) ? 1 : 0;
  }
  return fields;
}

/// Carries out `read NAME...` or `read -a NAME` of a text behind `<<<`; returns whether it can.
bool reads_here_string(const std::vector<std::string>& words, ShellState& state) {
  std::vector<std::string> names;
  bool is_array = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-a" || words[i] == "-ra") {
      is_array = true;
    } else if (words[i].starts_with('-') && words[i] != "-r") {
      return false;
    } else if (words[i] != "-r") {
      names.push_back(words[i]);
    }
  }
  ShellVariables& variables = state.script.variables;
  if (!state.here_string || names.empty() || unknown_part(*state.here_string)) {
    return false;
  }
  const auto ifs = values_of(variables, "IFS", state.limits);
  const std::string separators = ifs && !ifs->empty() ? ifs->front() : " \t\n";
  state.limits.spend(state.here_string->size());
  std::vector<std::string> fields =
      fields_of(*state.here_string, separators, is_array ? 0 : names.size());
  if (is_array) {
    variables.values[names.front()] = std::move(fields);
    return true;
  }
  fields.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    variables.values[names[i]] = {fields[i]};
  }
  return true;
}

/// Sets what `read`, or `printf -v`, sets: to nobody knows what, but for a text behind `<<<`.
void read_variables(const std::vector<std::string>& words, ShellState& state) {
  const bool is_read = words.front() == "read";
  if (is_read && reads_here_string(words, state)) {
    return;
  }
  const std::size_t end = is_read ? words.size() : 3;
  for (std::size_t i = 1; i < end; ++i) {
    if (!words[i].starts_with('-')) {
      state.script.variables.values[words[i]] = {unknown_value("$(" + words.front() + ")")};
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
    read_variables(words, state);
  } else {
    return false;
  }
  return true;
}

bool is_shell(const std::string& word) {
  return word == "sh" || word == "bash" || word.ends_with("/sh") || word.ends_with("/bash");
}

/// Judges `[ ... ]` or `test ...`, and notes variables that are not set.
ShellTruth judge_test(const ShellCommand& command, ShellState& state) {
  const bool is_closed = command.words.front() == "[" && command.words.back() == "]";
  const auto end = command.words.end() - (is_closed ? 1 : 0);
  std::vector<std::string> judged;
  for (auto word = command.words.begin() + 1; word < end; ++word) {
    if (judged.empty() || (judged.back() != "-z" && judged.back() != "-n")) {
      is_unset_alone(*word, command.line, state);
    }
    judged.push_back(*word);
    judge_is_set(judged, state);
  }
  return shell_test(std::move(judged), false, state.limits);
}

/// Declares the names of a declaration that have no value.
void declare(const std::vector<std::string>& words, ShellState& state) {
  const bool has_keys = declares_keys(words);
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words.front() == "local") {
      make_local(words[i], state);
      state.script.variables.values.erase(words[i]);
    }
    if (has_keys && !words[i].starts_with('-')) {
      state.script.variables.keyed.insert(words[i]);
    }
  }
}

}  // namespace

std::optional<ShellTruth> built_in(const ShellCommand& command, ShellState& state) {
  const std::vector<std::string>& words = command.words;
  const std::string& name = words.front();
  if (name == "[" || name == "test") {
    return judge_test(command, state);
  }
  if (name == ":" || name == "true" || is_declaration(name)) {
    declare(words, state);
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
