// Activations of an MLP, gated or not, and their gradients.
#include <cassert>
#include <cmath>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Returns 1/(1 + e^(−x)).
template <class Sum>
Sum logistic(Sum x) {
  return 1 / (1 + exponential(-x));
}

// Each activation has its value a(x) and its slope a'(x), in the accumulator type.

struct TanhGelu {
  /// √(2/π), a factor of tanh's argument.
  static constexpr double kRootTwoOverPi = 0.79788456080286535588;
  /// Factor of the cube in tanh's argument.
  static constexpr double kCube = 0.044715;

  /// Returns 0.5·(1 + tanh u) = 1/(1 + e^(−2u)), with u = √(2/π)·(x + 0.044715·x³). It loses no
  /// accuracy where tanh nears −1.
  template <class Sum>
  static Sum sigmoid(Sum x) {
    const auto slope = static_cast<Sum>(-2.0 * kRootTwoOverPi);
    const auto cube = static_cast<Sum>(-2.0 * kRootTwoOverPi * kCube);
    return 1 / (1 + exponential(x * (slope + cube * x * x)));
  }
  template <class Sum>
  static Sum value(Sum x) {
    return x * sigmoid(x);
  }
  /// Returns σ + x·σ(1−σ)·2u', with u' = √(2/π)·(1 + 3·0.044715·x²).
  template <class Sum>
  static Sum slope(Sum x) {
    const auto slope = static_cast<Sum>(2.0 * kRootTwoOverPi);
    const auto square = static_cast<Sum>(6.0 * kRootTwoOverPi * kCube);
    const Sum at = sigmoid(x);
    const Sum inner = x * (slope + square * x * x);
    return at + inner * (at * (1 - at));
  }
};

struct Gelu {
  /// Returns Φ(x), accurate where it nears 0, too.
  template <class Sum>
  static Sum normal(Sum x) {
    return static_cast<Sum>(0.5) * std::erfc(x * static_cast<Sum>(-0.70710678118654752440));
  }
  template <class Sum>
  static Sum value(Sum x) {
    return x * normal(x);
  }
  template <class Sum>
  static Sum slope(Sum x) {
    constexpr double one_over_root_two_pi = 0.39894228040143267794;
    return normal(x) +
           x * static_cast<Sum>(one_over_root_two_pi) * exponential(static_cast<Sum>(-0.5) * x * x);
  }
};

struct Relu {
  template <class Sum>
  static Sum value(Sum x) {
    return x < 0 ? Sum{0} : x;
  }
  template <class Sum>
  static Sum slope(Sum x) {
    return x > 0 ? Sum{1} : Sum{0};
  }
};

struct Silu {
  template <class Sum>
  static Sum value(Sum x) {
    return x * logistic(x);
  }
  template <class Sum>
  static Sum slope(Sum x) {
    const Sum at = logistic(x);
    return at + x * (at * (1 - at));
  }
};

struct Tanh {
  template <class Sum>
  static Sum value(Sum x) {
    return std::tanh(x);
  }
  template <class Sum>
  static Sum slope(Sum x) {
    const Sum at = std::tanh(x);
    return 1 - at * at;
  }
};

struct SquaredRelu {
  template <class Sum>
  static Sum value(Sum x) {
    return x < 0 ? Sum{0} : x * x;
  }
  template <class Sum>
  static Sum slope(Sum x) {
    return x < 0 ? Sum{0} : 2 * x;
  }
};

struct QuickGelu {
  static constexpr double kFactor = 1.702;

  template <class Sum>
  static Sum value(Sum x) {
    return x * logistic(static_cast<Sum>(kFactor) * x);
  }
  template <class Sum>
  static Sum slope(Sum x) {
    const auto factor = static_cast<Sum>(kFactor);
    const Sum at = logistic(factor * x);
    return at + factor * x * (at * (1 - at));
  }
};

template <class Function>
void visit_activation(ActivationKind kind, Function&& function) {
  switch (kind) {
    case ActivationKind::kTanhGelu:
      return function(TanhGelu{});
    case ActivationKind::kGelu:
      return function(Gelu{});
    case ActivationKind::kRelu:
      return function(Relu{});
    case ActivationKind::kSilu:
      return function(Silu{});
    case ActivationKind::kTanh:
      return function(Tanh{});
    case ActivationKind::kSquaredRelu:
      return function(SquaredRelu{});
    case ActivationKind::kQuickGelu:
      return function(QuickGelu{});
  }
}

/// Adds a bias to a row.
template <class T>
void add_to_row(const T* bias, T* row, std::int64_t size) {
  for (std::int64_t i = 0; i < size; ++i) {
    row[i] = narrow<T>(widen(row[i]) + widen(bias[i]));
  }
}

void activation(Backend&, const ActivationCall& call) {
  if (call.rows == 0) {
    return;
  }
  const std::int64_t w = call.y.size / call.rows;
  const std::int64_t width = call.is_gated ? 2 * w : w;
  assert(call.x.size == call.rows * width && (call.bias.empty() || call.bias.size == width));
  visit_element_type(call.x.type, [&]<class T>(T) {
    visit_activation(call.kind, [&]<class Kind>(Kind) {
      for (std::int64_t row = 0; row < call.rows; ++row) {
        T* const x = elements<T>(call.x) + row * width;
        T* const y = elements<T>(call.y) + row * w;
        if (!call.bias.empty()) {
          add_to_row(elements<T>(call.bias), x, width);
        }
        if (call.is_gated) {
          for (std::int64_t i = 0; i < w; ++i) {
            y[i] = narrow<T>(Kind::value(widen(x[i])) * widen(x[w + i]));
          }
        } else {
          for (std::int64_t i = 0; i < w; ++i) {
            y[i] = narrow<T>(Kind::value(widen(x[i])));
          }
        }
      }
    });
  });
}

/// Computes the gradients of a row of w gates and w values. dx may be x.
template <class Kind, class T>
void gated_row_backward(const T* x, const T* dy, T* dx, std::int64_t w) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < w; ++i) {
    const auto gate = widen(x[i]);
    const auto value = widen(x[w + i]);
    const auto gradient = widen(dy[i]);
    dx[i] = narrow<T>(gradient * value * Kind::slope(gate));
    dx[w + i] = narrow<T>(gradient * Kind::value(gate));
  }
}

void activation_backward(Backend&, const ActivationBackwardCall& call) {
  if (call.rows == 0) {
    return;
  }
  const std::int64_t w = call.dy.size / call.rows;
  assert(call.x.size == call.dx.size && call.x.size == (call.is_gated ? 2 : 1) * call.rows * w);
  visit_element_type(call.x.type, [&]<class T>(T) {
    visit_activation(call.kind, [&]<class Kind>(Kind) {
      const T* const x = elements<T>(call.x);
      const T* const dy = elements<T>(call.dy);
      T* const dx = elements<T>(call.dx);
      if (call.is_gated) {
        for (std::int64_t row = 0; row < call.rows; ++row) {
          gated_row_backward<Kind>(x + 2 * row * w, dy + row * w, dx + 2 * row * w, w);
        }
        return;
      }
#pragma GCC ivdep
      for (std::int64_t i = 0; i < call.x.size; ++i) {
        dx[i] = narrow<T>(widen(dy[i]) * Kind::slope(widen(x[i])));
      }
    });
  });
}

}  // namespace

void add_activation_loops(KernelTable& loops) {
  loop_of<&Backend::activation>(loops) = activation;
  loop_of<&Backend::activation_backward>(loops) = activation_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
