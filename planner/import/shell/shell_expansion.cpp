#include "planner/import/shell/shell_expansion.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>

#include "planner/import/shell/arithmetic_word.h"
#include "planner/import/shell/parameter.h"
#include "planner/import/shell/shell_tokens.h"
#include "planner/import/shell/text_change.h"
#include "planner/import/shell/word_builder.h"

namespace ptdp {
namespace {

constexpr int kDeepestValue = 50;

/// Returns the place behind the name that begins at `at`; `at` if there is none.
std::size_t end_of_name(std::string_view text, std::size_t at) {
  if (at < text.size() &&
      std::string_view("@*#?$!-0123456789").find(text[at]) != std::string_view::npos) {
    return at + 1;
  }
  while (at < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_')) {
    ++at;
  }
  return at;
}

/// Returns what stands between an opening of `open` characters and a closing of `close`.
std::string_view inside(std::string_view text, std::size_t open, std::size_t close) {
  return text.substr(open, text.size() > open + close ? text.size() - open - close : 0);
}

// NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestValue

/// Fills in one word.
class Expansion {
 public:
  Expansion(ShellVariables& variables, ShellLimits& limits, bool splits, int depth)
      : variables_(variables), limits_(limits), words_(splits, limits), depth_(depth) {}

  void add(std::string_view text, bool is_quoted) {
    if (depth_ > kDeepestValue) {
      words_.put(unknown_value("$..."), true);
      return;
    }
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = end_of_quoted(text, at);
      limits_.spend(end - at);
      at = add_part(text, at, end, is_quoted);
    }
  }

  [[nodiscard]] std::vector<std::string> take() { return words_.take(); }
  [[nodiscard]] std::string take_one() {
    std::vector<std::string> words = words_.take();
    return words.empty() ? "" : std::move(words.front());
  }

 private:
  /// Adds what stands from `at` to `end`, and returns the place behind what was added.
  std::size_t add_part(std::string_view text, std::size_t at, std::size_t end, bool is_quoted) {
    const std::string_view part = text.substr(at, end - at);
    if (part.size() >= 2 && part[0] == '\\') {
      add_escaped(part, is_quoted);
    } else if (part[0] == '$') {
      return add_dollar(text, at, end, is_quoted);
    } else if (part[0] == '`' && part.size() > 1) {
      words_.put(unknown_value("$(" + std::string(inside(part, 1, 1)) + ")"), true);
    } else if (!is_quoted && part[0] == '\'' && part.size() > 1) {
      words_.put(inside(part, 1, 1), true);
    } else if (!is_quoted && part[0] == '"' && part.size() > 1) {
      // The shell makes no word of an array without members.
      const bool is_array =
          part == "\"$@\"" || (part.starts_with("\"${") && part.ends_with("[@]}\""));
      if (!is_array) {
        words_.begin_word();
      }
      add(inside(part, 1, 1), true);
    } else if (is_quoted && part.size() > 1) {
      words_.put(part.substr(0, 1), true);  // a quote within quotes means itself
      return at + 1;
    } else {
      words_.put(part, true);
    }
    return end;
  }

  void add_escaped(std::string_view part, bool is_quoted) {
    if (part[1] == '\n') {
      return;
    }
    const bool is_escape =
        !is_quoted || std::string_view("$`\"\\").find(part[1]) != std::string_view::npos;
    words_.put(is_escape ? part.substr(1) : part, true);
  }

  /// Adds what begins with a dollar at `at`, and returns the place behind it.
  std::size_t add_dollar(std::string_view text, std::size_t at, std::size_t end, bool is_quoted) {
    const std::string_view part = text.substr(at, end - at);
    if (part.starts_with("$((")) {
      words_.put(arithmetic(inside(part, 3, 2)), true);
      return end;
    }
    if (part.starts_with("$(")) {
      words_.put(unknown_value(part), is_quoted);
      return end;
    }
    if (part.starts_with("${")) {
      add_parameter(parameter_in(inside(part, 2, 1)), is_quoted);
      return end;
    }
    if (!is_quoted && part.starts_with("$'")) {
      words_.put(with_escapes(inside(part, 2, 1)), true);
      return end;
    }
    const std::size_t behind = end_of_name(text, at + 1);
    if (behind == at + 1) {
      words_.put("$", true);
    } else {
      add_value({.name = std::string(text.substr(at + 1, behind - at - 1))}, is_quoted);
    }
    return behind;
  }

