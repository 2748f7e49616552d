#include "planner/import/shell/shell_variables.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

#include "planner/import/shell/shell_arithmetic.h"

namespace ptdp {
namespace {

constexpr std::size_t kLargestVariable = std::size_t{4} << 20;
constexpr std::int64_t kMostElements = 10'000;  // of an array that is set by subscripts

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

std::vector<std::string> positional_from(const std::vector<std::string>& positional,
                                         std::size_t first) {
  const auto begin =
      positional.begin() + static_cast<std::ptrdiff_t>(std::min(first, positional.size()));
  return {begin, positional.end()};
}

/// Returns the index of an array that a subscript comes to; -1 for none, or for a key.
std::int64_t index_of(const std::string& subscript) {
  const auto index = subscript.empty() ? std::nullopt : shell_arithmetic(subscript);
  return index && *index >= 0 && *index < kMostElements ? *index : -1;
}

void set_element(std::vector<std::string>& values, std::int64_t index, const std::string& value,
                 bool adds, ShellLimits& limits) {
  const auto place = static_cast<std::size_t>(index);
  if (place >= values.size()) {
    limits.spend((place + 1 - values.size()) * sizeof(std::string));
    values.resize(place + 1);
  }
  values[place] = adds ? values[place] + value : value;
}

}  // namespace

std::optional<std::vector<std::string>> values_of(const ShellVariables& variables,
                                                  const std::string& name, ShellLimits& limits) {
  const std::vector<std::string>& positional = variables.positional;
  if (name == "@" || name == "*") {
    limits.spend(size_of_values(positional));
    return positional_from(positional, 1);
  }
  if (name == "#") {
    return std::vector<std::string>{std::to_string(positional.empty() ? 0 : positional.size() - 1)};
  }
  if (std::ranges::all_of(name, is_digit)) {
    const auto index = static_cast<std::size_t>(shell_integer(name).value_or(-1));
    return index < positional.size() ? std::optional(std::vector<std::string>{positional[index]})
                                     : std::nullopt;
  }
  const auto found = variables.values.find(name);
  if (found == variables.values.end()) {
    return std::nullopt;
  }
  limits.spend(size_of_values(found->second));
  return found->second;
}

std::string joined_values(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += i == 0 ? "" : " ";
    text += values[i];
  }
  return text;
}

std::size_t size_of_values(const std::vector<std::string>& values) {
  std::size_t size = values.size();
  for (const std::string& value : values) {
    size += value.size();
  }
  return size;
}

std::size_t size_of_variables(const ShellVariables& variables) {
  std::size_t size = size_of_values(variables.positional);
  for (const auto& [name, values] : variables.values) {
    size += name.size() + size_of_values(values);
  }
  return size;
}

std::optional<std::int64_t> shell_integer(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

std::optional<ShellAssignment> assignment_in(const std::string& word) {
  std::size_t end = 0;
  while (end < word.size() &&
         (std::isalnum(static_cast<unsigned char>(word[end])) != 0 || word[end] == '_')) {
    ++end;
  }
  if (end == 0 || is_digit(word[0])) {
    return std::nullopt;
  }
  ShellAssignment result{.name = word.substr(0, end)};
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

std::size_t count_members(const std::string& name, const ShellVariables& variables) {
  const std::string begin = name + "[";
  const auto first = variables.values.lower_bound(begin);
  auto member = first;
  while (member != variables.values.end() && member->first.starts_with(begin)) {
    ++member;
  }
  return static_cast<std::size_t>(std::distance(first, member));
}

void forget_members(const std::string& name, ShellVariables& variables) {
  const std::string begin = name + "[";
  auto member = variables.values.lower_bound(begin);
  while (member != variables.values.end() && member->first.starts_with(begin)) {
    member = variables.values.erase(member);
  }
}

void assign(const ShellAssignment& assignment, ShellAssigned assigned, ShellVariables& variables,
            ShellLimits& limits) {
  std::string name = assignment.name;
  const bool has_keys = variables.keyed.contains(name);
  const std::int64_t index = has_keys ? -1 : index_of(assignment.subscript);
  if (index < 0 && !assignment.subscript.empty()) {
    name += "[" + assignment.subscript + "]";
  }
  std::vector<std::string>& values = variables.values[name];
  std::vector<std::string>& items = assigned.values;
  const bool keeps = assignment.adds || index >= 0;
  const std::size_t size = size_of_values(items) + (keeps ? size_of_values(values) : 0);
  limits.spend(name.size() + size);
  if (size > kLargestVariable) {
    limits.refuse("variable " + assignment.name + " grows beyond 4 MiB; expected a shorter value");
  }
  const std::string first = items.empty() ? "" : items.front();
  if (index >= 0) {
    set_element(values, index, first, assignment.adds, limits);
  } else if (!assignment.adds || values.empty()) {
    values = std::move(items);
  } else if (assigned.is_array) {
    values.insert(values.end(), items.begin(), items.end());
  } else {
    values.front() += first;
  }
}

}  // namespace ptdp
