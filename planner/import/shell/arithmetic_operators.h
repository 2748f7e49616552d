// Operators of the shell's arithmetic between two numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace ptdp {

/// One operator. Its result is nullopt where it is not defined or does not fit 64 bits.
struct ArithmeticOperator {
  std::size_t level = 0;  ///< How strongly it binds; 0 is the weakest.
  std::string_view name;
  std::optional<std::int64_t> (*applied)(std::int64_t a, std::int64_t b) = nullptr;

  /// Returns whether "a NAME= b" is an assignment; && and comparisons have none.
  [[nodiscard]] bool can_assign() const { return level > 1 && level != 5 && level != 6; }
};

inline constexpr std::size_t kArithmeticLevels = 11;

/// Returns all operators.
[[nodiscard]] std::span<const ArithmeticOperator> arithmetic_operators();

/// Returns a + b and a - b; nullopt where they do not fit.
[[nodiscard]] std::optional<std::int64_t> arithmetic_sum(std::int64_t a, std::int64_t b);
[[nodiscard]] std::optional<std::int64_t> arithmetic_difference(std::int64_t a, std::int64_t b);

}  // namespace ptdp
