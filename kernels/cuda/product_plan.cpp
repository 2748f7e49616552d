// What is relied on of epilogues is what cublasLt.h says of them, with D the result that cuBLAS
// sees, our cᵀ[n,m]:
// - BIAS: "Bias vector length must match matrix D rows", n here, and it is added to all columns,
//   our rows. Its elements are of D's type.
// - GELU_AUX(_BIAS), DGELU: the auxiliary matrix is "GELU input", which lies as D does; its leading
//   dimension "must be divisible by 8 and be no less than the number of rows", n here. GELU is the
//   form with tanh (karpathy/llm.c uses both with its own tanh form, llmc/matmul.cuh).
// - BGRADB: "based on the input matrix B", our a; "the bias size corresponds to the number of
//   columns of the matrix D", m here; "the reduction happens over the GEMM's k dimension". It is
//   stored, not added, in D's type. NVIDIA's TransformerEngine (v2, common/gemm/cublaslt_gemm.cu,
//   pytorch/csrc/extensions/gemm.cpp) asks for it so, for f32 sums of weight gradients, too.
#include "kernels/cuda/product_plan.h"

#include <array>

namespace ptdp::cuda {
namespace {

constexpr int kMostCandidates = 8;
/// Elements by which the rows of GELU's input must be divisible.
constexpr std::int64_t kAuxiliaryWidth = 8;

cublasLtEpilogue_t epilogue_of(const ProductCall& call) {
  switch (*call.epilogue) {
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kActivation:
      return call.bias.empty() ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::kActivationGradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool has_auxiliary_matrix(const ProductCall& call) {
  return call.epilogue == Epilogue::kActivation || call.epilogue == Epilogue::kActivationGradient;
}

std::string epilogue_name(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kBias:
      return "bias";
    case Epilogue::kActivation:
      return "GELU";
    case Epilogue::kActivationGradient:
      return "GELU's gradient";
    case Epilogue::kBiasGradient:
      return "bias gradient";
  }
  return {};
}

}  // namespace

ProductKey key_of(const ProductCall& call) {
  const Matmul& product = call.product;
  return {product.m,
          product.n,
          product.k,
          product.transposes_a,
          product.transposes_b,
          product.accumulates,
          call.a.type,
          call.c.type,
          alignment_of(call.a.data),
          alignment_of(call.b.data),
          alignment_of(call.c.data),
          call.epilogue ? static_cast<int>(*call.epilogue) : -1,
          !call.bias.empty(),
          alignment_of(call.bias.data),
          alignment_of(call.x.data)};
}

ProductPlan described(const ProductCall& call) {
  const auto [m, n, k, transposes_a, transposes_b, accumulates] = call.product;
  ProductPlan plan;
  cublasLtMatmulDesc_t descriptor = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatmulDescCreate(&descriptor, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  plan.descriptor.reset(descriptor);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSA, transposes_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(descriptor, CUBLASLT_MATMUL_DESC_TRANSB, transposes_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  plan.b = transposes_b ? layout_of(call.b.type, k, n) : layout_of(call.b.type, n, k);
  plan.a = transposes_a ? layout_of(call.a.type, m, k) : layout_of(call.a.type, k, m);
  plan.c = layout_of(call.c.type, n, m);
  if (call.epilogue) {
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(call));
  }
  if (has_auxiliary_matrix(call)) {
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, n);
  }
  return plan;
}

void point_at_epilogue(const ProductPlan& plan, const ProductCall& call, void* sums) {
  if (!call.epilogue) {
    return;
  }
  cublasLtMatmulDesc_t descriptor = plan.descriptor.get();
  if (call.epilogue == Epilogue::kBiasGradient) {
    set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums);
  } else if (!call.bias.empty()) {
    set(descriptor, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias.data);
  }
  if (has_auxiliary_matrix(call)) {
    set(descriptor, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.x.data);
  }
}

std::vector<cublasLtMatmulAlgo_t> proposed(cublasLtHandle_t handle, const ProductPlan& plan,
                                           const ProductCall& call) {
  if (has_auxiliary_matrix(call) && call.product.n % kAuxiliaryWidth != 0) {
    return {};
  }
  cublasLtMatmulPreference_t made = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&made));
  const OwnedByCublasLt<cublasLtMatmulPreference_t> preference(made);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(kWorkspaceBytes));
  // Partial sums are kept in f32, and are not added in the order in which they come.
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call.b.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call.a.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call.c.data));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call.c.data));
  std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> results{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, plan.descriptor.get(), plan.b.get(), plan.a.get(), plan.c.get(), plan.c.get(), made,
      kMostCandidates, results.data(), &count);
  const bool is_refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (call.epilogue && is_refused) {
    return {};
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    if (results[static_cast<std::size_t>(i)].state == CUBLAS_STATUS_SUCCESS) {
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
  }
  return algorithms;
}

std::string describe(const ProductCall& call) {
  return "a product of " + std::to_string(call.product.m) + " x " + std::to_string(call.product.n) +
         " x " + std::to_string(call.product.k) + " in " + std::string(name_of(call.a.type)) +
         (call.epilogue ? " with " + epilogue_name(*call.epilogue) : "");
}

}  // namespace ptdp::cuda
