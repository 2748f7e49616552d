// What is given before anything is chosen: a job, a cluster, a software stack.
#pragma once

#include <cstdint>
#include <string>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A model and the batch it is trained with.
struct TrainingJob {
  std::string model_name;
  TransformerConfig model;             ///< Resolved; model.seq_length is the length trained at.
  std::int64_t global_batch_size = 0;  ///< Sequences per iteration.

  friend bool operator==(const TrainingJob&, const TrainingJob&) = default;
};

/// Everything that a cost depends on besides the ParallelConfig.
struct Scenario {
  TrainingJob job;
  ClusterSpec cluster;
  StackSpec stack;

  friend bool operator==(const Scenario&, const Scenario&) = default;
};

/// The peak of most of its products, that MFU is of: of 8 bits where linear layers are in them.
[[nodiscard]] FlopsPerSecond matmul_peak(const Scenario& scenario);

/// Throws Error where the parts do not go together: a GPU without the stack's precision, its 8 bits
/// or a rate for its attention kernel.
void check(const Scenario& scenario);

}  // namespace ptdp
