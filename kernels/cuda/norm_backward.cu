// Gradients of norms, with a block for one vector at a time, which stays in registers if it fits.
// Sums and products are fused only where the code says so, so that alignment changes no bit.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norms.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {
namespace {

/// Shared memory for sums that a block has on every GPU since compute capability 8.0 [B].
constexpr std::int64_t kMostShared = 96 << 10;

/// Elements of the widest vectors whose sums for dgamma and dbeta fit there.
constexpr std::int64_t kMostHeldWidth = kMostShared / (2 * bytes_of(DataType::kFloat32));
/// Most chunks of such a vector that a thread has.
template <class T>
constexpr int kMostHeldOf =
    static_cast<int>((num_chunks<T>(kMostHeldWidth) + kMostNormThreads - 1) / kMostNormThreads);

/// Number of groups of four elements in a chunk.
template <class T>
constexpr int kFoursOf = kVectorSize<T> / 4;

/// The sums over a block's vectors: for dgamma, with kSumsAdded of what is added to dx, and for
/// dbeta, which need not be wanted. Each column belongs to one thread. The sums are in shared
/// memory, or with kHeld = 0, whose vectors may be too wide for that, in `parts`.
template <int kHeld, bool kIsAligned, bool kSumsAdded, class T>
class NormColumnSums {
 public:
  using Four = Vector<float, 4>;
  using Terms = float[kVectorSize<T>];

  __device__ NormColumnSums(float* parts, std::int64_t width, bool has_beta)
      : parts_(parts),
        width_(width),
        num_chunks_(static_cast<int>(num_chunks<T>(width))),
        num_sums_(has_beta ? kOfBeta + 1 : kOfBeta) {}

  /// Sets the sums of a chunk to 0.
  __device__ void clear(std::int64_t first, int count) {
    for (int which = 0; which < num_sums_; ++which) {
      if constexpr (kIsAligned) {
        for (int four = 0; four < kFoursOf<T>; ++four) {
          *place(which, first, four) = Four{};
        }
      } else {
        for (int j = 0; j < count; ++j) {
          part(which)[first + j] = 0.0F;
        }
      }
    }
  }

  /// Adds the terms of a chunk: dy·x̂ for dgamma, dy for dbeta.
  __device__ void add(std::int64_t first, int count, const Packed<T>& dy, const Terms& normal) {
    if constexpr (kIsAligned) {
      for (int four = 0; four < kFoursOf<T>; ++four) {
        Four of_gamma = *place(0, first, four);
        for (int j = 0; j < 4; ++j) {
          of_gamma[j] = fmaf(dy[4 * four + j], normal[4 * four + j], of_gamma[j]);
        }
        *place(0, first, four) = of_gamma;
      }
    } else {
      for (int j = 0; j < kVectorSize<T>; ++j) {
        if (j < count) {
          part(0)[first + j] = fmaf(dy[j], normal[j], part(0)[first + j]);
        }
      }
    }
    if (num_sums_ > kOfBeta) {
      add_to(kOfBeta, first, count, dy);
    }
  }

  /// Adds what is added to dx in a chunk to its own sums.
  __device__ void add_added(std::int64_t first, int count, const Packed<T>& added) {
    add_to(1, first, count, added);
  }

  /// Writes all sums to `parts`. All threads of the block call it.
  __device__ void write() {
    if constexpr (kHeld > 0) {
      __syncthreads();
      for (int which = 0; which < num_sums_; ++which) {
        for (std::int64_t c = threadIdx.x; c < width_; c += blockDim.x) {
          const int j = static_cast<int>(c % kVectorSize<T>);
          part(which)[c] = (*place(which, c, j / 4))[j % 4];
        }
      }
    }
  }

 private:
  /// Adds a chunk to sums of one kind.
  __device__ void add_to(int which, std::int64_t first, int count, const Packed<T>& terms) {
    if constexpr (kIsAligned) {
      for (int four = 0; four < kFoursOf<T>; ++four) {
        Four sums = *place(which, first, four);
        for (int j = 0; j < 4; ++j) {
          sums[j] += terms[4 * four + j];
        }
        *place(which, first, four) = sums;
      }
    } else {
      for (int j = 0; j < kVectorSize<T>; ++j) {
        if (j < count) {
          part(which)[first + j] += terms[j];
        }
      }
    }
  }
  /// Returns where four sums of a chunk of aligned vectors are. In shared memory, those of
  /// neighboring threads are adjacent.
  __device__ Four* place(int which, std::int64_t column, int four) const {
    if constexpr (kHeld > 0) {
      const int chunk = static_cast<int>(column) / kVectorSize<T>;
      return dynamic_shared<Four>() + (which * kFoursOf<T> + four) * num_chunks_ + chunk;
    } else {
      return reinterpret_cast<Four*>(part(which) + column) + four;
    }
  }
  /// Returns the block's sums of one kind in `parts` [width].
  __device__ float* part(int which) const {
    return parts_ + (which * std::int64_t{gridDim.x} + blockIdx.x) * width_;
  }

