// The spelling of enumerators in files, flags and output: one table per enum.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// An enumerator and how it is written.
template <class Value>
struct NamedValue {
  Value value;
  std::string_view name;
};

template <class Value>
using NamedValues = std::span<const NamedValue<Value>>;

inline constexpr std::array kOffAndOn = {NamedValue<bool>{false, "off"},
                                         NamedValue<bool>{true, "on"}};

/// The spelling of `value`; the table must hold it.
template <class Value>
[[nodiscard]] std::string_view name_of(Value value, NamedValues<Value> table) {
  for (const NamedValue<Value>& entry : table) {
    if (entry.value == value) {
      return entry.name;
    }
  }
  return {};
}

/// The enumerator of that spelling, if there is one.
template <class Value>
[[nodiscard]] std::optional<Value> find_value(std::string_view name, NamedValues<Value> table) {
  for (const NamedValue<Value>& entry : table) {
    if (entry.name == name) {
      return entry.value;
    }
  }
  return std::nullopt;
}

template <class Value>
[[nodiscard]] std::vector<std::string> names_of(NamedValues<Value> table) {
  std::vector<std::string> names;
  for (const NamedValue<Value>& entry : table) {
    names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace ptdp
