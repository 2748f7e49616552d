#include "planner/clusters/rate_flags.h"

#include <charconv>
#include <optional>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr double kFastestLink = 1e5 * kGiga;  // what a cluster's file takes
constexpr int kMostNics = 1000;

/// Reads a rate with its unit; a number without one counts in `unit`.
std::optional<BytesPerSecond> rate_of(std::string_view text, double unit) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const std::string_view tail : {std::string_view("/s"), std::string_view("ps")}) {
    if (rest.size() > tail.size() && rest.ends_with(tail)) {
      rest.remove_suffix(tail.size());
    }
  }
  if (rest == "Gb") {
    unit = kGiga / 8.0;
  } else if (rest == "GB") {
    unit = kGiga;
  } else if (!rest.empty()) {
    return std::nullopt;
  }
  const double rate = number * unit;
  return error == std::errc{} && rate >= 1e-3 * kGiga && rate <= kFastestLink
             ? std::optional(BytesPerSecond(rate))
             : std::nullopt;
}

}  // namespace

NodeNics parse_nics(std::string_view text, const std::string& place) {
  const std::size_t times = text.find('x');
  int count = 0;
  if (times != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + times, count);
    const std::optional<BytesPerSecond> each = rate_of(text.substr(times + 1), kGiga / 8.0);
    if (error == std::errc{} && end == text.data() + times && count > 0 && count <= kMostNics &&
        each) {
      return {.count = count, .each = *each};
    }
  }
  throw Error(place + ": expected the NICs of a node and the rate of each, such as 8x400Gb, got " +
              in_quotes(text));
}

BytesPerSecond parse_rate(std::string_view text, const std::string& place) {
  if (const std::optional<BytesPerSecond> rate = rate_of(text, kGiga)) {
    return *rate;
  }
  throw Error(place + ": expected gigabytes per second in one direction, such as 450GB, got " +
              in_quotes(text));
}

}  // namespace ptdp
