#include "planner/import/shell/word_builder.h"

#include <charconv>

#include "planner/import/shell/shell_variables.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

constexpr std::size_t kLongestWord = std::size_t{4} << 20;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

/// Returns the character that an octal or hexadecimal escape means, and passes over its digits.
char numbered(std::string_view text, std::size_t& at, int base, std::size_t most) {
  int value = 0;
  const std::string_view digits = text.substr(at, most);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  at += static_cast<std::size_t>(end - digits.data());
  return static_cast<char>(error == std::errc() ? value : 0);
}

}  // namespace

void ShellWordBuilder::put(std::string_view text, bool is_whole) {
  limits_.spend(text.size());
  size_ += text.size();
  if (size_ > kLongestWord) {
    limits_.refuse("a word grows beyond 4 MiB; expected shorter values in it");
  }
  if (is_whole || !splits_) {
    has_current_ = has_current_ || is_whole || !text.empty();
    current_ += text;
    return;
  }
  bool is_unknown = false;
  for (const char c : text) {
    is_unknown = c == kUnknownBegin || (is_unknown && c != kUnknownEnd);
    if (is_blank(c) && !is_unknown) {
      end_word();
    } else {
      has_current_ = true;
      current_ += c;
    }
  }
}

void ShellWordBuilder::put_all(const std::vector<std::string>& items, bool is_quoted,
                               bool is_separate) {
  if (!is_quoted || !is_separate || !splits_) {
    put(joined_values(items), is_quoted);
    return;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      end_word();
    }
    put(items[i], true);
  }
}

std::vector<std::string> ShellWordBuilder::take() {
  if (has_current_) {
    words_.push_back(std::move(current_));
  }
  return std::move(words_);
}

void ShellWordBuilder::end_word() {
  limits_.spend(sizeof(std::string));
  if (has_current_) {
    words_.push_back(std::move(current_));
  }
  current_.clear();
  has_current_ = false;
}

std::string with_escapes(std::string_view text) {
  constexpr std::string_view names = "abefnrtv";
  constexpr std::string_view meanings = "\a\b\x1b\f\n\r\t\v";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '\\' || at >= text.size()) {
      result += c;
      continue;
    }
    const char name = text[at];
    if (const std::size_t found = names.find(name); found != std::string_view::npos) {
      result += meanings[found];
      ++at;
    } else if (name >= '0' && name <= '7') {
      result += numbered(text, at, 8, 3);
    } else if (name == 'x') {
      ++at;
      result += numbered(text, at, 16, 2);
    } else {
      result += name;
      ++at;
    }
  }
  return result;
}

}  // namespace ptdp
