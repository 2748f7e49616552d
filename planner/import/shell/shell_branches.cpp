#include "planner/import/shell/shell_branches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "planner/import/shell/shell_expansion.h"
#include "planner/import/shell/shell_pattern.h"
#include "planner/import/shell/simple_command.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostTurns = 64;  // of a loop that is followed; launchers have a few

std::string filled_here(ShellState& state) {
  return !state.is_active
             ? ""
             : expanded_to_one(state.cursor.here().text, state.script.variables, state.limits);
}

/// Passes over the patterns of a branch; returns whether one of them matches.
bool takes_patterns(const std::string& subject, ShellState& state) {
  ShellCursor& cursor = state.cursor;
  if (cursor.is_operator("(")) {
    cursor.advance();
  }
  bool is_matched = false;
  while (cursor.is_any_word() || cursor.is_operator("|")) {
    is_matched = is_matched || (cursor.is_any_word() &&
                                matches_pattern(subject, filled_here(state), state.limits));
    cursor.advance();
  }
  cursor.advance();  // )
  return is_matched;
}

/// Returns whether the loop from here on may end, or go on, before its body does.
bool leaves_early(ShellCursor& cursor) {
  const std::size_t begin = cursor.place();
  int depth = 0;
  bool leaves = false;
  while (!cursor.is_end() && !(depth == 1 && cursor.is_word("done"))) {
    depth += cursor.is_word("do") ? 1 : cursor.is_word("done") ? -1 : 0;
    leaves = leaves || cursor.is_word("break") || cursor.is_word("continue");
    cursor.advance();
  }
  cursor.go_to(begin);
  return leaves;
}

/// Reads "for NAME in WORDS". Returns the words; nullopt for another loop, for words that are not
/// known or name files, for very many, and for a body that may be left early.
std::optional<std::vector<std::string>> values_of_loop(ShellState& state, std::string& name) {
  ShellCursor& cursor = state.cursor;
  if (!cursor.is_word("for") || cursor.ahead(2).text != "in" || leaves_early(cursor)) {
    return std::nullopt;
  }
  cursor.advance();
  name = cursor.here().text;
  cursor.advance();
  cursor.advance();
  std::vector<std::string> values;
  while (cursor.is_any_word()) {
    const std::string& word = cursor.here().text;
    const bool may_name_files =
        word.find_first_of("*?{") != std::string::npos && word.find("${") == std::string::npos;
    const std::vector<std::string> filled = expanded(word, state.script.variables, state.limits);
    if (may_name_files || values.size() + filled.size() > kMostTurns ||
        std::ranges::any_of(filled, [](const auto& value) { return !!unknown_part(value); })) {
      return std::nullopt;
    }
    values.insert(values.end(), filled.begin(), filled.end());
    cursor.advance();
  }
  return values;
}

}  // namespace

ShellTruth follow_if(ShellState& state, const ShellListFollower& follow_list) {
  ShellCursor& cursor = state.cursor;
  bool is_taken = false;
  while (cursor.is_word("if") || cursor.is_word("elif")) {
    const int line = cursor.here().line;
    cursor.advance();
    const ShellTruth condition = with_active(state, !is_taken, [&] {
      return follow_list({"then", "fi"});
    });
    cursor.advance();
    if (condition == ShellTruth::kUnknown && state.is_active && !is_taken) {
      note_condition(state, line);
    }
    const bool runs = condition == ShellTruth::kYes && !is_taken;
    with_active(state, runs, [&] { return follow_list({"elif", "else", "fi"}); });
    is_taken = is_taken || runs;
  }
  if (cursor.is_word("else")) {
    cursor.advance();
    with_active(state, !is_taken, [&] { return follow_list({"fi"}); });
  }
  cursor.advance();
  skip_redirections(state);
  return ShellTruth::kYes;
}

ShellTruth follow_case(ShellState& state, const ShellListFollower& follow_list) {
  ShellCursor& cursor = state.cursor;
  cursor.advance();
  const std::string written = filled_here(state);
  is_unset_alone(written, cursor.here().line, state);
  const std::string subject = without_unset(written);
  const bool is_known = !unknown_part(subject);
  if (!is_known && state.is_active) {
    add_note(state.script, cursor.here().line, "no branch of a `case` is known to be taken",
             state.limits);
  }
  cursor.advance();
  cursor.skip_newlines();
  cursor.advance();  // in
  bool is_taken = !is_known;
  bool falls_through = false;
  cursor.skip_newlines();
  while (!cursor.is_word("esac") && !cursor.is_end()) {
    const bool is_matched = takes_patterns(subject, state);
    const bool runs = falls_through || (is_matched && !is_taken);
    with_active(state, runs, [&] { return follow_list({"esac"}); });
    falls_through = runs && cursor.is_operator(";&");
    is_taken = (is_taken || runs) && !(runs && cursor.is_operator(";;&"));
    if (cursor.is_operator(";;") || cursor.is_operator(";&") || cursor.is_operator(";;&")) {
      cursor.advance();
    }
    cursor.skip_newlines();
  }
  cursor.advance();
  return ShellTruth::kYes;
}

ShellTruth follow_loop(ShellState& state, const ShellListFollower& follow_list) {
  ShellCursor& cursor = state.cursor;
  const int line = cursor.here().line;
  std::string name;
  const std::optional<std::vector<std::string>> values =
      state.is_active ? values_of_loop(state, name) : std::nullopt;
  if (state.is_active && !values) {
    add_note(state.script, line, "a loop is not followed", state.limits);
  }
  while (!cursor.is_word("do") && !cursor.is_end()) {
    cursor.advance();
  }
  cursor.advance();
  const std::size_t body = cursor.place();
  ShellTruth truth = ShellTruth::kYes;
  for (const std::string& value : values.value_or(std::vector<std::string>())) {
    cursor.go_to(body);
    state.script.variables.values[name] = {value};
    truth = follow_list({"done"});
    if (state.returned) {
      break;
    }
  }
  if (cursor.place() == body) {
    truth = with_active(state, false, [&] { return follow_list({"done"}); });
  }
  cursor.advance();
  skip_redirections(state);
  return truth;
}

}  // namespace ptdp
