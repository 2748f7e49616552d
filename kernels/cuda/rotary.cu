// Rotary positions: pairs of elements of each head turn by the angle of their position.
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/token_rows.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Numbers of an angle table that are read at once, at most 16 bytes.
template <int kSize>
constexpr int kAnglesAtOnce = kSize < 4 ? kSize : 4;

/// Turns a vector of first elements of pairs, and the vector of their second elements.
template <class T, int kSize>
struct RotaryBody {
  T* x;
  const float* angles;
  TokenRows rows;
  std::int64_t stride;     ///< Elements from row to row.
  std::int64_t head_size;  ///< Elements of a head.
  std::uint32_t columns;   ///< Vectors of first elements in a head.
  float sine_factor;       ///< 1, or −1 to turn back.

  struct Loaded {
    Vector<T, kSize> first;
    Vector<T, kSize> second;
    float cosines[kSize];
    float sines[kSize];
  };

  /// Returns the first elements of a place; the second ones are half the turned width later.
  __device__ T* elements_of(const Place& place) const {
    return x + place.row * stride + place.column / columns * head_size +
           std::int64_t{place.column % columns} * kSize;
  }
  /// Returns half of the width that is turned.
  __device__ std::int64_t half() const { return std::int64_t{columns} * kSize; }

  __device__ Loaded load(const Place& place) const {
    Loaded loaded;
    const T* const from = elements_of(place);
    loaded.first = cuda::load<kSize>(from, 0);
    loaded.second = cuda::load<kSize>(from + half(), 0);
    constexpr int at_once = kAnglesAtOnce<kSize>;
    const float* const cosines = angles + rows.position_of(place.row) * 2 * half() +
                                 std::int64_t{place.column % columns} * kSize;
    for (int part = 0; part < kSize / at_once; ++part) {
      const auto c = cuda::load<at_once>(cosines, part);
      const auto s = cuda::load<at_once>(cosines + half(), part);
      for (int e = 0; e < at_once; ++e) {
        loaded.cosines[part * at_once + e] = c[e];
        loaded.sines[part * at_once + e] = s[e];
      }
    }
    return loaded;
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    const Vector<float, kSize> a = widened(loaded.first);
    const Vector<float, kSize> b = widened(loaded.second);
    Vector<T, kSize> first;
    Vector<T, kSize> second;
    for (int e = 0; e < kSize; ++e) {
      const float c = loaded.cosines[e];
      const float s = loaded.sines[e] * sine_factor;
      first[e] = narrow<T>(fmaf(a[e], c, -(b[e] * s)));
      second[e] = narrow<T>(fmaf(b[e], c, a[e] * s));
    }
    T* const to = elements_of(place);
    store(to, 0, first);
    store(to + half(), 0, second);
  }
};

void rotate(const Queue& queue, const RotaryCall& call) {
  const std::int64_t half = call.width / 2;
  assert(call.width % 2 == 0 && call.width <= call.head_size);
  assert(call.rows < (std::int64_t{1} << 31U) && call.range.batch < (std::int64_t{1} << 31U));
  if (call.rows * call.heads * half == 0) {
    return;
  }
  visit_working_type(call.x.elements.type, [&]<class T>(T) {
    T* const x = elements<T>(call.x.elements);
    auto* const angles = elements<float>(call.angles);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      const std::int64_t columns = half / kSize;
      launch_matrix(
          queue.stream,
          RotaryBody<T, kSize>{x, angles, TokenRows(call.range), call.x.stride, call.head_size,
                               static_cast<std::uint32_t>(columns), call.turns_back ? -1.0F : 1.0F},
          call.rows, call.heads * columns);
    };
    const bool is_aligned = call.x.stride % kVectorSize<T> == 0 &&
                            call.head_size % kVectorSize<T> == 0 && are_aligned(16, x, angles);
    visit_vector_size<T>(half, is_aligned, launch_with);
  });
}

}  // namespace

void add_rotary_kernels(Kernels& kernels) {
  kernel_of<&Backend::rotate>(kernels) = rotate;
}

}  // namespace ptdp::cuda
