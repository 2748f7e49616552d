#include "planner/import/shell/shell_test.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "planner/import/shell/shell_arithmetic.h"
#include "planner/import/shell/shell_pattern.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

constexpr int kMostConditions = 40;  // in one test; scripts have three or four

/// A comparison of numbers as a test spells it, and as arithmetic does.
struct NumberComparison {
  std::string_view name;
  std::string_view in_arithmetic;
};
constexpr std::array<NumberComparison, 6> kNumberComparisons = {
    {{"-eq", "=="}, {"-ne", "!="}, {"-lt", "<"}, {"-le", "<="}, {"-gt", ">"}, {"-ge", ">="}}};

/// Returns how arithmetic spells a comparison of numbers; "" for any other word.
std::string_view in_arithmetic(std::string_view name) {
  const auto* const found = std::ranges::find(kNumberComparisons, name, &NumberComparison::name);
  return found == kNumberComparisons.end() ? std::string_view() : found->in_arithmetic;
}

bool is_comparison(std::string_view word) {
  constexpr std::array<std::string_view, 6> names = {"=", "==", "!=", "<", ">", "=~"};
  return std::ranges::find(names, word) != names.end() || !in_arithmetic(word).empty();
}

/// Returns a word with unset variables as empty; nullopt if it needs a command.
std::optional<std::string> text_of(const std::string& word) {
  std::string text = without_unset(word);
  return unknown_part(text) ? std::nullopt : std::optional(std::move(text));
}

/// Judges words by recursive descent, one function for each strength of binding.
class ConditionReader {
 public:
  ConditionReader(std::vector<std::string> words, bool has_patterns, ShellLimits& limits)
      : words_(std::move(words)), has_patterns_(has_patterns), limits_(limits) {}

  ShellTruth value() {
    const ShellTruth truth = either();
    return at_ == words_.size() ? truth : ShellTruth::kUnknown;
  }

 private:
  bool take(std::string_view word) {
    const bool is_here = at_ < words_.size() && words_[at_] == word;
    at_ += is_here ? 1 : 0;
    return is_here;
  }

  // NOLINTBEGIN(misc-no-recursion): no deeper than kMostConditions
  ShellTruth either() {
    ShellTruth truth = both();
    while (take("||") || take("-o")) {
      const ShellTruth other = both();
      const bool holds = truth == ShellTruth::kYes || other == ShellTruth::kYes;
      truth = holds ? ShellTruth::kYes : truth == ShellTruth::kNo ? other : truth;
    }
    return truth;
  }

  ShellTruth both() {
    ShellTruth truth = single();
    while (take("&&") || take("-a")) {
      const ShellTruth other = single();
      const bool fails = truth == ShellTruth::kNo || other == ShellTruth::kNo;
      truth = fails ? ShellTruth::kNo : truth == ShellTruth::kYes ? other : truth;
    }
    return truth;
  }

  ShellTruth single() {
    if (++count_ > kMostConditions || at_ >= words_.size()) {
      return ShellTruth::kUnknown;
    }
    if (take("!")) {
      return negated(single());
    }
    if (take("(")) {
      const ShellTruth inner = either();
      return take(")") ? inner : ShellTruth::kUnknown;
    }
    const std::string first = words_[at_++];
    if (at_ + 1 < words_.size() && is_comparison(words_[at_])) {
      at_ += 2;
      return compared(first, words_[at_ - 2], words_[at_ - 1]);
    }
    const bool is_unary = first.size() == 2 && first[0] == '-' && at_ < words_.size() &&
                          words_[at_] != "&&" && words_[at_] != "||";
    const std::optional<std::string> operand = text_of(is_unary ? words_[at_++] : first);
    if (!operand || (is_unary && first != "-z" && first != "-n")) {
      return ShellTruth::kUnknown;
    }
    return truth_of(operand->empty() == (is_unary && first == "-z"));
  }
  // NOLINTEND(misc-no-recursion)

  ShellTruth compared(const std::string& first, const std::string& name,
                      const std::string& second) {
    const std::optional<std::string> a = text_of(first);
    const std::optional<std::string> b = text_of(second);
    if (!a || !b || name == "=~") {
      return ShellTruth::kUnknown;
    }
    if (name == "=" || name == "==" || name == "!=") {
      const bool is_equal = has_patterns_ ? matches_pattern(*a, *b, limits_) : *a == *b;
      return truth_of(is_equal == (name != "!="));
    }
    if (name == "<" || name == ">") {
      return truth_of(name == "<" ? *a < *b : *a > *b);
    }
    const std::string expression =
        "(" + number_of(*a) + ")" + std::string(in_arithmetic(name)) + "(" + number_of(*b) + ")";
    const auto value = shell_arithmetic(expression);
    return value ? truth_of(*value != 0) : ShellTruth::kUnknown;
  }

  /// Returns the text of a number without zeros in front: [ 010 -eq 10 ] holds, [[ ]] reads octal.
  [[nodiscard]] std::string number_of(const std::string& text) const {
    const std::size_t first = text.find_first_not_of('0');
    const bool is_decimal = text.find_first_not_of("0123456789") == std::string::npos;
    return has_patterns_ || !is_decimal || first == 0 || first == std::string::npos
               ? text
               : text.substr(first);
  }

  std::vector<std::string> words_;
  bool has_patterns_;
  ShellLimits& limits_;
  std::size_t at_ = 0;
  int count_ = 0;
};

}  // namespace

ShellTruth shell_test(std::vector<std::string> words, bool has_patterns, ShellLimits& limits) {
  return ConditionReader(std::move(words), has_patterns, limits).value();
}

}  // namespace ptdp
