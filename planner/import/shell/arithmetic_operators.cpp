#include "planner/import/shell/arithmetic_operators.h"

#include <array>
#include <limits>

namespace ptdp {
namespace {

using OperatorResult = std::optional<std::int64_t>;

OperatorResult product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : OperatorResult(result);
}

OperatorResult power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 63) {
    return std::nullopt;
  }
  OperatorResult result = 1;
  for (std::int64_t i = 0; i < exponent && result; ++i) {
    result = product(*result, base);
  }
  return result;
}

bool can_divide(std::int64_t a, std::int64_t b) {
  return b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
}

OperatorResult quotient(std::int64_t a, std::int64_t b) {
  return can_divide(a, b) ? OperatorResult(a / b) : std::nullopt;
}

OperatorResult remainder(std::int64_t a, std::int64_t b) {
  return can_divide(a, b) ? OperatorResult(a % b) : std::nullopt;
}

OperatorResult shifted(std::int64_t a, std::int64_t b, bool is_left) {
  if (b < 0 || b > 63) {
    return std::nullopt;
  }
  // NOLINTNEXTLINE(hicpp-signed-bitwise): bash shifts signed numbers
  return is_left ? static_cast<std::int64_t>(static_cast<std::uint64_t>(a) << b) : a >> b;
}

constexpr std::array<ArithmeticOperator, 19> kArithmeticOperators = {
    {{0, "||", [](std::int64_t a, std::int64_t b) { return OperatorResult(a != 0 || b != 0); }},
     {1, "&&", [](std::int64_t a, std::int64_t b) { return OperatorResult(a != 0 && b != 0); }},
     {2, "|", [](std::int64_t a, std::int64_t b) { return OperatorResult(a | b); }},
     {3, "^", [](std::int64_t a, std::int64_t b) { return OperatorResult(a ^ b); }},
     {4, "&", [](std::int64_t a, std::int64_t b) { return OperatorResult(a & b); }},
     {5, "==", [](std::int64_t a, std::int64_t b) { return OperatorResult(a == b); }},
     {5, "!=", [](std::int64_t a, std::int64_t b) { return OperatorResult(a != b); }},
     {6, "<=", [](std::int64_t a, std::int64_t b) { return OperatorResult(a <= b); }},
     {6, ">=", [](std::int64_t a, std::int64_t b) { return OperatorResult(a >= b); }},
     {6, "<", [](std::int64_t a, std::int64_t b) { return OperatorResult(a < b); }},
     {6, ">", [](std::int64_t a, std::int64_t b) { return OperatorResult(a > b); }},
     {7, "<<", [](std::int64_t a, std::int64_t b) { return shifted(a, b, true); }},
     {7, ">>", [](std::int64_t a, std::int64_t b) { return shifted(a, b, false); }},
     {8, "+", arithmetic_sum},
     {8, "-", arithmetic_difference},
     {9, "*", product},
     {9, "/", quotient},
     {9, "%", remainder},
     {10, "**", power}}};

}  // namespace

std::span<const ArithmeticOperator> arithmetic_operators() {
  return kArithmeticOperators;
}

std::optional<std::int64_t> arithmetic_sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : OperatorResult(result);
}

std::optional<std::int64_t> arithmetic_difference(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? std::nullopt : OperatorResult(result);
}

}  // namespace ptdp
