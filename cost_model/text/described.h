// What the function templates take that describe the fields of a type to files.
#pragma once

#include <optional>
#include <type_traits>

namespace ptdp {

/// The argument of `describe(fields, value)`: const where the fields are written.
template <class Fields, class Value>
using Described = std::conditional_t<Fields::kIsReading, Value, const Value>;

/// The value in an optional; one that can be read into, and so is not const, gets a value first.
template <class Value>
[[nodiscard]] Value& held(std::optional<Value>& value) {
  return value.has_value() ? *value : value.emplace();
}
template <class Value>
[[nodiscard]] const Value& held(const std::optional<Value>& value) {
  return *value;
}

}  // namespace ptdp
