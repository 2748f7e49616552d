#include "planner/import/megatron/megatron_values.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace ptdp {
namespace {

constexpr std::size_t kMostItems = 100'000;
constexpr int kDeepestTerm = 50;

/// Reads a number at the start of `text` and removes it.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > kMostItems) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Removes a character that stands at the start of `text`; returns whether it does.
bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

template <class Sequence>
bool append_repeated(Sequence& result, const Sequence& part, std::size_t times) {
  if (part.size() * times + result.size() > kMostItems) {
    return false;
  }
  for (std::size_t i = 0; i < times; ++i) {
    result.insert(result.end(), part.begin(), part.end());
  }
  return true;
}

std::optional<std::vector<int>> python_sum(std::string_view& text, int depth);

/// Reads "[1,0]", "(...)", each with "*N" behind it.
std::optional<std::vector<int>> python_term(std::string_view& text, int depth) {
  std::optional<std::vector<int>> items;
  if (take(text, '(')) {
    items = python_sum(text, depth + 1);
    if (!items || !take(text, ')')) {
      return std::nullopt;
    }
  } else if (take(text, '[')) {
    items.emplace();
    while (!take(text, ']')) {
      const auto number = take_number(text);
      if (!number || items->size() > kMostItems) {
        return std::nullopt;
      }
      items->push_back(static_cast<int>(*number));
      take(text, ',');
    }
  } else {
    return std::nullopt;
  }
  while (take(text, '*')) {
    const auto times = take_number(text);
    std::vector<int> repeated;
    if (!times || !append_repeated(repeated, *items, *times)) {
      return std::nullopt;
    }
    items = std::move(repeated);
  }
  return items;
}

std::optional<std::vector<int>> python_sum(std::string_view& text, int depth) {
  if (depth > kDeepestTerm) {
    return std::nullopt;
  }
  std::optional<std::vector<int>> sum = python_term(text, depth);
  while (sum && take(text, '+')) {
    const auto term = python_term(text, depth);
    if (!term || !append_repeated(*sum, *term, 1)) {
      return std::nullopt;
    }
  }
  return sum;
}

std::string without_blanks(std::string_view text) {
  std::string result;
  std::copy_if(text.begin(), text.end(), std::back_inserter(result),
               [](char c) { return c != ' ' && c != '\t' && c != '\n'; });
  return result;
}

/// Writes a layout out: "t*2|" as "tt|".
std::optional<std::string> written_out(std::string_view& text, int depth) {
  std::string result;
  while (!text.empty() && text.front() != ')') {
    std::string part(1, text.front());
    if (take(text, '(')) {
      const auto inner = depth < kDeepestTerm ? written_out(text, depth + 1) : std::nullopt;
      if (!inner || !take(text, ')')) {
        return std::nullopt;
      }
      part = *inner;
    } else {
      text.remove_prefix(1);
      if (std::string_view("EtmL|,").find(part[0]) == std::string_view::npos) {
        return std::nullopt;
      }
    }
    std::size_t times = 1;
    if (take(text, '*')) {
      const auto number = take_number(text);
      if (!number) {
        return std::nullopt;
      }
      times = *number;
    }
    if (!append_repeated(result, part, times)) {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace

std::optional<std::vector<int>> python_numbers(std::string_view text) {
  const std::string plain = without_blanks(text);
  std::string_view rest = plain;
  auto numbers = python_sum(rest, 0);
  return rest.empty() ? numbers : std::nullopt;
}

std::optional<std::vector<int>> layers_of_layout(std::string_view layout) {
  const std::string plain = without_blanks(layout);
  std::string_view rest = plain;
  const auto written = written_out(rest, 0);
  if (!written || !rest.empty()) {
    return std::nullopt;
  }
  std::vector<int> layers(1);
  for (const char c : *written) {
    if (c == '|') {
      layers.push_back(0);
    }
    layers.back() += c == 't' ? 1 : 0;
  }
  return layers;
}

}  // namespace ptdp
