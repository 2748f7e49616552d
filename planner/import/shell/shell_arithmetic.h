// Arithmetic of the shell: what stands within $((...)).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace ptdp {

/// Variables as arithmetic sees them. `index` is that of an array, 0 without one.
struct ShellNumbers {
  /// Returns the value of a variable; nullopt if it is not known.
  std::function<std::optional<std::int64_t>(std::string_view name, std::int64_t index)> get;
  /// Sets a variable, to nullopt where the value is not known.
  std::function<void(std::string_view name, std::int64_t index, std::optional<std::int64_t> value)>
      set;
  /// Returns whether a variable's subscripts are texts. Such a member is a variable, "M[key]".
  std::function<bool(std::string_view name)> has_keys = {};
};

/// Returns the value of an expression as bash has them: all operators, assignments and ++ included,
/// and numbers such as 0x10, 010 and 2#101. Returns nullopt for anything else, for unknown names,
/// and where a result does not fit 64 bits.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(std::string_view expression,
                                                           const ShellNumbers& numbers = {});

}  // namespace ptdp
