// What the experts of a layer cost, in place of a dense MLP.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/units.h"

namespace ptdp {

/// Of a layer with experts, per microbatch on the busiest rank, without its shared experts.
struct ExpertCosts {
  LinearTime products;           ///< Router and experts.
  Seconds element_wise_forward;  ///< Routing, permutations, activation.
  Seconds element_wise_backward;
  Seconds activation_forward;  ///< The activation's part of element_wise_forward.
  Seconds communication;  ///< To the experts and back: of a forward pass, and of a backward one.
};

/// Tokens that a rank sends to experts: b·s/(cp·t), which sequence parallelism gives each.
[[nodiscard]] double routed_tokens(const TransformerConfig& model, const ParallelConfig& config);

/// Rows that the experts of the busiest rank work on together: V below.
[[nodiscard]] double expert_rows(const TransformerConfig& model, const ParallelConfig& config);

/// With T tokens on a rank (routed_tokens), of which each visits k experts, and L times the mean on
/// the busiest rank (expert_load), its E/ep experts of width f/etp work on V = TkL·etp rows
/// together, as many each, in grouped products. Nothing waits for the weight gradients of others.
///
/// Traffic in elements of e bytes: permutation by experts and back T·h + Tk·h forward each; sorting
/// by the experts of the rank and back, where it has several and tokens come from others, 2V·h
/// each; by hierarchical dispatch, in place of both, permutation of what has arrived and back,
/// R·h + V·h each with R = TL·copies_received(); activation 3Vf/etp where it is gated, else 2, and
/// nothing where the stack fuses it; backward the same, but 5 or 4 of the activation and Tk·h more
/// for the gradients of the weights of visits, T·h more for the sum with that of others. Router:
/// six passes forward and six backward over T·E numbers of 4 bytes. Counted from Megatron-Core's
/// dispatchers (megatron/core/transformer/moe/token_dispatcher.py at core_v0.15.0:
/// MoEAlltoAllTokenDispatcher; _DeepepManager).
///
/// Communication: dispatch and combination over the expert group (expert_dispatch.h) of L times the
/// tokens, as the stack dispatches, and with etp > 1 a gathering of their inputs and a
/// reduce-scatter of their outputs, V·h, over the expert tensor group (dispatch by all-gather does
/// that too); the backward pass the same. What of it is hidden is hides_dispatch()'s. The
/// tensor-parallel group must split sequences where tp > 1.
[[nodiscard]] ExpertCosts expert_costs(const Scenario& scenario, const ParallelConfig& config);

/// Whether a microbatch's tokens travel behind the passes of another: those of a forward pass
/// behind the compute of a backward pass and the other way round, layer by layer, but for the first
/// microbatches, which nothing follows yet, and the last. Source: Megatron-Core at core_v0.15.0,
/// pipeline_parallel/combined_1f1b.py, and what its transformer_config.py asserts: experts on
/// several GPUs, another dispatcher than all-gather, no full recomputation, one module at most that
/// predicts more tokens, one stage or interleaving.
[[nodiscard]] bool hides_dispatch(const Scenario& scenario, const ParallelConfig& config);

/// Bytes that the busiest rank sends for it in a forward pass, and as many in a backward one
/// (dispatch_volume(), and (etp−1)/etp·V·h twice with etp > 1).
[[nodiscard]] Bytes expert_volume(const Scenario& scenario, const ParallelConfig& config);

}  // namespace ptdp
