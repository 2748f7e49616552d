// The spelling of enumerators in files, flags and output: one table per enum.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// An enumerator and how it is spelled.
template <class Value>
struct NamedValue {
  Value value;
  std::string_view name;
};

/// A table of the spellings of an enum; it does not own its rows.
template <class Value>
using NamedValues = std::span<const NamedValue<Value>>;

/// Spellings of a switch: "off" and "on".
inline constexpr std::array kOffAndOn = {NamedValue<bool>{false, "off"},
                                         NamedValue<bool>{true, "on"}};

/// Returns the spelling of `value`, or an empty text if the table lacks it. If a value has several
/// spellings, it returns the first.
template <class Value>
[[nodiscard]] std::string_view name_of(Value value, NamedValues<Value> table) {
  for (const NamedValue<Value>& entry : table) {
    if (entry.value == value) {
      return entry.name;
    }
  }
  return {};
}

/// Returns the enumerator that is spelled `name`, or nullopt if the table has none.
template <class Value>
[[nodiscard]] std::optional<Value> find_value(std::string_view name, NamedValues<Value> table) {
  for (const NamedValue<Value>& entry : table) {
    if (entry.name == name) {
      return entry.value;
    }
  }
  return std::nullopt;
}

/// Returns all spellings of a table, in its order.
template <class Value>
[[nodiscard]] std::vector<std::string> names_of(NamedValues<Value> table) {
  std::vector<std::string> names;
  for (const NamedValue<Value>& entry : table) {
    names.emplace_back(entry.name);
  }
  return names;
}

}  // namespace ptdp
