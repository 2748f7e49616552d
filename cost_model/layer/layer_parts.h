// The linear layers of a transformer layer, and the kernels that all of it takes.
#pragma once

#include <cstdint>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/units.h"

namespace ptdp {

/// The two linear layers whose outputs are split over tp, the two whose inputs are, and those that
/// are not split; without experts.
struct LinearLayers {
  LinearTime qkv;  ///< Of latent attention what decompresses.
  LinearTime up;   ///< h→4h; of the shared experts, where there are some.
  LinearTime projection;
  LinearTime down;   ///< 4h→h; of the shared experts likewise.
  LinearTime whole;  ///< Compressions of latent attention.

  [[nodiscard]] LinearTime column() const { return qkv + up; }
  [[nodiscard]] LinearTime total() const { return column() + projection + down + whole; }
};

/// Their times on a rank, as many times as long as compute_factors() says; each product in so many
/// `chunks` of the tokens, side by side.
[[nodiscard]] LinearLayers linear_layers(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, std::int64_t chunks = 1);

/// What tensor parallelism exposes of a forward pass: of what enters column-parallel layers, and of
/// what row-parallel ones put out.
struct ForwardCollectives {
  Seconds into_attention;
  Seconds out_of_attention;
  Seconds into_mlp;
  Seconds out_of_mlp;

  [[nodiscard]] Seconds total() const {
    return (into_attention + out_of_attention) + (into_mlp + out_of_mlp);
  }
};

/// Width of the dense MLP of a layer: of the shared experts where it has experts; 0: it has none.
[[nodiscard]] int dense_mlp_width(const TransformerConfig& model, LayerKind kind);

/// Features that enter the column-parallel layers of attention: hidden states, or of latent
/// attention what is compressed, and the queries' hidden states where they are not.
[[nodiscard]] double attention_input_width(const TransformerConfig& model);

/// Of one pass.
struct PassKernels {
  double on_device = 0.0;  ///< That run one after another.
  double by_host = 0.0;    ///< That the host launches, one by one; a graph's it does not.

  /// So many more, each launched by the host.
  void launch(double kernels) {
    on_device += kernels;
    by_host += kernels;
  }
  PassKernels& operator+=(const PassKernels& other) {
    on_device += other.on_device;
    by_host += other.by_host;
    return *this;
  }
};

/// Of one layer, per microbatch.
struct LayerKernels {
  PassKernels forward;
  PassKernels backward;
  double weight_gradient = 0.0;  ///< Of the backward pass, on the device.
};

/// Whether the activation between the products of experts, and its casts, are part of these: of a
/// stack that has such kernels (fused_expert_activation), which are of SwiGLU and MX formats.
[[nodiscard]] bool fuses_expert_activation(const Scenario& scenario);

/// 30 kernels forward and 60 backward, 11 and 28 where the operations are measured one by one
/// (element_wise.h): this project's runtime.
[[nodiscard]] LayerKernels kernels_without_experts(const Scenario& scenario);

/// What experts add, without casts: 30 and 50 (router, top-k, two permutations and sorts each way,
/// counts for the host; Megatron-Core), but for their products one for each of the E/ep experts on
/// a rank, two forward and four backward, on four streams side by side, unless the stack fuses
/// them. Where the router is a graph, 16 forward and 12 backward are its, estimated. Source:
/// TransformerEngine v2.12, gemm/cublaslt_gemm.cu (multi_stream_cublas_gemm).
[[nodiscard]] LayerKernels expert_kernels(const Scenario& scenario, const ParallelConfig& config);

/// All together, with a kernel for each cast in `casts` (of each expert: TransformerEngine's
/// split_quantize in extensions/cast.cpp). Where attention is a graph, so is what is not of
/// experts; where the step is, all.
[[nodiscard]] LayerKernels layer_kernels(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, const LayerCasts& casts);

/// What a host of the cluster takes to launch one.
[[nodiscard]] Seconds host_time_per_kernel(const Scenario& scenario);

}  // namespace ptdp
