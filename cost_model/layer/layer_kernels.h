// The linear layers of a transformer layer, and the kernels that all of it takes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/units.h"

namespace ptdp {

/// Times of a layer's linear layers, without experts: two whose outputs are split over tp, two
/// whose inputs are, and those that are not split.
struct LinearLayers {
  LinearTime qkv;  ///< Queries, keys and values; in latent attention the decompressions.
  /// First linear layer of the MLP, h→4h; the shared experts' in a layer with experts.
  LinearTime up;
  LinearTime projection;  ///< Projection of what attention returns.
  /// Second linear layer of the MLP, 4h→h; the shared experts' in a layer with experts.
  LinearTime down;
  LinearTime whole;  ///< Compressions of latent attention, which are not split.
  /// Keys of relative positions, split over tp by heads. Positions need no gradient.
  LinearTime positions;

  /// Returns the time of the column-parallel layers that take hidden states.
  [[nodiscard]] LinearTime column() const { return qkv + up; }
  [[nodiscard]] LinearTime total() const {
    return column() + projection + down + whole + positions;
  }
};

/// A linear layer that a rank runs in every layer of the model.
struct SizedLinear {
  std::string_view name;  ///< What it is called: "QKV", "first of the MLP".
  /// The sum that its time is a part of; null for those of experts.
  LinearTime LinearLayers::*part = nullptr;
  LinearSize size;
  std::int64_t experts = 0;  ///< Experts that it stands for side by side; 0 for a single layer.
  bool has_input_gradient = true;  ///< Whether it forms the gradient of its input.
};

/// Returns the linear layers of a layer of `kind` on a rank, without experts.
[[nodiscard]] std::vector<SizedLinear> sized_linears(const TransformerConfig& model,
                                                     const ParallelConfig& config, LayerKind kind);

/// Computes the times of a layer's linear layers on a rank, multiplied by compute_factors(). Each
/// product is formed in `chunks` chunks of the tokens, side by side.
[[nodiscard]] LinearLayers linear_layers(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, std::int64_t chunks = 1);

/// Communication of tensor parallelism that a forward pass waits for, by what it moves: inputs of
/// column-parallel layers, and outputs of row-parallel ones.
struct ForwardCollectives {
  Seconds into_attention;    ///< Gathering the inputs of attention.
  Seconds of_heads;          ///< Gathering heads, where ranks share a key head.
  Seconds of_norms;          ///< Summing over rows for norms that reach over ranks.
  Seconds out_of_attention;  ///< Reducing what attention's projection puts out.
  Seconds into_mlp;          ///< Gathering the inputs of the MLP.
  Seconds out_of_mlp;        ///< Reducing what the MLP puts out.

  [[nodiscard]] Seconds total() const {
    return (into_attention + of_heads + of_norms + out_of_attention) + (into_mlp + out_of_mlp);
  }
};

/// Returns the width of the dense MLP of a layer of `kind`. In a layer with experts it is that of
/// the shared experts; 0 means there is none.
[[nodiscard]] int dense_mlp_width(const TransformerConfig& model, LayerKind kind);

/// Returns the number of features that enter the column-parallel layers of attention: hidden
/// states, or in latent attention what is compressed. Queries that are not compressed count their
/// hidden states.
[[nodiscard]] double attention_input_width(const TransformerConfig& model);

/// Number of kernels of one pass.
struct PassKernels {
  double on_device = 0.0;  ///< Kernels that run one after another on the device.
  /// Kernels that the host launches one by one, which it does not do in a CUDA graph.
  double by_host = 0.0;
  /// The part of `on_device` whose modeled times contain the start of a kernel.
  double with_start = 0.0;

  /// Adds `kernels` kernels, each launched by the host. Their modeled times contain the starts of
  /// `starts` of them.
  void launch(double kernels, double starts = 0.0) {
    on_device += kernels;
    by_host += kernels;
    with_start += starts;
  }
  PassKernels& operator+=(const PassKernels& other) {
    on_device += other.on_device;
    by_host += other.by_host;
    with_start += other.with_start;
    return *this;
  }
};

/// Numbers of kernels of one layer, per microbatch.
struct LayerKernels {
  PassKernels forward;           ///< Kernels of the forward pass.
  PassKernels backward;          ///< Kernels of the backward pass.
  double weight_gradient = 0.0;  ///< The part of `backward.on_device` that forms weight gradients.
};

/// Whether the activation between the products of experts, and its casts, are part of these
/// products. The stack must have such kernels (fused_expert_activation), which are for SwiGLU and
/// MX formats.
[[nodiscard]] bool fuses_expert_activation(const Scenario& scenario);

/// Returns the kernels of a layer without those of its experts: 30 forward and 60 backward, and
/// with relative positions 36 and 68. Rotary positions that run as single operations
/// (applies_rotary_apart()) add 22 and 12. For
/// this project's runtime, where lists_operations(), they are those of layer_operations(), of
/// products and of attention. They are 10 and 28 for GPT-2. Where products have epilogues, in 16
/// bits, they are 8 and 27, or 8 and 23 with bias gradients. Without dropout, norms sum two of the
/// four bias gradients, and 4 or 2 kernels less run. Element-wise times contain one start for each
/// operation that is no epilogue.
[[nodiscard]] LayerKernels kernels_without_experts(const Scenario& scenario,
                                                   const ParallelConfig& config);

/// Whether kernels of their own pad rows of experts (pads_expert_rows), and cut them. Products that
/// fuse the activation pad by themselves. Hierarchical dispatch is taken to pad: HybridEP does,
/// DeepEP does not.
[[nodiscard]] bool pads_rows(const Scenario& scenario);

/// Returns how many of `starts` starts of products their modeled times contain: all where the GPU
/// has a matmul_start, else none.
[[nodiscard]] double starts_in_products(double starts, const GpuSpec& gpu);

/// Returns how many of the starts of `kernels` casts cast_time() contains: all where the GPU has a
/// cast_start, else none.
[[nodiscard]] double starts_in_casts(double kernels, const GpuSpec& gpu);

/// Returns the kernels that experts add to a layer, without casts.
///
///   routing    28 forward and 46 backward: router, top-k, two permutations and sorts each way,
///              counts for the host (Megatron-Core)
///   products   two forward and four backward for each of the E/ep experts on a rank, on four
///              streams side by side; for all experts together where the stack fuses them
///   padding    three each way where rows are padded: rows, weights of visits, and cutting
///   biases     expert_bias_kernels()
///
/// Where the router is a graph, the host does not launch 16 of the forward and 12 of the backward
/// ones (estimated). Source: TransformerEngine v2.12, gemm/cublaslt_gemm.cu
/// (multi_stream_cublas_gemm).
[[nodiscard]] LayerKernels expert_kernels(const Scenario& scenario, const ParallelConfig& config);

/// Returns the kernels of a layer of `kind`, with experts and with a kernel for each cast in
/// `casts`. Each expert has casts of its own: TransformerEngine's split_quantize in
/// extensions/cast.cpp. In a layer with experts whose attention is a graph, the host launches only
/// kernels of experts and casts. Where the step is a graph, it launches none. Times of products and
/// of casts contain their starts where the GPU has matmul_start and cast_start.
[[nodiscard]] LayerKernels layer_kernels(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, const LayerCasts& casts);

/// Returns the time that a host of the cluster takes to launch one kernel.
[[nodiscard]] Seconds host_time_per_kernel(const Scenario& scenario);

}  // namespace ptdp
