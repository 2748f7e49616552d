#include "planner/import/shell/shell_expansion.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "cost_model/error.h"
#include "planner/import/shell/shell_arithmetic.h"
#include "planner/import/shell/shell_tokens.h"

namespace ptdp {
namespace {

constexpr char kBegin = '\x01';  // of an unknown part; no script has such a character
constexpr char kEnd = '\x02';
constexpr std::size_t kLongestWord = std::size_t{4} << 20;
constexpr int kDeepestValue = 50;

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    text += (i == 0 ? "" : " ") + items[i];
  }
  return text;
}

std::int64_t number_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

/// Returns the text without the shortest or longest match of a pattern at its start or end.
std::string without_match(const std::string& text, std::string_view pattern, bool at_start,
                          bool longest) {
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t length = longest ? text.size() - i : i;
    const std::string part = at_start ? text.substr(0, length) : text.substr(text.size() - length);
    if (matches_pattern(part, pattern)) {
      return at_start ? text.substr(length) : text.substr(0, text.size() - length);
    }
  }
  return text;
}

std::string with_replaced(const std::string& text, const std::string& from, const std::string& to,
                          bool every) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = from.empty() ? std::string::npos : text.find(from, at);
    if (found == std::string::npos) {
      return result + text.substr(at);
    }
    result += text.substr(at, found - at) + to;
    at = found + from.size();
    if (!every) {
      return result + text.substr(at);
    }
  }
  return result;
}

/// Fills in one word.
class Expansion {
 public:
  Expansion(ShellVariables& variables, bool splits, int depth)
      : variables_(variables), splits_(splits), depth_(depth) {}

