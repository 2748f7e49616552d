// Closed forms (formulas instead of simulations) of pipelining, microbatching and activation
// checkpointing.
#pragma once

#include <cstdint>
#include <span>

#include "cost_model/units.h"

namespace ptdp {

/// Returns bubble over ideal time, (p−1)/(v·m), for p stages of v chunks each and m microbatches.
/// Source: SC21 (arXiv:2104.04473) section 2.2. Holds for equal stages; m must be a multiple of p
/// if v > 1.
[[nodiscard]] double bubble_fraction(int pp, int vpp, double num_microbatches);

/// Returns bubble over ideal time with n GPUs split between tensor and pipeline parallelism (d =
/// 1): (n/t − 1)/m. Source: SC21 section 3.2.
[[nodiscard]] double tensor_pipeline_bubble_fraction(std::int64_t gpus, int tp,
                                                     double num_microbatches);

/// Returns bubble over ideal time with n GPUs split between data and pipeline parallelism (t = 1):
/// (n − d)/b', where b' = B/b is the batch in microbatches. Source: SC21 section 3.3.1.
[[nodiscard]] double data_pipeline_bubble_fraction(std::int64_t gpus, int dp,
                                                   double batch_in_microbatches);

/// Returns the time of an iteration without communication, (b'/b + p − 1)·(t_f(b) + t_b(b)). b' =
/// B/d is the batch of a replica [sequences] and b the microbatch. Source: SC21 section 3.4, eq. 1.
[[nodiscard]] Seconds microbatched_time(double batch_per_replica, int micro_batch_size, int pp,
                                        Seconds forward_and_backward);

/// Time t_f + t_b of one microbatch of some size, measured or predicted.
struct MicrobatchTime {
  int micro_batch_size = 1;      ///< Sequences per microbatch.
  Seconds forward_and_backward;  ///< Time of its forward and backward pass on one stage.
};

/// Returns the microbatch size that minimizes microbatched_time(), the smaller one where two are
/// equal. `times` must not be empty.
[[nodiscard]] int best_micro_batch_size(std::span<const MicrobatchTime> times,
                                        double batch_per_replica, int pp);

/// Returns the activation memory of l layers with c checkpoints, c·A_in + (l/c)·A_int. A_in is the
/// input of a layer and A_int what it keeps for its backward pass. Source: SC21 section 3.5. Holds
/// where c divides l.
[[nodiscard]] Bytes checkpointed_activations(double num_checkpoints, int num_layers, Bytes input,
                                             Bytes intermediate);

/// Returns the number of checkpoints that minimizes checkpointed_activations(), c* =
/// sqrt(l·A_int/A_in). Source: SC21 section 3.5.
[[nodiscard]] double best_num_checkpoints(int num_layers, Bytes input, Bytes intermediate);

/// Returns how many chunks of a model (l/(p·v) layers each) a pipeline rank r holds activations of
/// at its peak, for m microbatches:
///   1F1B:         min(p − r, m) of the one chunk of rank r;
///   interleaved:  min(m·v, (v−1)p + 2(p−1−r) + 1); on rank 0 that is l(1 + (p−1)/(pv)) layers;
///                 all m·v where m = p: Megatron-LM then runs every forward pass first.
/// Source: Megatron-LM schedules.py (warm-up microbatches plus one); Korthikanti et al.
/// (arXiv:2205.05198) section 4.2.3.
[[nodiscard]] double chunks_in_flight(int pp, int vpp, int rank, double num_microbatches);

}  // namespace ptdp
