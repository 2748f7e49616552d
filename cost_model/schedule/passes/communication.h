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
  /// one number stands for all stages. Empty: no data parallelism.
  std::vector<int> gradient_buckets = {};
  /// Whether the step has actions that reduce the buckets; if not, backward passes reduce them
  /// (ZeRO-2).
  bool reduces_gradients = true;
  /// Whether a stage's gradients are reduced as soon as they are made; if not, behind all compute.
  bool overlaps_reductions = true;
  /// Whether parameters are gathered before they are used, in as many buckets as gradients, because
  /// the optimizer updated shards.
  bool gathers_parameters = false;
  /// Whether the first stage's embedding is the last one's output layer.
  bool ties_embeddings = false;
  /// Whether the ranks reduce the norm of all gradients at the end.
  bool reduces_norm = true;
  /// Whether every rank ends with an optimizer step.
  bool has_optimizer = true;
};

/// Returns the most actions that complete() makes of `num_microbatches`, besides buckets and the
/// step's end. They are F, I and W of each stage, and for both directions a message's two ends or a
/// copy.
[[nodiscard]] constexpr double most_actions(int pp, int vpp, std::int64_t num_microbatches) {
  return 7.0 * pp * vpp * static_cast<double>(num_microbatches);
}

/// Runs all passes that `step` asks for: merge_backward(), insert_messages(),
/// insert_data_parallel() and insert_step_end(). The schedule must be compute-only and without a
/// fault.
[[nodiscard]] Schedule complete(const Schedule& schedule, const StepActions& step);

/// Makes one B of every I that its W directly follows, if neither is in an overlapped pair. Source:
/// _merge_bw of torch.distributed.pipelining.
[[nodiscard]] Schedule merge_backward(Schedule schedule);
/// Makes I and W of every B that is not in an overlapped pair: the gradient of the input leaves
/// before the weights' is computed.
[[nodiscard]] Schedule split_backward(const Schedule& schedule);

/// Adds SEND_F, RECV_F, SEND_B and RECV_B between ranks and COPY_F, COPY_B between stages of one
/// rank, in one global total order. Ranks take turns, and each emits its next action once its
/// inputs are there. The action's messages follow it at once, on its own list and at the end of the
/// receiver's.
///
/// Every rank meets its messages in that order, so they cannot deadlock, though both ends wait for
/// each other. Messages of an overlapped pair stand behind the pair. It is linear in the actions.
/// The schedule must be compute-only and without a fault; throws Error when it comes to a deadlock.
///
/// Source: _add_send_recv of torch.distributed.pipelining, whose lists these equal but for COPY.
[[nodiscard]] Schedule insert_messages(const Schedule& schedule);
/// Returns a schedule with its compute actions alone.
[[nodiscard]] Schedule compute_alone(Schedule schedule);
/// Adds COPY_F and COPY_B alone, directly behind the action or pair that makes their result.
[[nodiscard]] Schedule insert_copies(const Schedule& schedule);

/// Adds the reductions and gathers of `step`. Reductions stand behind the last weight gradient (W
/// or B) that a rank computes for a stage, and the messages that this makes. Reductions that do not
/// overlap stand behind the last of all stages. Gathers stand at the head of the list, stages in
/// the order of their first use. A stage that two ranks hold (DualPipe) has its buckets on both.
[[nodiscard]] Schedule insert_data_parallel(Schedule schedule, const StepActions& step);

/// Adds what `step` has of TIED, NORM and OPTIMIZER to the end of every rank's list.
///
/// TIED is on the ranks of the first and the last stage, if these are two. In a bidirectional
/// pipeline each of the two has one table for both ends and needs no TIED. The stage of TIED is the
/// first or the last. The stage of NORM and OPTIMIZER is the rank's first, which has the number of
/// the rank.
[[nodiscard]] Schedule insert_step_end(Schedule schedule, const StepActions& step);

}  // namespace ptdp
