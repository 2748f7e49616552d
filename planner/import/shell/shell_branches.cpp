#include "planner/import/shell/shell_branches.h"

#include <string>

#include "planner/import/shell/shell_expansion.h"
#include "planner/import/shell/shell_pattern.h"
#include "planner/import/shell/simple_command.h"

namespace ptdp {
namespace {

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
      add_note(state.script, line, "a condition needs a command or a file; taken as false",
               state.limits);
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
  const std::string subject = without_unset(filled_here(state));
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
  if (state.is_active) {
    add_note(state.script, cursor.here().line, "a loop is not followed", state.limits);
  }
  return with_active(state, false, [&] {
    while (!cursor.is_word("do") && !cursor.is_end()) {
      cursor.advance();
    }
    cursor.advance();
    const ShellTruth truth = follow_list({"done"});
    cursor.advance();
    skip_redirections(state);
    return truth;
  });
}

}  // namespace ptdp
