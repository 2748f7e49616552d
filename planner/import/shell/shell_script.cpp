#include "planner/import/shell/shell_script.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "planner/import/shell/built_ins.h"
#include "planner/import/shell/shell_branches.h"
#include "planner/import/shell/shell_state.h"
#include "planner/import/shell/shell_test.h"
#include "planner/import/shell/simple_command.h"

namespace ptdp {
namespace {

constexpr int kDeepestCommand = 40;
constexpr int kDeepestScript = 8;
constexpr std::size_t kMostCommands = 20'000;

bool closes_list(const ShellCursor& cursor) {
  return cursor.is_operator(")") || cursor.is_operator(";;") || cursor.is_operator(";&") ||
         cursor.is_operator(";;&") || cursor.is_word("}");
}

bool is_one_of(const ShellCursor& cursor, ShellListEnds words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return cursor.is_word(word); });
}

/// Returns whether "NAME()" or "NAME ()" stands here.
bool begins_function(const ShellCursor& cursor) {
  const ShellToken& next = cursor.ahead(1);
  if (!cursor.is_any_word() || next.text != "(" || cursor.here().text.ends_with("=")) {
    return false;
  }
  return next.is_joined || (next.kind == ShellTokenKind::kOperator && cursor.ahead(2).text == ")");
}

// NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestCommand, within kDeepestScript scripts

/// Follows one script; `bash -c` and `eval` begin another one within it.
class Follower {
 public:
  Follower(std::vector<ShellToken> tokens, ShellScript& script, ShellLimits& limits, int depth)
      : state_{.cursor = {std::move(tokens), limits}, .script = script, .limits = limits},
        depth_(depth) {}

  void run() {
    while (!cursor_.is_end()) {
      const std::size_t before = cursor_.place();
      follow_list({});
      if (cursor_.place() == before) {
        cursor_.advance();  // a word that closes what nothing opened
      }
    }
  }

 private:
  /// Follows commands up to one of the words, which stays; returns how the last one ends.
  ShellTruth follow_list(ShellListEnds ends) {
    ShellTruth truth = ShellTruth::kYes;
    while (!cursor_.is_end()) {
      if (cursor_.is_newline() || cursor_.is_operator(";") || cursor_.is_operator("&")) {
        cursor_.advance();
        continue;
      }
      if (closes_list(cursor_) || is_one_of(cursor_, ends)) {
        return truth;
      }
      const std::size_t before = cursor_.place();
      truth = follow_chain();
      if (cursor_.place() == before) {
        cursor_.advance();
      }
    }
    return truth;
  }

  /// Follows commands with && and || between them. What was run counts as successful, and a test
  /// that is not known as failed.
  ShellTruth follow_chain() {
    int line = cursor_.here().line;
    ShellTruth truth = follow_pipe();
    while (cursor_.is_operator("&&") || cursor_.is_operator("||")) {
      const bool is_and = cursor_.is_operator("&&");
      if (truth == ShellTruth::kUnknown && state_.is_active && ends_with_test_) {
        note_condition(state_, line);
        truth = ShellTruth::kNo;
      }
      cursor_.advance();
      cursor_.skip_newlines();
      line = cursor_.here().line;
      const bool runs = is_and ? truth != ShellTruth::kNo : truth == ShellTruth::kNo;
      const ShellTruth other = with_active(state_, runs, [&] { return follow_pipe(); });
      truth = runs ? other : truth;
    }
    return truth;
  }

  ShellTruth follow_pipe() {
    const bool is_negated = cursor_.is_word("!");
    if (is_negated) {
      cursor_.advance();
    }
    ShellTruth truth = follow_command();
    while (cursor_.is_operator("|") || cursor_.is_operator("|&")) {
      cursor_.advance();
      cursor_.skip_newlines();
      truth = follow_command();
    }
    return is_negated ? negated(truth) : truth;
  }

  ShellTruth follow_command() {
    if (++nested_ > kDeepestCommand) {
      state_.limits.refuse("commands nest more than " + std::to_string(kDeepestCommand) +
                           " deep; expected fewer within each other");
    }
    const ShellTruth truth = follow_any_command();
    --nested_;
    return truth;
  }

  ShellTruth follow_any_command() {
    if (cursor_.is_word("if")) {
      return follow_if(state_, lists_);
    }
    if (cursor_.is_word("case")) {
      return follow_case(state_, lists_);
    }
    if (is_one_of(cursor_, {"for", "while", "until", "select"})) {
      return follow_loop(state_, lists_);
    }
    if (cursor_.is_word("{") || cursor_.is_operator("(")) {
      return follow_group(cursor_.is_operator("("));
    }
    if (cursor_.is_word("function")) {
      cursor_.advance();
    } else if (!begins_function(cursor_)) {
      return follow_simple();
    }
    return take_function();
  }

