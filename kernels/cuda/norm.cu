// Layer norm and RMS norm, with a block for one vector at a time, which stays in registers if it
// fits.
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norm_row.h"
#include "kernels/cuda/norms.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {
namespace {

/// Computes the norm of vectors, with their rstd, and the mean if it is wanted.
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kMostNormThreads) norm_rows(Norm<T> norm, NormShape shape) {
  const auto num_rows = static_cast<NormRow<T>>(shape.count);
  for (NormRow<T> row = blockIdx.x; row < num_rows; row += gridDim.x) {
    const RowChunks<kHeld, kIsAligned, T> x(norm.x.template at<kHeld>(row, shape), shape.width);
    norm_row(x, norm, shape, row);
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
    const Norm<T> norm = norm_of<T>(call);
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
