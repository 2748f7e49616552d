#include "planner/import/shell/shell_pattern.h"

namespace ptdp {
namespace {

/// Returns whether a character is in the set that stands between brackets: "a-z_", "!0-9".
bool is_in_set(char c, std::string_view set) {
  const bool is_negated = set.front() == '!' || set.front() == '^';
  set.remove_prefix(is_negated ? 1 : 0);
  bool is_in = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
    is_in = is_in || (is_range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
    i += is_range ? 2 : 0;
  }
  return is_in != is_negated;
}

/// Returns how many characters at the start of a pattern match one of the text; 0 for none.
std::size_t matched_by(std::string_view pattern, char c, ShellLimits& limits) {
  limits.spend(1);
  if (pattern.empty()) {
    return 0;
  }
  if (pattern.front() == '?') {
    return 1;
  }
  if (pattern.front() != '[') {
    return pattern.front() == c ? 1 : 0;
  }
  const std::size_t close = pattern.find(']', 2);
  limits.spend(pattern.substr(0, close).size());
  if (close == std::string_view::npos) {
    return c == '[' ? 1 : 0;
  }
  return is_in_set(c, pattern.substr(1, close - 1)) ? close + 1 : 0;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern, ShellLimits& limits) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  while (at < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      retry = at;
    } else if (const std::size_t length =
                   matched_by(pattern.substr(in_pattern), text[at], limits)) {
      in_pattern += length;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++retry;
    } else {
      return false;
    }
  }
  while (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
    ++in_pattern;
  }
  return in_pattern == pattern.size();
}

std::string without_match(const std::string& text, std::string_view pattern, ShellTrim trim,
                          ShellLimits& limits) {
  const std::string_view whole = text;
  for (std::size_t i = 0; i <= whole.size(); ++i) {
    const std::size_t length = trim.longest ? whole.size() - i : i;
    const std::size_t rest = whole.size() - length;
    limits.spend(1);
    if (matches_pattern(whole.substr(trim.at_start ? 0 : rest, length), pattern, limits)) {
      return std::string(trim.at_start ? whole.substr(length) : whole.substr(0, rest));
    }
  }
  return text;
}

std::string with_replaced(const std::string& text, const std::string& from, const std::string& to,
                          bool every, ShellLimits& limits) {
  // A comparison looks at some 32 characters in one step.
  limits.spend(text.size() * (1 + from.size() / 32));
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = from.empty() ? std::string::npos : text.find(from, at);
    if (found == std::string::npos) {
      return result + text.substr(at);
    }
    limits.spend(to.size());
    result += text.substr(at, found - at) + to;
    at = found + from.size();
    if (!every) {
      return result + text.substr(at);
    }
  }
  return result;
}

}  // namespace ptdp
