// Activations that a layer keeps for its backward pass.
#pragma once

#include <optional>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// What a stack keeps of activations for backward passes, and in how many bytes.
struct ActivationStorage {
  double element_bytes = 2.0;  ///< Size of an element [B].
  /// Size [B] of an element of linear layers' inputs, where these are kept in 8 bits beside what
  /// other operations keep of them; nullopt: they are not.
  std::optional<double> fp8_input_bytes = {};
  /// Whether attention scores are stored, which a fused kernel never does.
  bool stores_scores = true;
  /// Whether inputs of column-parallel layers stay gathered, with sequence parallelism.
  bool keeps_gathered_inputs = false;
  bool keeps_expert_outputs = true;  ///< Whether what experts return is kept.
  /// Whether a bounded copy of what experts' first product puts out is kept beside it.
  bool bounds_apart = false;
  /// Whether attention's output is kept beside the projection's input, in another order of tokens.
  /// A single sequence has one order, and one tensor then serves both.
  bool copies_heads = false;
  /// Whether attention's output is kept beside its rows as they are put back.
  bool looks_up_tokens = false;
  bool splits_gates = false;  ///< Whether the activation of a gate is kept beside its product.
};
/// Returns how `stack` keeps activations of the model.
[[nodiscard]] ActivationStorage activation_storage(const TransformerConfig& model,
                                                   const StackSpec& stack);

/// Returns the activations [B] that one dense layer keeps per microbatch for its backward pass.
/// With 2-byte elements and 1-byte dropout masks they are:
///
///   none       sbh(10 + 24/t + 5as/(ht)),  with sequence parallelism sbh/t·(34 + 5as/h)
///   selective  sbh(10 + 24/t),             with sequence parallelism sbh/t·34
///   full       2sbh,                       with sequence parallelism 2sbh/t
///
/// In 8 bits the inputs of linear layers take fp8_input_bytes. For the outputs of norms and gates
/// that copy is the only one. Attention keeps its output beside the projection's copy, and routers
/// keep their input beside the experts'.
///
/// The formulas are those of GPT. Other widths are counted alike, tensor by tensor, without masks
/// where there is no dropout. The terms 5as/h (attention scores) are then 2as/h. They vanish where
/// scores are not stored. Relative positions keep a second copy of queries beside stored scores,
/// and kept_of_positions().
///
/// Source: Korthikanti et al. (arXiv:2205.05198) table 2; at t = 8 the first is SC21's 10 + 24/t.
[[nodiscard]] Bytes layer_activations(const TransformerConfig& model, int micro_batch_size, int tp,
                                      Recompute recompute, bool is_sequence_parallel,
                                      const ActivationStorage& storage = {});

/// Returns the activations [B] that a layer of `kind` keeps per microbatch for its backward pass,
/// with the config's degrees. Latent attention keeps what it compressed before and after its norms,
/// and queries, keys and values of all heads. Experts keep the rows that they work on
/// (expert_layer.h), and their outputs for the gradients of the visits' weights. Routers keep two
/// scores of 4 bytes per token and expert.
///
/// Selective recomputation drops, by the config's recompute_modules:
///
///   core_attn       scores, where they are stored
///   moe_act         what enters the experts' second product, and bounded copies in front of it
///   layernorm       outputs of norms in front of latent attention and of experts
///   mla_up_proj     queries, keys and values of latent attention
///   mlp             what is within a dense MLP, and the output of the norm that is fused into it
///   moe             all of the experts but their input; shared_experts what is within those
///   op              all but the layer's input, queries, values, what attention returns and the
///                   MLP's first product: 2sb(h + q + v + c + f) for widths q, v, c, f over t
///
/// Source: selective_recompute.h.
[[nodiscard]] Bytes layer_activations(const TransformerConfig& model, const ParallelConfig& config,
                                      Recompute recompute, LayerKind kind,
                                      const ActivationStorage& storage);

/// Returns the part of layer_activations() that does not depend on the microbatch size [B]: keys of
/// relative positions. The sinusoids that these are made of are one buffer for all layers, and not
/// counted.
[[nodiscard]] Bytes kept_of_positions(const TransformerConfig& model, const ParallelConfig& config,
                                      Recompute recompute, const ActivationStorage& storage);

/// Returns the activations [B] that a layer of the scenario's stack keeps of one microbatch:
/// layer_activations(), or with MemoryModel::kPtdp LayerMemory::kept of runtime_buffers.h.
[[nodiscard]] Bytes kept_by_layer(const Scenario& scenario, const ParallelConfig& config,
                                  LayerKind kind);

}  // namespace ptdp
