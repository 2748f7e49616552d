// Activations of MLPs behind a bias, gated or not, and their gradients.
#include <cassert>
#include <type_traits>

#include "kernels/cuda/activations.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Calls function(activation of this kind).
template <class Function>
void visit_activation(ActivationKind kind, const Function& function) {
  switch (kind) {
    case ActivationKind::kTanhGelu:
      function(TanhGelu{});
      return;
    case ActivationKind::kGelu:
      function(ExactGelu{});
      return;
    case ActivationKind::kRelu:
      function(Relu{});
      return;
    case ActivationKind::kSilu:
      function(Silu{});
      return;
    case ActivationKind::kTanh:
      function(Tanh{});
      return;
    case ActivationKind::kSquaredRelu:
      function(SquaredRelu{});
      return;
    case ActivationKind::kQuickGelu:
      function(QuickGelu{});
      return;
  }
}

/// Where the vectors of a row's inputs lie: in rows of one part, or of a gate and a value.
template <bool kIsGated>
struct InputPlace {
  __device__ InputPlace(const Place& place, std::uint32_t columns)
      : gate(kIsGated ? place.number + place.row * columns : place.number),
        value(gate + (kIsGated ? columns : 0U)) {}

  std::int64_t gate;
  std::int64_t value;
};

/// Computes x += bias, then y = a(x) or a(gate)·value. bias may be null.
template <class Function, class T, int kSize, bool kIsGated>
struct ActivationBody {
  std::uint32_t columns;  ///< Width of a row of y [vectors].
  T* x;
  const T* bias;
  T* y;

  struct Loaded {
    Vector<T, kSize> gate;
    Vector<T, kSize> value;
    Vector<T, kSize> gate_bias;
    Vector<T, kSize> value_bias;
  };
  __device__ Loaded load(const Place& place) const {
    const InputPlace<kIsGated> in(place, columns);
    Loaded loaded{};
    loaded.gate = cuda::load<kSize>(x, in.gate);
    if constexpr (kIsGated) {
      loaded.value = cuda::load<kSize>(x, in.value);
    }
    if (bias != nullptr) {
      loaded.gate_bias = cuda::load<kSize>(bias, place.column);
      if constexpr (kIsGated) {
        loaded.value_bias = cuda::load<kSize>(bias, columns + place.column);
      }
    }
    return loaded;
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    Vector<T, kSize> gate = loaded.gate;
    Vector<T, kSize> value = loaded.value;
    if (bias != nullptr) {
      const InputPlace<kIsGated> in(place, columns);
      gate = sum_of(gate, loaded.gate_bias);
      store(x, in.gate, gate);
      if constexpr (kIsGated) {
        value = sum_of(value, loaded.value_bias);
        store(x, in.value, value);
      }
    }
    const Vector<float, kSize> gates = widened(gate);
    const Vector<float, kSize> values = kIsGated ? widened(value) : gates;
    Vector<T, kSize> result;
    for (int e = 0; e < kSize; ++e) {
      const float activated = Function::value(gates[e]);
      result[e] = narrow<T>(kIsGated ? activated * values[e] : activated);
    }
    store(y, place.number, result);
  }
};

/// Computes dx = dy·a'(x), or dy·a'(gate)·value and dy·a(gate).
template <class Function, class T, int kSize, bool kIsGated>
struct ActivationGradientBody {
  std::uint32_t columns;  ///< Width of a row of dy [vectors].
  const T* x;
  const T* dy;
  T* dx;

