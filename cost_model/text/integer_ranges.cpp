#include "cost_model/text/integer_ranges.h"

#include <algorithm>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> result;
  for (std::int64_t low = 1; low * low <= number; ++low) {
    if (number % low == 0) {
      result.push_back(low);
      if (low != number / low) {
        result.push_back(number / low);
      }
    }
  }
  std::sort(result.begin(), result.end());
  return result;
}

IntegerRanges IntegerRanges::parse(std::string_view text, std::int64_t low, std::int64_t high,
                                   const std::string& place) {
  IntegerRanges result;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t colon = item.find(':');
    const std::int64_t first = parse_count(item.substr(0, colon), low, high, place);
    const std::int64_t last = colon == std::string_view::npos
                                  ? first
                                  : parse_count(item.substr(colon + 1), low, high, place);
    if (last < first) {
      throw Error(place + ": expected a range low:high, got " + in_quotes(item));
    }
    result.ranges_.emplace_back(first, last);
    if (comma == std::string_view::npos) {
      return result;
    }
    text.remove_prefix(comma + 1);
  }
}

bool IntegerRanges::contains(std::int64_t value) const {
  return is_any() || std::any_of(ranges_.begin(), ranges_.end(), [value](const auto& range) {
           return value >= range.first && value <= range.second;
         });
}

std::vector<std::int64_t> IntegerRanges::values(std::int64_t limit) const {
  std::vector<std::int64_t> result;
  const auto append = [&result](std::int64_t first, std::int64_t last) {
    for (std::int64_t value = first; value <= last; ++value) {
      result.push_back(value);
    }
  };
  if (is_any()) {
    append(1, limit);
  }
  for (const auto& [first, last] : ranges_) {
    append(first, first == last ? last : std::min(last, limit));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::int64_t IntegerRanges::smallest() const {
  const auto least = std::min_element(ranges_.begin(), ranges_.end());
  return is_any() ? 1 : least->first;
}

std::vector<std::int64_t> IntegerRanges::numbers() const {
  std::vector<std::int64_t> result;
  for (const auto& [first, last] : ranges_) {
    if (first == last) {
      result.push_back(first);
    }
  }
  return result;
}

std::optional<IntegerRanges> IntegerRanges::at_least(std::int64_t low) const {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  IntegerRanges result;
  if (is_any()) {
    result.ranges_.emplace_back(low, most);
  }
  for (const auto& [first, last] : ranges_) {
    if (last >= low) {
      result.ranges_.emplace_back(std::max(first, low), last);
    }
  }
  return result.is_any() ? std::nullopt : std::optional(result);
}

std::string IntegerRanges::text() const {
  std::string text;
  for (const auto& [low, high] : ranges_) {
    text += (text.empty() ? "" : ",") + std::to_string(low);
    text += high == low ? "" : ':' + std::to_string(high);
  }
  return text;
}

}  // namespace ptdp
