// What is known while a script is followed.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/import/shell/shell_limits.h"
#include "planner/import/shell/shell_script.h"
#include "planner/import/shell/shell_test.h"
#include "planner/import/shell/shell_tokens.h"

namespace ptdp {

/// Values of variables before something set them; nullopt for those that were not set.
using ValuesBefore = std::map<std::string, std::optional<std::vector<std::string>>>;

/// Walks over tokens, and keeps the limits' line at the token that is read.
class ShellCursor {
 public:
  /// `tokens` end with kEnd, on which the cursor stays.
  ShellCursor(std::vector<ShellToken> tokens, ShellLimits& limits)
      : tokens_(std::move(tokens)), limits_(limits) {
    limits_.set_line(here().line);
  }

  [[nodiscard]] const ShellToken& here() const { return tokens_[at_]; }
  /// Returns the token that is `count` tokens behind; the last one beyond the end.
  [[nodiscard]] const ShellToken& ahead(std::size_t count) const {
    return tokens_[std::min(at_ + count, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is_end() const { return here().kind == ShellTokenKind::kEnd; }
  [[nodiscard]] bool is_newline() const { return here().kind == ShellTokenKind::kNewline; }
  [[nodiscard]] bool is_any_word() const { return here().kind == ShellTokenKind::kWord; }
  [[nodiscard]] bool is_any_operator() const { return here().kind == ShellTokenKind::kOperator; }
  [[nodiscard]] bool is_operator(std::string_view text) const {
    return is_any_operator() && here().text == text;
  }
  [[nodiscard]] bool is_word(std::string_view text) const {
    return is_any_word() && here().text == text;
  }

  void advance() { go_to(std::min(at_ + 1, tokens_.size() - 1)); }
  void skip_newlines() {
    while (is_newline()) {
      advance();
    }
  }

  /// Returns a place to come back to.
  [[nodiscard]] std::size_t place() const { return at_; }
  void go_to(std::size_t place) {
    at_ = place;
    limits_.spend(1);
    limits_.set_line(here().line);
  }

 private:
  std::vector<ShellToken> tokens_;
  ShellLimits& limits_;
  std::size_t at_ = 0;
};

/// The place in a script, and what it has come to so far.
struct ShellState {
  ShellCursor cursor;
  ShellScript& script;
  ShellLimits& limits;
  bool is_active = true;  ///< Whether commands count; else they are passed over.
  int calls = 0;          ///< Functions that are being followed, within each other.
  /// Text behind `<<<` of the command that is read, which `read` takes.
  std::optional<std::string> here_string = {};
  /// What `return` said, until the call of the function has ended.
  std::optional<ShellTruth> returned = {};
  /// Variables that functions made their own, with the values before; the innermost call last.
  std::vector<ValuesBefore> locals = {};
  /// Variables that the command that is read sets before its words, with the values before.
  ValuesBefore before_command = {};
};

/// Calls `follow`, with the state active only if it was and `is_active` holds; returns its result.
template <class Follow>
// NOLINTNEXTLINE(misc-no-recursion): no deeper than `follow` goes
auto with_active(ShellState& state, bool is_active, Follow follow) {
  const bool before = state.is_active;
  state.is_active = before && is_active;
  const auto result = follow();
  state.is_active = before && !state.returned;
  return result;
}

/// Adds a note about a line, once.
void add_note(ShellScript& script, int line, const std::string& text, ShellLimits& limits);

/// Notes that a condition of a line is not known and counts as false.
void note_condition(ShellState& state, int line);

/// Keeps the value of a variable, unless `before` has one already.
void keep_value(const std::string& name, ValuesBefore& before, ShellState& state);
/// Gives variables their values of before; afterwards `before` holds those that they had.
void put_back(ValuesBefore& before, ShellState& state);

/// Makes a variable the innermost function's own: its value comes back when the call ends.
void make_local(const std::string& name, ShellState& state);
/// Gives variables that the innermost function made its own their values of before.
void end_locals(ShellState& state);

/// Returns whether a word is a variable that is not set, which the shell leaves out; notes it.
bool is_unset_alone(const std::string& word, int line, ShellState& state);

}  // namespace ptdp
