// Dropout on activations.
#include <cassert>

#include "kernels/counter_random.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Which elements are dropped, and what the others are multiplied by.
struct Mask {
  PhiloxKeys keys = {};
  std::uint32_t threshold = 0;
  float kept = 1.0F;
};

/// mask[e] of the elements from `first` on, which is a multiple of kSize.
template <int kSize>
__device__ void fill_mask(const Mask& mask, std::uint64_t first, float (&factors)[kSize]) {
  if constexpr (kSize == 1) {
    factors[0] = random_word(mask.keys, first) < mask.threshold ? 0.0F : mask.kept;
  } else {
    static_assert(kSize % 4 == 0);
    for (int block = 0; block < kSize / 4; ++block) {
      const PhiloxWords random = philox_words(mask.keys, first / 4 + static_cast<unsigned>(block));
      for (int i = 0; i < 4; ++i) {
        factors[4 * block + i] = random.words[i] < mask.threshold ? 0.0F : mask.kept;
      }
    }
  }
}

/// y = residual + mask·(x + bias); bias and residual may be null.
template <class T, int kSize, bool kDrops>
struct DropoutBody {
  const T* x;
  const T* bias;
  const T* residual;
  T* y;
  Mask mask;
  TokenRange range;
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

  /// Number in the global batch of a vector's first element.
  __device__ std::uint64_t first_element_of(const Place& place) const {
    const auto row = static_cast<std::uint32_t>(place.row);
    const auto batch = static_cast<std::uint32_t>(range.batch);
    const std::int64_t position = range.first_position + row / batch;
    const std::int64_t sample = range.first_sample + row % batch;
    return static_cast<std::uint64_t>((sample * range.seq_length + position) * width +
                                      std::int64_t{place.column} * kSize);
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
      const float sum = from[e] + added[e];
      result[e] = narrow<T>(before[e] + (kDrops ? sum * factors[e] : sum));
    }
    store(y, place.number, result);
  }
};

}  // namespace

void bias_dropout_add(cudaStream_t stream, Buffer x, Buffer bias, Buffer residual,
                      const Dropout& dropout, const TokenRange& range, Buffer y,
                      std::int64_t rows) {
  if (x.empty()) {
    return;
  }
  const std::int64_t width = x.size / rows;
  assert(x.size == y.size && x.size == rows * width);
  assert(bias.empty() || bias.size == width);
  assert(residual.empty() || residual.size == x.size);
  assert(rows < (std::int64_t{1} << 31U) && range.batch < (std::int64_t{1} << 31U));
  const Mask mask{.keys = philox_keys(dropout.key),
                  .threshold = dropout_threshold(dropout.probability),
                  .kept = static_cast<float>(1.0 / (1.0 - dropout.probability))};
  visit_working_type(x.type, [&]<class T>(T) {
    const T* const b = bias.empty() ? nullptr : elements<T>(bias);
    const T* const r = residual.empty() ? nullptr : elements<T>(residual);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      const auto launch_body = [&]<bool kDrops>(std::bool_constant<kDrops>) {
        launch_matrix(
            stream,
            DropoutBody<T, kSize, kDrops>{elements<T>(x), b, r, elements<T>(y), mask, range, width},
            rows, width / kSize);
      };
      if (dropout.probability > 0.0) {
        launch_body(std::true_type());
      } else {
        launch_body(std::false_type());
      }
    };
    visit_vector_size<T>(width, are_aligned(16, x.data, b, r, y.data), launch_with);
  });
}

void dropout_backward(cudaStream_t stream, Buffer dy, const Dropout& dropout,
                      const TokenRange& range, Buffer dx, std::int64_t rows) {
  bias_dropout_add(stream, dy, {}, {}, dropout, range, dx, rows);
}

}  // namespace ptdp::cuda
