#include "planner/traces/kernel_kinds.h"

#include <algorithm>
#include <span>
#include <string>

namespace ptdp {
namespace {

using NameParts = std::span<const std::string_view>;

// Operators of PyTorch 2.x (native_functions.yaml) and their autograd counterparts. Names of ATen
// come without "aten::"; a Transformer Engine operator keeps its own.
constexpr auto kProductOperators = std::to_array<std::string_view>(
    {"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "_scaled_mm", "_grouped_mm",
     "_scaled_grouped_mm", "addmv", "mv", "dot", "_addmm_activation", "linear_backward", "addbmm"});
constexpr auto kProductParts = std::to_array<std::string_view>({"convolution", "_conv"});
constexpr auto kAttentionParts = std::to_array<std::string_view>(
    {"scaled_dot_product", "flash_attn", "flash_attention", "flashattn", "efficient_attention",
     "flex_attention", "fusedattn", "fused_attn", "fmha", "aiter::mha"});

constexpr auto kCollectiveKernels = std::to_array<std::string_view>(
    {"nccl", "rccl", "cross_device_reduce", "allreduce", "all_reduce", "allgather", "all_gather",
     "reducescatter", "reduce_scatter", "multimem_", "nvshmem", "deep_ep", "userbuffers"});
constexpr auto kAttentionKernels = std::to_array<std::string_view>(
    {"flash", "fmha", "attention", "attn", "sdpa", "_mha_", "sage_fwd"});
// "tensile" and "cijk_" are ROCm's; "nvjet", "xmma", "cutlass" and "gemm" NVIDIA's.
constexpr auto kProductKernels = std::to_array<std::string_view>(
    {"gemm",      "nvjet",       "cutlass",     "xmma",       "cijk_",
     "tensile",   "gemv",        "splitk",      "cublas",     "dgrad",
     "wgrad",     "convolve",    "convolution", "winograd",   "scudnn",
     "triton_mm", "triton_tem_", "_mm_kernel",  "matmul",     "bmm_",
     "igemm",     "dot_kernel",  "miopensp3",   "naive_conv", "gridwise_conv"});
// Inductor's fused kernels are named after all that they fuse, but compute no product.
constexpr auto kFusedKernels =
    std::to_array<std::string_view>({"triton_poi_", "triton_red_", "triton_per_", "triton_for_"});
constexpr auto kOptimizerKernels = std::to_array<std::string_view>(
    {"multi_tensor_apply", "multitensorapply", "adam", "adagrad", "fusedlamb", "fused_lamb",
     "lambfunctor", "lamb_", "l2norm", "sgd"});
constexpr auto kNormKernels = std::to_array<std::string_view>(
    {"layer_norm", "layernorm", "rms_norm", "rmsnorm", "batch_norm", "batchnorm", "group_norm",
     "bn_fw", "bn_bw", "_ln_", "ln_fwd", "ln_bwd", "gammabeta", "rowwisemoments"});
constexpr auto kCopyKernels =
    std::to_array<std::string_view>({"copybuffer", "fillbuffer", "memcpy", "memset"});
constexpr auto kHostCopies =
    std::to_array<std::string_view>({"htod", "dtoh", "hosttodevice", "devicetohost"});

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

bool has_any_of(std::string_view text, NameParts words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace

std::optional<WorkKind> kind_of_operator(std::string_view name) {
  const std::string lower = in_lower_case(name);
  if (has_any_of(lower, kAttentionParts)) {
    return WorkKind::kAttention;
  }
  constexpr std::string_view aten = "aten::";
  const bool is_aten = lower.starts_with(aten);
  const std::string_view short_name =
      is_aten ? std::string_view(lower).substr(aten.size()) : std::string_view(lower);
  const bool is_product =
      is_aten && (std::ranges::find(kProductOperators, short_name) != kProductOperators.end() ||
                  has_any_of(short_name, kProductParts));
  return is_product ? std::optional(WorkKind::kProduct) : std::nullopt;
}

WorkKind kind_of_kernel(std::string_view name) {
  std::string lower = in_lower_case(name);
  constexpr std::string_view library = "fbgemm";  // whose kernels of embeddings are no products
  for (std::size_t at = lower.find(library); at != std::string::npos; at = lower.find(library)) {
    lower.erase(at, library.size());
  }
  // In this order: a kernel of attention may be CUTLASS's, too, and one of a collective may reduce.
  if (has_any_of(lower, kCollectiveKernels)) {
    return WorkKind::kCollective;
  }
  const bool is_fused = has_any_of(lower, kFusedKernels);
  if (!is_fused && has_any_of(lower, kAttentionKernels)) {
    return WorkKind::kAttention;
  }
  if (!is_fused && has_any_of(lower, kProductKernels)) {
    return WorkKind::kProduct;
  }
  if (has_any_of(lower, kOptimizerKernels)) {
    return WorkKind::kOptimizer;
  }
  if (has_any_of(lower, kNormKernels)) {
    return WorkKind::kNorm;
  }
  return has_any_of(lower, kCopyKernels) ? WorkKind::kCopy : WorkKind::kElementWise;
}

WorkKind kind_of_copy(std::string_view name) {
  return has_any_of(in_lower_case(name), kHostCopies) ? WorkKind::kHostCopy : WorkKind::kCopy;
}

}  // namespace ptdp
