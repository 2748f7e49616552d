#include "planner/import/shell/text_change.h"

#include <algorithm>

#include "planner/import/shell/shell_pattern.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

/// Places from `begin` up to `end`.
struct PlaceRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Returns what a change takes of `size` places; what lies outside is empty.
PlaceRange range_in(const TextChange& change, std::size_t size) {
  const auto whole = static_cast<std::int64_t>(size);
  const std::int64_t begin = change.begin.value_or(0);
  const std::int64_t length = change.length.value_or(0);
  const std::int64_t first = begin < 0 ? whole + begin : begin;
  if (first < 0 || first > whole) {
    return {.begin = whole, .end = whole};
  }
  const std::int64_t last = length < 0 ? whole + length : first + std::min(length, whole - first);
  return {.begin = first, .end = std::max(first, last)};
}

}  // namespace

std::string changed_text(const std::string& text, const TextChange& change, ShellLimits& limits) {
  switch (change.kind) {
    case '#':
    case '%':
      return without_match(text, change.first,
                           {.at_start = change.kind == '#', .longest = change.is_twice}, limits);
    case ',':
    case '^':
      return with_case(text, {.is_upper = change.kind == '^', .is_every = change.is_twice},
                       change.first, limits);
    case '/':
      return with_replaced(text, change.first, change.second, change.is_twice, limits);
    case ':':
      if (!change.is_unknown()) {
        const PlaceRange range = range_in(change, text.size());
        return text.substr(static_cast<std::size_t>(range.begin),
                           static_cast<std::size_t>(range.end - range.begin));
      }
      break;
    default:
      break;
  }
  return unknown_value("${..." + change.written + "}");
}

std::vector<std::string> changed_values(const std::vector<std::string>& values,
                                        const TextChange& change, ShellLimits& limits) {
  if (change.kind == ':') {
    const PlaceRange range = range_in(change, values.size());
    return {values.begin() + range.begin, values.begin() + range.end};
  }
  std::vector<std::string> results;
  results.reserve(values.size());
  for (const std::string& value : values) {
    results.push_back(changed_text(value, change, limits));
  }
  return results;
}

}  // namespace ptdp
