// Element-wise operations, soft caps and bias.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

// --- one element of a result from one of each argument ---

/// Writes function(from[e]...) for each element of vector number `number`.
template <int kSize, class Function, class To, class... From>
__device__ void store_mapped(const Function& function, To* to, std::int64_t number,
                             const Vector<From, kSize>&... from) {
  Vector<To, kSize> result;
  for (int e = 0; e < kSize; ++e) {
    result[e] = function(from[e]...);
  }
  store(to, number, result);
}

/// kVectorsAtOnce vectors from number `number` on, one grid apart. Vectors from `end` on are not
/// read.
template <int kSize, class T>
struct VectorBatch {
  Vector<T, kSize> vectors[kVectorsAtOnce];

  __device__ VectorBatch(const T* from, std::int64_t number, std::int64_t end) {
    for (int i = 0; i < kVectorsAtOnce; ++i, number += num_threads()) {
      if (number < end) {
        vectors[i] = load<kSize>(from, number);
      }
    }
  }
};

/// Writes function(from[e]...) for the elements of kVectorsAtOnce vectors before `end`.
template <int kSize, class Function, class To, class... From>
__device__ void store_mapped_batch(const Function& function, To* to, std::int64_t number,
                                   std::int64_t end, const VectorBatch<kSize, From>&... from) {
  for (int i = 0; i < kVectorsAtOnce; ++i, number += num_threads()) {
    if (number < end) {
      store_mapped<kSize>(function, to, number, from.vectors[i]...);
    }
  }
}

/// Computes to[i] = function(from[i]...). `to` may be one of the others.
template <int kSize, class Function, class To, class... From>
__global__ void __launch_bounds__(kThreads)
    map_kernel(Function function, std::int64_t size, To* to, const From*... from) {
  const std::int64_t end = size / kSize;
  for (std::int64_t i = first_element(); i < end; i += kVectorsAtOnce * num_threads()) {
    store_mapped_batch<kSize>(function, to, i, end, VectorBatch<kSize, From>(from, i, end)...);
  }
  const std::int64_t rest = end * kSize + first_element();
  if (rest < size) {
    to[rest] = function(from[rest]...);
  }
}

/// Queues to[i] = function(from[i]...), by vectors of up to 16 bytes if all are aligned.
template <class Function, class To, class... From>
void launch_map(cudaStream_t stream, const Function& function, std::int64_t size, To* to,
                const From*... from) {
  if (size == 0) {
    return;
  }
  constexpr int widest = 16 / static_cast<int>(std::max({sizeof(To), sizeof(From)...}));
  const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
    constexpr std::int64_t at_once = std::int64_t{kSize} * kVectorsAtOnce;
    launch(stream, walking_grid((size + at_once - 1) / at_once),
           map_kernel<kSize, Function, To, From...>, function, size, to, from...);
  };
  if ((are_aligned(widest * sizeof(To), to) && ... && are_aligned(widest * sizeof(From), from))) {
    launch_with(std::integral_constant<int, widest>());
  } else {
    launch_with(std::integral_constant<int, 1>());
  }
}

/// Calls `function` with a value of the C++ type of an element that can be moved, added and
/// compared.
template <class Function>
void visit_any_element_type(DataType type, Function&& function) {
  if (type == DataType::kInt32) {
    function(std::int32_t{});
  } else {
    visit_floating_type(type, function);
  }
}

/// Returns an element in the type in which it is computed with, as on a CPU: i32 as it is, others
/// in their accumulator type.
template <class T>
__device__ auto arithmetic_value(T x) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return x;
  } else {
    return widen(x);
  }
}
/// Returns a computed value as an element, rounded to nearest even.
template <class T, class Value>
__host__ __device__ T element_of(Value x) {
  if constexpr (std::is_same_v<T, std::int32_t>) {
    return static_cast<std::int32_t>(x);
  } else {
    return narrow<T>(x);
  }
}

template <class From, class To>
struct Conversion {
  __device__ To operator()(From x) const { return narrow<To>(widen(x)); }
};

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

template <class T>
struct SumOfTwo {
  __device__ T operator()(T x, T y) const {
    return element_of<T>(arithmetic_value(x) + arithmetic_value(y));
  }
};

template <class T>
struct LargerOfTwo {
  __device__ T operator()(T x, T y) const {
    const auto a = arithmetic_value(x);
    const auto b = arithmetic_value(y);
    // A NaN stays, on whichever side it is; it alone differs from itself.
    return a > b || a != a ? x : y;
  }
};

template <class T>
struct Multiple {
  Accumulator<T> factor;
  __device__ T operator()(T x) const { return narrow<T>(widen(x) * factor); }
};

template <class T>
struct SoftCap {
  float cap;
  float per_cap;  ///< 1/cap.
  __device__ T operator()(T x) const { return narrow<T>(cap * tanhf(widen(x) * per_cap)); }
};

// --- a bias of each row ---

/// Computes x += bias.
template <class T, int kSize>
struct BiasBody {
  T* x;
  const T* bias;

