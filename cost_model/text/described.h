// Argument types of describe(): the function templates that read and write the fields of a type.
#pragma once

#include <optional>
#include <string>
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

/// Reads or writes a flag that may be left out where it is as usual.
template <class Fields, class Value>
void optional_flag(Fields& fields, const std::string& key, Value& value, bool usual) {
  if (fields.optional(key, value != usual)) {
    fields.flag(key, value);
  }
}

}  // namespace ptdp
