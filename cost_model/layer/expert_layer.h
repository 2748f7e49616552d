// What the experts of a layer cost. They stand in place of a dense MLP.
#pragma once

#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/units.h"

namespace ptdp {

/// Costs of the experts of one layer, per microbatch on the busiest rank. Shared experts are not
/// part of them.
struct ExpertCosts {
  LinearTime products;            ///< Products of the router and of the experts.
  Seconds element_wise_forward;   ///< Routing, permutations and activation in the forward pass.
  Seconds element_wise_backward;  ///< Routing, permutations and activation in the backward pass.
  Seconds activation_forward;     ///< The activation's part of `element_wise_forward`.
  /// Messages to the experts and back in a forward pass. A backward pass takes as long.
  Seconds communication;
};

/// Returns the tokens of a microbatch that a rank sends to experts: b·s/(cp·t), which sequence
/// parallelism gives each rank.
[[nodiscard]] double routed_tokens(const TransformerConfig& model, const ParallelConfig& config);

/// Returns the rows that the experts of the busiest rank work on together: V in the formulas of
/// expert_costs().
[[nodiscard]] double expert_rows(const TransformerConfig& model, const ParallelConfig& config);

/// Returns the linear layers of the experts of a layer on the busiest rank: the router, which is a
/// layer of its own, and the two of all experts side by side.
[[nodiscard]] std::vector<SizedLinear> expert_linears(const TransformerConfig& model,
                                                      const ParallelConfig& config);

/// Computes the costs of a layer's experts per microbatch on the busiest rank.
///
/// Products: a rank has T tokens (routed_tokens), each of which visits k experts. The busiest rank
/// has L times the mean (expert_load). Its E/ep experts of width f/etp work on V = TkL·etp rows
/// together, as many each, in grouped products. Nothing waits for the weight gradients of others.
///
/// Traffic in elements of e bytes. "Each" means each of the two directions, to the experts and
/// back:
///
///   permutation   by experts and back, T·h + Tk·h forward each
///   sorting       by the experts of the rank and back, where it has several and tokens come from
///                 others, 2V·h each
///   padding       of rows for products in 8 or 4 bits, and cutting, where pads_rows(): 2V·h each
///   hierarchical dispatch, in place of all of these: permutation of what has arrived and back,
///                 R·h + V·h each with R = TL·copies_received()
///   activation    3Vf/etp where it is gated, else 2Vf/etp, and nothing where the stack fuses it
///   backward      the same, but 5 or 4 for the activation, Tk·h more for the gradients of the
///                 weights of visits, and T·h more for the sum with the gradient of other uses
///   router        six passes forward and six backward over T·E numbers of 4 bytes
///
/// and expert_bias_traffic(), which is in bytes.
///
/// Counted from Megatron-Core's dispatchers (megatron/core/transformer/moe/token_dispatcher.py at
/// core_v0.15.0: MoEAlltoAllTokenDispatcher; _DeepepManager).
///
/// Communication: dispatch and combination over the expert group (expert_dispatch.h) of L times the
/// tokens, in the stack's way of dispatch. With etp > 1 the expert tensor group gathers inputs and
/// reduce-scatters outputs, V·h each; dispatch by all-gather does that too. The backward pass has
/// the same. hides_dispatch() says what of it is hidden. With tp > 1 the tensor-parallel group must
/// split sequences.
[[nodiscard]] ExpertCosts expert_costs(const Scenario& scenario, const ParallelConfig& config);

/// Whether a microbatch's tokens travel to the experts behind the passes of another microbatch.
/// Messages of a forward pass then run behind the compute of a backward pass and the other way
/// round, layer by layer. The first microbatches, which nothing follows yet, and the last are left
/// out.
///
/// Source: Megatron-Core at core_v0.15.0, pipeline_parallel/combined_1f1b.py, and what its
/// transformer_config.py asserts. It asserts experts on several GPUs, another dispatcher than
/// all-gather, no full recomputation, and at most one module that predicts more tokens. It also
/// asserts one stage or interleaving.
[[nodiscard]] bool hides_dispatch(const Scenario& scenario, const ParallelConfig& config);

/// Returns the bytes that the busiest rank sends for the experts of a layer in a forward pass; a
/// backward pass sends as many. They are dispatch_volume() twice, and (etp−1)/etp·V·h twice with
/// etp > 1.
[[nodiscard]] Bytes expert_volume(const Scenario& scenario, const ParallelConfig& config);

}  // namespace ptdp
