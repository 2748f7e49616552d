// The passes that turn a schedule of compute into a complete one: what a rank sends, receives,
// reduces and gathers, and how a step ends.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What a step has besides compute and messages.
struct StepActions {
  /// Whether an input gradient directly before its weight gradient becomes a whole backward pass.
  bool merges_backward = false;
  /// Buckets in which the gradients of a virtual stage are reduced over its data-parallel group;
  /// one stands for all stages. Empty: no data parallelism.
  std::vector<int> gradient_buckets = {};
  /// Whether they are, else passes reduce them (ZeRO-2).
  bool reduces_gradients = true;
  /// Whether a stage's gradients are reduced as soon as they are made, else behind all compute.
  bool overlaps_reductions = true;
  /// Whether parameters are gathered, in as many buckets, before they are used: the optimizer
  /// updated shards.
  bool gathers_parameters = false;
  /// Whether the first stage's embedding is the last one's output layer.
  bool ties_embeddings = false;
  bool reduces_norm = true;
  bool has_optimizer = true;
};

/// Actions that complete() makes of so many microbatches at most, besides buckets and the step's
/// end: F, I and W of each stage, and for both directions a message's two ends or a copy.
[[nodiscard]] constexpr double most_actions(int pp, int vpp, std::int64_t num_microbatches) {
  return 7.0 * pp * vpp * static_cast<double>(num_microbatches);
}

/// All passes below, in their order. The schedule must be compute-only and without a fault.
[[nodiscard]] Schedule complete(const Schedule& schedule, const StepActions& step);

/// Makes B of every I that its W directly follows, neither of them in an overlapped pair. Source:
/// _merge_bw of torch.distributed.pipelining.
[[nodiscard]] Schedule merge_backward(Schedule schedule);
/// Makes I and W of every B that is not in an overlapped pair: the gradient of the input leaves
/// before the weights' is computed.
[[nodiscard]] Schedule split_backward(const Schedule& schedule);

/// Adds SEND_F, RECV_F, SEND_B and RECV_B between ranks and COPY_F, COPY_B between stages of one
/// rank, in one global total order: ranks take turns, each emits its next action once its inputs
/// are there; its messages follow it at once, on its own list and at the end of the receiver's.
/// Every rank meets its messages in that order, so that they cannot deadlock, though both ends wait
/// for each other. Messages of an overlapped pair stand behind the pair. Source: _add_send_recv of
/// torch.distributed.pipelining, whose lists these equal but for COPY. Linear in the actions. The
/// schedule must be compute-only and without a fault; throws Error where it comes to a deadlock.
[[nodiscard]] Schedule insert_messages(const Schedule& schedule);
/// What of it computes.
[[nodiscard]] Schedule compute_alone(Schedule schedule);
/// Adds COPY_F and COPY_B alone, behind what makes their result and its messages.
[[nodiscard]] Schedule insert_copies(const Schedule& schedule);

/// Adds the reductions of `step`, behind the last weight gradient (W or B) that a rank computes for
/// a stage (or for all, where they do not overlap) and the messages that this makes, and the
/// gathers, at the head of the list, stages in the order of their first use. A stage that two ranks
/// hold (DualPipe) has its buckets on both.
[[nodiscard]] Schedule insert_data_parallel(Schedule schedule, const StepActions& step);

/// Adds to the end of every rank's list what `step` has of TIED (on the ranks of the first and the
/// last stage, where these are two; a bidirectional pipeline's have one table for both ends each),
/// NORM and OPTIMIZER. The stage of TIED is the first or
/// the last, that of the others the rank's first, which has the number of the rank.
[[nodiscard]] Schedule insert_step_end(Schedule schedule, const StepActions& step);

}  // namespace ptdp
