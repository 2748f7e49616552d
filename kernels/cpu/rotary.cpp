// Rotary positions.
#include <cassert>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Turns the pairs of one vector, which lie `half` elements apart.
template <class T, class Sum = Accumulator<T>>
void turn(T* x, const Sum* cosines, const Sum* sines, Sum sign, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const Sum a = widen(x[i]);
    const Sum b = widen(x[half + i]);
    const Sum sine = sign * sines[i];
    x[i] = narrow<T>(a * cosines[i] - b * sine);
    x[half + i] = narrow<T>(b * cosines[i] + a * sine);
  }
}

void rotate(Backend&, const RotaryCall& call) {
  const std::int64_t half = call.width / 2;
  assert(call.width % 2 == 0 && call.width <= call.head_size);
  assert(call.angles.size == call.range.seq_length * call.width);
  visit_element_type(call.x.elements.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const auto sign = static_cast<Sum>(call.turns_back ? -1 : 1);
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const Sum* const cosines =
          elements<Sum>(call.angles) + call.range.position_of(row) * call.width;
      T* const heads = elements<T>(call.x.elements) + row * call.x.stride;
      for (std::int64_t head = 0; head < call.heads; ++head) {
        turn(heads + head * call.head_size, cosines, cosines + half, sign, half);
      }
    }
  });
}

}  // namespace

void add_rotary_loops(KernelTable& loops) {
  loop_of<&Backend::rotate>(loops) = rotate;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
