// Layer norm and RMS norm, with a block for one vector at a time, which stays in registers if it
// fits. Sums and products are fused only where the code says so, so that alignment changes no bit.
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norms.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {
namespace {

/// Computes the norm of vectors, with their rstd, and the mean if it is wanted.
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kMostNormThreads) norm_rows(Norm<T> norm, NormShape shape) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t width = shape.width;
  const auto size = static_cast<float>(width);
  // Counted in 64 bits, f32 vectors spill registers on sm_100; counted in 32, 16-bit vectors take
  // more of them on sm_80 and sm_90.
  using Row = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::int64_t>;
  const auto num_rows = static_cast<Row>(shape.count);
  for (Row row = blockIdx.x; row < num_rows; row += gridDim.x) {
    const RowChunks<kHeld, kIsAligned, T> x(norm.x.template at<kHeld>(row, shape), width);
    float mean = 0.0F;
    if (norm.mean != nullptr) {
      float sum = 0.0F;
      visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
        const Packed<T> chunk = x.at(k, first);
        for (int j = 0; j < kSize; ++j) {
          sum += chunk[j];
        }
      });
      mean = block_sum(sum) / size;
    }
    float squares = 0.0F;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int count) {
      const Packed<T> chunk = x.at(k, first);
      for (int j = 0; j < kSize; ++j) {
        const float centered = j < count ? chunk[j] - mean : 0.0F;
        squares = fmaf(centered, centered, squares);
      }
    });
    const float rstd = 1.0F / sqrtf(block_sum(squares) / size + norm.epsilon);
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
      const Packed<T> chunk = x.at(k, first);
      Chunk<T> y;
      const auto gamma = load_chunk<kIsAligned>(norm.gamma, first, width);
      const auto beta = load_beta<kIsAligned>(norm.beta, first, width);
      for (int j = 0; j < kSize; ++j) {
        const float normal = (chunk[j] - mean) * rstd;
        y[j] = narrow<T>(fmaf(normal, gamma[j] + norm.gamma_offset, beta[j]));
      }
      store_chunk<kIsAligned>(y, norm.y.template at<kHeld>(row, shape), first, width);
    });
    if (threadIdx.x == 0) {
      if (norm.mean != nullptr) {
        norm.mean[row] = mean;
      }
      norm.rstd[row] = rstd;
    }
  }
}

void compute_norms(const Queue& queue, const NormCall& call) {
  const NormShape shape{call.rows * call.vectors, call.gamma.size,
                        static_cast<std::uint32_t>(call.vectors)};
  assert(call.beta.empty() || call.beta.size == shape.width);
  assert(call.mean.empty() || call.mean.size == shape.count);
  assert(call.rstd.size == shape.count && shape.count < (std::int64_t{1} << 31U));
  if (shape.count * shape.width == 0) {
    return;
  }
  visit_working_type(call.x.elements.type, [&]<class T>(T) {
    const Norm<T> norm{{elements<T>(call.x.elements), call.x.stride},
                       elements<T>(call.gamma),
                       call.beta.empty() ? nullptr : elements<T>(call.beta),
                       {elements<T>(call.y.elements), call.y.stride},
                       call.mean.empty() ? nullptr : elements<float>(call.mean),
                       elements<float>(call.rstd),
                       static_cast<float>(call.epsilon),
                       static_cast<float>(call.gamma_offset)};
    const bool is_aligned =
        has_chunked_strides<T>(call.x, call.y) &&
        has_aligned_rows<T>(shape.width, norm.x.first, norm.gamma, norm.beta, norm.y.first);
    if (are_short<T>(shape, norm.mean != nullptr)) {
      launch_short_norms(queue.stream, norm, shape, is_aligned);
      return;
    }
    const auto issue = [&]<class Held, class IsAligned>(Held, IsAligned, int threads) {
      const auto kernel = norm_rows<T, Held::value, IsAligned::value>;
      launch(queue.stream, row_grid(shape.count, threads), kernel, norm, shape);
    };
    for_width<T, 4>(shape.width, is_aligned, /*is_holdable=*/shape.vectors == 1, issue);
  });
}

}  // namespace

void add_norm_kernels(Kernels& kernels) {
  kernel_of<&Backend::norm>(kernels) = compute_norms;
}

}  // namespace ptdp::cuda
