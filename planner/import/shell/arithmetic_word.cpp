#include "planner/import/shell/arithmetic_word.h"

#include <optional>

#include "planner/import/shell/shell_arithmetic.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

constexpr int kDeepestReference = 8;  // variables whose values name variables

/// Evaluates an expression whose variables may hold expressions.
class ArithmeticReader {
 public:
  ArithmeticReader(ShellVariables& variables, ShellLimits& limits)
      : variables_(variables), limits_(limits) {}

  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kDeepestReference
  std::optional<std::int64_t> value(std::string_view expression) {
    limits_.spend(expression.size());
    return shell_arithmetic(
        expression,
        {.get = [this](std::string_view name, std::int64_t index) { return value_of(name, index); },
         .set =
             [this](std::string_view name, std::int64_t index, std::optional<std::int64_t> value) {
               const std::string text =
                   value ? std::to_string(*value) : unknown_value("$((" + std::string(name) + "))");
               assign({.name = std::string(name), .subscript = std::to_string(index)},
                      {.values = {text}}, variables_, limits_);
             },
         .has_keys = [this](std::string_view name) { return variables_.keyed.contains(name); }});
  }

  /// Returns what is missing; "" for nothing.
  [[nodiscard]] const std::string& missing() const { return missing_; }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): no deeper than kDeepestReference
  std::optional<std::int64_t> value_of(std::string_view name, std::int64_t index) {
    const auto found = variables_.values.find(name);
    const bool is_set = found != variables_.values.end() && index >= 0 &&
                        static_cast<std::size_t>(index) < found->second.size();
    const std::string held = is_set ? found->second[static_cast<std::size_t>(index)] : "";
    std::optional<std::int64_t> number;
    if (!held.empty() && depth_ < kDeepestReference) {
      ++depth_;
      number = value(held);
      --depth_;
    }
    if (!number) {
      missing_ = unknown_part(held).value_or("$" + std::string(name));
    }
    return number;
  }

  ShellVariables& variables_;
  ShellLimits& limits_;
  std::string missing_;
  int depth_ = 0;
};

}  // namespace

std::string arithmetic_word(std::string_view expression, ShellVariables& variables,
                            ShellLimits& limits) {
  if (const auto unknown = unknown_part(expression)) {
    return unknown_value(*unknown);
  }
  ArithmeticReader reader(variables, limits);
  if (const auto value = reader.value(expression)) {
    return std::to_string(*value);
  }
  return unknown_value(reader.missing().empty() ? "$((" + std::string(expression) + "))"
                                                : reader.missing());
}

}  // namespace ptdp
