#include "planner/import/shell/shell_tokens.h"

#include <algorithm>
#include <array>

namespace ptdp {
namespace {

constexpr int kDeepestQuote = 200;  // quotes within quotes; scripts have three or four

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}
bool ends_word(char c) {
  return is_space(c) || c == '\n' || std::string_view(";&|()<>").find(c) != std::string_view::npos;
}

// NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestQuote
std::size_t end_of(std::string_view text, std::size_t begin, int depth);

/// Returns the place behind `close`, where what stands between is quoted as in the shell.
std::size_t behind(std::string_view text, std::size_t at, char open, char close, int depth) {
  int nested = 1;
  while (at < text.size()) {
    if (text[at] == close && --nested == 0) {
      return at + 1;
    }
    if (text[at] == open && open != close) {
      ++nested;
    }
    at = text[at] == open || text[at] == close ? at + 1 : end_of(text, at, depth);
  }
  return text.size();
}

/// Returns the place behind the quote that ends what begins at `at`; a backslash hides one if
/// `has_escapes`.
std::size_t behind_quote(std::string_view text, std::size_t at, bool has_escapes) {
  while (at < text.size() && text[at] != '\'') {
    at += has_escapes && text[at] == '\\' ? 2 : 1;
  }
  return std::min(at + 1, text.size());
}

/// Returns the place behind the "..." or `...` that opens at `begin`.
std::size_t behind_filled_quote(std::string_view text, std::size_t begin, int depth) {
  const char quote = text[begin];
  std::size_t at = begin + 1;
  while (at < text.size() && text[at] != quote) {
    const bool is_nested = text[at] == '\\' || text[at] == '$' || (quote == '"' && text[at] == '`');
    const bool is_plain = text.substr(at, 2) == "$'";
    at = is_nested && !is_plain ? end_of(text, at, depth + 1) : at + 1;
  }
  return std::min(at + 1, text.size());
}

std::size_t end_of(std::string_view text, std::size_t begin, int depth) {
  if (depth > kDeepestQuote) {
    return text.size();
  }
  const std::string_view opening = text.substr(begin, 2);
  if (opening[0] == '\\') {
    return std::min(begin + 2, text.size());
  }
  if (opening[0] == '\'' || opening == "$'") {
    return opening[0] == '$' ? behind_quote(text, begin + 2, true)
                             : behind_quote(text, begin + 1, false);
  }
  if (opening[0] == '"' || opening[0] == '`') {
    return behind_filled_quote(text, begin, depth);
  }
  if (opening == "$(") {
    return behind(text, begin + 2, '(', ')', depth + 1);
  }
  if (opening == "${") {
    return behind(text, begin + 2, '{', '}', depth + 1);
  }
  return begin + 1;
}
// NOLINTEND(misc-no-recursion)

/// Reads a script from its start to its end.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<ShellToken> run() {
    while (at_ < text_.size()) {
      const std::size_t before = at_;
      skip_blanks();
      if (at_ >= text_.size()) {
        break;
      }
      is_joined_ = at_ == before && !tokens_.empty();
      read_token();
    }
    add(ShellTokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) {
        ++at_;
      } else if (text_.substr(at_, 2) == "\\\n") {
        at_ += 2;
        ++line_;
      } else if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  void add(ShellTokenKind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_, is_joined_});
  }

  void read_token() {
    if (text_[at_] == '\n') {
      add(ShellTokenKind::kNewline, "\n");
      ++at_;
      ++line_;
      read_documents();
      return;
    }
    if (text_.substr(at_, 2) == "((") {
      const std::size_t end = behind(text_, at_ + 1, '(', ')', 0);
      take_word(end);
      return;
    }
    if ((text_[at_] == '<' || text_[at_] == '>') && at_ + 1 < text_.size() &&
        text_[at_ + 1] == '(') {
      take_word(behind(text_, at_ + 2, '(', ')', 0));
      return;
    }
    if (ends_word(text_[at_])) {
      read_operator();
      return;
    }
    std::size_t end = at_;
    while (end < text_.size() && !ends_word(text_[end])) {
      end = end_of_quoted(text_, end);
    }
    take_word(end);
  }

  void take_word(std::size_t end) {
    const std::string_view word = text_.substr(at_, end - at_);
    add(ShellTokenKind::kWord, std::string(word));
    line_ += static_cast<int>(std::count(word.begin(), word.end(), '\n'));
    at_ = end;
  }

  void read_operator() {
    constexpr std::array<std::string_view, 18> operators = {"<<<", "<<-", "&>>", ";;&", "<<", ">>",
                                                            "&&",  "||",  ";;",  ";&",  "|&", ">&",
                                                            "<&",  "&>",  ">|",  "<>",  "(",  ")"};
    std::string_view found = text_.substr(at_, 1);
    for (const std::string_view name : operators) {
      if (name.size() > found.size() && text_.substr(at_, name.size()) == name) {
        found = name;
        break;
      }
    }
    add(ShellTokenKind::kOperator, std::string(found));
    at_ += found.size();
    if (found == "<<" || found == "<<-") {
      open_documents_.push_back(tokens_.size() - 1);
    }
  }

  /// Reads the texts of the here-documents that the line before opened.
  void read_documents() {
    for (const std::size_t opened : open_documents_) {
      if (opened + 1 >= tokens_.size() || tokens_[opened + 1].kind != ShellTokenKind::kWord) {
        continue;
      }
      std::string delimiter;
      for (const char c : tokens_[opened + 1].text) {
        if (c != '\'' && c != '"' && c != '\\') {
          delimiter += c;
        }
      }
      const bool strips_tabs = tokens_[opened].text == "<<-";
      std::string document;
      while (at_ < text_.size()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view row = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        ++line_;
        while (strips_tabs && row.starts_with('\t')) {
          row.remove_prefix(1);
        }
        if (row == delimiter ||
            (row.ends_with('\r') && row.substr(0, row.size() - 1) == delimiter)) {
          break;
        }
        document += std::string(row) + "\n";
      }
      tokens_[opened].document = document;
    }
    open_documents_.clear();
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool is_joined_ = false;
  std::vector<ShellToken> tokens_;
  std::vector<std::size_t> open_documents_;
};

}  // namespace

std::size_t end_of_quoted(std::string_view text, std::size_t begin) {
  return end_of(text, begin, 0);
}

std::vector<ShellToken> shell_tokens(std::string_view script) {
  return Lexer(script).run();
}

}  // namespace ptdp
