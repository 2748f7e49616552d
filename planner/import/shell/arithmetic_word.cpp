#include "planner/import/shell/arithmetic_word.h"

#include <optional>

#include "planner/import/shell/shell_arithmetic.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {

std::string arithmetic_word(std::string_view expression, const ShellVariables& variables,
                            ShellLimits& limits) {
  if (const auto unknown = unknown_part(expression)) {
    return unknown_value(*unknown);
  }
  std::string missing;
  const auto value = shell_arithmetic(expression, [&](std::string_view name) {
    const auto found = variables.values.find(name);
    const std::string held = found == variables.values.end() ? "" : joined_values(found->second);
    limits.spend(held.size());
    auto number = held.empty() ? std::nullopt : shell_arithmetic(held, [](std::string_view) {
      return std::optional<std::int64_t>();
    });
    if (!number) {
      missing = unknown_part(held).value_or("$" + std::string(name));
    }
    return number;
  });
  if (value) {
    return std::to_string(*value);
  }
  return unknown_value(missing.empty() ? "$((" + std::string(expression) + "))" : missing);
}

}  // namespace ptdp
