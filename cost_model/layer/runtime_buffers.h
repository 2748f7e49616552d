// What this project's own runtime holds in memory of a microbatch, layer by layer.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/operations/host_scratch.h"
#include "cost_model/units.h"

namespace ptdp {

/// Sizes of a microbatch's buffers on a rank, by their names in runtime/model/MEMORY.md.
struct RuntimeBuffers {
  Bytes rows;           ///< A hidden state of this rank's rows, r·h.
  Bytes all_rows;       ///< A hidden state of all rows, n·h.
  Bytes qkv;            ///< Queries, keys and values that this rank projects.
  Bytes keys;           ///< Keys and values of a head that ranks share; 0 where none do.
  Bytes gathered_keys;  ///< Keys and values of all heads, while they are gathered or summed; or 0.
  Bytes qk_normed;  ///< Queries and keys behind their norms, with statistics; 0 without such norms.
  /// What norms of queries and keys need while gradients of gathered_keys are summed: their inputs
  /// and statistics where they reach over ranks, else 0.
  Bytes qk_normed_behind;
  /// Sums over whole rows, where norms of queries and keys reach over ranks, and the statistics
  /// that are there while keys are gathered; else 0.
  Bytes norm_sums;
  Bytes summing_norms;  ///< The sums, with scratch memory of their sum over the group; else 0.
  Bytes attention;      ///< Result of attention.
  Bytes log_sums;       ///< Logarithms of the sums in attention's softmax, one per token and head.
  Bytes statistics;     ///< Statistics of a norm's rows: deviations, and means of a layer norm.
  // The ends of a layer's branches, which depend on where norms are.
  Bytes entered1;  ///< Input of attention: x and its norm with statistics, or x alone.
  Bytes entered2;  ///< Input of the MLP: as for attention, without x where attention's is the same.
  /// What a norm makes of the middle of the layer as that is summed; 0 where none does.
  Bytes normed_middle;
  Bytes left;    ///< Result of a branch and its statistics where a norm follows; else 0.
  Bytes branch;  ///< Gradient of a branch's result where a norm follows; else 0.
  /// Gradient of the sum in a branch's last layer, in a whole backward pass; 0 where the gradient
  /// of the layer's result serves.
  Bytes summed_gradient;
  /// Whether attention's input gradient alone replaces queries, keys and values, which is so on a
  /// host unless norms need them.
  bool replaces_qkv = false;
  bool is_parallel = false;  ///< Whether the MLP takes the layer's input.
  Bytes up;                  ///< Result of the MLP's first layer.
  Bytes activated;           ///< Input of the MLP's second layer.
  Bytes logits;              ///< Logits of all tokens, n·V'/t.
  Bytes loss;                ///< Maximum, sum and target's logit of each token.
  Bytes tokens;              ///< Ids of the tokens, for the embedding or for the loss.
  // Scratch memory beside an operation: attention, products, a norm's backward pass, a sum of all
  // rows over the tensor-parallel group.
  AttentionScratch attending;  ///< Scratch memory of attention.
  LinearScratch qkv_products;  ///< Scratch memory of the products of QKV.
  LinearScratch projection;    ///< Scratch memory of the products of attention's projection.
  LinearScratch fc1;           ///< Scratch memory of the products of the MLP's first layer.
  LinearScratch fc2;           ///< Scratch memory of the products of the MLP's second layer.
  LinearScratch output;        ///< Scratch memory of the products of the logits.
  Bytes norming;               ///< Scratch memory of a norm's backward pass.
  Bytes summing_keys;          ///< Scratch memory of a sum of gathered_keys over that group.
  Bytes summing;  ///< Scratch memory of a sum of all rows over the tensor-parallel group.
  /// Rows left of a sum over the tensor-parallel group, with sequence parallelism; else 0.
  Bytes scattered;
  bool is_scattered = false;  ///< Whether sequence parallelism splits rows over more than one rank.
  bool is_behind = false;     ///< Whether collectives of backward passes run behind products.
  /// Additional memory of rows that a whole backward pass gathers again. It gathers them for a
  /// weight gradient while the input gradient is formed, in place of this rank's rows.
  Bytes gathered_behind;
};

/// Computes the buffers of one microbatch of the configuration, on one rank.
[[nodiscard]] RuntimeBuffers runtime_buffers(const Scenario& scenario,
                                             const ParallelConfig& config);

/// Memory that a layer takes for one microbatch. There are n = s·b tokens, and r = n/t rows with
/// sequence parallelism, else n. e and c are the bytes of an element and of an accumulator. a and k
/// are the widths of a rank's queries and keys, f that of its MLP, and g the heads of a rank:
///
///   most      4r·h·e + 4r·c + n(2a + 2k + f_up + f)·e + n·g·c
///   kept      most; without attention's result and n·g·c where attention is recomputed;
///             r·h·e where the layer is recomputed
///   deferred  2r·h·e + 2n·h·e + n(2a + 2k + f_up + f)·e
///
/// RMS norms have 2r·c in place of 4r·c. Norms before and behind branches have two more each of
/// r·h·e and statistics; parallel branches have r·h·e less. Norms of queries and keys add n(a +
/// k)·e. Key heads that ranks share add n·2d·e, with d the width of a head, except to `deferred`.
///
/// For GPT on one rank this is 16 elements per sbh, and the statistics. Dropout masks are made
/// again from their counters; scores are never stored.
struct LayerMemory {
  Bytes most;      ///< Memory while the layer's forward pass runs.
  Bytes kept;      ///< Memory from the forward pass to the backward pass or input gradient.
  Bytes deferred;  ///< Memory from the input gradient to a weight gradient that is put off.
};
/// Computes the memory of a layer from the buffers of a microbatch, under a kind of recomputation.
[[nodiscard]] LayerMemory layer_memory(const RuntimeBuffers& buffers, Recompute recompute);
/// Computes the memory of a layer for one microbatch of the configuration, under its recomputation.
[[nodiscard]] LayerMemory layer_memory(const Scenario& scenario, const ParallelConfig& config);

}  // namespace ptdp
