// Context parallelism: what a layer's attention takes where cp GPUs share each sequence.
#pragma once

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/operations/attention.h"
#include "cost_model/units.h"

namespace ptdp {

/// How the attention of one layer and microbatch is split over GPUs.
struct ContextSplit {
  ContextParallel kind = ContextParallel::kRing;
  int micro_batch_size = 1;  ///< Sequences.
  int tp = 1;
  int cp = 1;
  /// Of 2cp chunks, rank i has i and 2cp−1−i, so that under a causal mask all ranks have as much to
  /// do (TransformerEngine's only way; torchtitan's "headtail"). Else rank i has the i-th of cp.
  bool is_balanced = true;
};
/// Of a configuration, as the stack splits it; no shipped one does so without balance.
[[nodiscard]] ContextSplit context_split(const ParallelConfig& config, const StackSpec& stack);

/// Whether the sequence has equal chunks: s is a multiple of 2cp where balanced, else of cp.
[[nodiscard]] bool divides_sequence(const TransformerConfig& model, const ContextSplit& split);
/// Whether the kind can split the heads: an all-to-all needs a divisible by t·cp, and on a rank of
/// the tensor-parallel group as many key groups as a multiple of cp or a divisor of it, in which
/// case they are repeated cp times (DeepSpeed; TransformerEngine needs a multiple).
[[nodiscard]] bool divides_heads(const TransformerConfig& model, const ContextSplit& split);

/// Bytes that each rank sends per layer and microbatch.
struct ContextParallelVolume {
  Bytes forward;
  Bytes backward;
};

/// With C the K and V of s/cp tokens and Q the queries, O the outputs of as many:
///
///   ring        (cp−1)C forward; 2(cp−1)C backward, K, V and their gradients
///   all-gather  (cp−1)C forward; 2(cp−1)C backward: gathered again, gradients reduce-scattered
///   all-to-all  (cp−1)/cp · (Q + C + O) each way
///
/// all in the elements of `precision`, gradients too. C has max(1, groups/t) heads; of latent
/// attention the K and V of a/t heads, decompressed. Source: TransformerEngine d0067d0da,
/// dot_product_attention/context_parallel.py without FP8; for latent attention, what Megatron-LM
/// gives it (multi_latent_attention.py at 003b4ce26).
[[nodiscard]] ContextParallelVolume context_parallel_volume(const TransformerConfig& model,
                                                            const ContextSplit& split,
                                                            Precision precision);

/// What the slowest rank's attention core takes per layer and microbatch, and the communication
/// that does not run behind it.
struct ContextParallelTime {
  AttentionTime attention;
  Seconds exposed_forward;
  Seconds exposed_backward;
};

/// Of the causal pairs of query and key each rank has 1/cp where balanced, else the last one
/// (2cp−1)/cp². In a window the token at x has min(x, w): the slowest rank has the two chunks in
/// the middle, else the last one. Unfused kernels compute all pairs, 1/cp for each rank. cp = 1 is
/// attention_time() and no communication.
///
/// Ring: cp steps. One is causal attention among s/cp tokens; each of the others, half a block of
/// pairs where balanced, has as many FLOPs and is taken to run at the same rate: the one measured
/// for s/cp tokens where the GPU has measured attention, else the kernel's. Partial results are
/// added (cp−1) times, 3 elements moved for each of O forward, and of Q, K and V backward. Step i
/// hides a message, t = max(0, message − compute) + overlap_slowdown · min(message, compute):
///
///   forward   C behind each step but the last, the causal one first
///   backward  C behind the first, 2C behind the next, C behind the last, the causal one
///
/// Messages have no latency (message_time()), so that steps of microseconds come out too fast. A
/// window shortens all steps alike and saves no message; TransformerEngine has none with a ring.
///
/// All-gather: K, then V, at the rate of the whole sequence; nothing hidden. Backward as in
/// context_parallel_volume().
///
/// All-to-all: attention_time() of a/(t·cp) heads; q, k, v and o are exchanged one after the other,
/// and their gradients; nothing hidden. Each takes all_to_all_time().
///
/// Beside the table of zhuzilin/ring-flash-attention at 8996282 (8 A100 or 8 H800, attention of
/// Llama 3 8B over 65536 tokens, as a part of the rate of causal blocks alone): 51 to 54 % measured
/// without balance, 52 % predicted; 82 to 90 % with it, 94 to 97 % predicted.
///
/// `group` is the placement of the context-parallel group; both predicates above must hold, and
/// `check(scenario)` must have accepted the pair of GPU and stack.
[[nodiscard]] ContextParallelTime context_parallel_time(const TransformerConfig& model,
                                                        const ContextSplit& split,
                                                        const GroupPlacement& group,
                                                        const ClusterSpec& cluster,
                                                        const StackSpec& stack);

}  // namespace ptdp
