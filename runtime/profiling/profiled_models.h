// The models whose layers are run to measure operations.
#pragma once

#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Shape of a model, or of what tensor parallelism leaves a rank of one.
struct ModelShape {
  int hidden;
  int heads;
  int head_size;
  int ffn;
  int seq_length;
  int micro_batch_size;
  int vocab;
  int layers;
  double dropout;
};
[[nodiscard]] ProfiledModel profiled_model(const ModelShape& shape);

/// From tiny to as large as a step of `most_flops` FLOPs allows, but a few at least: layers whole,
/// and as tensor parallelism leaves a rank of them, for few and many tokens, short and long
/// sequences; with dropout, and some without. Of a host's core, and of a GPU.
[[nodiscard]] std::vector<ProfiledModel> host_models(double most_flops);
[[nodiscard]] std::vector<ProfiledModel> gpu_models(double most_flops);

/// Memory that a step of the model takes in this precision, as the cost model has it.
[[nodiscard]] Bytes step_memory(const ProfiledModel& profiled, Precision precision);

}  // namespace ptdp
