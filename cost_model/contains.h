// Membership of a value in a vector: std::ranges::contains, which C++20 lacks.
#pragma once

#include <algorithm>
#include <vector>

namespace ptdp {

/// Returns whether an element of `values` equals `value`.
template <class Value>
[[nodiscard]] bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace ptdp
