// Argument types of describe(): the function templates that read and write the fields of a type.
#pragma once

#include <optional>
#include <type_traits>

namespace ptdp {

/// The type of `value` in `describe(fields, value)`: const if `fields` writes.
template <class Fields, class Value>
using Described = std::conditional_t<Fields::kIsReading, Value, const Value>;

/// Returns the value of an optional that is read into; an empty optional gets a default value
/// first.
template <class Value>
[[nodiscard]] Value& held(std::optional<Value>& value) {
  return value.has_value() ? *value : value.emplace();
}
/// Returns the value of an optional that is written; it must have one.
template <class Value>
[[nodiscard]] const Value& held(const std::optional<Value>& value) {
  return *value;
}

}  // namespace ptdp
