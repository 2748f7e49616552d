// The models whose layers are run to measure operations.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// What a measured model consists of.
enum class ModelParts : std::uint8_t {
  kGpt,  ///< GPT-2's: layer norms, biases, learned positions, GELU.
  /// What today's models have, all in one, so that a few models measure every operation: RMS norms,
  /// norms of queries and keys, rotary positions, half as many key heads, gated SiLU, no biases, a
  /// factor of embeddings and a cap of logits.
  kToday
};

/// Shape of a model, or of the part of one that tensor parallelism leaves a rank.
struct ModelShape {
  int hidden = 0;
  int heads = 0;
  int head_size = 0;
  int ffn = 0;
  int seq_length = 0;
  int micro_batch_size = 0;
  int vocab = 0;
  int layers = 0;
  double dropout = 0.0;
  ModelParts parts = ModelParts::kGpt;
};
/// Returns a model of this shape.
[[nodiscard]] ProfiledModel profiled_model(const ModelShape& shape);

/// Returns the models for a host's core, from tiny to as large as a step of `most_flops` FLOPs
/// allows, but at least a few. They have whole layers and tensor-parallel shares of layers, few and
/// many tokens, short and long sequences. Most are GPTs, with dropout or without; some are built
/// like today's models.
[[nodiscard]] std::vector<ProfiledModel> host_models(double most_flops);
/// Returns the models for a GPU, from small to as large as a step of `most_flops` FLOPs allows, but
/// at least a few.
[[nodiscard]] std::vector<ProfiledModel> gpu_models(double most_flops);

/// Returns the memory that a step of the model takes in this precision, by the cost model.
[[nodiscard]] Bytes step_memory(const ProfiledModel& profiled, Precision precision);

}  // namespace ptdp