  /// Number of the sums for dbeta.
  static constexpr int kOfBeta = kSumsAdded ? 2 : 1;

  float* parts_;
  std::int64_t width_;
  int num_chunks_;
  int num_sums_;
};

struct Pair {
  float first;
  float second;
};

/// Returns two sums over a block of whole warps, in all of its threads, all of which call it.
__device__ Pair block_sum_of_pairs(Pair x) {
  __shared__ Pair of_warp[kWarp];
  x = {warp_sum(x.first), warp_sum(x.second)};
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = x;
  }
  __syncthreads();
  x = threadIdx.x % kWarp < blockDim.x / kWarp ? of_warp[threadIdx.x % kWarp] : Pair{0.0F, 0.0F};
  x = {warp_sum(x.first), warp_sum(x.second)};
  __syncthreads();
  return x;
}

/// Returns Σ dy·g and Σ dy·g·x̂ over a vector, with g = gamma + its offset.
template <int kHeld, bool kIsAligned, class T>
__device__ Pair gradient_sums(const RowChunks<kHeld, kIsAligned, T>& dy,
                              const RowChunks<kHeld, kIsAligned, T>& x, const NormGradient<T>& norm,
                              const Moments& of_x, std::int64_t width) {
  Pair sums{0.0F, 0.0F};
  // Beyond the end of the vector dy is 0.
  visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
    const Packed<T> dys = dy.at(k, first);
    const Packed<T> xs = x.at(k, first);
    const auto gammas = load_chunk<kIsAligned>(norm.gamma, first, width);
    for (int j = 0; j < kVectorSize<T>; ++j) {
      const float normal = (xs[j] - of_x.mean) * of_x.rstd;
      const float gamma = gammas[j] + norm.gamma_offset;
      sums.first = fmaf(dys[j], gamma, sums.first);
      sums.second = fmaf(dys[j] * gamma, normal, sums.second);
    }
  });
  return block_sum_of_pairs(sums);
}

/// Computes the gradients of vectors. With x̂ = (x − mean)·rstd and g = dy·gamma they are rstd·(g −
/// Σg/h − x̂·Σ(g·x̂)/h), without Σg/h for an RMS norm. Each thread writes only chunks that it alone
/// has read, and after all sums of the vector, so dx may be x, dy or what is added. kSumsAdded says
/// whether the sum of what is added is wanted, too.
template <class T, int kHeld, bool kIsAligned, bool kSumsAdded>
__global__ void __launch_bounds__(kMostNormThreads)
    norm_rows_backward(NormGradient<T> norm, NormShape shape) {
  constexpr int kSize = kVectorSize<T>;
  // More chunks would not fit into the registers of a block of 1024 threads.
  constexpr int kHeldOfResult = kHeld <= 2 ? kHeld : 0;
  const std::int64_t width = shape.width;
  const auto size = static_cast<float>(width);
  NormColumnSums<kHeld, kIsAligned, kSumsAdded, T> columns(norm.parts, width, norm.has_beta);
  visit_chunks<kHeld, kIsAligned, T>(
      width, [&](int, std::int64_t first, int count) { columns.clear(first, count); });
  for (std::int64_t row = blockIdx.x; row < shape.count; row += gridDim.x) {
    const RowChunks<kHeld, kIsAligned, T> dy(norm.dy.template at<kHeld>(row, shape), width);
    const RowChunks<kHeld, kIsAligned, T> x(norm.x.template at<kHeld>(row, shape), width);
    T* const to = norm.dx.template at<kHeld>(row, shape);
    const RowChunks<kHeldOfResult, kIsAligned, T> added(added_to(norm, to),
                                                        norm.added != nullptr ? width : 0);
    const Moments of_x = moments_of(norm, row);
    const Pair sums = gradient_sums(dy, x, norm, of_x, width);
    const float of_g = norm.mean == nullptr ? 0.0F : sums.first / size;
    const float of_product = sums.second / size;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int count) {
      const Packed<T> dys = dy.at(k, first);
      const Packed<T> xs = x.at(k, first);
      const Packed<T> before = norm.added != nullptr ? added.at(k, first) : Packed<T>{};
      if constexpr (kSumsAdded) {
        columns.add_added(first, count, before);
      }
      const auto gammas = load_chunk<kIsAligned>(norm.gamma, first, width);
      Chunk<T> after;
      float normal[kSize];
      for (int j = 0; j < kSize; ++j) {
        normal[j] = (xs[j] - of_x.mean) * of_x.rstd;
        const float gamma = gammas[j] + norm.gamma_offset;
        const float inner = fmaf(-normal[j], of_product, fmaf(dys[j], gamma, -of_g));
        after[j] = narrow<T>(fmaf(of_x.rstd, inner, before[j]));
      }
      store_chunk<kIsAligned>(after, to, first, width);
      columns.add(first, count, dys, normal);
    });
  }
  columns.write();
}

