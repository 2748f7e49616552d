// The sum at the end of a residual branch and its norm in one pass over memory, with a block for
// one row at a time, which stays in registers if it fits.
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/branch_sums.h"
#include "kernels/cuda/norm_row.h"
#include "kernels/cuda/norms.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"
#include "kernels/cuda/token_rows.h"

namespace ptdp::cuda {
namespace {

/// The sum y = residual + mask·(x + bias) of rows that follow each other. y may be x or residual.
template <class T>
struct BranchSum {
  const T* x;
  const T* bias;      ///< May be null.
  const T* residual;  ///< May be null.
  T* y;
  Mask mask;
  TokenRows rows;
  std::int64_t seq_length;
};

/// Returns a chunk from element `first` on, or zeros if there is nothing to read.
template <bool kIsAligned, class T>
__device__ Packed<T> load_optional(const T* row, std::int64_t first, std::int64_t width) {
  return row == nullptr ? Packed<T>{} : load_chunk<kIsAligned>(row, first, width);
}

/// Computes the factors of a chunk's elements. `number` is that of its first one in the global
/// batch.
template <bool kIsAligned, int kSize>
__device__ void fill_chunk_mask(const Mask& mask, std::uint64_t number, float (&factors)[kSize]) {
  if constexpr (kIsAligned) {
    fill_mask<kSize>(mask, number, factors);
  } else {
    for (int j = 0; j < kSize; ++j) {
      float factor[1];
      fill_mask<1>(mask, number + static_cast<unsigned>(j), factor);
      factors[j] = factor[0];
    }
  }
}

/// Computes sums of rows and their norms. Without dropout the mask is the factor of all elements.
template <class T, int kHeld, bool kIsAligned, bool kDrops>
__global__ void __launch_bounds__(kMostNormThreads)
    sum_and_norm_rows(BranchSum<T> sum, Norm<T> norm, NormShape shape) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t width = shape.width;
  const auto num_rows = static_cast<NormRow<T>>(shape.count);
  for (NormRow<T> row = blockIdx.x; row < num_rows; row += gridDim.x) {
    const std::int64_t offset = static_cast<std::int64_t>(row) * width;
    const T* const residual = sum.residual == nullptr ? nullptr : sum.residual + offset;
    const auto sum_of_chunk = [&](std::int64_t first) {
      const auto x = load_chunk<kIsAligned>(sum.x + offset, first, width);
      const auto before = load_optional<kIsAligned>(residual, first, width);
      const auto bias = load_optional<kIsAligned>(sum.bias, first, width);
      float factors[kSize];
      if constexpr (kDrops) {
        const std::int64_t token =
            sum.rows.sample_of(row) * sum.seq_length + sum.rows.position_of(row);
        fill_chunk_mask<kIsAligned>(sum.mask, static_cast<std::uint64_t>(token * width + first),
                                    factors);
      }
      Chunk<T> result;
      for (int j = 0; j < kSize; ++j) {
        result[j] = branch_sum<T>(x[j], bias[j], before[j], kDrops ? factors[j] : sum.mask.kept);
      }
      return result;
    };
    const RowChunks<kHeld, kIsAligned, T> x(sum.y + offset, width, sum_of_chunk);
    norm_row(x, norm, shape, row);
  }
}

/// Queues the sums and norms of rows that a block each takes.
template <class T>
void launch_sums_and_norms(cudaStream_t stream, const BiasDropoutAddCall& call, const Norm<T>& norm,
                           const NormShape& shape) {
  const BranchSum<T> sum{elements<T>(call.x),
                         call.bias.empty() ? nullptr : elements<T>(call.bias),
                         call.residual.empty() ? nullptr : elements<T>(call.residual),
                         elements<T>(call.y),
                         mask_of(call),
                         TokenRows(call.range),
                         call.range.seq_length};
  const bool is_aligned = has_aligned_rows<T>(shape.width, sum.x, sum.bias, sum.residual, sum.y,
                                              norm.gamma, norm.beta, norm.y.first) &&
                          norm.y.stride % kVectorSize<T> == 0;
  const auto launch_with = [&]<bool kDrops>(std::bool_constant<kDrops>) {
    // Masks of four chunks take more registers than sm_100 has for them.
    constexpr int kMostHeld = kDrops ? 2 : 4;
    const auto issue = [&]<class Held, class IsAligned>(Held, IsAligned, int threads) {
      const auto kernel = sum_and_norm_rows<T, Held::value, IsAligned::value, kDrops>;
      launch(stream, row_grid(shape.count, threads), kernel, sum, norm, shape);
    };
    for_width<T, kMostHeld>(shape.width, is_aligned, /*is_holdable=*/true, issue);
  };
  if (call.dropout.probability > 0.0) {
    launch_with(std::true_type());
  } else {
    launch_with(std::false_type());
  }
}

void sum_and_norm(const Queue& queue, const BiasDropoutAddCall& sum, const NormCall& call) {
  const NormShape shape{call.rows, call.gamma.size, 1};
  assert(call.vectors == 1 && call.x.elements.data == sum.y.data && call.x.stride == shape.width);
  assert(sum.rows == call.rows && sum.x.size == shape.count * shape.width);
  assert(sum.y.size == sum.x.size && (sum.bias.empty() || sum.bias.size == shape.width));
  assert(sum.residual.empty() || sum.residual.size == sum.x.size);
  assert(call.beta.empty() || call.beta.size == shape.width);
  assert(call.mean.empty() || call.mean.size == shape.count);
  assert(call.rstd.size == shape.count && shape.count < (std::int64_t{1} << 31U));
  assert(sum.range.batch < (std::int64_t{1} << 31U));
  if (shape.count * shape.width == 0) {
    return;
  }
  visit_working_type(sum.x.type, [&]<class T>(T) {
    if (are_short<T>(shape, !call.mean.empty())) {
      // A warp norms such a vector in another order, and little is moved.
      queue.memory.bias_dropout_add(sum);
      queue.memory.norm(call);
    } else {
      launch_sums_and_norms(queue.stream, sum, norm_of<T>(call), shape);
    }
  });
}

}  // namespace

void add_sum_norm_kernels(Kernels& kernels) {
  kernel_of<&Backend::sum_and_norm>(kernels) = sum_and_norm;
}

}  // namespace ptdp::cuda
