// The optimizer's step, the norm of gradients, and initial values.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>

#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/total.h"

namespace ptdp::cuda {
namespace {

// --- AdamW: one launch for many slices, which travel as its arguments ---

/// Number of elements that a block updates before it looks for its next chunk.
constexpr std::int64_t kStepChunk = std::int64_t{kThreads} * 4;
/// Most slices of a launch: as many as fit into 4 KiB of arguments.
constexpr int kMostStepSlices = 64;

/// A slice as an argument of the kernel; AdamWSlice says what the buffers are.
struct StepSlice {
  float* master;
  float* moment1;
  float* moment2;
  const float* gradient;
  void* weights;
  std::int64_t size;
  std::int32_t first_chunk;  ///< Number of the slice's first chunk among those of the launch.
  bool decays;
  bool is_aligned;
};

/// The slices of a launch.
struct StepSlices {
  StepSlice slices[kMostStepSlices];
  std::int32_t count = 0;
  std::int32_t num_chunks = 0;
};

/// AdamW's settings in f32, and in f64 what the factor of gradients follows from.
struct StepFactors {
  float beta1, beta2, rest1, rest2, correction1, correction2, rate, epsilon, decay;
  double scale, largest_norm;
  const double* squares;  ///< Sum of all squares, or null.
};
static_assert(sizeof(StepSlices) + sizeof(StepFactors) <= 4096);

/// Returns the settings in f32, with the corrections 1/(1−β1^t) and 1/(1−β2^t).
StepFactors factors_of(const AdamW& settings) {
  const auto t = static_cast<double>(settings.step);
  const auto single = [](double x) { return static_cast<float>(x); };
  return {.beta1 = single(settings.beta1),
          .beta2 = single(settings.beta2),
          .rest1 = single(1.0 - settings.beta1),
          .rest2 = single(1.0 - settings.beta2),
          .correction1 = single(1.0 / (1.0 - std::pow(settings.beta1, t))),
          .correction2 = single(1.0 / (1.0 - std::pow(settings.beta2, t))),
          .rate = single(settings.learning_rate),
          .epsilon = single(settings.epsilon),
          .decay = single(settings.weight_decay),
          .scale = settings.gradient_scale,
          .largest_norm = settings.largest_norm,
          .squares = settings.squares.empty() ? nullptr : elements<double>(settings.squares)};
}

__device__ bool is_number(double x) {
  return x == x;
}

/// Returns the factor of gradients with clipping, or NaN where the step must change nothing.
__device__ float scale_of(const StepFactors& by) {
  double scale = by.scale;
  if (by.squares != nullptr) {
    const double squares = *by.squares;
    const double finite = squares - squares;  // Not a number where the sum is not finite.
    if (!is_number(finite)) {
      return static_cast<float>(finite);
    }
    const double clipping = by.largest_norm / (sqrt(squares) * scale + kNormGuard);
    if (by.largest_norm > 0.0 && clipping < 1.0) {
      scale *= clipping;
    }
  }
  return static_cast<float>(scale);
}

/// Returns a·b, rounded before anything is added to it. Weights thus have the bits that a host
/// computes.
__device__ float times(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Makes one parameter's step: updates theta, m and v.
__device__ void step(const StepFactors& by, float scale, float decay, float gradient, float& theta,
                     float& m, float& v) {
  const float g = times(gradient, scale);
  m = times(by.beta1, m) + times(by.rest1, g);
  v = times(by.beta2, v) + times(times(by.rest2, g), g);
  const float direction = times(m, by.correction1) / (sqrtf(times(v, by.correction2)) + by.epsilon);
  theta = theta - times(by.rate, direction + times(decay, theta));
}

/// Returns the slice to which a chunk of the launch belongs: the last slice that begins at or
/// before it.
__device__ int slice_of(const StepSlices& all, std::int32_t chunk) {
  int first = 0;
  int end = all.count;
  while (end - first > 1) {
    const int middle = (first + end) / 2;
    if (all.slices[middle].first_chunk <= chunk) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

/// Makes the step of four adjacent elements of an aligned slice.
template <class T>
__device__ void step_four(const StepSlice& slice, const StepFactors& by, float scale, float decay,
                          std::int64_t i) {
  using Four = Vector<float, 4>;
  Four theta = *reinterpret_cast<const Four*>(slice.master + i);
  Four m = *reinterpret_cast<const Four*>(slice.moment1 + i);
  Four v = *reinterpret_cast<const Four*>(slice.moment2 + i);
  const Four gradient = *reinterpret_cast<const Four*>(slice.gradient + i);
  Vector<T, 4> weights;
  for (int j = 0; j < 4; ++j) {
    step(by, scale, decay, gradient[j], theta[j], m[j], v[j]);
    weights[j] = narrow<T>(theta[j]);
  }
  *reinterpret_cast<Four*>(slice.master + i) = theta;
  *reinterpret_cast<Four*>(slice.moment1 + i) = m;
  *reinterpret_cast<Four*>(slice.moment2 + i) = v;
  *reinterpret_cast<Vector<T, 4>*>(static_cast<T*>(slice.weights) + i) = weights;
}

/// Makes AdamW's step on all slices of a launch.
template <class T>
__global__ void step_slices(StepSlices all, StepFactors by) {
  const float scale = scale_of(by);
  if (!is_number(scale)) {
    return;
  }
  for (std::int32_t chunk = static_cast<std::int32_t>(blockIdx.x); chunk < all.num_chunks;
       chunk += static_cast<std::int32_t>(gridDim.x)) {
    const StepSlice slice = all.slices[slice_of(all, chunk)];
    const float decay = slice.decays ? by.decay : 0.0F;
    const std::int64_t first = std::int64_t{chunk - slice.first_chunk} * kStepChunk;
    if (slice.is_aligned && first + kStepChunk <= slice.size) {
      step_four<T>(slice, by, scale, decay, first + std::int64_t{threadIdx.x} * 4);
      continue;
    }
    const std::int64_t end = first + kStepChunk < slice.size ? first + kStepChunk : slice.size;
    for (std::int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
      float theta = slice.master[i];
      float m = slice.moment1[i];
      float v = slice.moment2[i];
      step(by, scale, decay, slice.gradient[i], theta, m, v);
      slice.master[i] = theta;
      slice.moment1[i] = m;
      slice.moment2[i] = v;
      static_cast<T*>(slice.weights)[i] = narrow<T>(theta);
    }
  }
}

/// Queues the step of the slices of a launch.
void launch_step(cudaStream_t stream, DataType weights, const StepSlices& all,
                 const StepFactors& factors) {
  const Grid grid{.blocks =
                      static_cast<unsigned>(std::min(std::int64_t{all.num_chunks}, kMostBlocks))};
  visit_working_type(weights,
                     [&]<class T>(T) { launch(stream, grid, step_slices<T>, all, factors); });
}

/// Adds a slice to those of a launch.
void append(StepSlices& all, const AdamWSlice& slice) {
  const std::int64_t size = slice.master.size;
  assert(slice.moment1.size == size && slice.moment2.size == size);
  assert(slice.gradient.size == size && slice.weights.size == size);
  const std::int64_t of_weights = 4 * bytes_of(slice.weights.type);
  const bool is_aligned = are_aligned(16, slice.master.data, slice.moment1.data, slice.moment2.data,
                                      slice.gradient.data) &&
                          are_aligned(static_cast<std::size_t>(of_weights), slice.weights.data);
  all.slices[all.count++] = {.master = elements<float>(slice.master),
                             .moment1 = elements<float>(slice.moment1),
                             .moment2 = elements<float>(slice.moment2),
                             .gradient = elements<float>(slice.gradient),
                             .weights = slice.weights.data,
                             .size = size,
                             .first_chunk = all.num_chunks,
                             .decays = slice.decays,
                             .is_aligned = is_aligned};
  all.num_chunks += static_cast<std::int32_t>((size + kStepChunk - 1) / kStepChunk);
}

// --- sums ---

struct Square {
  const float* x;
  __device__ double operator()(std::int64_t i) const {
    const auto value = static_cast<double>(x[i]);
    return value * value;
  }
};

/// Adds to `total` the sum of `count` parts, with one block.
__global__ void sum_parts(const double* parts, std::int64_t count, double* total) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    sum += parts[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) {
    *total += sum;
  }
}

// --- initial values ---

/// Returns a uniform number in (0, 1), as uniform() of counter_random.h does.
__device__ double uniform_of(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = ((std::uint64_t{high} << 32U) | low) >> 12U;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

/// Returns a standard normal variate, equal to random_normal() of counter_random.h except for the
/// last bits of log and cos. cos() would keep an array in local memory for large angles.
__device__ double normal_of(std::uint64_t key, std::uint64_t element) {
  const PhiloxWords x = philox_words(key, element);
  return sqrt(-2.0 * log(uniform_of(x.words[0], x.words[1]))) *
         cospi(2.0 * uniform_of(x.words[2], x.words[3]));
}

/// Fills a block of a matrix with normal variates.
template <class T>
__global__ void normal_block(T* x, MatrixBlock block, std::uint64_t key, double deviation) {
  const std::int64_t size = block.rows * block.columns;
  for (std::int64_t i = first_element(); i < size; i += num_threads()) {
    const std::int64_t row = block.first_row + i / block.columns;
    const std::int64_t column = block.first_column + i % block.columns;
    const auto number = static_cast<std::uint64_t>(row * block.total_columns + column);
    x[i] = narrow<T>(deviation * normal_of(key, number));
  }
}

void add_squares(const Queue& queue, Buffer x, Buffer total) {
  assert(total.size == 1);
  const Tensor scratch(queue.memory, DataType::kFloat64, num_parts(x.size));
  add_total(queue.stream, Square{elements<float>(x)}, x.size, total, scratch);
}

void adamw(const Queue& queue, const AdamW& settings, std::span<const AdamWSlice> slices) {
  const StepFactors factors = factors_of(settings);
  StepSlices all{};
  for (const AdamWSlice& slice : slices) {
    assert(slice.weights.type == slices[0].weights.type);
    if (slice.master.empty()) {
      continue;
    }
    append(all, slice);
    if (all.count == kMostStepSlices) {
      launch_step(queue.stream, slice.weights.type, all, factors);
      all = {};
    }
  }
  if (all.count > 0) {
    launch_step(queue.stream, slices[0].weights.type, all, factors);
  }
}

void fill_normal(const Queue& queue, Buffer x, const MatrixBlock& block, std::uint64_t key,
                 double deviation) {
  assert(x.size == block.rows * block.columns);
  if (x.empty()) {
    return;
  }
  visit_floating_type(x.type, [&]<class T>(T) {
    launch(queue.stream, walking_grid(x.size), normal_block<T>, elements<T>(x), block, key,
           deviation);
  });
}

}  // namespace

void add_parts(cudaStream_t stream, const double* parts, std::int64_t count, Buffer total) {
  launch(stream, Grid{}, sum_parts, parts, count, elements<double>(total));
}

void add_optimizer_kernels(Kernels& kernels) {
  kernel_of<&Backend::add_squares>(kernels) = add_squares;
  kernel_of<&Backend::adamw>(kernels) = adamw;
  kernel_of<&Backend::fill_normal>(kernels) = fill_normal;
}

}  // namespace ptdp::cuda