/// Where the sums of all vectors are added, in the order of a NormGradient's parts.
struct NormSums {
  float* first = nullptr;
  float* second = nullptr;
  float* third = nullptr;

  /// Returns where the sums of one kind are added.
  __device__ float* at(unsigned which) const {
    return which == 0 ? first : which == 1 ? second : third;
  }
};

/// Adds the blocks' parts of sums number blockIdx.y, 32 columns in each block. Each warp of a block
/// sums every num_warps-th part.
__global__ void add_norm_parts(const float* parts, std::int64_t num_parts, std::int64_t width,
                               NormSums to) {
  __shared__ float sums[kWarp][kWarp];
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = threadIdx.x / kWarp;
  const unsigned num_warps = blockDim.x / kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + lane;
  const float* const own = parts + blockIdx.y * num_parts * width;
  float sum = 0.0F;
  if (column < width) {
    for (std::int64_t part = warp; part < num_parts; part += num_warps) {
      sum += own[part * width + column];
    }
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp == 0 && column < width) {
    for (unsigned other = 1; other < num_warps; ++other) {
      sum += sums[other][lane];
    }
    to.at(blockIdx.y)[column] += sum;
  }
}

/// Returns the number of blocks of the backward pass. It is larger when each block leaves little,
/// so that narrow vectors, which have few threads, keep a GPU as busy.
std::int64_t num_norm_blocks(std::int64_t count, std::int64_t width) {
  constexpr std::int64_t kLeastBlocks = 256;
  constexpr std::int64_t kMostElements = 1 << 21;
  std::int64_t blocks = kMostBlocks;
  while (blocks > kLeastBlocks && blocks * width > kMostElements) {
    blocks /= 2;
  }
  return std::min(count, blocks);
}

/// Returns the number of sums that a call wants over its vectors.
unsigned num_sums(const NormBackwardCall& call) {
  return 1U + (call.dbeta.empty() ? 0U : 1U) + (call.added_sum.empty() ? 0U : 1U);
}

/// Returns a call's sums, in the order of a NormGradient's parts.
NormSums sums_of(const NormBackwardCall& call) {
  float* const of_beta = call.dbeta.empty() ? nullptr : elements<float>(call.dbeta);
  if (call.added_sum.empty()) {
    return {elements<float>(call.dgamma), of_beta};
  }
  return {elements<float>(call.dgamma), elements<float>(call.added_sum), of_beta};
}

/// Returns whether a block has shared memory for `sums` sums over its vectors, so that none need be
/// formed in a pass of its own. Shapes alone decide, since another pass adds in another order.
bool holds_sums(unsigned sums, const NormShape& shape) {
  return shape.vectors == 1 && sums * shape.width * bytes_of(DataType::kFloat32) <= kMostShared;
}

