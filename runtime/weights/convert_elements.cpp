#include "runtime/weights/convert_elements.h"

#include <cassert>
#include <cstring>

#include "kernels/cpu/element.h"

namespace ptdp {
namespace {

template <class From, class To>
void convert_all(const From* from, To* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = baseline::narrow<To>(baseline::widen(from[i]));
  }
}

}  // namespace

void convert_elements(const Buffer& from, const Buffer& to) {
  assert(from.size == to.size);
  if (from.empty()) {
    return;
  }
  if (from.type == to.type) {
    std::memcpy(to.data, from.data, static_cast<std::size_t>(to.bytes()));
    return;
  }
  baseline::visit_element_type(from.type, [&](auto from_zero) {
    using From = decltype(from_zero);
    baseline::visit_element_type(to.type, [&](auto to_zero) {
      using To = decltype(to_zero);
      convert_all(elements<From>(from), elements<To>(to), from.size);
    });
  });
}

}  // namespace ptdp
