#include "planner/import/shell/unknown_value.h"

#include <algorithm>

namespace ptdp {

std::string unknown_value(std::string_view what) {
  std::string text(1, kUnknownBegin);
  for (const char c : what) {
    text += c == kUnknownBegin || c == kUnknownEnd ? '?' : c;
  }
  return text + kUnknownEnd;
}

std::optional<std::string> unknown_part(std::string_view word) {
  const std::size_t first = word.find(kUnknownBegin);
  if (first == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t end = std::min(word.find(kUnknownEnd, first), word.size());
  const std::size_t begin = word.rfind(kUnknownBegin, end);  // a script within marks it again
  return std::string(word.substr(begin + 1, end - begin - 1));
}

std::string without_unset(std::string_view word) {
  std::string text;
  for (std::size_t at = 0; at < word.size();) {
    const bool is_unset =
        word[at] == kUnknownBegin && word.substr(at + 1, 1) == "$" && word.substr(at + 2, 1) != "(";
    if (is_unset) {
      at = std::min(word.find(kUnknownEnd, at), word.size()) + 1;
    } else {
      text += word[at++];
    }
  }
  return text;
}

}  // namespace ptdp
