// Dropout on activations, forward and backward.
#include <cassert>

#include "kernels/cuda/branch_sums.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/token_rows.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Computes y = residual + mask·(x + bias). bias and residual may be null. Without dropout the mask
/// is the factor of all elements, and a factor of 1 changes no bit.
template <class T, int kSize, bool kDrops>
struct DropoutBody {
  const T* x;
  const T* bias;
  const T* residual;
  T* y;
  Mask mask;
  TokenRows rows;
  std::int64_t seq_length;
  std::int64_t width;

  struct Loaded {
    Vector<T, kSize> x;
    Vector<T, kSize> bias;
    Vector<T, kSize> residual;
  };
  __device__ Loaded load(const Place& place) const {
    Loaded loaded{};
    loaded.x = cuda::load<kSize>(x, place.number);
    if (bias != nullptr) {
      loaded.bias = cuda::load<kSize>(bias, place.column);
    }
    if (residual != nullptr) {
      loaded.residual = cuda::load<kSize>(residual, place.number);
    }
    return loaded;
  }

  /// Returns the number, in the global batch, of a vector's first element.
  __device__ std::uint64_t first_element_of(const Place& place) const {
    const std::int64_t token = rows.sample_of(place.row) * seq_length + rows.position_of(place.row);
    return static_cast<std::uint64_t>(token * width + std::int64_t{place.column} * kSize);
  }

  __device__ void finish(const Place& place, const Loaded& loaded) const {
    float factors[kSize];
    if constexpr (kDrops) {
      fill_mask<kSize>(mask, first_element_of(place), factors);
    }
    const Vector<float, kSize> from = widened(loaded.x);
    const Vector<float, kSize> added = widened(loaded.bias);
    const Vector<float, kSize> before = widened(loaded.residual);
    Vector<T, kSize> result;
    for (int e = 0; e < kSize; ++e) {
      result[e] = branch_sum<T>(from[e], added[e], before[e], kDrops ? factors[e] : mask.kept);
    }
    store(y, place.number, result);
  }
};

void bias_dropout_add(const Queue& queue, const BiasDropoutAddCall& call) {
  if (call.x.empty()) {
    return;
  }
  const std::int64_t width = call.x.size / call.rows;
  assert(call.x.size == call.y.size && call.x.size == call.rows * width);
  assert(call.bias.empty() || call.bias.size == width);
  assert(call.residual.empty() || call.residual.size == call.x.size);
  assert(call.rows < (std::int64_t{1} << 31U) && call.range.batch < (std::int64_t{1} << 31U));
  const Mask mask = mask_of(call);
  visit_working_type(call.x.type, [&]<class T>(T) {
    const T* const b = call.bias.empty() ? nullptr : elements<T>(call.bias);
    const T* const r = call.residual.empty() ? nullptr : elements<T>(call.residual);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      const auto launch_body = [&]<bool kDrops>(std::bool_constant<kDrops>) {
        launch_matrix(
            queue.stream,
            DropoutBody<T, kSize, kDrops>{elements<T>(call.x), b, r, elements<T>(call.y), mask,
                                          TokenRows(call.range), call.range.seq_length, width},
            call.rows, width / kSize);
      };
      if (call.dropout.probability > 0.0) {
        launch_body(std::true_type());
      } else {
        launch_body(std::false_type());
      }
    };
    visit_vector_size<T>(width, are_aligned(16, call.x.data, b, r, call.y.data), launch_with);
  });
}

void dropout_backward(const Queue& queue, Buffer dy, const Dropout& dropout, double scale,
                      const TokenRange& range, Buffer dx, std::int64_t rows) {
  bias_dropout_add(
      queue, {.x = dy, .dropout = dropout, .scale = scale, .range = range, .y = dx, .rows = rows});
}

}  // namespace

void add_dropout_kernels(Kernels& kernels) {
  kernel_of<&Backend::bias_dropout_add>(kernels) = bias_dropout_add;
  kernel_of<&Backend::dropout_backward>(kernels) = dropout_backward;
}

}  // namespace ptdp::cuda