  void add(std::string_view text, bool is_quoted) {
    if (depth_ > kDeepestValue) {
      put(unknown_value("$..."), true);
      return;
    }
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_quoted(text, at);
      const std::string_view part = text.substr(at, end - at);
      at = end;
      if (part.size() >= 2 && part[0] == '\\') {
        add_escaped(part, is_quoted);
      } else if (part[0] == '$') {
        at = add_dollar(text, at - part.size(), is_quoted);
      } else if (part[0] == '`' && part.size() > 1) {
        put(unknown_value("$(" + std::string(part.substr(1, part.size() - 2)) + ")"), true);
      } else if (!is_quoted && part[0] == '\'' && part.size() > 1) {
        put(part.substr(1, part.size() - 2), true);
      } else if (!is_quoted && part[0] == '"' && part.size() > 1) {
        // The shell makes no word of an array without members.
        const bool is_array =
            part == "\"$@\"" || (part.starts_with("\"${") && part.ends_with("[@]}\""));
        has_current_ = has_current_ || !is_array;
        add(part.substr(1, part.size() - 2), true);
      } else if (is_quoted && part.size() > 1) {
        put(part.substr(0, 1), true);  // a quote within quotes means itself
        at = at - part.size() + 1;
      } else {
        put(part, true);
      }
    }
  }

  std::vector<std::string> take() {
    if (has_current_) {
      words_.push_back(std::move(current_));
    }
    return std::move(words_);
  }

 private:
  void check_size(std::size_t more) {
    size_ += more;
    if (size_ > kLongestWord) {
      throw Error("a word of the script grows beyond 4 MiB");
    }
  }

  /// Adds text to the current word; splits it at blanks unless `is_whole`.
  void put(std::string_view text, bool is_whole) {
    check_size(text.size());
    if (is_whole || !splits_) {
      has_current_ = has_current_ || is_whole || !text.empty();
      current_ += text;
      return;
    }
    bool is_unknown = false;
    for (const char c : text) {
      is_unknown = c == kBegin || (is_unknown && c != kEnd);
      if (is_blank(c) && !is_unknown) {
        end_word();
      } else {
        has_current_ = true;
        current_ += c;
      }
    }
  }

  void end_word() {
    if (has_current_) {
      words_.push_back(std::move(current_));
    }
    current_.clear();
    has_current_ = false;
  }

  void put_all(const std::vector<std::string>& items, bool is_quoted, bool is_separate) {
    if (!is_quoted || !is_separate || !splits_) {
      put(joined(items), is_quoted);
      return;
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        end_word();
      }
      put(items[i], true);
    }
  }

  void add_escaped(std::string_view part, bool is_quoted) {
    if (part[1] == '\n') {
      return;
    }
    const bool is_escape =
        !is_quoted || std::string_view("$`\"\\").find(part[1]) != std::string_view::npos;
    put(is_escape ? part.substr(1) : part, true);
  }

  /// Adds what begins with a dollar at `at`, and returns the place behind it.
  std::size_t add_dollar(std::string_view text, std::size_t at, bool is_quoted) {
    const std::size_t end = end_of_quoted(text, at);
    if (text.substr(at, 3) == "$((") {
      const std::string_view inner = text.substr(at + 3, end > at + 5 ? end - at - 5 : 0);
      put(arithmetic(inner), true);
      return end;
    }
    if (text.substr(at, 2) == "$(") {
      put(unknown_value(text.substr(at, end - at)), is_quoted);
      return end;
    }
    if (text.substr(at, 2) == "${") {
      add_braces(text.substr(at + 2, end > at + 3 ? end - at - 3 : 0), is_quoted);
      return end;
    }
    if (!is_quoted && text.substr(at, 2) == "$'") {
      put(text.substr(at + 2, end > at + 3 ? end - at - 3 : 0), true);
      return end;
    }
    std::size_t behind = at + 1;
    if (behind < text.size() &&
        std::string_view("@*#?$!-0123456789").find(text[behind]) != std::string_view::npos) {
      ++behind;
    } else {
      while (behind < text.size() && is_name(text[behind])) {
        ++behind;
      }
    }
    if (behind == at + 1) {
      put("$", true);
      return behind;
    }
    add_variable(std::string(text.substr(at + 1, behind - at - 1)), "", is_quoted);
    return behind;
  }

  std::string arithmetic(std::string_view inner) {
    Expansion filled(variables_, false, depth_ + 1);
    filled.add(inner, true);
    const std::vector<std::string> words = filled.take();
    const std::string text = words.empty() ? "" : words.front();
    if (const auto unknown = unknown_part(text)) {
      return unknown_value(*unknown);
    }
    std::string missing;
    const auto value = shell_arithmetic(text, [&](std::string_view name) {
      const auto found = variables_.values.find(name);
      const std::string held = found == variables_.values.end() ? "" : joined(found->second);
      const auto number =
          held.empty() ? std::nullopt : shell_arithmetic(held, [](std::string_view) {
            return std::optional<std::int64_t>();
          });
      if (!number) {
        missing = unknown_part(held).value_or("$" + std::string(name));
      }
      return number;
    });
    return value             ? std::to_string(*value)
           : missing.empty() ? unknown_value("$((" + text + "))")
                             : unknown_value(missing);
  }

  /// Returns the values of a variable; nullopt if it is not set.
  std::optional<std::vector<std::string>> values_of(const std::string& name) {
    const bool is_number =
        std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0; });
    const std::vector<std::string>& positional = variables_.positional;
    if (name == "@" || name == "*") {
      return positional.size() < 2
                 ? std::vector<std::string>{}
                 : std::vector<std::string>(positional.begin() + 1, positional.end());
    }
    if (name == "#") {
      return std::vector<std::string>{
          std::to_string(positional.empty() ? 0 : positional.size() - 1)};
    }
    if (is_number) {
      const std::int64_t index = number_in(name);
      return index >= 0 && static_cast<std::size_t>(index) < positional.size()
                 ? std::optional<std::vector<std::string>>(
                       {positional[static_cast<std::size_t>(index)]})
                 : std::nullopt;
    }
    const auto found = variables_.values.find(name);
    return found == variables_.values.end() ? std::nullopt : std::optional(found->second);
  }

  void add_variable(const std::string& name, const std::string& subscript, bool is_quoted) {
    const std::optional<std::vector<std::string>> values = values_of(name);
    const bool is_all = subscript == "@" || subscript == "*" || name == "@" || name == "*";
    if (!values) {
      put(unknown_value("$" + name), true);
    } else if (is_all) {
      has_current_ = has_current_ || (is_quoted && values->empty() && !current_.empty());
      if (!values->empty()) {
        put_all(*values, is_quoted, subscript != "*" && name != "*");
      }
    } else {
      put(element(*values, subscript), is_quoted);
    }
  }

  std::string element(const std::vector<std::string>& values, const std::string& subscript) {
    const std::int64_t index = subscript.empty() ? 0 : number_in(arithmetic(subscript));
    return index >= 0 && static_cast<std::size_t>(index) < values.size()
               ? values[static_cast<std::size_t>(index)]
               : "";
  }

  /// Adds what stands within ${...}.
  void add_braces(std::string_view inner, bool is_quoted) {
    const bool is_length = inner.size() > 1 && inner[0] == '#';
    const bool is_indirect = inner.size() > 1 && inner[0] == '!';
    if (is_length || is_indirect) {
      inner.remove_prefix(1);
    }
    std::size_t end = 0;
    while (end < inner.size() && is_name(inner[end])) {
      ++end;
    }
    end = end == 0 ? std::min<std::size_t>(1, inner.size()) : end;
    std::string name(inner.substr(0, end));
    std::string subscript;
    if (end < inner.size() && inner[end] == '[') {
      const std::size_t close = std::min(inner.find(']', end), inner.size() - 1);
      subscript = inner.substr(end + 1, close - end - 1);
      end = close + 1;
    }
    const std::string_view change = inner.substr(std::min(end, inner.size()));
    const std::optional<std::vector<std::string>> values = values_of(name);
    if (is_indirect && subscript.empty()) {
      add_variable(values ? joined(*values) : name, "", is_quoted);
    } else if (is_length) {
      const bool is_count = subscript == "@" || subscript == "*";
      put(!values    ? "0"
          : is_count ? std::to_string(values->size())
                     : std::to_string(element(*values, subscript).size()),
          true);
    } else if (change.empty()) {
      add_variable(name, subscript, is_quoted);
    } else {
      add_changed(name, subscript, change, is_quoted);
    }
  }

  std::string filled(std::string_view text) { return expanded_at(text, depth_ + 1); }
  std::string expanded_at(std::string_view text, int depth) {
    Expansion expansion(variables_, false, depth);
    expansion.add(text, false);
    const std::vector<std::string> words = expansion.take();
    return words.empty() ? "" : words.front();
  }

  /// Adds a variable with a default or with a change of its text: ${X:-d}, ${X//a/b}, ${X,,}.
  void add_changed(const std::string& name, const std::string& subscript, std::string_view change,
                   bool is_quoted) {
    const bool tests_empty = change[0] == ':' && change.size() > 1 &&
                             std::string_view("-=+?").find(change[1]) != std::string_view::npos;
    const std::string_view rest = change.substr(tests_empty ? 2 : 1);
    const char kind = tests_empty ? change[1] : change[0];
    const std::optional<std::vector<std::string>> values = values_of(name);
    const bool is_all = subscript == "@" || subscript == "*" || name == "@" || name == "*";
    const std::string text = !values ? "" : is_all ? joined(*values) : element(*values, subscript);
    const bool is_missing = !values || (tests_empty && without_unset(text).empty());
    if (kind == '-' || kind == '=') {
      if (!is_missing) {
        add_variable(name, subscript, is_quoted);
        return;
      }
      const std::string usual = filled(rest);
      if (kind == '=') {
        variables_.values[name] = {usual};
      }
      put(usual, is_quoted);
    } else if (kind == '+') {
      if (!is_missing) {
        add(rest, is_quoted);
      }
    } else if (kind == '?') {
      is_missing ? put(unknown_value("$" + name), true) : add_variable(name, subscript, is_quoted);
    } else if (!values) {
      put(unknown_value("$" + name), true);
    } else {
      put(changed(text, change), is_quoted);
    }
  }

  std::string changed(const std::string& text, std::string_view change) {
    const bool is_twice = change.size() > 1 && change[1] == change[0];
    const std::string_view rest = change.substr(is_twice ? 2 : 1);
    std::string result = text;
    switch (change[0]) {
      case '#':
      case '%':
        return without_match(text, filled(rest), change[0] == '#', is_twice);
      case ',':
      case '^': {
        const std::size_t end = is_twice ? result.size() : std::min<std::size_t>(1, result.size());
        std::transform(
            result.begin(), result.begin() + static_cast<std::ptrdiff_t>(end), result.begin(),
            [&](unsigned char c) {
              return static_cast<char>(change[0] == ',' ? std::tolower(c) : std::toupper(c));
            });
        return result;
      }
      case '/': {
        const std::size_t slash = std::min(rest.find('/'), rest.size());
        const std::string to = slash < rest.size() ? filled(rest.substr(slash + 1)) : std::string();
        return with_replaced(text, filled(rest.substr(0, slash)), to, is_twice);
      }
      case ':': {
        const std::size_t colon = std::min(rest.find(':'), rest.size());
        const std::int64_t begin = number_in(arithmetic(rest.substr(0, colon)));
        const std::int64_t length = colon < rest.size()
                                        ? number_in(arithmetic(rest.substr(colon + 1)))
                                        : static_cast<std::int64_t>(text.size());
        return begin < 0 || length < 0 || static_cast<std::size_t>(begin) > text.size()
                   ? ""
                   : text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(length));
      }
      default:
        return unknown_value("${..." + std::string(change) + "}");
    }
  }

  ShellVariables& variables_;
  bool splits_;
  int depth_;
  std::size_t size_ = 0;
  bool has_current_ = false;
  std::string current_;
  std::vector<std::string> words_;
};

}  // namespace

