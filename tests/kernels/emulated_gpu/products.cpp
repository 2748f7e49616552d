// Computes matrix products on the emulated GPU, from their definition.
#include "kernels/cuda/products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu/element.h"
#include "kernels/cuda/check.h"

namespace ptdp::cuda {
namespace {

/// Elements by which the rows of GELU's input must be divisible in cuBLASLt.
constexpr std::int64_t kGeluInputWidth = 8;

/// GELU in the form with tanh, and its derivative, by their definitions.
double gelu_by_tanh(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double factor = std::sqrt(2.0 / M_PI);
  const double tanh = std::tanh(factor * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + tanh) +
         0.5 * x * (1.0 - tanh * tanh) * factor * (1.0 + 3.0 * 0.044715 * x * x);
}

/// Carries out what comes behind element (i, j) of a product. As on a GPU, nothing is rounded to
/// the type of elements before it is stored.
template <class C, class Sum>
Sum with_epilogue(const ProductCall& call, std::int64_t i, std::int64_t j, Sum sum) {
  if (!call.epilogue || call.epilogue == Epilogue::kBiasGradient) {
    return sum;
  }
  const std::int64_t at = i * call.product.n + j;
  if (call.epilogue == Epilogue::kActivationGradient) {
    const double x = baseline::widen(elements<C>(call.x)[at]);
    return static_cast<Sum>(static_cast<double>(sum) * gelu_slope(x));
  }
  if (!call.bias.empty()) {
    sum += static_cast<Sum>(baseline::widen(elements<C>(call.bias)[j]));
  }
  if (call.epilogue == Epilogue::kActivation) {
    elements<C>(call.x)[at] = baseline::narrow<C>(sum);
    sum = static_cast<Sum>(gelu_by_tanh(static_cast<double>(sum)));
  }
  return sum;
}

/// Adds the sums of the columns of a, which is stored transposed, to the bias gradient.
template <class A>
void sum_bias_gradient(const ProductCall& call) {
  using Sum = baseline::Accumulator<A>;
  for (std::int64_t i = 0; i < call.product.m; ++i) {
    Sum sum{0};
    for (std::int64_t l = 0; l < call.product.k; ++l) {
      sum += baseline::widen(elements<A>(call.a)[l * call.product.m + i]);
    }
    elements<Sum>(call.bias_gradient)[i] += sum;
  }
}

template <class A, class C>
void multiply_elements(const ProductCall& call) {
  using Sum = baseline::Accumulator<A>;
  const auto [m, n, k, transposes_a, transposes_b, accumulates] = call.product;
  const A* const a = elements<A>(call.a);
  const A* const b = elements<A>(call.b);
  C* const c = elements<C>(call.c);
  std::vector<Sum> row(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), Sum{0});
    for (std::int64_t l = 0; l < k; ++l) {
      const Sum left = baseline::widen(a[transposes_a ? l * m + i : i * k + l]);
      for (std::int64_t j = 0; j < n; ++j) {
        row[static_cast<std::size_t>(j)] +=
            left * baseline::widen(b[transposes_b ? j * k + l : l * n + j]);
      }
    }
    for (std::int64_t j = 0; j < n; ++j) {
      const Sum before = accumulates ? static_cast<Sum>(baseline::widen(c[i * n + j])) : Sum{0};
      c[i * n + j] = baseline::narrow<C>(
          before + with_epilogue<C>(call, i, j, row[static_cast<std::size_t>(j)]));
    }
  }
  if (call.epilogue == Epilogue::kBiasGradient) {
    sum_bias_gradient<A>(call);
  }
}

}  // namespace

struct Products::State {
  /// Shapes and types whose kernel is loaded.
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DataType>> loaded;
};

Products::Products(Backend&, bool) : state_(std::make_unique<State>()) {}
Products::~Products() = default;

// The one refusal that cuBLASLt documents.
std::optional<std::string> Products::refusal(cudaStream_t, const ProductCall& call) {
  const bool has_input =
      call.epilogue == Epilogue::kActivation || call.epilogue == Epilogue::kActivationGradient;
  if (!has_input || call.product.n % kGeluInputWidth == 0) {
    return std::nullopt;
  }
  return "GELU of rows of " + std::to_string(call.product.n) + " elements";
}

void Products::multiply(cudaStream_t stream, const ProductCall& call) {
  static const char kind = 0;
  const auto [m, n, k, transposes_a, transposes_b, accumulates] = call.product;
  if (state_->loaded.emplace(m, n, k, transposes_a, transposes_b, call.a.type).second) {
    PTDP_CUDA_CHECK(emulated_gpu::load_library_kernel());
  }
  PTDP_CUDA_CHECK(emulated_gpu::queue(stream, &kind, [call] {
    baseline::visit_element_type(call.a.type, [&]<class A>(A) {
      if (call.c.type == call.a.type) {
        multiply_elements<A, A>(call);
      } else {
        multiply_elements<A, baseline::Accumulator<A>>(call);
      }
    });
  }));
}

}  // namespace ptdp::cuda