/// Queues the gradients of dx, and the sums of `blocks` blocks.
template <class T>
void launch_norm_gradients(cudaStream_t stream, const NormBackwardCall& call,
                           const NormShape& shape, std::int64_t blocks, float* parts) {
  const NormGradient<T> norm{{elements<T>(call.dy.elements), call.dy.stride},
                             {elements<T>(call.x.elements), call.x.stride},
                             call.mean.empty() ? nullptr : elements<float>(call.mean),
                             elements<float>(call.rstd),
                             elements<T>(call.gamma),
                             static_cast<float>(call.gamma_offset),
                             {elements<T>(call.dx.elements), call.dx.stride},
                             call.added.empty() ? nullptr : elements<T>(call.added),
                             !call.dbeta.empty(),
                             parts};
  const bool is_aligned = has_chunked_strides<T>(call.dy, call.x) &&
                          has_chunked_strides<T>(call.dx, call.dx) &&
                          has_aligned_rows<T>(shape.width, norm.dy.first, norm.x.first, norm.gamma,
                                              norm.added, norm.dx.first);
  if (are_short<T>(shape, norm.mean != nullptr)) {
    launch_short_norms_backward(stream, norm, shape, is_aligned, blocks);
    return;
  }
  const std::int64_t shared =
      std::max(num_sums(call), 2U) * shape.width * bytes_of(DataType::kFloat32);
  const auto launch_with = [&]<bool kSumsAdded>(std::bool_constant<kSumsAdded>) {
    const auto issue = [&]<class Held, class IsAligned>(Held, IsAligned, int threads) {
      const auto kernel = norm_rows_backward<T, Held::value, IsAligned::value, kSumsAdded>;
      const Grid grid{static_cast<unsigned>(blocks), threads, Held::value > 0 ? shared : 0};
      launch(stream, grid, kernel, norm, shape);
    };
    const bool is_holdable = shape.vectors == 1 && shape.width <= kMostHeldWidth;
    for_width<T, kMostHeldOf<T>>(shape.width, is_aligned, is_holdable, issue);
  };
  if (call.added_sum.empty()) {
    launch_with(std::false_type());
  } else {
    launch_with(std::true_type());
  }
}

/// Returns whether the sum of what is added takes a pass of its own: where no block has memory for
/// it, or a warp takes a vector, and little is moved.
bool sums_apart(const NormBackwardCall& call, const NormShape& shape) {
  bool is_short = false;
  visit_working_type(call.x.elements.type,
                     [&]<class T>(T) { is_short = are_short<T>(shape, !call.mean.empty()); });
  return is_short || !holds_sums(num_sums(call), shape);
}

void compute_norm_gradients(const Queue& queue, const NormBackwardCall& call,
                            const NormShape& shape) {
  const std::int64_t blocks = num_norm_blocks(shape.count, shape.width);
  const unsigned sums = num_sums(call);
  const Tensor scratch(queue.memory, call.dgamma.type, sums * blocks * shape.width);
  visit_working_type(call.x.elements.type, [&]<class T>(T) {
    launch_norm_gradients<T>(queue.stream, call, shape, blocks, elements<float>(scratch));
  });
  const auto groups = static_cast<unsigned>((shape.width + kWarp - 1) / kWarp);
  const int threads = kWarp * static_cast<int>(std::min<std::int64_t>(blocks, kWarp));
  launch(queue.stream, Grid{.blocks = dim3(groups, sums), .threads = threads}, add_norm_parts,
         elements<float>(scratch), blocks, shape.width, sums_of(call));
}

void norm_backward(const Queue& queue, const NormBackwardCall& call) {
  const NormShape shape{call.rows * call.vectors, call.gamma.size,
                        static_cast<std::uint32_t>(call.vectors)};
  assert(call.dgamma.size == shape.width);
  assert(call.dbeta.empty() || call.dbeta.size == shape.width);
  assert(call.added_sum.empty() || (call.added_sum.size == shape.width && !call.added.empty() &&
                                    shape.vectors == 1 && call.dx.stride == shape.width));
  assert(call.mean.empty() || call.mean.size == shape.count);
  assert(call.rstd.size == shape.count && shape.count < (std::int64_t{1} << 31U));
  if (shape.count * shape.width == 0) {
    return;
  }
  if (call.added_sum.empty() || !sums_apart(call, shape)) {
    compute_norm_gradients(queue, call, shape);
    return;
  }
  queue.memory.bias_gradient(call.added, call.added_sum, call.rows);
  NormBackwardCall without_sum = call;
  without_sum.added_sum = {};
  compute_norm_gradients(queue, without_sum, shape);
}

}  // namespace

void add_norm_backward_kernels(Kernels& kernels) {
  kernel_of<&Backend::norm_backward>(kernels) = norm_backward;
}

}  // namespace ptdp::cuda
