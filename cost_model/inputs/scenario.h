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
  TransformerConfig model;  ///< Model's shape, resolved; its seq_length is the length trained at.
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

/// Returns the peak that most matrix products have, to which model FLOPs utilization (MFU) refers.
/// It is that of 8 or 4 bits if linear layers are trained so, else that of the stack's precision.
[[nodiscard]] FlopsPerSecond matmul_peak(const Scenario& scenario);

/// Returns the kernel of the stack's attention on a GPU, owned by `stack`: its other_attention
/// where the GPU has a rate for that alone.
[[nodiscard]] const std::string& attention_kernel(const GpuSpec& gpu, const StackSpec& stack);

/// Throws Error if cluster and stack do not go together. The GPU must have the stack's precision,
/// its format of 8 or 4 bits and a rate for its attention kernel. The stack of this project's
/// runtime must not overlap within products, nor overlap tensor-parallel collectives on a host, nor
/// train in TF32. Nor must it be given a model with relative positions, which it does not run.
void check(const Scenario& scenario);

}  // namespace ptdp
