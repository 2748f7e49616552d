// What ptdp's own runtime has in memory of a microbatch, by the layer.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/operations/host_scratch.h"
#include "cost_model/units.h"

namespace ptdp {

/// Sizes of a microbatch's buffers on a rank, by their names in runtime/model/MEMORY.md.
struct RuntimeBuffers {
  Bytes rows;        ///< r·h.
  Bytes all_rows;    ///< n·h.
  Bytes qkv;         ///< Queries, keys and values of this rank's heads.
  Bytes attention;   ///< The result of attention.
  Bytes log_sums;    ///< Of attention.
  Bytes statistics;  ///< Mean and deviation of a norm's rows.
  Bytes up;          ///< Result of the MLP's first layer.
  Bytes activated;   ///< What the second takes.
  Bytes logits;      ///< n·V'/t.
  Bytes loss;        ///< Maximum, sum and target's logit of each token.
  Bytes tokens;      ///< Their ids.
  // Beside an operation: attention, products, a norm's backward pass, a sum of all rows over the
  // tensor-parallel group.
  AttentionScratch attending;
  LinearScratch qkv_products;
  LinearScratch projection;
  LinearScratch fc1;
  LinearScratch fc2;
  LinearScratch output;
  Bytes norming;
  Bytes summing;
  Bytes scattered;  ///< Rows that are left of such a sum, with sequence parallelism.
  bool is_scattered = false;
  bool is_behind = false;  ///< Collectives of backward passes run behind products.
  /// Rows that a whole backward pass gathers again for a weight gradient while the input gradient
  /// is formed, in place of this rank's: so many more than those.
  Bytes gathered_behind;
};

/// The buffers of one microbatch of the configuration.
[[nodiscard]] RuntimeBuffers runtime_buffers(const Scenario& scenario,
                                             const ParallelConfig& config);

/// What a layer has in memory of a microbatch. With n = s·b tokens, r = n/t rows with sequence
/// parallelism (else n), e and c the bytes of an element and of an accumulator, a and k the widths
/// of a rank's queries and keys, f that of its MLP, g heads of a rank:
///
///   most      4r·h·e + 4r·c + n(2a + 2k + f_up + f)·e + n·g·c
///   kept      most; without attention's result and n·g·c where attention is recomputed;
///             r·h·e where the layer is
///   deferred  2r·h·e + 2n·h·e + n(2a + 2k + f_up + f)·e
///
/// which is 16 elements per sbh, and its statistics, for GPT on one rank: dropout masks are made
/// again from their counters, scores are never stored.
struct LayerMemory {
  Bytes most;      ///< While its forward pass runs.
  Bytes kept;      ///< From the forward pass to the backward pass or input gradient,
  Bytes deferred;  ///< and from there to a weight gradient that is put off.
};
[[nodiscard]] LayerMemory layer_memory(const RuntimeBuffers& buffers, Recompute recompute);
[[nodiscard]] LayerMemory layer_memory(const Scenario& scenario, const ParallelConfig& config);

}  // namespace ptdp