  struct Loaded {
    Vector<T, kSize> gate;
    Vector<T, kSize> value;
    Vector<T, kSize> dy;
  };
  __device__ Loaded load(const Place& place) const {
    const InputPlace<kIsGated> in(place, columns);
    Loaded loaded{};
    loaded.gate = cuda::load<kSize>(x, in.gate);
    if constexpr (kIsGated) {
      loaded.value = cuda::load<kSize>(x, in.value);
    }
    loaded.dy = cuda::load<kSize>(dy, place.number);
    return loaded;
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    const InputPlace<kIsGated> in(place, columns);
    const Vector<float, kSize> gates = widened(loaded.gate);
    const Vector<float, kSize> gradients = widened(loaded.dy);
    const Vector<float, kSize> values = kIsGated ? widened(loaded.value) : gates;
    Vector<T, kSize> of_gate;
    Vector<T, kSize> of_value;
    for (int e = 0; e < kSize; ++e) {
      const float through = kIsGated ? gradients[e] * values[e] : gradients[e];
      of_gate[e] = narrow<T>(through * Function::derivative(gates[e]));
      if constexpr (kIsGated) {
        of_value[e] = narrow<T>(gradients[e] * Function::value(gates[e]));
      }
    }
    store(dx, in.gate, of_gate);
    if constexpr (kIsGated) {
      store(dx, in.value, of_value);
    }
  }
};

/// Calls issue(T, Function, bool_constant of whether it is gated) for a call's type and activation.
template <class Issue>
void for_activation(DataType type, ActivationKind kind, bool is_gated, const Issue& issue) {
  visit_working_type(type, [&]<class T>(T of_type) {
    visit_activation(kind, [&]<class Function>(Function function) {
      if (is_gated) {
        issue(of_type, function, std::true_type());
      } else {
        issue(of_type, function, std::false_type());
      }
    });
  });
}

void compute_activation(const Queue& queue, const ActivationCall& call) {
  assert(call.x.size == (call.is_gated ? 2 : 1) * call.y.size);
  assert(call.bias.empty() || call.x.size == call.rows * call.bias.size);
  if (call.y.empty()) {
    return;
  }
  // Without a bias or a gate, all elements are alike: they are one row.
  const std::int64_t rows = call.is_gated || !call.bias.empty() ? call.rows : 1;
  const std::int64_t width = call.y.size / rows;
  assert(call.y.size == rows * width);
  const auto issue = [&]<class T, class Function, class IsGated>(T, Function, IsGated) {
    const T* const bias = call.bias.empty() ? nullptr : elements<T>(call.bias);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream,
                    ActivationBody<Function, T, kSize, IsGated::value>{
                        static_cast<std::uint32_t>(width / kSize), elements<T>(call.x), bias,
                        elements<T>(call.y)},
                    rows, width / kSize);
    };
    visit_vector_size<T>(width, are_aligned(16, call.x.data, bias, call.y.data), launch_with);
  };
  for_activation(call.x.type, call.kind, call.is_gated, issue);
}

void compute_activation_gradient(const Queue& queue, const ActivationBackwardCall& call) {
  assert(call.x.size == (call.is_gated ? 2 : 1) * call.dy.size && call.dx.size == call.x.size);
  if (call.dy.empty()) {
    return;
  }
  const std::int64_t rows = call.is_gated ? call.rows : 1;
  const std::int64_t width = call.dy.size / rows;
  assert(call.dy.size == rows * width);
  const auto issue = [&]<class T, class Function, class IsGated>(T, Function, IsGated) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream,
                    ActivationGradientBody<Function, T, kSize, IsGated::value>{
                        static_cast<std::uint32_t>(width / kSize), elements<T>(call.x),
                        elements<T>(call.dy), elements<T>(call.dx)},
                    rows, width / kSize);
    };
    visit_vector_size<T>(width, are_aligned(16, call.x.data, call.dy.data, call.dx.data),
                         launch_with);
  };
  for_activation(call.x.type, call.kind, call.is_gated, issue);
}

}  // namespace

void add_activation_kernels(Kernels& kernels) {
  kernel_of<&Backend::activation>(kernels) = compute_activation;
  kernel_of<&Backend::activation_backward>(kernels) = compute_activation_gradient;
}

}  // namespace ptdp::cuda
