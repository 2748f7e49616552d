// Arithmetic of the shell: what stands within $((...)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ptdp {

/// Returns the value of a variable's name in arithmetic; nullopt if it is not known.
using ShellNumberOf = std::function<std::optional<std::int64_t>(std::string_view name)>;

/// Returns the value of an expression: + - * / % **, comparisons, && || !, the ternary operator and
/// parentheses, as bash has them. Returns nullopt for anything else, for unknown names, and where a
/// result does not fit 64 bits.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                                           const ShellNumberOf& number_of);

}  // namespace ptdp
