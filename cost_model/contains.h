// What std::ranges::contains is from C++23 on.
#pragma once

#include <algorithm>
#include <vector>

namespace ptdp {

template <class Value>
[[nodiscard]] bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace ptdp
