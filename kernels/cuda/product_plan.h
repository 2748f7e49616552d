// How cuBLASLt is asked for a product, with or without an epilogue: keys, descriptors, proposals.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/products.h"

namespace ptdp::cuda {

/// Size of cuBLASLt's workspace that NVIDIA recommends for Hopper [B]. Source: cuBLAS
/// documentation, cublasSetWorkspace().
inline constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20U;

/// What products must have in common to share a plan: sizes, form, types, the alignment of what
/// they read and write, the number of their Epilogue (−1 without one), and whether it adds a bias.
using ProductKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool, DataType,
                              DataType, std::uint32_t, std::uint32_t, std::uint32_t, int, bool,
                              std::uint32_t, std::uint32_t>;
[[nodiscard]] ProductKey key_of(const ProductCall& call);

/// The descriptors and the algorithm of a product. cuBLAS counts columns first, so that a row-major
/// matrix is its transpose there. It is asked for cᵀ[n,m] = op(b)ᵀ·op(a)ᵀ, whose first operand is
/// b.
struct ProductPlan {
  OwnedByCublasLt<cublasLtMatmulDesc_t> descriptor;
  OwnedByCublasLt<cublasLtMatrixLayout_t> b;
  OwnedByCublasLt<cublasLtMatrixLayout_t> a;
  OwnedByCublasLt<cublasLtMatrixLayout_t> c;
  cublasLtMatmulAlgo_t algorithm{};
  bool is_chosen = false;  ///< Not merely the first proposed, as during a capture.
  /// Why the product runs without its epilogue (Products::refusal); nullopt if it runs with it.
  std::optional<std::string> refusal = {};
};

/// Returns the plan of a product, without an algorithm.
[[nodiscard]] ProductPlan described(const ProductCall& call);
/// Tells the descriptor of a plan where the vectors and matrices of the epilogue are. A bias
/// gradient is written to `sums`.
void point_at_epilogue(const ProductPlan& plan, const ProductCall& call, void* sums);
/// Returns the algorithms that cuBLASLt proposes, which for an epilogue may be none.
[[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposed(cublasLtHandle_t handle,
                                                         const ProductPlan& plan,
                                                         const ProductCall& call);
/// Describes a product and its epilogue in a few words, for messages.
[[nodiscard]] std::string describe(const ProductCall& call);

}  // namespace ptdp::cuda
