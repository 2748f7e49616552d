#include "planner/import/shell/shell_script.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "cost_model/error.h"
#include "planner/import/shell/shell_arithmetic.h"
#include "planner/import/shell/shell_tokens.h"

namespace ptdp {
namespace {

constexpr int kDeepestCommand = 40;
constexpr std::size_t kMostCommands = 20'000;

/// Whether a condition holds.
enum class Truth { kNo, kYes, kUnknown };

Truth truth_of(bool holds) {
  return holds ? Truth::kYes : Truth::kNo;
}
Truth negated(Truth truth) {
  return truth == Truth::kUnknown ? truth : truth_of(truth == Truth::kNo);
}

/// An assignment as it is written: name, whether it adds, and the value's text.
struct Assignment {
  std::string name;
  std::string subscript;
  bool adds = false;
  std::string value;
};

std::optional<Assignment> assignment_in(const std::string& word) {
  std::size_t end = 0;
  while (end < word.size() &&
         (std::isalnum(static_cast<unsigned char>(word[end])) != 0 || word[end] == '_')) {
    ++end;
  }
  if (end == 0 || std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
    return std::nullopt;
  }
  Assignment result{.name = word.substr(0, end)};
  if (end < word.size() && word[end] == '[') {
    const std::size_t close = word.find(']', end);
    if (close == std::string::npos) {
      return std::nullopt;
    }
    result.subscript = word.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  if (word.substr(end, 2) == "+=") {
    result.adds = true;
    ++end;
  }
  if (end >= word.size() || word[end] != '=') {
    return std::nullopt;
  }
  result.value = word.substr(end + 1);
  return result;
}

/// Judges the words of [ ... ] and [[ ... ]].
class Test {
 public:
  Test(std::vector<std::string> words, bool has_patterns)
      : words_(std::move(words)), has_patterns_(has_patterns) {}

  Truth value() {
    const Truth truth = either();
    return at_ == words_.size() ? truth : Truth::kUnknown;
  }

 private:
  bool take(std::string_view word) {
    if (at_ < words_.size() && words_[at_] == word) {
      ++at_;
      return true;
    }
    return false;
  }
  Truth either() {
    Truth truth = both();
    while (take("||") || take("-o")) {
      const Truth other = both();
      truth = truth == Truth::kYes || other == Truth::kYes ? Truth::kYes
              : truth == Truth::kNo                        ? other
                                                           : truth;
    }
    return truth;
  }
  Truth both() {
    Truth truth = single();
    while (take("&&") || take("-a")) {
      const Truth other = single();
      truth = truth == Truth::kNo || other == Truth::kNo ? Truth::kNo
              : truth == Truth::kYes                     ? other
                                                         : truth;
    }
    return truth;
  }
  Truth single() {
    if (++depth_ > kDeepestCommand || at_ >= words_.size()) {
      return Truth::kUnknown;
    }
    if (take("!")) {
      return negated(single());
    }
    if (take("(")) {
      const Truth inner = either();
      return take(")") ? inner : Truth::kUnknown;
    }
    const std::string first = words_[at_++];
    if (at_ + 1 < words_.size() && is_comparison(words_[at_])) {
      const std::string name = words_[at_];
      const std::string second = words_[at_ + 1];
      at_ += 2;
      return compared(first, name, second);
    }
    const bool is_unary = first.size() == 2 && first[0] == '-' && at_ < words_.size() &&
                          words_[at_] != "&&" && words_[at_] != "||";
    if (!is_unary) {
      return text_of(first) ? truth_of(!text_of(first)->empty()) : Truth::kUnknown;
    }
    const std::optional<std::string> operand = text_of(words_[at_++]);
    return !operand || (first != "-z" && first != "-n")
               ? Truth::kUnknown
               : truth_of(operand->empty() == (first == "-z"));
  }

  static bool is_comparison(const std::string& word) {
    constexpr std::array<std::string_view, 12> names = {"=",   "==",  "!=",  "-eq", "-ne", "-lt",
                                                        "-le", "-gt", "-ge", "<",   ">",   "=~"};
    return std::ranges::find(names, word) != names.end();
  }

  /// Returns a word with unset variables as empty; nullopt if it needs a command.
  static std::optional<std::string> text_of(const std::string& word) {
    std::string text = without_unset(word);
    return unknown_part(text) ? std::nullopt : std::optional(std::move(text));
  }

  [[nodiscard]] Truth compared(const std::string& first, const std::string& name,
                               const std::string& second) const {
    const std::optional<std::string> a = text_of(first);
    const std::optional<std::string> b = text_of(second);
    if (!a || !b || name == "=~") {
      return Truth::kUnknown;
    }
    if (name == "=" || name == "==" || name == "!=") {
      const bool is_equal = has_patterns_ ? matches_pattern(*a, *b) : *a == *b;
      return truth_of(is_equal == (name != "!="));
    }
    if (name == "<" || name == ">") {
      return truth_of(name == "<" ? *a < *b : *a > *b);
    }
    const std::map<std::string, std::string, std::less<>> spelled = {
        {"-eq", "=="}, {"-ne", "!="}, {"-lt", "<"}, {"-le", "<="}, {"-gt", ">"}, {"-ge", ">="}};
    const auto value =
        shell_arithmetic("(" + *a + ")" + spelled.at(name) + "(" + *b + ")",
                         [](std::string_view) { return std::optional<std::int64_t>(); });
    return value ? truth_of(*value != 0) : Truth::kUnknown;
  }

  std::vector<std::string> words_;
  bool has_patterns_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// Follows one script; `bash -c` and `eval` begin another one within it.
class Follower {
 public:
  Follower(std::string_view text, ShellScript& script, int depth)
      : tokens_(shell_tokens(text)), script_(script), depth_(depth) {}

  void run() {
    while (here().kind != ShellTokenKind::kEnd) {
      const std::size_t before = at_;
      follow_list({});
      if (at_ == before) {
        ++at_;  // a word that closes what nothing opened
      }
    }
  }

 private:
  using Words = std::set<std::string, std::less<>>;

  [[nodiscard]] const ShellToken& here() const { return tokens_[at_]; }
  [[nodiscard]] const ShellToken& next() const {
    return tokens_[std::min(at_ + 1, tokens_.size() - 1)];
  }
  [[nodiscard]] bool is_operator(std::string_view text) const {
    return here().kind == ShellTokenKind::kOperator && here().text == text;
  }
  [[nodiscard]] bool is_word(std::string_view text) const {
    return here().kind == ShellTokenKind::kWord && here().text == text;
  }
  void advance() { at_ = std::min(at_ + 1, tokens_.size() - 1); }
  void skip_newlines() {
    while (here().kind == ShellTokenKind::kNewline) {
      advance();
    }
  }
  void note(const std::string& text) {
    if (std::ranges::find(script_.notes, text) == script_.notes.end()) {
      script_.notes.push_back(text);
    }
  }

  /// Follows commands up to one of the words, which stays; returns how the last one ends.
  Truth follow_list(const Words& ends) {
    Truth truth = Truth::kYes;
    while (here().kind != ShellTokenKind::kEnd) {
      if (here().kind == ShellTokenKind::kNewline || is_operator(";") || is_operator("&")) {
        advance();
        continue;
      }
      const bool is_closed = is_operator(")") || is_operator(";;") || is_operator(";&") ||
                             is_operator(";;&") || is_word("}");
      if (is_closed || (here().kind == ShellTokenKind::kWord && ends.contains(here().text))) {
        return truth;
      }
      const std::size_t before = at_;
      truth = follow_chain();
      if (at_ == before) {
        advance();
      }
    }
    return truth;
  }

  /// Follows commands with && and || between them. What was run counts as successful.
  Truth follow_chain() {
    Truth truth = follow_pipe();
    while (is_operator("&&") || is_operator("||")) {
      const bool is_and = is_operator("&&");
      advance();
      skip_newlines();
      const bool runs = is_and ? truth != Truth::kNo : truth == Truth::kNo;
      const Truth other = with_active(runs, [&] { return follow_pipe(); });
      truth = runs ? other : truth;
    }
    return truth;
  }

  Truth follow_pipe() {
    const bool is_negated = is_word("!");
    if (is_negated) {
      advance();
    }
    Truth truth = follow_command();
    while (is_operator("|") || is_operator("|&")) {
      advance();
      skip_newlines();
      truth = follow_command();
    }
    return is_negated ? negated(truth) : truth;
  }

  template <class Follow>
  Truth with_active(bool is_active, Follow follow) {
    const bool before = is_active_;
    is_active_ = is_active_ && is_active;
    const Truth truth = follow();
    is_active_ = before;
    return truth;
  }

  Truth follow_command() {
    if (++nested_ > kDeepestCommand) {
      throw Error("line " + std::to_string(here().line) + ": commands nest too deeply");
    }
    const Truth truth = follow_any_command();
    --nested_;
    return truth;
  }

  Truth follow_any_command() {
    if (is_word("if")) {
      return follow_if();
    }
    if (is_word("case")) {
      return follow_case();
    }
    if (is_word("for") || is_word("while") || is_word("until") || is_word("select")) {
      return follow_loop();
    }
    if (is_word("{") || is_operator("(")) {
      advance();
      const Truth truth = follow_list({});
      advance();
      skip_redirections();
      return truth;
    }
    if (is_word("function")) {
      advance();
    } else if (!(here().kind == ShellTokenKind::kWord && next().text == "(" && next().is_joined &&
                 !here().text.ends_with("=")) &&
               !is_function_with_blank()) {
      return follow_simple();
    }
    return take_function();
  }

  /// Returns whether "NAME ()" stands here.
  [[nodiscard]] bool is_function_with_blank() const {
    return here().kind == ShellTokenKind::kWord && at_ + 2 < tokens_.size() &&
           next().kind == ShellTokenKind::kOperator && next().text == "(" &&
           tokens_[at_ + 2].text == ")" && !here().text.ends_with("=");
  }

  /// Keeps a function's place and passes over its body.
  Truth take_function() {
    const std::string name = here().text;
    advance();
    if (is_operator("(")) {
      advance();
      advance();
    }
    skip_newlines();
    functions_[name] = at_;
    return with_active(false, [&] { return follow_command(); });
  }

  Truth follow_if() {
    bool is_taken = false;
    while (is_word("if") || is_word("elif")) {
      const int line = here().line;
      advance();
      const Truth condition = with_active(!is_taken, [&] { return follow_list({"then", "fi"}); });
      advance();
      if (condition == Truth::kUnknown && is_active_ && !is_taken) {
        note("line " + std::to_string(line) +
             ": a condition needs a command or a file; taken as false");
      }
      const bool runs = condition == Truth::kYes && !is_taken;
      with_active(runs, [&] { return follow_list({"elif", "else", "fi"}); });
      is_taken = is_taken || runs;
    }
    if (is_word("else")) {
      advance();
      with_active(!is_taken, [&] { return follow_list({"fi"}); });
    }
    advance();
    skip_redirections();
    return Truth::kYes;
  }

  Truth follow_case() {
    advance();
    const std::string subject = without_unset(expanded_to_one(here().text, script_.variables));
    const bool is_known = !unknown_part(subject);
    if (!is_known && is_active_) {
      note("line " + std::to_string(here().line) + ": no branch of a `case` is known to be taken");
    }
    advance();
    skip_newlines();
    advance();  // in
    bool is_taken = false;
    while (true) {
      skip_newlines();
      if (is_word("esac") || here().kind == ShellTokenKind::kEnd) {
        break;
      }
      if (is_operator("(")) {
        advance();
      }
      bool is_matched = false;
      while (here().kind == ShellTokenKind::kWord || is_operator("|")) {
        is_matched = is_matched ||
                     (here().kind == ShellTokenKind::kWord &&
                      matches_pattern(subject, expanded_to_one(here().text, script_.variables)));
        advance();
      }
      advance();  // )
      const bool runs = is_known && is_matched && !is_taken;
      with_active(runs, [&] { return follow_list({"esac"}); });
      is_taken = is_taken || runs;
      if (is_operator(";;") || is_operator(";&") || is_operator(";;&")) {
        advance();
      }
    }
    advance();
    return Truth::kYes;
  }

  Truth follow_loop() {
    if (is_active_) {
      note("line " + std::to_string(here().line) + ": a loop is not followed");
    }
    return with_active(false, [&] {
      while (!is_word("do") && here().kind != ShellTokenKind::kEnd) {
        advance();
      }
      advance();
      const Truth truth = follow_list({"done"});
      advance();
      skip_redirections();
      return truth;
    });
  }

  /// Passes over redirections, and keeps the texts of here-documents.
  bool skip_redirection() {
    constexpr std::array<std::string_view, 12> names = {"<",  ">",  ">>", "<<",  "<<-", "<<<",
                                                        ">&", "<&", "&>", "&>>", ">|",  "<>"};
    if (here().kind != ShellTokenKind::kOperator ||
        std::ranges::find(names, here().text) == names.end()) {
      return false;
    }
    const bool is_document = here().text == "<<" || here().text == "<<-";
    const std::string document = here().document;
    advance();
    if (is_document && is_active_) {
      const bool is_literal = here().text.find_first_of("'\"\\") != std::string::npos;
      script_.documents.push_back(is_literal ? document
                                             : expanded_document(document, script_.variables));
    }
    advance();
    return true;
  }
  void skip_redirections() {
    while (skip_redirection()) {
    }
  }

  [[nodiscard]] bool ends_command() const {
    return here().kind == ShellTokenKind::kEnd || here().kind == ShellTokenKind::kNewline ||
           (here().kind == ShellTokenKind::kOperator && here().text != "(");
  }

  /// Follows [[ ... ]], whose operators are part of it.
  Truth follow_double_brackets() {
    advance();
    std::vector<std::string> words;
    while (!is_word("]]") && here().kind != ShellTokenKind::kEnd) {
      if (here().kind != ShellTokenKind::kNewline) {
        words.push_back(here().kind == ShellTokenKind::kWord
                            ? expanded_to_one(here().text, script_.variables)
                            : here().text);
      }
      advance();
    }
    advance();
    return Test(std::move(words), true).value();
  }

  Truth follow_simple() {
    if (is_word("[[")) {
      return follow_double_brackets();
    }
    if (here().text.starts_with("((")) {
      const std::string word = here().text;
      advance();
      const std::string value = expanded_to_one("$" + word, script_.variables);
      return unknown_part(value) ? Truth::kUnknown : truth_of(value != "0");
    }
    ShellCommand command{.line = here().line};
    bool is_only_assignments = true;
    const bool is_active = is_active_;
    while (!ends_command() || skip_redirection()) {
      if (ends_command()) {
        continue;
      }
      const ShellToken token = here();
      advance();
      const bool is_descriptor =
          here().kind == ShellTokenKind::kOperator && here().is_joined &&
          (here().text.find_first_of("<>") != std::string::npos) &&
          std::ranges::all_of(token.text, [](unsigned char c) { return std::isdigit(c) != 0; });
      if (is_descriptor || token.kind != ShellTokenKind::kWord) {
        continue;  // 2>&1, or a parenthesis that has no meaning here
      }
      const std::optional<Assignment> assignment = assignment_in(token.text);
      const bool declares = !command.words.empty() && is_declaration(command.words.front());
      if (assignment && (is_only_assignments || declares)) {
        take_assignment(*assignment, token);
        continue;
      }
      is_only_assignments = false;
      if (is_active) {
        for (std::string& word : expanded(token.text, script_.variables)) {
          command.words.push_back(std::move(word));
        }
      }
    }
    if (!is_active || command.words.empty()) {
      return is_active ? Truth::kYes : Truth::kUnknown;
    }
    return run_command(std::move(command));
  }

  static bool is_declaration(const std::string& word) {
    return word == "export" || word == "declare" || word == "local" || word == "readonly" ||
           word == "typeset";
  }

  void take_assignment(const Assignment& assignment, const ShellToken& token) {
    std::vector<std::string> items;
    const bool is_array = assignment.value.empty() && is_operator("(") && here().is_joined;
    if (is_array) {
      advance();
      while (!is_operator(")") && here().kind != ShellTokenKind::kEnd) {
        if (here().kind == ShellTokenKind::kWord && is_active_) {
          for (std::string& word : expanded(here().text, script_.variables)) {
            if (!is_unset_alone(word, here().line)) {
              items.push_back(std::move(word));
            }
          }
        }
        advance();
      }
      advance();
    } else if (is_active_) {
      items = {expanded_to_one(assignment.value, script_.variables)};
    }
    if (is_active_) {
      assign(assignment, std::move(items), is_array);
    }
    (void)token;
  }

  void assign(const Assignment& assignment, std::vector<std::string> items, bool is_array) {
    std::vector<std::string>& values = script_.variables.values[assignment.name];
    std::size_t size = 0;
    for (const auto& list : {values, items}) {
      for (const std::string& item : list) {
        size += item.size() + 1;
      }
    }
    if (size > (std::size_t{4} << 20)) {
      throw Error("variable " + assignment.name + " of the script grows beyond 4 MiB");
    }
    if (!assignment.subscript.empty()) {
      const auto index = shell_arithmetic(
          assignment.subscript, [](std::string_view) { return std::optional<std::int64_t>(); });
      if (index && *index >= 0 && *index < 10'000) {
        values.resize(std::max(values.size(), static_cast<std::size_t>(*index) + 1));
        values[static_cast<std::size_t>(*index)] = items.empty() ? "" : items.front();
      }
    } else if (!assignment.adds) {
      values = std::move(items);
    } else if (is_array) {
      values.insert(values.end(), items.begin(), items.end());
    } else if (values.empty()) {
      values = std::move(items);
    } else {
      values.front() += items.empty() ? "" : items.front();
    }
  }

  /// Returns whether a word is a variable that is not set, which the shell leaves out; says so.
  bool is_unset_alone(const std::string& word, int line) {
    if (!without_unset(word).empty() || word.empty()) {
      return false;
    }
    const std::string name = unknown_part(word).value_or("$").substr(1);
    note("line " + std::to_string(line) + ": " + name + " is not set; taken as empty");
    return true;
  }

  Truth run_command(ShellCommand command) {
    std::vector<std::string> words;
    words.reserve(command.words.size());
    for (std::string& word : command.words) {
      // Behind a flag it stands for the flag's value, which is missed where the flag is read.
      const bool is_value = !words.empty() && words.back().starts_with("--");
      if (!is_unset_alone(word, command.line) || is_value) {
        words.push_back(std::move(word));
      }
    }
    command.words = std::move(words);
    if (command.words.empty()) {
      return Truth::kYes;
    }
    const std::string name = command.words.front();
    if (name == "[" || name == "test") {
      const bool is_closed = name == "[" && command.words.back() == "]";
      const auto end = command.words.end() - (is_closed ? 1 : 0);
      return Test({command.words.begin() + 1, end}, false).value();
    }
    if (name == ":" || name == "true" || is_declaration(name)) {
      return Truth::kYes;
    }
    if (name == "false") {
      return Truth::kNo;
    }
    if (name == "source" || name == ".") {
      note("line " + std::to_string(command.line) + ": " +
           (command.words.size() > 1 ? command.words[1] : "a file") + " sets more; it is not read");
      return Truth::kYes;
    }
    if (const auto function = functions_.find(name); function != functions_.end()) {
      return call(function->second, command.words);
    }
    if (script_.commands.size() >= kMostCommands) {
      throw Error("the script runs more than " + std::to_string(kMostCommands) + " commands");
    }
    follow_inner_script(command);
    script_.commands.push_back(std::move(command));
    return Truth::kUnknown;
  }

  Truth call(std::size_t place, const std::vector<std::string>& words) {
    if (calls_ >= kDeepestCommand) {
      return Truth::kUnknown;
    }
    ++calls_;
    const std::size_t back = at_;
    const std::vector<std::string> positional = script_.variables.positional;
    script_.variables.positional = words;
    at_ = place;
    const Truth truth = follow_command();
    at_ = back;
    script_.variables.positional = positional;
    --calls_;
    return truth;
  }

  /// Follows what `eval` or `bash -c` is given.
  void follow_inner_script(const ShellCommand& command) {
    std::string inner;
    std::vector<std::string> positional;
    if (command.words.front() == "eval") {
      for (std::size_t i = 1; i < command.words.size(); ++i) {
        inner += (i == 1 ? "" : " ") + command.words[i];
      }
      positional = script_.variables.positional;
    }
    for (std::size_t i = 0; i + 2 < command.words.size() && inner.empty(); ++i) {
      const std::string& flag = command.words[i + 1];
      const std::string& shell = command.words[i];
      const bool is_shell =
          shell == "sh" || shell == "bash" || shell.ends_with("/sh") || shell.ends_with("/bash");
      if (is_shell && (flag == "-c" || flag == "-lc" || flag == "-xc")) {
        inner = command.words[i + 2];
        positional.assign(command.words.begin() + static_cast<std::ptrdiff_t>(i) + 3,
                          command.words.end());
      }
    }
    if (inner.empty() || depth_ >= 8) {
      return;
    }
    const ShellVariables before = script_.variables;
    script_.variables.positional = std::move(positional);
    Follower(inner, script_, depth_ + 1).run();
    script_.variables = before;
  }

  std::vector<ShellToken> tokens_;
  ShellScript& script_;
  int depth_;
  std::size_t at_ = 0;
  int nested_ = 0;
  int calls_ = 0;
  bool is_active_ = true;
  std::map<std::string, std::size_t, std::less<>> functions_;
};

}  // namespace

ShellScript follow_script(std::string_view text, ShellVariables variables) {
  ShellScript script{.variables = std::move(variables)};
  Follower(text, script, 0).run();
  return script;
}

}  // namespace ptdp
