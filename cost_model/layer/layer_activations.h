// Activations that a layer keeps for its backward pass.
#pragma once

#include <optional>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// How a stack keeps activations.
struct ActivationStorage {
  double element_bytes = 2.0;
  /// Of inputs of linear layers, where they are kept in 8 bits beside what others keep of them.
  std::optional<double> fp8_input_bytes = {};
  bool stores_scores = true;           ///< Of attention, which a fused kernel never does.
  bool keeps_gathered_inputs = false;  ///< Of column-parallel layers, with sequence parallelism.
  bool keeps_expert_outputs = true;
};
[[nodiscard]] ActivationStorage activation_storage(const StackSpec& stack);

/// Activations that one layer keeps per microbatch for its backward pass. With 2-byte elements and
/// 1-byte dropout masks:
///
///   none       sbh(10 + 24/t + 5as/(ht)),  with sequence parallelism sbh/t·(34 + 5as/h)
///   selective  sbh(10 + 24/t),             with sequence parallelism sbh/t·34
///   full       2sbh,                       with sequence parallelism 2sbh/t
///
/// In 8 bits the inputs of linear layers, which the norms before them and gates otherwise leave as
/// the only copy, take fp8_input_bytes; attention keeps its output beside that which the projection
/// keeps, and routers their input.
///
/// The above is for GPT; other widths are counted alike, tensor by tensor, without masks where
/// there is no dropout; then the terms 5as/h (attention scores) are 2as/h. They vanish where scores
/// are not stored.
/// Source: Korthikanti et al. (arXiv:2205.05198) table 2; at t = 8 the first is SC21's 10 + 24/t.
[[nodiscard]] Bytes layer_activations(const TransformerConfig& model, int micro_batch_size, int tp,
                                      Recompute recompute, bool is_sequence_parallel,
                                      const ActivationStorage& storage = {});

/// The same of a layer of a kind, with the config's degrees. Latent attention keeps what it
/// compressed before and after its norms, and queries, keys and values of all heads; experts the
/// rows that they work on (expert_layer.h), their outputs for the gradients of the visits' weights,
/// and two scores of 4 bytes per token and expert.
///
/// Selective recomputation drops, by the config's recompute_modules:
///
///   core_attn       scores, where they are stored
///   moe_act         what enters the experts' second product
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

/// What a layer of the scenario's stack keeps of one microbatch: layer_activations, or by
/// MemoryModel::kPtdp that of runtime_buffers.h.
[[nodiscard]] Bytes kept_by_layer(const Scenario& scenario, const ParallelConfig& config,
                                  LayerKind kind);

}  // namespace ptdp
