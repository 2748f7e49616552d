#include "planner/import/shell/shell_pattern.h"

#include <algorithm>
#include <cctype>

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

/// Returns the length of the longest match at the start of a text; 0 for none.
std::size_t longest_match(std::string_view text, std::string_view pattern, ShellLimits& limits) {
  if (pattern.find_first_of("*?[") == std::string_view::npos) {
    limits.spend(1 + pattern.size() / 32);  // what one comparison of texts costs
    return text.starts_with(pattern) ? pattern.size() : 0;
  }
  for (std::size_t length = text.size(); length > 0; --length) {
    limits.spend(1);
    if (matches_pattern(text.substr(0, length), pattern, limits)) {
      return length;
    }
  }
  return 0;
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

std::string with_replaced(const std::string& text, std::string_view pattern, const std::string& to,
                          bool every, ShellLimits& limits) {
  const char anchor = !every && !pattern.empty() ? pattern.front() : '\0';
  const bool at_start = anchor == '#';
  const bool at_end = anchor == '%';
  pattern.remove_prefix(at_start || at_end ? 1 : 0);
  if (pattern.empty() && !at_start && !at_end) {
    return text;
  }
  if (at_start || at_end) {
    const std::string rest =
        without_match(text, pattern, {.at_start = at_start, .longest = true}, limits);
    const bool is_found = rest.size() < text.size() || pattern.empty();
    return !is_found ? text : at_start ? to + rest : rest + to;
  }
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = longest_match(std::string_view(text).substr(at), pattern, limits);
    if (length == 0) {
      result += text[at++];
      continue;
    }
    limits.spend(to.size());
    result += to;
    at += length;
    if (!every) {
      return result + text.substr(at);
    }
  }
  return result;
}

std::string with_case(std::string text, ShellCase change, std::string_view pattern,
                      ShellLimits& limits) {
  const std::size_t end = change.is_every ? text.size() : std::min<std::size_t>(1, text.size());
  for (std::size_t i = 0; i < end; ++i) {
    if (pattern.empty() || matches_pattern(std::string_view(text).substr(i, 1), pattern, limits)) {
      const auto c = static_cast<unsigned char>(text[i]);
      text[i] = static_cast<char>(change.is_upper ? std::toupper(c) : std::tolower(c));
    }
  }
  return text;
}

}  // namespace ptdp