  std::string arithmetic(std::string_view text) {
    Expansion filled(variables_, limits_, false, depth_ + 1);
    filled.add(text, true);
    return arithmetic_word(filled.take_one(), variables_, limits_);
  }

  std::string filled(std::string_view text) {
    Expansion expansion(variables_, limits_, false, depth_ + 1);
    expansion.add(text, false);
    return expansion.take_one();
  }

  /// Returns one value; that of a negative subscript counts from the end.
  std::string element(const std::vector<std::string>& values, const std::string& subscript) {
    if (subscript.empty() || values.empty()) {
      return values.empty() ? "" : values.front();
    }
    std::string word = arithmetic(subscript);
    const auto index = shell_integer(word);
    if (!index) {
      return word;
    }
    const std::int64_t place = *index + (*index < 0 ? std::ssize(values) : 0);
    return place >= 0 && place < std::ssize(values) ? values[static_cast<std::size_t>(place)] : "";
  }

  /// Returns the values of a parameter's variable, or those of a member with a key. Evaluates its
  /// subscript, once: it is a number afterwards.
  std::optional<std::vector<std::string>> values_in(ShellParameter& parameter) {
    if (!parameter.subscript.empty() && !parameter.is_all()) {
      const std::string key = filled(parameter.subscript);
      const std::string member = parameter.name + "[" + key + "]";
      const bool is_key =
          variables_.keyed.contains(parameter.name) || variables_.values.contains(member);
      std::string number = is_key ? "" : arithmetic_word(key, variables_, limits_);
      if (is_key || unknown_part(number)) {
        parameter.name = member;
        parameter.subscript.clear();
      } else {
        parameter.subscript = std::move(number);
      }
    }
    return values_of(variables_, parameter.name, limits_);
  }

  /// Returns whether all members of an array of `declare -A` are meant.
  [[nodiscard]] bool is_all_keyed(const ShellParameter& parameter) const {
    return parameter.is_all_subscript() && variables_.keyed.contains(parameter.name);
  }

  /// Adds all members or keys of an array of `declare -A`, whose order bash leaves open.
  void put_all_keyed(const ShellParameter& parameter) {
    if (count_members(parameter.name, variables_) > 0) {
      words_.put(unknown_value("$(" + parameter.name + "[@])"), true);
    }
  }

  /// Adds a variable's value as it is.
  void add_value(ShellParameter parameter, bool is_quoted) {
    const auto values = values_in(parameter);
    if (is_all_keyed(parameter)) {
      put_all_keyed(parameter);
    } else if (!values) {
      words_.put(unknown_value("$" + parameter.name), true);
    } else if (!parameter.is_all()) {
      words_.put(element(*values, parameter.subscript), is_quoted);
    } else if (!values->empty()) {
      words_.put_all(*values, is_quoted, parameter.keeps_words());
    } else if (is_quoted && words_.has_text()) {
      words_.begin_word();
    }
  }

  void add_parameter(const ShellParameter& parameter, bool is_quoted) {
    if (parameter.is_indirect) {
      add_indirect(parameter, is_quoted);
    } else if (parameter.is_length) {
      words_.put(std::to_string(length_of(parameter)), true);
    } else if (parameter.change.empty()) {
      add_value(parameter, is_quoted);
    } else {
      add_changed(parameter, is_quoted);
    }
  }

  /// Adds the variable whose name another one holds, ${!X}, or the subscripts of ${!A[@]}.
  void add_indirect(const ShellParameter& parameter, bool is_quoted) {
    if (is_all_keyed(parameter)) {
      put_all_keyed(parameter);
      return;
    }
    const auto values = values_of(variables_, parameter.name, limits_);
    if (parameter.subscript.empty()) {
      const std::string name = values ? joined_values(*values) : parameter.name;
      add_value(parameter_in(name), is_quoted);
      return;
    }
    std::vector<std::string> subscripts;
    for (std::size_t i = 0; values && i < values->size(); ++i) {
      subscripts.push_back(std::to_string(i));
    }
    words_.put_all(subscripts, is_quoted, parameter.keeps_words());
  }

