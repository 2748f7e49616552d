// A whole training run: all ranks, all steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "runtime/checkpoint.h"
#include "runtime/step_record.h"
#include "runtime/training_data.h"
#include "runtime/training_settings.h"
#include "runtime/transport/mpi_world.h"

namespace ptdp {

/// Where the weights come from and go to.
struct CheckpointOptions {
  const Checkpoint* resume = nullptr;  ///< Of this model; null: initial values.
  /// A directory of checkpoints: of the initial values, at the end, and
  std::optional<std::filesystem::path> save_to;
  std::int64_t save_every = 0;  ///< every so many steps; 0: at the end alone.
};

/// A step that is done, as the rank that knows its loss tells.
struct StepProgress {
  std::int64_t step = 0;   ///< Of the training, from 0.
  std::int64_t done = 0;   ///< Steps of this run,
  std::int64_t steps = 0;  ///< of so many.
  double loss = 0.0;
  double gradient_norm = 0.0;
  bool is_skipped = false;
  Seconds time;  ///< Since the step before it ended.
};

struct RunOptions {
  std::int64_t steps = 1;
  CheckpointOptions checkpoint;
  std::function<void(const StepProgress&)> on_step;  ///< Called by one thread.
  const std::atomic<bool>* stop = nullptr;           ///< Ends the run after its step.
  std::function<std::unique_ptr<Backend>()> make_backend;
  MpiProcess* process = nullptr;  ///< Of as many as there are ranks; null: ranks are threads.
};

/// Steps of which a run keeps when every action ran: the last ones.
inline constexpr std::int64_t kDetailedSteps = 32;

struct RunRecord {
  std::int64_t first_step = 0;
  std::vector<RankRecord> ranks;   ///< Of processes, on rank 0 alone; the others have none.
  std::vector<std::string> hosts;  ///< Of processes, by rank; likewise.
};

/// Runs every rank, as a thread of this process or, with options.process, as a process each: all of
/// them call it. Throws as run_ranks does.
[[nodiscard]] RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                                     const RunOptions& options);

}  // namespace ptdp
