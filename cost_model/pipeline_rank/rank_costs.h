// What each pipeline rank costs per microbatch.
#pragma once

#include "cost_model/pipeline_rank/planned_job.h"

namespace ptdp {

/// Time that one pipeline rank takes per microbatch. In a bidirectional schedule it is the mean
/// over the microbatches of both directions.
struct RankCosts {
  PassTime forward;    ///< Forward passes of the pipeline rank's layers.
  PassTime backward;   ///< Backward passes of the pipeline rank's layers, without recomputation.
  PassTime recompute;  ///< Recomputation of the pipeline rank's layers.
  PassTime ends;       ///< Embedding where the model begins, logits and loss where it ends.
  /// Time to add gradients to earlier microbatches', for each microbatch after the first. Not part
  /// of total().
  Seconds gradient_accumulation;
  /// Expert communication that runs behind another microbatch's compute. Part of no pass and not of
  /// total().
  Seconds hidden_dispatch;
  Seconds overhead;  ///< The stack's microbatch_overhead, once for each chunk.

  /// Returns the time per microbatch, without `gradient_accumulation` and `hidden_dispatch`.
  [[nodiscard]] Seconds total() const {
    return forward.total() + backward.total() + recompute.total() + ends.total() + overhead;
  }
};

/// Returns the costs of pipeline rank `stage` (0 … pp−1). The tied embedding's gradient comes from
/// both of its uses, so a rank with both ends accumulates it twice.
[[nodiscard]] RankCosts rank_costs(const PlannedJob& job, int rank);

/// Costs of the slowest pipeline rank, and the mean time of all.
struct PipelineCosts {
  RankCosts slowest;  ///< Costs of the pipeline rank that paces the pipeline.
  Seconds mean;       ///< Mean time per microbatch over all pipeline ranks: mean_rank_time().
};
/// Returns the mean time per microbatch over all pipeline ranks, a lower bound of the slowest. It
/// does not depend on how layers are split, unless only some layers of each virtual stage are
/// recomputed.
[[nodiscard]] Seconds mean_rank_time(const PlannedJob& job);
/// Finds the slowest pipeline rank of `job`, and the mean time of all.
[[nodiscard]] PipelineCosts pipeline_costs(const PlannedJob& job);

}  // namespace ptdp
