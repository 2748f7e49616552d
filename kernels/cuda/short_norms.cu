// Norms of short vectors and their gradients: a warp takes one vector or several, each with as many
// lanes as it has chunks. Sums and products are fused only where the code says so, so that
// alignment changes no bit.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norms.h"

namespace ptdp::cuda {
namespace {

/// Returns the sum of x over groups of `lanes` neighboring lanes, a power of two. All lanes of a
/// warp call it.
__device__ float sum_over_lanes_of_vector(float x, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFU, x, offset);
  }
  return x;
}

/// The lanes of a block that share a vector, and this thread's place among them.
struct LaneGroup {
  __device__ explicit LaneGroup(int lanes_each)
      : lanes(lanes_each),
        lane(static_cast<int>(threadIdx.x) % lanes_each),
        number(static_cast<int>(threadIdx.x) / lanes_each),
        count(static_cast<int>(blockDim.x) / lanes_each) {}

  /// Returns the first element of this thread's chunk number k.
  template <class T>
  [[nodiscard]] __device__ std::int64_t first(int k) const {
    return (lane + std::int64_t{k} * lanes) * kVectorSize<T>;
  }

  int lanes;
  int lane;
  int number;  ///< Number of the group in its block.
  int count;   ///< Groups of a block.
};

/// Reads this thread's chunks of a vector, with zeros beyond its end.
template <bool kIsAligned, int kHeld, class T>
__device__ void load_chunks(const LaneGroup& group, const T* vector, std::int64_t width,
                            Packed<T> (&chunks)[kHeld]) {
  for (int k = 0; k < kHeld; ++k) {
    const std::int64_t first = group.first<T>(k);
    chunks[k] = first < width ? load_chunk<kIsAligned>(vector, first, width) : Packed<T>{};
  }
}

/// Computes the norm of vectors of at most kHeld chunks for each of `lanes` lanes. Groups without a
/// vector compute the first one again, and write nothing.
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kThreads)
    norm_short_vectors(Norm<T> norm, NormShape shape, int lanes) {
  constexpr int kSize = kVectorSize<T>;
  const LaneGroup group(lanes);
  const std::int64_t width = shape.width;
  const float per_size = 1.0F / static_cast<float>(width);
  for (std::int64_t base = std::int64_t{blockIdx.x} * group.count; base < shape.count;
       base += std::int64_t{gridDim.x} * group.count) {
    const bool is_there = base + group.number < shape.count;
    const std::int64_t number = is_there ? base + group.number : 0;
    Packed<T> x[kHeld];
    load_chunks<kIsAligned>(group, norm.x.vector(number, shape), width, x);
    float mean = 0.0F;
    if (norm.mean != nullptr) {
      float sum = 0.0F;
      for (int k = 0; k < kHeld; ++k) {
        for (int j = 0; j < kSize; ++j) {
          sum += x[k][j];
        }
      }
      mean = sum_over_lanes_of_vector(sum, lanes) * per_size;
    }
    float squares = 0.0F;
    for (int k = 0; k < kHeld; ++k) {
      for (int j = 0; j < kSize; ++j) {
        const float centered = group.first<T>(k) + j < width ? x[k][j] - mean : 0.0F;
        squares = fmaf(centered, centered, squares);
      }
    }
    const float rstd =
        1.0F / sqrtf(fmaf(sum_over_lanes_of_vector(squares, lanes), per_size, norm.epsilon));
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t first = group.first<T>(k);
      if (is_there && first < width) {
        const auto gamma = load_chunk<kIsAligned>(norm.gamma, first, width);
        const auto beta = load_beta<kIsAligned>(norm.beta, first, width);
        Chunk<T> y;
        for (int j = 0; j < kSize; ++j) {
          y[j] = narrow<T>(fmaf((x[k][j] - mean) * rstd, gamma[j] + norm.gamma_offset, beta[j]));
        }
        store_chunk<kIsAligned>(y, norm.y.vector(number, shape), first, width);
      }
    }
    if (is_there && group.lane == 0) {
      if (norm.mean != nullptr) {
        norm.mean[number] = mean;
      }
      norm.rstd[number] = rstd;
    }
  }
}

/// A thread's sums for the columns of its chunks.
template <class T, int kHeld>
struct ColumnSums {
  float values[kHeld][kVectorSize<T>];
};

/// Writes the sums over a block's groups to `to` [width], group by group. All threads of the block
/// call it.
template <class T, int kHeld>
__device__ void write_column_sums(const LaneGroup& group, const ColumnSums<T, kHeld>& sums,
                                  std::int64_t width, float* to) {
  float* const of_groups = dynamic_shared<float>();
  for (int k = 0; k < kHeld; ++k) {
    for (int j = 0; j < kVectorSize<T>; ++j) {
      const std::int64_t column = group.first<T>(k) + j;
      if (column < width) {
        of_groups[group.number * width + column] = sums.values[k][j];
      }
    }
  }
  __syncthreads();
  for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
    float total = of_groups[column];
    for (int other = 1; other < group.count; ++other) {
      total += of_groups[other * width + column];
    }
    to[column] = total;
  }
  __syncthreads();
}