  /// Follows commands in braces or parentheses. What is set within parentheses is forgotten.
  ShellTruth follow_group(bool is_subshell) {
    const bool forgets = is_subshell && state_.is_active;
    ShellVariables before;
    if (forgets) {
      state_.limits.spend(size_of_variables(state_.script.variables));
      before = state_.script.variables;
    }
    cursor_.advance();
    const ShellTruth truth = follow_list({});
    cursor_.advance();
    skip_redirections(state_);
    if (forgets) {
      state_.script.variables = std::move(before);
    }
    return truth;
  }

  /// Keeps a function's place and passes over its body.
  ShellTruth take_function() {
    const std::string name = cursor_.here().text;
    cursor_.advance();
    if (cursor_.is_operator("(")) {
      cursor_.advance();
      cursor_.advance();
    }
    cursor_.skip_newlines();
    if (state_.is_active) {
      functions_[name] = cursor_.place();
    }
    return with_active(state_, false, [&] { return follow_command(); });
  }

  ShellTruth follow_simple() {
    if (state_.is_active) {
      ends_with_test_ = cursor_.is_word("[[") || cursor_.is_word("[") || cursor_.is_word("test") ||
                        cursor_.here().text.starts_with("((");
    }
    if (cursor_.is_word("[[")) {
      return follow_double_brackets(state_);
    }
    if (cursor_.here().text.starts_with("((")) {
      return follow_arithmetic(state_);
    }
    const bool is_active = state_.is_active;
    ShellCommand command = read_command(state_);
    ValuesBefore before = std::exchange(state_.before_command, {});
    if (!is_active) {
      return ShellTruth::kUnknown;
    }
    if (!command.words.empty() && command.words.front() != "[" && command.words.front() != "test") {
      drop_unset(command, state_);  // a test tells an empty word from none
    }
    if (command.words.empty()) {
      return ShellTruth::kYes;  // assignments alone stay
    }
    if (is_declaration(command.words.front())) {
      for (const std::string& word : command.words) {
        before.erase(word);  // X=1 export X stays
      }
    }
    const ShellTruth truth = run_command(std::move(command));
    put_back(before, state_);
    return truth;
  }

  ShellTruth run_command(ShellCommand command) {
    if (const auto truth = built_in(command, state_)) {
      return *truth;
    }
    if (const auto function = functions_.find(command.words.front());
        function != functions_.end()) {
      return call(function->second, command.words);
    }
    if (state_.script.commands.size() >= kMostCommands) {
      state_.limits.refuse("the script runs more than " + std::to_string(kMostCommands) +
                           " commands; expected a launch script, which runs fewer");
    }
    follow_inner_script(command);
    state_.script.commands.push_back(std::move(command));
    return ShellTruth::kUnknown;
  }

  ShellTruth call(std::size_t place, const std::vector<std::string>& words) {
    ++state_.calls;
    state_.locals.emplace_back();
    const std::size_t back = cursor_.place();
    const std::vector<std::string> positional = state_.script.variables.positional;
    state_.limits.spend(size_of_values(positional));
    state_.script.variables.positional = words;
    cursor_.go_to(place);
    const ShellTruth truth = follow_command();
    cursor_.go_to(back);
    state_.script.variables.positional = positional;
    end_locals(state_);
    --state_.calls;
    state_.is_active = true;  // only what is active calls
    return std::exchange(state_.returned, std::nullopt).value_or(truth);
  }

  /// Follows what `eval` or `bash -c` is given. What `bash -c` sets is forgotten.
  void follow_inner_script(const ShellCommand& command) {
    ShellVariables& variables = state_.script.variables;
    auto inner = inner_script(command.words, variables.positional);
    if (!inner || depth_ >= kDeepestScript) {
      return;
    }
    state_.limits.spend(inner->text.size() + size_of_variables(variables));
    ShellVariables before = variables;
    variables.positional = std::move(inner->positional);
    Follower(shell_tokens(inner->text), state_.script, state_.limits, depth_ + 1).run();
    if (inner->is_eval) {
      variables.positional = std::move(before.positional);
    } else {
      variables = std::move(before);
    }
  }

  ShellState state_;
  ShellCursor& cursor_ = state_.cursor;
  ShellListFollower lists_ = [this](ShellListEnds ends) { return follow_list(ends); };
  int depth_;
  int nested_ = 0;
  bool ends_with_test_ = false;  ///< Whether the last command followed was a test.
  std::map<std::string, std::size_t, std::less<>> functions_;
};

// NOLINTEND(misc-no-recursion)

}  // namespace

ShellScript follow_script(std::string_view text, ShellLimits& limits, ShellVariables variables) {
  ShellScript script{.variables = std::move(variables)};
  limits.spend(text.size());
  Follower(shell_tokens(text), script, limits, 0).run();
  return script;
}

ShellScript follow_script(std::string_view text, const std::string& place) {
  ShellLimits limits(place);
  return follow_script(text, limits);
}

}  // namespace ptdp
