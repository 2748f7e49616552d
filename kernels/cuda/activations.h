// The activations of MLPs and their derivatives on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

namespace ptdp::cuda {

/// √(2/π), a factor of GELU's argument of tanh.
inline constexpr double kRootTwoOverPi = 0.79788456080286535588;
/// log2 e, which turns a power of e into a power of 2.
inline constexpr double kLog2E = 1.44269504088896340736;
/// Factor of the cube in GELU's argument of tanh.
inline constexpr double kCube = 0.044715;
/// Factor of x in the quick GELU.
inline constexpr double kQuick = 1.702;

/// Returns 1/x to two units in the last place, for x >= 1.
__device__ inline float reciprocal(float x) {
#ifdef __CUDACC__
  return __fdividef(1.0F, x);
#else
  return 1.0F / x;
#endif
}

/// Returns 1/(1 + e^(−x)).
__device__ inline float sigmoid(float x) {
  return reciprocal(1.0F + exp2f(x * static_cast<float>(-kLog2E)));
}

/// Returns 0.5·(1 + tanh u) = 1/(1 + 2^(−2u·log2 e)), with u = √(2/π)·(x + 0.044715·x³). It loses
/// no accuracy where tanh nears −1.
__device__ inline float gelu_sigmoid(float x) {
  constexpr auto slope = static_cast<float>(-2.0 * kRootTwoOverPi * kLog2E);
  constexpr auto cube = static_cast<float>(-2.0 * kRootTwoOverPi * kLog2E * kCube);
  return reciprocal(1.0F + exp2f(x * (slope + cube * x * x)));
}

/// Returns Φ(x), the normal distribution. It loses no accuracy where Φ nears 0.
__device__ inline float normal_distribution(float x) {
  constexpr float per_root_two = 0.70710678118654752F;
  return 0.5F * erfcf(-x * per_root_two);
}

// Each activation has a(x), and its derivative a'(x).

struct TanhGelu {
  static __device__ float value(float x) { return x * gelu_sigmoid(x); }
  /// Returns σ + x·σ(1−σ)·2u' with σ = σ(2u), u' = √(2/π)·(1 + 3·0.044715·x²).
  static __device__ float derivative(float x) {
    constexpr auto slope = static_cast<float>(2.0 * kRootTwoOverPi);
    constexpr auto square = static_cast<float>(6.0 * kRootTwoOverPi * kCube);
    const float part = gelu_sigmoid(x);
    const float inner = x * (slope + square * x * x);
    return part + inner * (part * (1.0F - part));
  }
};

struct ExactGelu {
  static __device__ float value(float x) { return x * normal_distribution(x); }
  /// Returns Φ + x·φ, with the normal density φ.
  static __device__ float derivative(float x) {
    constexpr auto exponent = static_cast<float>(-0.5 * kLog2E);
    constexpr auto per_root = static_cast<float>(0.5 * kRootTwoOverPi);
    return normal_distribution(x) + x * per_root * exp2f(exponent * x * x);
  }
};

struct Relu {
  static __device__ float value(float x) { return x < 0.0F ? 0.0F : x; }
  static __device__ float derivative(float x) { return x > 0.0F ? 1.0F : 0.0F; }
};

struct Silu {
  static __device__ float value(float x) { return x * sigmoid(x); }
  static __device__ float derivative(float x) {
    const float part = sigmoid(x);
    return part + x * (part * (1.0F - part));
  }
};

struct Tanh {
  static __device__ float value(float x) { return tanhf(x); }
  static __device__ float derivative(float x) {
    const float y = tanhf(x);
    return 1.0F - y * y;
  }
};

struct SquaredRelu {
  static __device__ float value(float x) { return x < 0.0F ? 0.0F : x * x; }
  static __device__ float derivative(float x) { return x < 0.0F ? 0.0F : 2.0F * x; }
};

struct QuickGelu {
  static __device__ float value(float x) { return x * sigmoid(static_cast<float>(kQuick) * x); }
  static __device__ float derivative(float x) {
    constexpr auto slope = static_cast<float>(kQuick);
    const float part = sigmoid(slope * x);
    return part + slope * x * (part * (1.0F - part));
  }
};

}  // namespace ptdp::cuda