/// Computes the gradients of vectors, as norm_rows_backward does, of at most kHeld chunks for each
/// of `lanes` lanes.
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kThreads)
    norm_short_vectors_backward(NormGradient<T> norm, NormShape shape, int lanes) {
  constexpr int kSize = kVectorSize<T>;
  const LaneGroup group(lanes);
  const std::int64_t width = shape.width;
  const float per_size = 1.0F / static_cast<float>(width);
  Packed<T> gammas[kHeld];
  load_chunks<kIsAligned>(group, norm.gamma, width, gammas);
  ColumnSums<T, kHeld> of_gamma{};
  ColumnSums<T, kHeld> of_beta{};
  for (std::int64_t base = std::int64_t{blockIdx.x} * group.count; base < shape.count;
       base += std::int64_t{gridDim.x} * group.count) {
    const bool is_there = base + group.number < shape.count;
    const std::int64_t number = is_there ? base + group.number : 0;
    // A group without a vector has gradients of zero.
    const std::int64_t width_there = is_there ? width : 0;
    Packed<T> dy[kHeld];
    Packed<T> x[kHeld];
    load_chunks<kIsAligned>(group, norm.dy.vector(number, shape), width_there, dy);
    load_chunks<kIsAligned>(group, norm.x.vector(number, shape), width_there, x);
    const Moments of_x = moments_of(norm, number);
    float sum = 0.0F;
    float product = 0.0F;
    for (int k = 0; k < kHeld; ++k) {
      for (int j = 0; j < kSize; ++j) {
        const float gamma = gammas[k][j] + norm.gamma_offset;
        const float normal = (x[k][j] - of_x.mean) * of_x.rstd;
        sum = fmaf(dy[k][j], gamma, sum);
        product = fmaf(dy[k][j] * gamma, normal, product);
      }
    }
    sum = sum_over_lanes_of_vector(sum, lanes);
    product = sum_over_lanes_of_vector(product, lanes) * per_size;
    const float of_g = norm.mean == nullptr ? 0.0F : sum * per_size;
    T* const to = norm.dx.vector(number, shape);
    const T* const added = added_to(norm, to);
    for (int k = 0; k < kHeld; ++k) {
      const std::int64_t first = group.first<T>(k);
      if (first < width_there) {
        const Packed<T> before =
            norm.added != nullptr ? load_chunk<kIsAligned>(added, first, width) : Packed<T>{};
        Chunk<T> after;
        for (int j = 0; j < kSize; ++j) {
          const float gamma = gammas[k][j] + norm.gamma_offset;
          const float normal = (x[k][j] - of_x.mean) * of_x.rstd;
          const float inner = fmaf(-normal, product, fmaf(dy[k][j], gamma, -of_g));
          after[j] = narrow<T>(fmaf(of_x.rstd, inner, before[j]));
          of_gamma.values[k][j] = fmaf(dy[k][j], normal, of_gamma.values[k][j]);
          of_beta.values[k][j] += dy[k][j];
        }
        store_chunk<kIsAligned>(after, to, first, width);
      }
    }
  }
  write_column_sums(group, of_gamma, width, norm.parts + blockIdx.x * width);
  if (norm.has_beta) {
    write_column_sums(group, of_beta, width,
                      norm.parts + (std::int64_t{gridDim.x} + blockIdx.x) * width);
  }
}

/// Calls issue(constant of kHeld, bool_constant of kIsAligned, lanes) for short vectors.
template <class T, class Issue>
void for_lanes(std::int64_t width, bool is_aligned, const Issue& issue) {
  const auto chunks = static_cast<unsigned>(num_chunks<T>(width));
  const int lanes = static_cast<int>(std::min(std::bit_ceil(chunks), unsigned{kWarp}));
  const auto with_held = [&](auto held) {
    if (is_aligned) {
      issue(held, std::true_type{}, lanes);
    } else {
      issue(held, std::false_type{}, lanes);
    }
  };
  if (chunks <= unsigned{kWarp}) {
    with_held(std::integral_constant<int, 1>{});
  } else {
    with_held(std::integral_constant<int, 2>{});
  }
}

}  // namespace

template <class T>
void launch_short_norms(cudaStream_t stream, const Norm<T>& norm, const NormShape& shape,
                        bool is_aligned) {
  for_lanes<T>(shape.width, is_aligned,
               [&]<class Held, class IsAligned>(Held, IsAligned, int lanes) {
                 const auto kernel = norm_short_vectors<T, Held::value, IsAligned::value>;
                 launch(stream, walking_grid(shape.count * lanes), kernel, norm, shape, lanes);
               });
}

template <class T>
void launch_short_norms_backward(cudaStream_t stream, const NormGradient<T>& norm,
                                 const NormShape& shape, bool is_aligned, std::int64_t blocks) {
  for_lanes<T>(
      shape.width, is_aligned, [&]<class Held, class IsAligned>(Held, IsAligned, int lanes) {
        const auto kernel = norm_short_vectors_backward<T, Held::value, IsAligned::value>;
        const std::int64_t shared = kThreads / lanes * shape.width * bytes_of(DataType::kFloat32);
        const Grid grid{static_cast<unsigned>(blocks), kThreads, shared};
        launch(stream, grid, kernel, norm, shape, lanes);
      });
}

template void launch_short_norms(cudaStream_t, const Norm<float>&, const NormShape&, bool);
template void launch_short_norms(cudaStream_t, const Norm<BFloat16>&, const NormShape&, bool);
template void launch_short_norms(cudaStream_t, const Norm<Float16>&, const NormShape&, bool);
template void launch_short_norms_backward(cudaStream_t, const NormGradient<float>&,
                                          const NormShape&, bool, std::int64_t);
template void launch_short_norms_backward(cudaStream_t, const NormGradient<BFloat16>&,
                                          const NormShape&, bool, std::int64_t);
template void launch_short_norms_backward(cudaStream_t, const NormGradient<Float16>&,
                                          const NormShape&, bool, std::int64_t);

}  // namespace ptdp::cuda