std::string unknown_value(std::string_view what) {
  std::string text(1, kBegin);
  for (const char c : what) {
    text += c == kBegin || c == kEnd ? '?' : c;
  }
  return text + kEnd;
}

std::optional<std::string> unknown_part(std::string_view word) {
  const std::size_t begin = word.find(kBegin);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::size_t end = std::min(word.find(kEnd, begin), word.size());
  return std::string(word.substr(begin + 1, end - begin - 1));
}

std::string without_unset(std::string_view word) {
  std::string text;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = std::min(word.find(kEnd, at), word.size());
    const bool is_unset =
        word[at] == kBegin && word.substr(at + 1, 1) == "$" && word.substr(at + 2, 1) != "(";
    if (is_unset) {
      at = end + 1;
    } else {
      text += word[at++];
    }
  }
  return text;
}

std::vector<std::string> expanded(std::string_view word, ShellVariables& variables) {
  Expansion expansion(variables, true, 0);
  expansion.add(word, false);
  return expansion.take();
}

std::string expanded_to_one(std::string_view word, ShellVariables& variables) {
  Expansion expansion(variables, false, 0);
  expansion.add(word, false);
  const std::vector<std::string> words = expansion.take();
  return words.empty() ? "" : words.front();
}

std::string expanded_document(std::string_view text, ShellVariables& variables) {
  Expansion expansion(variables, false, 0);
  expansion.add(text, true);
  const std::vector<std::string> words = expansion.take();
  return words.empty() ? "" : words.front();
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t at = 0;
  std::size_t in_pattern = 0;
  std::size_t star = std::string_view::npos;
  std::size_t retry = 0;
  // Returns how many characters of the pattern match one of the text; 0 for none.
  const auto matched = [&](char c) -> std::size_t {
    if (in_pattern >= pattern.size()) {
      return 0;
    }
    if (pattern[in_pattern] == '?') {
      return 1;
    }
    if (pattern[in_pattern] != '[') {
      return pattern[in_pattern] == c ? 1 : 0;
    }
    const std::size_t close = pattern.find(']', in_pattern + 2);
    if (close == std::string_view::npos) {
      return c == '[' ? 1 : 0;
    }
    std::string_view set = pattern.substr(in_pattern + 1, close - in_pattern - 1);
    const bool is_negated = set.front() == '!' || set.front() == '^';
    set.remove_prefix(is_negated ? 1 : 0);
    bool is_in = false;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
      is_in = is_in || (is_range ? set[i] <= c && c <= set[i + 2] : set[i] == c);
      i += is_range ? 2 : 0;
    }
    return is_in != is_negated ? close - in_pattern + 1 : 0;
  };
  while (at < text.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      retry = at;
    } else if (const std::size_t length = matched(text[at])) {
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

}  // namespace ptdp
