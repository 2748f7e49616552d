// Layer norm and its gradients, with a block for one row at a time, which stays in registers if it
// fits. Sums and products are fused only where the code says so, so that alignment changes no bit.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {
namespace {

constexpr int kMostNormThreads = 1024;
/// Number of chunks of a row that a thread should have. Fewer leave threads idle, more leave
/// threads out.
constexpr int kNormChunks = 2;
/// Shared memory for sums that a block has on every GPU since compute capability 8.0 [B].
constexpr std::int64_t kMostShared = 96 << 10;

struct NormShape {
  std::int64_t rows;
  std::int64_t width;
};

template <class T>
struct Norm {
  const T* x;
  const T* gamma;
  const T* beta;
  T* y;
  float* mean;
  float* rstd;
  float epsilon;
};

template <class T>
struct NormGradient {
  const T* dy;
  const T* x;
  const float* mean;
  const float* rstd;
  const T* gamma;
  T* dx;
  float* parts;  ///< Sums over each block's rows for dgamma and dbeta [2, blocks, width].
};

/// Computes the layer norm of rows, with their mean and rstd.
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kMostNormThreads) norm_rows(Norm<T> norm, NormShape shape) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t width = shape.width;
  const auto size = static_cast<float>(width);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const RowChunks<kHeld, kIsAligned, T> x(norm.x + row * width, width);
    float sum = 0.0F;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
      const Packed<T> chunk = x.at(k, first);
      for (int j = 0; j < kSize; ++j) {
        sum += chunk[j];
      }
    });
    const float mean = block_sum(sum) / size;
    float squares = 0.0F;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int count) {
      const Packed<T> chunk = x.at(k, first);
      for (int j = 0; j < kSize; ++j) {
        const float centred = j < count ? chunk[j] - mean : 0.0F;
        squares = fmaf(centred, centred, squares);
      }
    });
    const float rstd = 1.0F / sqrtf(block_sum(squares) / size + norm.epsilon);
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
      const Packed<T> chunk = x.at(k, first);
      Chunk<T> y;
      const auto gamma = load_chunk<kIsAligned>(norm.gamma, first, width);
      const auto beta = load_chunk<kIsAligned>(norm.beta, first, width);
      for (int j = 0; j < kSize; ++j) {
        const float normal = (chunk[j] - mean) * rstd;
        y[j] = narrow<T>(fmaf(normal, gamma[j], beta[j]));
      }
      store_chunk<kIsAligned>(y, norm.y + row * width, first, width);
    });
    if (threadIdx.x == 0) {
      norm.mean[row] = mean;
      norm.rstd[row] = rstd;
    }
  }
}

/// Number of groups of four elements in a chunk.
template <class T>
constexpr int kFoursOf = kVectorSize<T> / 4;

/// The sums over a block's rows for dgamma (0) and dbeta (1). Each column belongs to one thread.
/// The sums are in shared memory, or with kHeld = 0, whose rows may be too wide for that, in
/// `parts`.
template <int kHeld, class T>
class NormColumnSums {
 public:
  using Four = Vector<float, 4>;
  using Terms = float[kVectorSize<T>];

  __device__ NormColumnSums(float* parts, std::int64_t width)
      : parts_(parts), width_(width), num_chunks_(static_cast<int>(num_chunks<T>(width))) {}

