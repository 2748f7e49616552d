// Trains a small model in any layout on threads, all stages on every rank, by a plain loop:
// PyTorch's runs are compared with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "kernels/data_type.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/optimizer/learning_rate.h"

namespace ptdp {

struct TrainingLayout {
  int tp = 1;
  int dp = 1;
  int num_stages = 1;
  bool sequence_parallel = false;
  /// Whether the last stage uses the table of the first, instead of its own.
  bool shares_table = false;
  bool shards_states = false;
  int num_buckets = 1;
  int micro_batch_size = 1;
};
[[nodiscard]] std::string to_string(const TrainingLayout& layout);

/// Returns a sample's s + 1 tokens by its number.
using Samples = std::function<std::vector<std::int32_t>(std::int64_t)>;
/// Returns the initial value of an element of a parameter, by name and number in the whole.
using InitialValue = std::function<double(const std::string& name, std::int64_t element)>;

struct TrainingTask {
  TransformerConfig model;
  DataType type = DataType::kFloat64;
  int global_batch_size = 1;
  Samples samples;
  InitialValue initial;  ///< Initial values; empty for the stages' own.
  std::uint64_t seed = 0;
  LearningRateSchedule rates;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  double clip = 0.0;
  int num_steps = 0;
  /// Directory for the state after the last step.
  std::optional<std::filesystem::path> save_to = {};
  const Checkpoint* resume_from = nullptr;  ///< Checkpoint at which the first step begins.
};

struct TrainingOutcome {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  /// Gradients of the first step as whole matrices, reduced, before clipping. Empty if states are
  /// sharded.
  std::map<std::string, std::vector<double>> gradients;
};

/// Trains up to step `num_steps`.
[[nodiscard]] TrainingOutcome train(const TrainingTask& task, const TrainingLayout& layout);

}  // namespace ptdp
