// What selective recomputation repeats of a layer, module by module.
#pragma once

#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/layer/pass_time.h"

namespace ptdp {

/// Parts of a layer's forward pass on one rank.
struct ForwardParts {
  LinearLayers products;           ///< Products of the linear layers, without experts.
  ExpertCosts experts;             ///< Costs of the experts; all 0 where the layer has none.
  ForwardCollectives collectives;  ///< Tensor-parallel communication that the pass waits for.
  /// The attention core, and what it waits for where GPUs share a sequence.
  PassTime attention_core;
  Seconds element_wise;  ///< Element-wise work, without that of experts.
  double kernels = 0.0;  ///< Kernels on the device of a whole layer without experts.
};

/// Forward work that the config's recompute_modules repeat, for microbatches as layer_costs() has
/// them. By module it is
///
///   core_attn       attention, and what it waits for where GPUs share a sequence
///   moe_act         the activation between the experts' products
///   layernorm       2 passes over the hidden states for each norm that is a kernel of its own: in
///                   front of latent attention and of experts, else TransformerEngine fuses it into
///                   the linear layer behind it
///   mla_up_proj     the two decompressions, rotary positions, gathering of what is compressed
///   mlp             both products, activation, fused norm, both collectives
///   moe             router, permutations, both directions of dispatch, products; shared_experts
///   shared_experts  both products, activation, both collectives
///   op              every second product in the order of Llama's (keys, projection, gate), and all
///                   that is neither a product nor attention; reduce-scatters are kept, gathers are
///                   not
///
/// and the casts to 8 bits of what goes into the products. A module that a layer does not have
/// costs nothing. Source: Megatron-Core transformer_config.py (recompute_modules),
/// transformer_layer.py, multi_latent_attention.py, moe/moe_layer.py; torchtitan
/// parallelize_llama.py (_save_list and its policy, December 2024).
struct RepeatedWork {
  PassTime time;        ///< Time of the repeated work; `launch` is 0 and left to the caller.
  PassKernels kernels;  ///< Kernels launched for the repeated work, without those of attention.
};
/// Computes what selective recomputation repeats of a layer of `kind` whose forward pass consists
/// of `forward`.
[[nodiscard]] RepeatedWork repeated_work(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, const ForwardParts& forward);

/// Returns the number of features that tensor parallelism gathers or reduces again for selective
/// recomputation, as tensor_parallel_elements() counts them. An all-reduce counts twice, and a
/// gathering as `gathered` of an element.
[[nodiscard]] double repeated_width(const TransformerConfig& model, const ParallelConfig& config,
                                    LayerKind kind, double gathered);

}  // namespace ptdp
