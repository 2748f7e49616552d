// What the GPUs at each place of a pipeline cost per microbatch.
#pragma once

#include "cost_model/stage/planned_job.h"

namespace ptdp {

/// Per-microbatch time of one stage of a pipeline, on average where microbatches go both ways.
struct StageCosts {
  PassTime forward;  ///< The stage's layers.
  PassTime backward;
  PassTime recompute;             ///< Their recomputation.
  PassTime ends;                  ///< Embedding where the model begins, logits where it ends.
  Seconds gradient_accumulation;  ///< Per microbatch after the first.
  Seconds hidden_dispatch;        ///< Of its layers' experts; it is in none of the passes.
  Seconds overhead;               ///< The stack's: once for each chunk.

  [[nodiscard]] Seconds total() const {
    return forward.total() + backward.total() + recompute.total() + ends.total() + overhead;
  }
};

/// Costs of `stage`. The tied embedding's gradient comes from both of its uses, which a single
/// stage accumulates twice.
[[nodiscard]] StageCosts stage_costs(const PlannedJob& job, int stage);

/// The stage that paces the pipeline, and the mean time of all.
struct PipelineCosts {
  StageCosts slowest;
  Seconds mean;
};
/// The mean time of the stages does not depend on how layers are split. The slowest takes no less.
[[nodiscard]] Seconds mean_stage_time(const PlannedJob& job);
[[nodiscard]] PipelineCosts pipeline_costs(const PlannedJob& job);

}  // namespace ptdp