  struct Loaded {
    Vector<T, kSize> x;
    Vector<T, kSize> bias;
  };
  __device__ Loaded load(const Place& place) const {
    return {cuda::load<kSize>(x, place.number), cuda::load<kSize>(bias, place.column)};
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    store(x, place.number, sum_of(loaded.x, loaded.bias));
  }
};

/// Copies a vector between rows of different strides.
template <class T, int kSize>
struct ColumnsBody {
  const T* from;
  T* to;
  std::int64_t from_stride;  ///< Elements from row to row.
  std::int64_t to_stride;    ///< Elements from row to row.

  using Loaded = Vector<T, kSize>;
  __device__ Loaded load(const Place& place) const {
    return cuda::load<kSize>(from + place.row * from_stride, place.column);
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    store(to + place.row * to_stride, place.column, loaded);
  }
};

void copy_columns(const Queue& queue, const VectorRows& from, const VectorRows& to,
                  std::int64_t width, std::int64_t rows) {
  assert(from.elements.type == to.elements.type);
  visit_any_element_type(from.elements.type, [&]<class T>(T) {
    const T* const source = elements<T>(from.elements);
    T* const target = elements<T>(to.elements);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream, ColumnsBody<T, kSize>{source, target, from.stride, to.stride},
                    rows, width / kSize);
    };
    const bool is_aligned = from.stride % kVectorSize<T> == 0 && to.stride % kVectorSize<T> == 0 &&
                            are_aligned(16, source, target);
    visit_vector_size<T>(width, is_aligned, launch_with);
  });
}

void convert(const Queue& queue, Buffer from, Buffer to) {
  assert(from.size == to.size);
  visit_floating_type(from.type, [&]<class From>(From) {
    visit_floating_type(to.type, [&]<class To>(To) {
      launch_map(queue.stream, Conversion<From, To>{}, to.size, elements<To>(to),
                 static_cast<const From*>(elements<From>(from)));
    });
  });
}

void fill(const Queue& queue, Buffer x, double value) {
  if (x.empty()) {
    return;
  }
  if (value == 0.0 && !std::signbit(value)) {
    PTDP_CUDA_CHECK(cudaMemsetAsync(x.data, 0, static_cast<std::size_t>(x.bytes()), queue.stream));
    return;
  }
  visit_any_element_type(x.type, [&]<class T>(T) {
    launch_map(queue.stream, Constant<T>{element_of<T>(value)}, x.size, elements<T>(x));
  });
}

void add(const Queue& queue, Buffer x, Buffer to) {
  assert(x.size == to.size && x.type == to.type);
  visit_any_element_type(x.type, [&]<class T>(T) {
    T* const sum = elements<T>(to);
    launch_map(queue.stream, SumOfTwo<T>{}, x.size, sum, static_cast<const T*>(elements<T>(x)),
               static_cast<const T*>(sum));
  });
}

void maximum(const Queue& queue, Buffer x, Buffer to) {
  assert(x.size == to.size && x.type == to.type);
  visit_any_element_type(x.type, [&]<class T>(T) {
    T* const most = elements<T>(to);
    launch_map(queue.stream, LargerOfTwo<T>{}, x.size, most, static_cast<const T*>(elements<T>(x)),
               static_cast<const T*>(most));
  });
}

void scale(const Queue& queue, Buffer x, double factor) {
  visit_floating_type(x.type, [&]<class T>(T) {
    T* const to = elements<T>(x);
    launch_map(queue.stream, Multiple<T>{static_cast<Accumulator<T>>(factor)}, x.size, to,
               static_cast<const T*>(to));
  });
}

void soft_cap(const Queue& queue, Buffer x, double cap) {
  visit_working_type(x.type, [&]<class T>(T) {
    T* const to = elements<T>(x);
    launch_map(queue.stream, SoftCap<T>{static_cast<float>(cap), static_cast<float>(1.0 / cap)},
               x.size, to, static_cast<const T*>(to));
  });
}

void add_bias(const Queue& queue, Buffer x, Buffer bias, std::int64_t rows) {
  assert(x.size == rows * bias.size);
  visit_working_type(x.type, [&]<class T>(T) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream, BiasBody<T, kSize>{elements<T>(x), elements<T>(bias)}, rows,
                    bias.size / kSize);
    };
    visit_vector_size<T>(bias.size, are_aligned(16, x.data, bias.data), launch_with);
  });
}

}  // namespace

void add_elementwise_kernels(Kernels& kernels) {
  kernel_of<&Backend::convert>(kernels) = convert;
  kernel_of<&Backend::copy_columns>(kernels) = copy_columns;
  kernel_of<&Backend::fill>(kernels) = fill;
  kernel_of<&Backend::add>(kernels) = add;
  kernel_of<&Backend::maximum>(kernels) = maximum;
  kernel_of<&Backend::scale>(kernels) = scale;
  kernel_of<&Backend::soft_cap>(kernels) = soft_cap;
  kernel_of<&Backend::add_bias>(kernels) = add_bias;
}

}  // namespace ptdp::cuda
