#include "planner/import/shell/shell_arithmetic.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "planner/import/shell/arithmetic_operators.h"

namespace ptdp {
namespace {

using Number = std::optional<std::int64_t>;

constexpr int kDeepestExpression = 100;

/// Reads an expression by recursive descent. A part that is not understood makes all unknown.
class Expression {
 public:
  Expression(std::string_view text, const ShellNumbers& numbers) : text_(text), numbers_(numbers) {}

  Number value() {
    Number result = assignment();
    while (take(",")) {
      result = assignment();
    }
    skip_blanks();
    return at_ == text_.size() && !is_broken_ ? result : std::nullopt;
  }

 private:
  /// A variable, or a member of an array.
  struct Variable {
    std::string_view name;
    Number index = 0;
  };

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
      ++at_;
    }
  }
  [[nodiscard]] bool is_next(std::string_view name) {
    skip_blanks();
    return text_.substr(at_, name.size()) == name;
  }
  bool take(std::string_view name) {
    const bool is_here = is_next(name);
    at_ += is_here ? name.size() : 0;
    return is_here;
  }

  /// Returns the operator of a level that stands here, and passes over it; nullptr for none.
  const ArithmeticOperator* take_operator(std::size_t level) {
    skip_blanks();
    const ArithmeticOperator* found = nullptr;
    for (const ArithmeticOperator& candidate : arithmetic_operators()) {
      const bool is_longer = found == nullptr || candidate.name.size() > found->name.size();
      if (is_longer && is_next(candidate.name)) {
        found = &candidate;
      }
    }
    if (found == nullptr || found->level != level) {
      return nullptr;
    }
    // a += b and the like are assignments, which only a variable begins.
    const bool assigns = found->can_assign() && text_.substr(at_ + found->name.size(), 1) == "=";
    at_ += assigns ? 0 : found->name.size();
    return assigns ? nullptr : found;
  }

  // NOLINTBEGIN(misc-no-recursion): no deeper than kDeepestExpression
  Number assignment() {
    const std::string_view assigning = assigning_operator();
    if (is_broken_) {
      at_ = text_.size();  // nothing behind it changes the result
      return std::nullopt;
    }
    if (assigning.empty()) {
      return ternary();
    }
    const auto variable = take_variable();
    if (!variable || !take(assigning)) {
      return std::nullopt;
    }
    if (assigning == "=") {
      return stored(*variable, assignment_within());
    }
    const Number right = assignment_within();
    const Number left = held(*variable);
    const std::string_view name = assigning.substr(0, assigning.size() - 1);
    const auto candidates = arithmetic_operators();
    const auto found = std::ranges::find(candidates, name, &ArithmeticOperator::name);
    return stored(*variable, left && right ? found->applied(*left, *right) : std::nullopt);
  }

  /// Returns the assignment behind the variable that begins here, "=" or "+=" and the like; "" if
  /// there is none. Subscripts are passed over: evaluating them twice would step i++ twice.
  std::string_view assigning_operator() {
    const std::size_t begin = at_;
    const std::string_view word = take_word();
    const bool is_variable =
        !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0;
    if (is_variable && text_.substr(at_, 1) == "[") {
      at_ = end_of_subscript();
    }
    skip_blanks();
    const std::size_t place = at_;
    at_ = begin;
    if (!is_variable) {
      return "";
    }
    if (text_.substr(place, 1) == "=") {
      return text_.substr(place, 2) == "==" ? "" : "=";
    }
    for (const ArithmeticOperator& candidate : arithmetic_operators()) {
      const std::size_t size = candidate.name.size();
      if (candidate.can_assign() && text_.substr(place, size) == candidate.name &&
          text_.substr(place + size, 1) == "=") {
        return text_.substr(place, size + 1);
      }
    }
    return "";
  }

  /// Returns the place behind the bracket that closes the one here. Without one nothing is known.
  std::size_t end_of_subscript() {
    std::size_t at = at_;
    int nested = 0;
    do {
      nested += text_[at] == '[' ? 1 : text_[at] == ']' ? -1 : 0;
      ++at;
    } while (nested > 0 && at < text_.size());
    is_broken_ = is_broken_ || nested > 0;
    return at;
  }

  Number assignment_within() {
    if (depth_ >= kDeepestExpression) {
      return std::nullopt;
    }
    ++depth_;
    const Number result = assignment();
    --depth_;
    return result;
  }

  Number ternary() {
    const Number condition = binary(0);
    if (!take("?")) {
      return condition;
    }
    const Number yes = with_live(!condition || *condition != 0);
    const Number no = take(":") ? with_live(!condition || *condition == 0) : std::nullopt;
    return !condition ? std::nullopt : *condition != 0 ? yes : no;
  }

  /// Reads a branch, whose assignments count only if it is taken.
  Number with_live(bool is_taken) {
    const bool before = is_live_;
    is_live_ = is_live_ && is_taken;
    const Number result = assignment_within();
    is_live_ = before;
    return result;
  }

