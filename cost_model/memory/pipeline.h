// Closed forms of pipelining, microbatching and activation checkpointing.
#pragma once

#include <cstdint>
#include <span>

#include "cost_model/units.h"

namespace ptdp {

/// Bubble over ideal time: (p−1)/(v·m) for p stages of v chunks each and m microbatches.
/// Source: SC21 (arXiv:2104.04473) section 2.2. Holds for equal stages; m a multiple of p if v > 1.
[[nodiscard]] double bubble_fraction(int pp, int vpp, double num_microbatches);

/// The same with n GPUs split between tensor and pipeline parallelism (d = 1): (n/t − 1)/m.
/// Source: SC21 section 3.2.
[[nodiscard]] double tensor_pipeline_bubble_fraction(std::int64_t gpus, int tp,
                                                     double num_microbatches);

/// The same with n GPUs split between data and pipeline parallelism (t = 1): (n − d)/b', where
/// b' = B/b is the batch in microbatches. Source: SC21 section 3.3.1.
[[nodiscard]] double data_pipeline_bubble_fraction(std::int64_t gpus, int dp,
                                                   double batch_in_microbatches);

/// Time of an iteration without communication: (b'/b + p − 1)·(t_f(b) + t_b(b)), where b' = B/d is
/// the batch of a replica [sequences] and b the microbatch. Source: SC21 section 3.4, eq. 1.
[[nodiscard]] Seconds microbatched_time(double batch_per_replica, int micro_batch_size, int pp,
                                        Seconds forward_and_backward);

/// t_f + t_b of one microbatch, measured or predicted.
struct MicrobatchTime {
  int micro_batch_size = 1;
  Seconds forward_and_backward;
};

/// The microbatch size that minimises microbatched_time; the smaller one where two are equal.
/// `times` must not be empty.
[[nodiscard]] int best_micro_batch_size(std::span<const MicrobatchTime> times,
                                        double batch_per_replica, int pp);

/// Activation memory of l layers with c checkpoints: c·A_in + (l/c)·A_int, where A_in is the input
/// of a layer and A_int what it keeps for its backward pass. Source: SC21 section 3.5.
[[nodiscard]] Bytes checkpointed_activations(double num_checkpoints, int num_layers, Bytes input,
                                             Bytes intermediate);

/// The number of checkpoints that minimises it: c* = sqrt(l·A_int/A_in). Source: SC21 section 3.5.
[[nodiscard]] double best_num_checkpoints(int num_layers, Bytes input, Bytes intermediate);

/// Chunks of a model (l/(p·v) layers each) whose activations a stage holds at its peak, for
/// microbatches m:
///   1F1B:         min(p − r, m) of the one chunk of rank r;
///   interleaved:  min(m·v, (v−1)p + 2(p−1−r) + 1); on rank 0 that is l(1 + (p−1)/(pv)) layers;
///                 all m·v where m = p: Megatron-LM then runs every forward pass first.
/// Source: Megatron-LM schedules.py (warm-up microbatches plus one); Korthikanti et al.
/// (arXiv:2205.05198) section 4.2.3.
[[nodiscard]] double chunks_in_flight(int pp, int vpp, int rank, double num_microbatches);

}  // namespace ptdp
