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

/// How the attention of one layer is split over GPUs, and for how many sequences.
struct ContextSharing {
  /// The way in which GPUs share a sequence: ring, all-gather or all-to-all.
  ContextParallel kind = ContextParallel::kRing;
  int micro_batch_size = 1;  ///< Sequences per microbatch.
  int tp = 1;                ///< Tensor-parallel size.
  int cp = 1;                ///< Context-parallel size: GPUs that share each sequence.
  /// Whether the sequence is split so that all ranks have as much to do under a causal mask. If so,
  /// of 2cp chunks rank i has i and 2cp−1−i (TransformerEngine's only way; torchtitan's
  /// "headtail"). Else rank i has the i-th of cp chunks.
  bool is_balanced = true;
};
/// Returns the split of a configuration in the stack's way, balanced: no shipped stack splits
/// without balance.
[[nodiscard]] ContextSharing context_sharing(const ParallelConfig& config, const StackSpec& stack);

/// Whether the sequence has equal chunks: s is a multiple of 2cp where balanced and cp > 1, else of
/// cp.
[[nodiscard]] bool divides_sequence(const TransformerConfig& model, const ContextSharing& split);
/// Whether the kind can split the heads; only an all-to-all may not. An all-to-all needs the number
/// of heads to be divisible by t·cp. The key groups on a rank of the tensor-parallel group must be
/// a multiple of cp or a divisor of it. A divisor's groups are repeated until there are cp
/// (DeepSpeed; TransformerEngine needs a multiple).
[[nodiscard]] bool divides_heads(const TransformerConfig& model, const ContextSharing& split);

/// Bytes that each rank of a context-parallel group sends per layer and microbatch.
struct ContextParallelVolume {
  Bytes forward;   ///< Bytes sent in the forward pass.
  Bytes backward;  ///< Bytes sent in the backward pass.
};

/// Computes the bytes that each rank sends per layer and microbatch. C is the K and V of s/cp
/// tokens, Q the queries and O the outputs of as many:
///
///   ring        (cp−1)C forward; 2(cp−1)C backward, K, V and their gradients
///   all-gather  (cp−1)C forward; 2(cp−1)C backward: gathered again, gradients reduce-scattered
///   all-to-all  (cp−1)/cp · (Q + C + O) each way
///
/// All are in the elements of `precision`, gradients too. C has max(1, groups/t) heads. For latent
/// attention C is the decompressed K and V of a/t heads. Source: TransformerEngine d0067d0da,
/// dot_product_attention/context_parallel.py without FP8. For latent attention, what Megatron-LM
/// gives it (multi_latent_attention.py at 003b4ce26).
[[nodiscard]] ContextParallelVolume context_parallel_volume(const TransformerConfig& model,
                                                            const ContextSharing& split,
                                                            Precision precision);

/// Time of the slowest rank's attention core per layer and microbatch, and the communication that
/// does not run behind it.
struct ContextParallelTime {
  AttentionTime attention;   ///< Time of the attention core itself, forward and backward.
  Seconds exposed_forward;   ///< Communication of the forward pass that no compute hides.
  Seconds exposed_backward;  ///< Communication of the backward pass that no compute hides.
};

/// Computes the time of the slowest rank's attention core per layer and microbatch, and the
/// communication that it waits for.
///
/// Pairs: of the causal pairs of query and key each rank has 1/cp where balanced, else the last
/// rank has (2cp−1)/cp². In a window the token at x has min(x, w). The slowest rank has the two
/// chunks in the middle where balanced, else the last one. Unfused kernels compute all pairs, 1/cp
/// for each rank. cp = 1 is attention_time() and no communication.
///
/// Ring: cp steps. One is causal attention among s/cp tokens. Each of the others, half a block of
/// pairs where balanced, has as many FLOPs and is taken to run at the same rate. That rate is the
/// one measured for s/cp tokens where the GPU has measured attention, else the kernel's. Partial
/// results are added (cp−1) times. Each time moves 3 elements for each of O forward, and of Q, K
/// and V backward. Step i hides a message, t = max(0, message − compute) + overlap_slowdown ·
/// min(message, compute):
///
///   forward   C behind each step but the last, the causal one first
///   backward  C behind the first, 2C behind the next, C behind the last, the causal one
///
/// Messages have no latency (message_time()), so that steps of microseconds come out too fast. A
/// window shortens all steps alike and saves no message; TransformerEngine has none with a ring.
///
/// All-gather: K, then V, at the rate of the whole sequence, with nothing hidden. The backward pass
/// is as in context_parallel_volume().
///
/// All-to-all: attention_time() of a/(t·cp) heads. q, k, v and o are exchanged one after the other,
/// and so are their gradients, with nothing hidden. Each exchange takes all_to_all_time().
///
/// Compared with the table of zhuzilin/ring-flash-attention at 8996282: 8 A100 or 8 H800, attention
/// of Llama 3 8B over 65536 tokens, as a part of the rate of causal blocks alone. Without balance
/// 51 to 54 % is measured and 52 % predicted; with it 82 to 90 % is measured and 94 to 97 %
/// predicted.
///
/// `group` is the placement of the context-parallel group. divides_sequence() and divides_heads()
/// must hold, and `check(scenario)` must have accepted the pair of GPU and stack.
[[nodiscard]] ContextParallelTime context_parallel_time(const TransformerConfig& model,
                                                        const ContextSharing& split,
                                                        const GroupPlacement& group,
                                                        const ClusterSpec& cluster,
                                                        const StackSpec& stack);

}  // namespace ptdp
