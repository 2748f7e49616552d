// Computes matrix products on the emulated GPU, from their definition.
#include "kernels/cuda/products.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "kernels/cpu/element.h"
#include "kernels/cuda/check.h"

namespace ptdp::cuda {
namespace {

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
      c[i * n + j] = baseline::narrow<C>(before + row[static_cast<std::size_t>(j)]);
    }
  }
}

}  // namespace

struct Products::State {
  /// Shapes and types whose kernel is loaded.
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, DataType>> loaded;
};

Products::Products(Backend&, bool) : state_(std::make_unique<State>()) {}
Products::~Products() = default;

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
