// Generators of the zero-bubble and bidirectional schedules. They split the backward pass into the
// gradient of the input (I) and that of the weights (W).
//
// In this file p is the number of ranks and m that of microbatches. F, I, W and B = I + W are the
// durations of a stage, and F&B that of a forward and a backward pass run together. A chunk is what
// a rank keeps of one stage for one microbatch, from the start of F to the end of W. "Makespan
// bubble" is the makespan less the work of a rank. "In-span idle" is a rank's own last end less
// first start less work.
#pragma once

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// ZB-H1: 1F1B whose weight gradients wait r microbatches on rank r, so that no rank holds more
/// than the first one does under 1F1B. Makespan bubble (p-1)(F+I-W) for p ranks and m microbatches;
/// peak min(m, p) chunks on every rank. Source: Qi et al., Zero Bubble Pipeline Parallelism
/// (arXiv:2401.10241), section 2.1.
[[nodiscard]] Schedule zb_h1(int pp, int num_microbatches);

/// ZB-H2: twice the warm-up of 1F1B and twice the wait of ZB-H1 fill every rank from its first
/// action to its last. At F = I = W and m >= 2p-1 the in-span idle is 0 and the makespan bubble
/// (p-1)F. That bubble is lost only if the optimizer waits for all ranks. Peak min(m, 2p-1) chunks
/// on every rank. Source: Qi et al., Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section
/// 2.2.
[[nodiscard]] Schedule zb_h2(int pp, int num_microbatches);

/// ZB-V: two chunks a rank in a V, in the memory of 1F1B. At F = I = W and m >= 2p-1 the in-span
/// idle is 0 and the makespan bubble (p-1)F of a chunk. Peak min(2m, 2p) chunks. Source: Qi et al.,
/// Zero Bubble Pipeline Parallelism (arXiv:2401.10241), section 6. The order is that of
/// torch.distributed.pipelining, its ScheduleZBVZeroBubble.
[[nodiscard]] Schedule zb_v(int pp, int num_microbatches);

/// V-Half: two chunks a rank in a V, with about half the activations of 1F1B. Peak 2 floor((p+2)/2)
/// chunks. Makespan bubble at F = I = W and m >= 3p in chunks: 3p-7 for even p >= 4, 3p-4 for odd
/// p, 1 for p = 2. The bubbles are measured, on p from 3 to 64.
///
/// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv:2405.15362). The places
/// of the passes in its building block are those of the authors' generator (sail-sg's
/// zbv_greedy.py).
[[nodiscard]] Schedule v_half(int pp, int num_microbatches);

/// V-Min: two chunks a rank in a V, with about a third of the activations of 1F1B. Peak 2
/// floor((p+4)/3) chunks. Makespan bubble at F = I = W and m >= 3p in chunks: 4p-5 for p % 3 = 1,
/// 4p-7 for the others. The bubbles are measured, on p from 3 to 64. They grow with the difference
/// between F, I and W, since all ranks step to one rhythm.
///
/// Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv:2405.15362). The places
/// of the passes in its building block are those of the authors' generator (sail-sg's
/// zbv_greedy.py).
[[nodiscard]] Schedule v_min(int pp, int num_microbatches);

/// DualPipe: microbatches 0 to m/2-1 travel from rank 0 up, the others from rank p-1 down. Each
/// rank runs the forward pass of one direction together with the backward pass of the other. A rank
/// has one chunk, though it holds the parameters of two stages; p and m are even, m >= 2p. Makespan
/// bubble (p/2-1)(F&B+B-3W); peak p+1 chunks. Source: DeepSeek-V3 Technical Report
/// (arXiv:2412.19437), section 3.2.1. The order is that of deepseek-ai/DualPipe, its DualPipe.step.
[[nodiscard]] Schedule dualpipe(int pp, int num_microbatches);

/// DualPipeV: DualPipe of 2p ranks cut in half and folded into a V, so that no parameters are held
/// twice. A rank has two chunks; m >= 2p. Makespan bubble (p-1)(F&B+B-3W) in chunks; peak 2p+1
/// chunks. Source: deepseek-ai/DualPipe, its DualPipeV.step, after Sea AI Lab's "cut-in-half".
[[nodiscard]] Schedule dualpipev(int pp, int num_microbatches);

}  // namespace ptdp
