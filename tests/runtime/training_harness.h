// Runs whole trainings in a test, and collects what the model became.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/launch/launch.h"

namespace ptdp::testing {

/// A layout of a run, with the names that tests of layouts use.
struct Layout {
  int tp = 1;
  int pp = 1;
  int vpp = 1;
  int dp = 1;
  int micro_batch_size = 1;
  std::string schedule = "1f1b";
  bool sequence_parallel = false;
  bool overlaps_tensor = false;
  int zero_stage = 0;
  bool reshard_after_forward = true;
  Recompute recompute = Recompute::kNone;
  MessageMode messages = MessageMode::kBlocking;
  DataMode data = DataMode::kBlocking;
  int num_buckets = 2;  ///< Buckets of a stage's gradients.

  [[nodiscard]] ParallelConfig config() const;
};
[[nodiscard]] std::string to_string(const Layout& layout);

/// A job small enough for hundreds of runs.
struct Job {
  TransformerConfig model;
  std::int64_t global_batch_size = 16;
  DataType type = DataType::kFloat64;
  double dropout = 0.1;
  bool is_reproducible = false;
  bool uses_nccl = false;  ///< Whether ranks are on GPUs of their own.
  bool warms_up = true;    ///< Whether ranks warm up before they exchange anything.
  std::int64_t steps = 1;
};
/// Returns a job with eight layers of four heads of six channels, and sequences of eight. Its 150
/// tokens fill one shard of the padded vocabulary and a part of the next.
[[nodiscard]] Job small_job();

/// Whole tensors of the model by name, row after row, without padding rows.
using Tensors = std::map<std::string, std::vector<double>>;

struct Trained {
  std::vector<double> losses;
  std::vector<double> gradient_norms;
  Tensors gradients;  ///< Gradients of the first step.
  Tensors weights;    ///< Weights after the last step.
  std::vector<RankRecord> ranks;
  Schedule schedule;
};

/// Whether this layout has a schedule for the job.
[[nodiscard]] bool exists(const Layout& layout, const Job& job);

/// Returns the settings that ptdp-run would make.
[[nodiscard]] TrainingSettings settings_of(const Layout& layout, const Job& job);

/// Runs the job's steps on a host, each rank a thread.
[[nodiscard]] Trained train(const Layout& layout, const Job& job);
/// Runs the job's steps, each rank a thread, on backends that `make_backend` makes in that thread.
[[nodiscard]] Trained train(const Layout& layout, const Job& job, const BackendMaker& make_backend);

/// Runs settings as they are, each rank a thread, on backends that `make_backend` makes.
[[nodiscard]] Trained train(const TrainingSettings& settings, std::int64_t steps,
                            const BackendMaker& make_backend, bool uses_nccl = false,
                            bool warms_up = true);

/// Returns the elements of a buffer of floating-point numbers.
[[nodiscard]] std::vector<double> values_of(const Buffer& buffer, Backend& backend);

/// Returns the largest ‖a − b‖ / max(‖b‖, 1e-3·‖all of b‖) of any tensor; infinite if names or
/// sizes differ.
[[nodiscard]] double largest_difference(const Tensors& a, const Tensors& b);

}  // namespace ptdp::testing
