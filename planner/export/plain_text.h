// Numbers and words as flags and files of other frameworks spell them.
#pragma once

#include <string>
#include <type_traits>

namespace ptdp {

/// Returns a number in the fewest digits that read back as the same number: "1e-05", "0.1".
[[nodiscard]] std::string plain_number(double value);

/// Returns an integer in decimal digits, another number as plain_number() does, and words as they
/// are.
template <class Value>
[[nodiscard]] std::string plain_text(const Value& value) {
  if constexpr (std::is_integral_v<Value>) {
    return std::to_string(value);
  } else if constexpr (std::is_floating_point_v<Value>) {
    return plain_number(value);
  } else {
    return std::string(value);
  }
}

}  // namespace ptdp
