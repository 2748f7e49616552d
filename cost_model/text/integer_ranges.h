// Sets of whole numbers as people type them: "8", "4,8", "8:64".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptdp {

/// The divisors of a positive number, ascending.
[[nodiscard]] std::vector<std::int64_t> divisors(std::int64_t number);

/// A set of positive numbers. The empty set stands for "any".
class IntegerRanges {
 public:
  IntegerRanges() = default;
  /// The set of one number.
  explicit IntegerRanges(std::int64_t only) : ranges_{{only, only}} {}

  /// Reads a comma-separated list of numbers and low:high ranges. Throws Error, naming `place`, for
  /// anything else, numbers below `low` or above `high`, and ranges that run backwards.
  [[nodiscard]] static IntegerRanges parse(std::string_view text, std::int64_t low,
                                           std::int64_t high, const std::string& place);

  /// As parse() reads it back; empty for "any".
  [[nodiscard]] std::string text() const;
  /// Whether nothing was asked for.
  [[nodiscard]] bool is_any() const { return ranges_.empty(); }
  /// Whether `value` is in the set; everything is in "any".
  [[nodiscard]] bool contains(std::int64_t value) const;
  /// The members up to `limit`, ascending, and those typed as single numbers whatever their size:
  /// who types a number wants to hear about it. For "any": 1 to `limit`.
  [[nodiscard]] std::vector<std::int64_t> values(std::int64_t limit) const;

  /// The least member; 1 for "any".
  [[nodiscard]] std::int64_t smallest() const;
  /// Those typed as single numbers.
  [[nodiscard]] std::vector<std::int64_t> numbers() const;
  /// The members from `low` on; nothing where there are none.
  [[nodiscard]] std::optional<IntegerRanges> at_least(std::int64_t low) const;

  friend bool operator==(const IntegerRanges&, const IntegerRanges&) = default;

 private:
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // both ends inclusive
};

}  // namespace ptdp
