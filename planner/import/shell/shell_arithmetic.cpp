#include "planner/import/shell/shell_arithmetic.h"

#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <vector>

namespace ptdp {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDeepestExpression = 100;

Number product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : Number(result);
}

Number power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0 || exponent > 63) {
    return std::nullopt;
  }
  Number result = 1;
  for (std::int64_t i = 0; i < exponent && result; ++i) {
    result = product(*result, base);
  }
  return result;
}

Number sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : Number(result);
}

Number difference(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_sub_overflow(a, b, &result) ? std::nullopt : Number(result);
}

bool can_divide(std::int64_t a, std::int64_t b) {
  return b != 0 && !(a == std::numeric_limits<std::int64_t>::min() && b == -1);
}

Number quotient(std::int64_t a, std::int64_t b) {
  return can_divide(a, b) ? Number(a / b) : std::nullopt;
}

Number remainder(std::int64_t a, std::int64_t b) {
  return can_divide(a, b) ? Number(a % b) : std::nullopt;
}

/// An operator between two numbers. Level 0 binds the weakest.
struct Operator {
  std::size_t level = 0;
  std::string_view name;
  Number (*applied)(std::int64_t a, std::int64_t b) = nullptr;
};

constexpr std::size_t kNumLevels = 7;
/// Within a level the longer names come first, since one may begin another.
constexpr std::array<Operator, 14> kOperators = {
    {{0, "||", [](std::int64_t a, std::int64_t b) { return Number(a != 0 || b != 0); }},
     {1, "&&", [](std::int64_t a, std::int64_t b) { return Number(a != 0 && b != 0); }},
     {2, "==", [](std::int64_t a, std::int64_t b) { return Number(a == b); }},
     {2, "!=", [](std::int64_t a, std::int64_t b) { return Number(a != b); }},
     {3, "<=", [](std::int64_t a, std::int64_t b) { return Number(a <= b); }},
     {3, ">=", [](std::int64_t a, std::int64_t b) { return Number(a >= b); }},
     {3, "<", [](std::int64_t a, std::int64_t b) { return Number(a < b); }},
     {3, ">", [](std::int64_t a, std::int64_t b) { return Number(a > b); }},
     {4, "+", sum},
     {4, "-", difference},
     {5, "*", product},
     {5, "/", quotient},
     {5, "%", remainder},
     {6, "**", power}}};

/// Reads an expression by recursive descent. A part that is not understood makes all unknown.
class Expression {
 public:
  Expression(std::string_view text, const ShellNumberOf& number_of)
      : text_(text), number_of_(number_of) {}

  Number value() {
    const Number result = ternary();
    skip_blanks();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  bool take(std::string_view name) {
    skip_blanks();
    if (text_.substr(at_, name.size()) != name) {
      return false;
    }
    const std::string_view rest = text_.substr(at_ + name.size());
    if (name == "*" && rest.starts_with('*')) {
      return false;
    }
    at_ += name.size();
    return true;
  }

  /// Returns the operator of a level that stands here, and passes over it; nullptr for none.
  const Operator* take_operator(std::size_t level) {
    for (const Operator& candidate : kOperators) {
      if (candidate.level == level && take(candidate.name)) {
        return &candidate;
      }
    }
    return nullptr;
  }

  // NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestExpression
  Number ternary() {
    if (++depth_ > kDeepestExpression) {
      return std::nullopt;
    }
    const Number condition = binary(0);
    Number result = condition;
    if (take("?")) {
      const Number yes = ternary();
      const Number no = take(":") ? ternary() : std::nullopt;
      result = !condition ? std::nullopt : *condition != 0 ? yes : no;
    }
    --depth_;
    return result;
  }

  Number binary(std::size_t level) {
    if (depth_ > kDeepestExpression) {
      return std::nullopt;
    }
    if (level == kNumLevels) {
      return unary();
    }
    Number left = binary(level + 1);
    while (const Operator* const found = take_operator(level)) {
      // a ** b ** c is a ** (b ** c).
      const bool is_power = found->name == "**";
      depth_ += is_power ? 1 : 0;
      const Number right = binary(is_power ? level : level + 1);
      depth_ -= is_power ? 1 : 0;
      left = left && right ? found->applied(*left, *right) : std::nullopt;
    }
    return left;
  }

  Number unary() {
    if (depth_ > kDeepestExpression) {
      return std::nullopt;
    }
    for (const std::string_view sign : {"-", "+", "!"}) {
      if (take(sign)) {
        ++depth_;
        const Number operand = unary();
        --depth_;
        return !operand      ? std::nullopt
               : sign == "-" ? difference(0, *operand)
               : sign == "!" ? Number(*operand == 0 ? 1 : 0)
                             : operand;
      }
    }
    if (take("(")) {
      const Number inner = ternary();
      return take(")") ? inner : std::nullopt;
    }
    return atom();
  }
  // NOLINTEND(misc-no-recursion)

  Number atom() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) {
      return std::nullopt;
    }
    if (std::isdigit(static_cast<unsigned char>(word.front())) == 0) {
      return number_of_(word);
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    return error == std::errc() && end == word.data() + word.size() ? Number(number) : std::nullopt;
  }

  std::string_view text_;
  const ShellNumberOf& number_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             const ShellNumberOf& number_of) {
  return Expression(expression, number_of).value();
}

}  // namespace ptdp