  Number binary(std::size_t level) {
    if (depth_ > kDeepestExpression) {
      return std::nullopt;
    }
    if (level == kArithmeticLevels) {
      return unary();
    }
    Number left = binary(level + 1);
    while (const ArithmeticOperator* const found = take_operator(level)) {
      // a ** b ** c is a ** (b ** c).
      const bool is_power = found->name == "**";
      const bool before = is_live_;
      is_live_ =
          is_live_ &&
          !(left && ((found->name == "&&" && *left == 0) || (found->name == "||" && *left != 0)));
      const bool is_decided = before && !is_live_;
      depth_ += is_power ? 1 : 0;
      const Number right = binary(is_power ? level : level + 1);
      depth_ -= is_power ? 1 : 0;
      is_live_ = before;
      left = is_decided      ? found->applied(*left, 0)
             : left && right ? found->applied(*left, *right)
                             : std::nullopt;
    }
    return left;
  }

  Number unary() {
    if (depth_ > kDeepestExpression) {
      return std::nullopt;
    }
    for (const bool adds : {true, false}) {
      const std::size_t begin = at_;
      const auto variable = take(adds ? "++" : "--") ? take_variable() : std::nullopt;
      if (variable) {
        return stored(*variable, stepped(held(*variable), adds));
      }
      at_ = begin;
    }
    for (const std::string_view sign : {"-", "+", "!", "~"}) {
      if (take(sign)) {
        ++depth_;
        const Number operand = unary();
        --depth_;
        return signed_number(sign, operand);
      }
    }
    if (take("(")) {
      const Number inner = assignment_within();
      return take(")") ? inner : std::nullopt;
    }
    return atom();
  }

  Number atom() {
    if (const auto variable = take_variable()) {
      const Number value = held(*variable);
      for (const bool adds : {true, false}) {
        if (take(adds ? "++" : "--")) {
          static_cast<void>(stored(*variable, stepped(value, adds)));
        }
      }
      return value;
    }
    return literal(take_word());
  }

  /// Passes over a variable that begins here, with its subscript; nullopt if none does.
  std::optional<Variable> take_variable() {
    skip_blanks();
    const std::size_t begin = at_;
    const bool is_number =
        at_ >= text_.size() || std::isdigit(static_cast<unsigned char>(text_[at_])) != 0;
    const std::string_view word = is_number ? std::string_view() : take_word();
    if (word.empty() || word.find_first_of("#@") != std::string_view::npos) {
      at_ -= word.size();
      return std::nullopt;
    }
    Variable variable{.name = word};
    if (text_.substr(at_, 1) == "[" && numbers_.has_keys && numbers_.has_keys(word)) {
      at_ = end_of_subscript();
      variable.name = text_.substr(begin, at_ - begin);
    } else if (text_.substr(at_, 1) == "[") {
      ++at_;
      variable.index = assignment_within();
      is_broken_ = is_broken_ || !take("]");
    }
    return variable;
  }
  // NOLINTEND(misc-no-recursion)

  std::string_view take_word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  std::string_view("_#@").find(text_[at_]) != std::string::npos)) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  /// Returns the value of digits: 12, 0x1f, 017, 2#101.
  static Number literal(std::string_view word) {
    int base = 10;
    if (const std::size_t hash = word.find('#'); hash != std::string_view::npos) {
      const auto [end, error] = std::from_chars(word.data(), word.data() + hash, base);
      if (error != std::errc() || end != word.data() + hash || base < 2 || base > 36) {
        return std::nullopt;
      }
      word.remove_prefix(hash + 1);
    } else if (word.starts_with("0x") || word.starts_with("0X")) {
      base = 16;
      word.remove_prefix(2);
    } else if (word.size() > 1 && word.front() == '0') {
      base = 8;
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number, base);
    return error == std::errc() && end == word.data() + word.size() ? Number(number) : std::nullopt;
  }

  static Number signed_number(std::string_view sign, Number operand) {
    if (!operand || sign == "+") {
      return operand;
    }
    if (sign == "-") {
      return arithmetic_difference(0, *operand);
    }
    return sign == "!" ? Number(*operand == 0 ? 1 : 0) : Number(-1 - *operand);
  }
  static Number stepped(Number value, bool adds) {
    return value ? arithmetic_sum(*value, adds ? 1 : -1) : std::nullopt;
  }
  [[nodiscard]] Number held(const Variable& variable) const {
    return numbers_.get && variable.index ? numbers_.get(variable.name, *variable.index)
                                          : std::nullopt;
  }
  [[nodiscard]] Number stored(const Variable& variable, Number value) const {
    if (is_live_ && numbers_.set && variable.index) {
      numbers_.set(variable.name, *variable.index, value);
    }
    return value;
  }

  std::string_view text_;
  const ShellNumbers& numbers_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool is_live_ = true;
  bool is_broken_ = false;  ///< Whether a bracket is not closed: no result.
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                             const ShellNumbers& numbers) {
  return Expression(expression, numbers).value();
}

}  // namespace ptdp
