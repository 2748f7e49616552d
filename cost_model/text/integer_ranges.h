// Sets of whole numbers as people type them: "8", "4,8", "8:64".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptdp {

/// Returns the divisors of a positive number, ascending.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number);

/// A set of positive numbers. The empty set stands for "any".
class IntegerRanges {
 public:
  IntegerRanges() = default;
  /// Constructs the set of one number.
  explicit IntegerRanges(std::int64_t only) : ranges_{{only, only}} {}

  /// Reads a comma-separated list of numbers and low:high ranges. Throws Error, naming `place`, for
  /// anything else, numbers below `low` or above `high`, and ranges that run backward.
  [[nodiscard]] static IntegerRanges parse(std::string_view text, std::int64_t low,
                                           std::int64_t high, const std::string& place);

  /// Returns the set as text that parse() reads back; empty for "any".
  [[nodiscard]] std::string text() const;
  /// Returns whether the set is "any".
  [[nodiscard]] bool is_any() const { return ranges_.empty(); }
  /// Returns whether `value` is in the set; every number is in "any".
  [[nodiscard]] bool contains(std::int64_t value) const;
  /// Returns the members up to `limit`, ascending; for "any", 1 to `limit`. Numbers typed singly
  /// are included whatever their size: who types a number wants to hear about it.
  [[nodiscard]] std::vector<std::int64_t> values(std::int64_t limit) const;

  /// Returns the least member; 1 for "any".
  [[nodiscard]] std::int64_t smallest() const;
  /// Returns the members that were typed as single numbers, in the order typed.
  [[nodiscard]] std::vector<std::int64_t> numbers() const;
  /// Returns the set of members from `low` on, or nullopt if there are none.
  [[nodiscard]] std::optional<IntegerRanges> at_least(std::int64_t low) const;

  friend bool operator==(const IntegerRanges&, const IntegerRanges&) = default;

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // both ends inclusive
};

}  // namespace ptdp
