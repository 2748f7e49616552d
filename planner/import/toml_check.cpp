#include "planner/import/toml_check.h"

#include <algorithm>
#include <cctype>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// Returns the place behind the string that opens at `at`; the text's end if nothing closes it.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const bool is_long = text.substr(at, 3) == std::string(3, quote);
  const std::string closing(is_long ? 3 : 1, quote);
  at += closing.size();
  while (at < text.size() && text.substr(at, closing.size()) != closing) {
    if (!is_long && text[at] == '\n') {
      return at;
    }
    at += quote == '"' && text[at] == '\\' ? 2 : 1;
  }
  at = std::min(at + closing.size(), text.size());
  while (is_long && at < text.size() && text[at] == quote) {
    ++at;  // a quote before the closing ones
  }
  return at;
}

/// Returns the place behind the brackets and blanks that begin a header at `at`.
std::size_t begin_of_key(std::string_view text, std::size_t at) {
  const std::size_t behind = std::min(text.find_first_not_of(" \t", at + 1), text.size());
  return behind < text.size() && text[behind] == '['
             ? std::min(text.find_first_not_of(" \t", behind + 1), text.size())
             : behind;
}

bool can_begin_key(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-\"']").find(c) != std::string_view::npos;
}

[[noreturn]] void refuse(std::string_view text, std::size_t at, const std::string& place,
                         const std::string& what) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  throw Error(place + ": line " + std::to_string(line) + ": " + what);
}

}  // namespace

void check_toml_for_parser(std::string_view text, const std::string& place) {
  int nested = 0;  // arrays that are open
  bool begins_line = true;
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      at = behind_string(text, at);
      begins_line = false;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (static_cast<unsigned char>(c) >= 0x80) {
      refuse(text, at, place, "expected a string around letters beyond ASCII");
    }
    if (c == '[' && begins_line && nested == 0) {
      at = begin_of_key(text, at);
      if (at < text.size() && !can_begin_key(text[at])) {
        refuse(text, at, place, "expected a key behind the bracket of a table");
      }
      begins_line = false;
      continue;
    }
    nested = std::max(0, nested + (c == '[' ? 1 : c == ']' ? -1 : 0));
    begins_line = c == '\n' || (begins_line && (c == ' ' || c == '\t' || c == '\r'));
    ++at;
  }
}

}  // namespace ptdp