  /// Sets the sums of a chunk to 0.
  __device__ void clear(std::int64_t first, int count) {
    for (int which = 0; which < 2; ++which) {
      if constexpr (kHeld > 0) {
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
    if constexpr (kHeld > 0) {
      for (int four = 0; four < kFoursOf<T>; ++four) {
        Four of_gamma = *place(0, first, four);
        Four of_beta = *place(1, first, four);
        for (int j = 0; j < 4; ++j) {
          of_gamma[j] = fmaf(dy[4 * four + j], normal[4 * four + j], of_gamma[j]);
          of_beta[j] += dy[4 * four + j];
        }
        *place(0, first, four) = of_gamma;
        *place(1, first, four) = of_beta;
      }
    } else {
      for (int j = 0; j < kVectorSize<T>; ++j) {
        if (j < count) {
          part(0)[first + j] = fmaf(dy[j], normal[j], part(0)[first + j]);
          part(1)[first + j] += dy[j];
        }
      }
    }
  }

  /// Writes all sums to `parts`. All threads of the block call it.
  __device__ void write() {
    if constexpr (kHeld > 0) {
      __syncthreads();
      for (int which = 0; which < 2; ++which) {
        for (std::int64_t c = threadIdx.x; c < width_; c += blockDim.x) {
          const int j = static_cast<int>(c % kVectorSize<T>);
          part(which)[c] = (*place(which, c, j / 4))[j % 4];
        }
      }
    }
  }

 private:
  /// Returns where four sums of a chunk are in shared memory; those of neighboring threads are
  /// adjacent.
  __device__ Four* place(int which, std::int64_t column, int four) const {
    const int chunk = static_cast<int>(column) / kVectorSize<T>;
    return dynamic_shared<Four>() + (which * kFoursOf<T> + four) * num_chunks_ + chunk;
  }
  /// Returns the block's sums of one kind in `parts` [width].
  __device__ float* part(int which) const {
    return parts_ + (which * std::int64_t{gridDim.x} + blockIdx.x) * width_;
  }

  float* parts_;
  std::int64_t width_;
  int num_chunks_;
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

/// Mean and 1/σ of a row.
struct Moments {
  float mean;
  float rstd;
};

/// Returns Σ dy·gamma and Σ dy·gamma·x̂ over a row.
template <int kHeld, bool kIsAligned, class T>
__device__ Pair gradient_sums(const RowChunks<kHeld, kIsAligned, T>& dy,
                              const RowChunks<kHeld, kIsAligned, T>& x, const T* gamma,
                              const Moments& of_x, std::int64_t width) {
  Pair sums{0.0F, 0.0F};
  // Beyond the end of the row dy is 0.
  visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
    const Packed<T> dys = dy.at(k, first);
    const Packed<T> xs = x.at(k, first);
    const auto gammas = load_chunk<kIsAligned>(gamma, first, width);
    for (int j = 0; j < kVectorSize<T>; ++j) {
      const float normal = (xs[j] - of_x.mean) * of_x.rstd;
      sums.first = fmaf(dys[j], gammas[j], sums.first);
      sums.second = fmaf(dys[j] * gammas[j], normal, sums.second);
    }
  });
  return block_sum_of_pairs(sums);
}

/// Adds the gradients of rows to dx. With x̂ = (x − mean)·rstd and g = dy·gamma: dx += rstd·(g −
/// Σg/h − x̂·Σ(g·x̂)/h).
template <class T, int kHeld, bool kIsAligned>
__global__ void __launch_bounds__(kMostNormThreads)
    norm_rows_backward(NormGradient<T> norm, NormShape shape) {
  constexpr int kSize = kVectorSize<T>;
  // More chunks would not fit into the registers of a block of 1024 threads.
  constexpr int kHeldOfResult = kHeld <= 2 ? kHeld : 0;
  const std::int64_t width = shape.width;
  const auto size = static_cast<float>(width);
  NormColumnSums<kHeld, T> columns(norm.parts, width);
  visit_chunks<kHeld, kIsAligned, T>(
      width, [&](int, std::int64_t first, int count) { columns.clear(first, count); });
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x) {
    const RowChunks<kHeld, kIsAligned, T> dy(norm.dy + row * width, width);
    const RowChunks<kHeld, kIsAligned, T> x(norm.x + row * width, width);
    const RowChunks<kHeldOfResult, kIsAligned, T> dx(norm.dx + row * width, width);
    const Moments of_x{norm.mean[row], norm.rstd[row]};
    const Pair sums = gradient_sums(dy, x, norm.gamma, of_x, width);
    const float of_g = sums.first / size;
    const float of_product = sums.second / size;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int count) {
      const Packed<T> dys = dy.at(k, first);
      const Packed<T> xs = x.at(k, first);
      const Packed<T> before = dx.at(k, first);
      const auto gammas = load_chunk<kIsAligned>(norm.gamma, first, width);
      Chunk<T> after;
      float normal[kSize];
      for (int j = 0; j < kSize; ++j) {
        normal[j] = (xs[j] - of_x.mean) * of_x.rstd;
        const float inner = fmaf(-normal[j], of_product, fmaf(dys[j], gammas[j], -of_g));
        after[j] = narrow<T>(fmaf(of_x.rstd, inner, before[j]));
      }
      store_chunk<kIsAligned>(after, norm.dx + row * width, first, width);
      columns.add(first, count, dys, normal);
    });
  }
  columns.write();
}

/// Adds the blocks' parts to dgamma (blockIdx.y 0) and dbeta (1), 32 columns in each block. Each
/// warp of a block sums every num_warps-th part.
__global__ void add_norm_parts(const float* parts, std::int64_t num_parts, std::int64_t width,
                               float* dgamma, float* dbeta) {
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
    (blockIdx.y == 0 ? dgamma : dbeta)[column] += sum;
  }
}

/// Returns the number of blocks of the backward pass. It is larger when each block leaves little,
/// so that narrow rows, which have few threads, keep a GPU as busy.
std::int64_t num_norm_blocks(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t kLeastBlocks = 256;
  constexpr std::int64_t kMostElements = 1 << 21;
  std::int64_t blocks = kMostBlocks;
  while (blocks > kLeastBlocks && blocks * width > kMostElements) {
    blocks /= 2;
  }
  return std::min(rows, blocks);
}

