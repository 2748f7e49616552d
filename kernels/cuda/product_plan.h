// How cuBLASLt is asked for a product, with or without an epilogue: keys, descriptors, proposals.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/products.h"

namespace ptdp::cuda {

/// Size of cuBLASLt's workspace that NVIDIA recommends for Hopper [B]. Source: cuBLAS
/// documentation, cublasSetWorkspace().
inline constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20U;

/// What products must have in common to share a plan.
struct ProductKey {
  explicit ProductKey(const ProductCall& call);

  std::int64_t m, n, k;
  bool transposes_a, transposes_b, accumulates;
  DataType type_of_operands, type_of_result;
  std::uint32_t alignment_of_a, alignment_of_b, alignment_of_c;
  int epilogue;    ///< Number of an Epilogue, or −1 without one.
  bool adds_bias;  ///< Whether an epilogue reads a bias.
  std::uint32_t alignment_of_bias, alignment_of_x;

  friend auto operator<=>(const ProductKey&, const ProductKey&) = default;
};

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
  /// Why the product runs without its epilogue, for the user; empty if it runs with it.
  std::string refusal;
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
