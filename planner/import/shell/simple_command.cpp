#include "planner/import/shell/simple_command.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>

#include "planner/import/shell/arithmetic_word.h"
#include "planner/import/shell/shell_expansion.h"

namespace ptdp {
namespace {

/// Passes over one redirection; returns whether there was one.
bool skip_redirection(ShellState& state) {
  constexpr std::array<std::string_view, 12> names = {"<",  ">",  ">>", "<<",  "<<-", "<<<",
                                                      ">&", "<&", "&>", "&>>", ">|",  "<>"};
  ShellCursor& cursor = state.cursor;
  if (!cursor.is_any_operator() || std::ranges::find(names, cursor.here().text) == names.end()) {
    return false;
  }
  const bool is_document = cursor.is_operator("<<") || cursor.is_operator("<<-");
  const bool is_here_string = cursor.is_operator("<<<");
  const std::string document = cursor.here().document;
  cursor.advance();
  if (is_here_string && state.is_active) {
    state.here_string = expanded_to_one(cursor.here().text, state.script.variables, state.limits);
  }
  if (is_document && state.is_active) {
    const bool is_literal = cursor.here().text.find_first_of("'\"\\") != std::string::npos;
    state.limits.spend(document.size());
    state.script.documents.push_back(
        is_literal ? document : expanded_document(document, state.script.variables, state.limits));
  }
  cursor.advance();
  return true;
}

bool ends_command(const ShellCursor& cursor) {
  return cursor.is_end() || cursor.is_newline() ||
         (cursor.is_any_operator() && !cursor.is_operator("("));
}

/// Returns whether a word is the number of a stream before a redirection, as in 2>&1.
bool is_descriptor(const std::string& word, const ShellToken& behind) {
  return behind.kind == ShellTokenKind::kOperator && behind.is_joined &&
         behind.text.find_first_of("<>") != std::string::npos &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Returns the number that a subscript of a variable comes to, or its text if it is a key.
std::string subscript_of(const std::string& name, const std::string& written, ShellState& state) {
  if (written.empty()) {
    return "";
  }
  const std::string text = expanded_to_one(written, state.script.variables, state.limits);
  if (state.script.variables.keyed.contains(name)) {
    return text;
  }
  std::string number = arithmetic_word(text, state.script.variables, state.limits);
  return unknown_part(number) ? text : number;
}

/// Takes [subscript]=value within an array's parentheses: into its values, or as a member of its
/// own.
void take_member(const std::string& name, const ShellAssignment& member,
                 std::vector<std::string>& values, ShellState& state) {
  const std::string subscript = subscript_of(name, member.subscript, state);
  ShellVariables& variables = state.script.variables;
  const std::string value = expanded_to_one(member.value, variables, state.limits);
  if (variables.keyed.contains(name) || !shell_integer(subscript)) {
    assign({.name = name, .subscript = subscript}, {.values = {value}}, variables, state.limits);
    return;
  }
  ShellVariables array;
  array.values[name] = std::move(values);
  assign({.name = name, .subscript = subscript}, {.values = {value}}, array, state.limits);
  values = std::move(array.values[name]);
}

/// Reads the values of an array, from "(" to ")".
std::vector<std::string> read_array(const std::string& name, ShellState& state) {
  ShellCursor& cursor = state.cursor;
  std::vector<std::string> values;
  cursor.advance();
  while (!cursor.is_operator(")") && !cursor.is_end()) {
    if (cursor.is_any_word() && state.is_active) {
      const ShellToken& token = cursor.here();
      if (const auto member = assignment_in("x" + token.text);
          member && member->name == "x" && !member->subscript.empty()) {
        take_member(name, *member, values, state);
        cursor.advance();
        continue;
      }
      for (std::string& word : expanded(token.text, state.script.variables, state.limits)) {
        if (!is_unset_alone(word, token.line, state)) {
          values.push_back(std::move(word));
        }
      }
    }
    cursor.advance();
  }
  cursor.advance();
  return values;
}

/// Carries out an assignment, behind whose word the cursor stands.
void take_assignment(const ShellAssignment& assignment, ShellState& state) {
  ShellAssigned assigned;
  assigned.is_array =
      assignment.value.empty() && state.cursor.is_operator("(") && state.cursor.here().is_joined;
  if (assigned.is_array) {
    if (state.is_active && !assignment.adds &&
        state.script.variables.keyed.contains(assignment.name)) {
      forget_members(assignment.name, state.script.variables);
    }
    assigned.values = read_array(assignment.name, state);
  } else if (state.is_active) {
    assigned.values = {expanded_to_one(assignment.value, state.script.variables, state.limits)};
  }
  if (state.is_active) {
    assign({.name = assignment.name,
            .subscript = subscript_of(assignment.name, assignment.subscript, state),
            .adds = assignment.adds},
           std::move(assigned), state.script.variables, state.limits);
  }
}

/// Returns whether a declaration makes variables of a function its own.
bool is_local(const std::string& declaration) {
  return declaration == "local" || declaration == "declare" || declaration == "typeset";
}

/// Reads one word of a command, or an assignment before its words or behind a declaration.
void read_word(ShellCommand& command, bool& has_word, ShellState& state) {
  const ShellToken token = state.cursor.here();
  state.cursor.advance();
  if (token.kind != ShellTokenKind::kWord || is_descriptor(token.text, state.cursor.here())) {
    return;  // a parenthesis without meaning here, or the 2 of 2>&1
  }
  const std::optional<ShellAssignment> assignment = assignment_in(token.text);
  const bool declares = !command.words.empty() && is_declaration(command.words.front());
  if (assignment && (!has_word || declares)) {
    if (declares && state.is_active && is_local(command.words.front())) {
      make_local(assignment->name, state);
    }
    if (declares && state.is_active && declares_keys(command.words)) {
      state.script.variables.keyed.insert(assignment->name);
    }
    if (!declares && state.is_active) {
      keep_value(assignment->name, state.before_command, state);
    }
    take_assignment(*assignment, state);
    return;
  }
  if (!has_word) {
    put_back(state.before_command, state);  // X=1 before a word does not change $X in it
  }
  has_word = true;
  if (state.is_active) {
    for (std::string& word : expanded(token.text, state.script.variables, state.limits)) {
      command.words.push_back(std::move(word));
    }
  }
}

}  // namespace

bool declares_keys(const std::vector<std::string>& words) {
  return is_declaration(words.front()) && std::ranges::any_of(words, [](const auto& word) {
           return word.starts_with('-') && word.find('A') != std::string::npos;
         });
}

bool is_declaration(const std::string& name) {
  constexpr std::array<std::string_view, 5> names = {"export", "declare", "local", "readonly",
                                                     "typeset"};
  return std::ranges::find(names, name) != names.end();
}

void skip_redirections(ShellState& state) {
  while (skip_redirection(state)) {
  }
}

ShellCommand read_command(ShellState& state) {
  ShellCommand command{.line = state.cursor.here().line};
  state.here_string = std::nullopt;
  state.before_command.clear();
  bool has_word = false;
  while (true) {
    if (!ends_command(state.cursor)) {
      read_word(command, has_word, state);
    } else if (!skip_redirection(state)) {
      break;
    }
  }
  if (has_word) {
    put_back(state.before_command, state);
    for (const auto& [name, before] : state.before_command) {
      command.environment[name] =
          joined_values(values_of(state.script.variables, name, state.limits)
                            .value_or(std::vector<std::string>()));
    }
  }
  return command;
}

void judge_is_set(std::vector<std::string>& words, ShellState& state) {
  const std::size_t size = words.size();
  if (size > 1 && words[size - 2] == "-v") {
    const bool is_set = values_of(state.script.variables, words.back(), state.limits).has_value();
    words[size - 2] = "-n";
    words.back() = is_set ? "set" : "";
  }
}

ShellTruth follow_double_brackets(ShellState& state) {
  ShellCursor& cursor = state.cursor;
  cursor.advance();
  std::vector<std::string> words;
  while (!cursor.is_word("]]") && !cursor.is_end()) {
    if (cursor.is_any_word() && state.is_active) {
      std::string word = expanded_to_one(cursor.here().text, state.script.variables, state.limits);
      if (words.empty() || (words.back() != "-z" && words.back() != "-n")) {
        is_unset_alone(word, cursor.here().line, state);
      }
      words.push_back(std::move(word));
      judge_is_set(words, state);
    } else if (!cursor.is_newline()) {
      words.push_back(cursor.here().text);
    }
    cursor.advance();
  }
  cursor.advance();
  return state.is_active ? shell_test(std::move(words), true, state.limits) : ShellTruth::kUnknown;
}

ShellTruth follow_arithmetic(ShellState& state) {
  const std::string word = "$" + state.cursor.here().text;
  state.cursor.advance();
  if (!state.is_active) {
    return ShellTruth::kUnknown;
  }
  const std::string value = expanded_to_one(word, state.script.variables, state.limits);
  return unknown_part(value) ? ShellTruth::kUnknown : truth_of(value != "0");
}

}  // namespace ptdp