/// Calls issue(constant of kHeld, bool_constant of kIsAligned, threads). kHeld is 2 or kMostHeld
/// for aligned, holdable rows of at most that many chunks per thread, and 0 for all other rows.
template <class T, int kMostHeld, class Issue>
void for_width(std::int64_t width, bool is_aligned, bool is_holdable, const Issue& issue) {
  const std::int64_t chunks = num_chunks<T>(width);
  const int threads = threads_for(chunks, kNormChunks, kMostNormThreads);
  if (!is_aligned) {
    issue(std::integral_constant<int, 0>{}, std::false_type{}, threads);
  } else if (is_holdable && chunks <= std::int64_t{2} * threads) {
    issue(std::integral_constant<int, 2>{}, std::true_type{}, threads);
  } else if (is_holdable && chunks <= std::int64_t{kMostHeld} * threads) {
    issue(std::integral_constant<int, kMostHeld>{}, std::true_type{}, threads);
  } else {
    issue(std::integral_constant<int, 0>{}, std::true_type{}, threads);
  }
}

void layer_norm(const Queue& queue, const LayerNormCall& call) {
  const NormShape shape{call.rows, call.gamma.size};
  assert(call.x.size == call.rows * shape.width && call.y.size == call.x.size &&
         call.beta.size == shape.width);
  assert(call.mean.size == call.rows && call.rstd.size == call.rows);
  if (call.x.empty()) {
    return;
  }
  visit_working_type(call.x.type, [&]<class T>(T) {
    const Norm<T> norm{elements<T>(call.x),
                       elements<T>(call.gamma),
                       elements<T>(call.beta),
                       elements<T>(call.y),
                       elements<float>(call.mean),
                       elements<float>(call.rstd),
                       static_cast<float>(call.epsilon)};
    const bool is_aligned = has_aligned_rows<T>(shape.width, norm.x, norm.gamma, norm.beta, norm.y);
    const auto issue = [&]<class Held, class IsAligned>(Held, IsAligned, int threads) {
      const auto kernel = norm_rows<T, Held::value, IsAligned::value>;
      launch(queue.stream, row_grid(call.rows, threads), kernel, norm, shape);
    };
    for_width<T, 4>(shape.width, is_aligned, /*is_holdable=*/true, issue);
  });
}

void layer_norm_backward(const Queue& queue, const LayerNormBackwardCall& call) {
  const NormShape shape{call.rows, call.gamma.size};
  assert(call.x.size == call.rows * shape.width && call.dy.size == call.x.size &&
         call.dx.size == call.x.size);
  assert(call.dgamma.size == shape.width && call.dbeta.size == shape.width);
  assert(call.mean.size == call.rows && call.rstd.size == call.rows);
  if (call.x.empty()) {
    return;
  }
  const std::int64_t blocks = num_norm_blocks(call.rows, shape.width);
  const Tensor scratch(queue.memory, call.dgamma.type, 2 * blocks * shape.width);
  visit_working_type(call.x.type, [&]<class T>(T) {
    const NormGradient<T> norm{elements<T>(call.dy),       elements<T>(call.x),
                               elements<float>(call.mean), elements<float>(call.rstd),
                               elements<T>(call.gamma),    elements<T>(call.dx),
                               elements<float>(scratch)};
    const bool is_aligned = has_aligned_rows<T>(shape.width, norm.dy, norm.x, norm.gamma, norm.dx);
    const std::int64_t shared = 2 * shape.width * bytes_of(DataType::kFloat32);
    const auto issue = [&]<class Held, class IsAligned>(Held, IsAligned, int threads) {
      const auto kernel = norm_rows_backward<T, Held::value, IsAligned::value>;
      const Grid grid{static_cast<unsigned>(blocks), threads, Held::value > 0 ? shared : 0};
      launch(queue.stream, grid, kernel, norm, shape);
    };
    for_width<T, 3>(shape.width, is_aligned, shared <= kMostShared, issue);
  });
  const auto groups = static_cast<unsigned>((shape.width + kWarp - 1) / kWarp);
  const int threads = kWarp * static_cast<int>(std::min<std::int64_t>(blocks, kWarp));
  launch(queue.stream, Grid{.blocks = dim3(groups, 2), .threads = threads}, add_norm_parts,
         elements<float>(scratch), blocks, shape.width, elements<float>(call.dgamma),
         elements<float>(call.dbeta));
}

}  // namespace

void add_layer_norm_kernels(Kernels& kernels) {
  kernel_of<&Backend::layer_norm>(kernels) = layer_norm;
  kernel_of<&Backend::layer_norm_backward>(kernels) = layer_norm_backward;
}

}  // namespace ptdp::cuda
