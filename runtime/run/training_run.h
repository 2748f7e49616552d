// A whole training run: all ranks, all steps, and how it ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "kernels/backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/data/training_data.h"
#include "runtime/executor/executor.h"
#include "runtime/executor/step_record.h"
#include "runtime/executor/training_settings.h"
#include "runtime/faults/watchdog.h"
#include "runtime/launch/launch.h"
#include "runtime/run/start_memory.h"
#include "runtime/run/step_expectation.h"
#include "runtime/transport/processes/job.h"
#include "runtime/weights/exported_weights.h"

namespace ptdp {

/// Where the weights come from and go to.
struct CheckpointOptions {
  /// Checkpoint of this model to begin with; null for initial values.
  const Checkpoint* resume = nullptr;
  /// Weights of this model to begin with, without `resume`; null for initial values.
  const PretrainedWeights* load = nullptr;
  /// Directory for checkpoints: at the end, every save_every steps, and of the initial values
  /// without `resume`. Nothing is saved without it.
  std::optional<std::filesystem::path> save_to;
  std::int64_t save_every = 0;  ///< Steps between two checkpoints; 0 saves none in between.
  /// Where the weights go at the end, for other programs. Nothing is exported without it.
  std::optional<WeightsExport> export_to;
};

/// A completed step, as told by a rank that knows its loss.
struct StepProgress {
  std::int64_t step = 0;   ///< Step of the training, from 0.
  std::int64_t done = 0;   ///< Steps completed in this run.
  std::int64_t steps = 0;  ///< Steps this run will do.
  double loss = 0.0;
  double gradient_norm = 0.0;
  bool is_skipped = false;
  Seconds time;  ///< Time since the step before it ended.
  const StepRecord* record =
      nullptr;  ///< Record of the rank that tells, with its actions; valid during the call.
};

/// Number of steps, the last ones, for which a run keeps when every action ran.
inline constexpr std::int64_t kDetailedSteps = 32;

/// What a whole run measured.
struct RunRecord {
  /// First step of the run, from 0.
  std::int64_t first_step = 0;
  /// Records by rank. When ranks are processes, only rank 0's process has them.
  std::vector<RankRecord> ranks;
  /// Host names of processes by rank, in rank 0's process only; empty when ranks are threads.
  std::vector<std::string> hosts;
  /// How the run differs from RunOptions::expected, a line each. A run that differs ends there, and
  /// its steps since the last checkpoint were not saved.
  std::vector<std::string> differences;
};

/// What a rank holds from its start to its end [B].
struct KeptMemory {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};
/// Returns the memory that the stores and states of an optimizer hold.
[[nodiscard]] KeptMemory kept_by(const Optimizer& optimizer);

/// How a run ended before its last step, by a signal or by a fault.
struct EarlyEnd {
  /// Steps that all ranks completed, perhaps none. It has no records when ranks are processes.
  RunRecord record;
  std::int64_t done_steps = 0;   ///< Steps that the ranks of this process completed.
  std::int64_t asked_steps = 0;  ///< Steps that the run was to have.
  int signal = 0;                ///< Signal that ended the run, or 0.
  std::string fault;             ///< Fault that ended the run, as "rank 3: 2F0 of step 4: ...".
  ExitStatus status = ExitStatus::kRuntimeFault;  ///< Exit status of the fault.
  /// Whether another process, where the fault was found, reports it.
  bool is_told_elsewhere = false;
  int process = -1;             ///< Rank of this process; −1 when ranks are threads.
  int out_of_memory_rank = -1;  ///< Rank that ran out of memory, if that is the fault; else −1.
  /// Most memory [B] that the rank out of memory had allocated.
  std::int64_t out_of_memory_peak = 0;
  /// Memory that the rank out of memory kept; 0 when it failed before all of that was allocated.
  KeptMemory out_of_memory_kept = {};
  std::string actions;  ///< What every rank was in, and did last, in lines.
  /// What ranks were in, and did last, in the few lines that a terminal holds.
  std::string few_actions;
};

/// Thrown when a run ends before its last step.
class EndedEarly : public Error {
 public:
  explicit EndedEarly(EarlyEnd end);

  [[nodiscard]] const EarlyEnd& end() const { return *end_; }

 private:
  std::shared_ptr<const EarlyEnd> end_;
};

/// How a training is run.
struct RunOptions {
  /// Number of steps of the run.
  std::int64_t steps = 1;
  CheckpointOptions checkpoint;
  /// What a step should send and hold. It is compared after the first and the last step, and before
  /// each checkpoint.
  std::optional<StepExpectation> expected;
  /// What the plan leaves of each rank's GPU, over NCCL or alone. A start that took more is told to
  /// `on_note`, or ends the run where a peak does not fit any more.
  std::optional<PlannedMemory> planned_memory;
  std::function<void(const std::string&)> on_note;   ///< Called by rank 0 with a line for the user.
  std::function<void(const StepProgress&)> on_step;  ///< Called after each step by one thread.
  /// Ends the run after its current step once it is true.
  const std::atomic<bool>* stop = nullptr;
  /// Ends the run at once when it is not 0 but a signal's number.
  const std::atomic<int>* interrupt = nullptr;
  DeadlineRule deadlines;
  BackendMaker make_backend;
  /// Job with as many processes as ranks; null when ranks are threads.
  JobProcess* process = nullptr;
  /// Whether tensors travel over NCCL, between GPUs whose backends make_backend makes. All else
  /// then travels between backends of make_host_backend.
  bool uses_nccl = false;
  BackendMaker make_host_backend = {};
  /// Whether the transport is asked after the first step what it expects of the largest calls. NCCL
  /// splits a communicator for each.
  bool asks_estimates = false;
  /// Returns more hooks for a rank's actions, of which only `before` and `after` are used. They are
  /// called while the action log has the action as begun.
  std::function<ActionHooks(int rank)> hooks;
  /// Called by another thread when ranks do not end. It happens half a second after a signal or a
  /// stall. After a fault it happens once the deadlines of their activities have passed. It should
  /// end the process; if it returns, the ranks are waited for.
  std::function<void(const EarlyEnd&)> give_up;
};

/// Runs every rank: as a thread of this process or, with options.process, as a process each. All
/// processes call it, and hear of each other's faults. Throws EndedEarly when a rank fails or
/// hangs, or `interrupt` is raised.
[[nodiscard]] RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                                     const RunOptions& options);

}  // namespace ptdp