  std::size_t length_of(ShellParameter parameter) {
    if (is_all_keyed(parameter)) {
      return count_members(parameter.name, variables_);
    }
    const auto values = values_in(parameter);
    if (!values) {
      return 0;
    }
    return parameter.is_all_subscript() ? values->size()
                                        : element(*values, parameter.subscript).size();
  }

  /// Adds a variable with a default or with a change of its text: ${X:-d}, ${X//a/b}, ${X,,}.
  void add_changed(ShellParameter parameter, bool is_quoted) {
    const ParameterChange change = change_in(parameter.change);
    if (is_all_keyed(parameter) && !change.is_for_missing()) {
      put_all_keyed(parameter);
      return;
    }
    auto values = values_in(parameter);
    const std::string text = !values              ? ""
                             : parameter.is_all() ? joined_values(*values)
                                                  : element(*values, parameter.subscript);
    const bool is_missing = !values || (change.tests_empty && without_unset(text).empty());
    if (change.kind == '+') {
      ++depth_;
      add(is_missing ? std::string_view() : change.first, is_quoted);
      --depth_;
    } else if (change.is_for_missing() && !is_missing) {
      add_value(parameter, is_quoted);
    } else if (change.kind == '-' || change.kind == '=') {
      const std::string usual = filled(change.first);
      if (change.kind == '=') {
        variables_.values[parameter.name] = {usual};
      }
      words_.put(usual, is_quoted);
    } else if (change.kind == '?' || !values) {
      words_.put(unknown_value("$" + parameter.name), true);
    } else {
      put_changed(*std::move(values), text, change, parameter, is_quoted);
    }
  }

  /// Adds a text with its change, or each value of an array with it.
  void put_changed(std::vector<std::string> values, const std::string& text,
                   const ParameterChange& change, const ShellParameter& parameter, bool is_quoted) {
    const TextChange filled_in = filled_change(change, parameter.change);
    if (!parameter.is_all() || filled_in.is_unknown()) {
      words_.put(changed_text(text, filled_in, limits_), is_quoted);
      return;
    }
    if (change.kind == ':' && (parameter.name == "@" || parameter.name == "*")) {
      // ${@:1} begins with $1: what stands before it is $0.
      const auto& positional = variables_.positional;
      values.insert(values.begin(), positional.empty() ? "" : positional.front());
    }
    const std::vector<std::string> results = changed_values(values, filled_in, limits_);
    if (!results.empty()) {
      words_.put_all(results, is_quoted, parameter.keeps_words());
    }
  }

  TextChange filled_change(const ParameterChange& change, std::string_view written) {
    TextChange result{
        .kind = change.kind, .is_twice = change.is_twice, .written = std::string(written)};
    if (change.kind == ':') {
      result.begin = shell_integer(change.first.empty() ? "0" : arithmetic(change.first));
      if (change.has_second) {
        result.length = shell_integer(change.second.empty() ? "0" : arithmetic(change.second));
      }
    } else {
      result.second = filled(change.second);
      result.first = filled(change.first);
    }
    return result;
  }

  ShellVariables& variables_;
  ShellLimits& limits_;
  ShellWordBuilder words_;
  int depth_;
};

// NOLINTEND(misc-no-recursion)

}  // namespace

std::vector<std::string> expanded(std::string_view word, ShellVariables& variables,
                                  ShellLimits& limits) {
  Expansion expansion(variables, limits, true, 0);
  expansion.add(word, false);
  return expansion.take();
}

std::string expanded_to_one(std::string_view word, ShellVariables& variables, ShellLimits& limits) {
  Expansion expansion(variables, limits, false, 0);
  expansion.add(word, false);
  return expansion.take_one();
}

std::string expanded_document(std::string_view text, ShellVariables& variables,
                              ShellLimits& limits) {
  Expansion expansion(variables, limits, false, 0);
  expansion.add(text, true);
  return expansion.take_one();
}

}  // namespace ptdp
