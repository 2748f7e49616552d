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
#include "runtime/run/step_expectation.h"
#include "runtime/transport/processes/job.h"

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
  const StepRecord* record =
      nullptr;  ///< Of the rank that tells, with its actions; during the call.
};

/// Steps of which a run keeps when every action ran: the last ones.
inline constexpr std::int64_t kDetailedSteps = 32;

struct RunRecord {
  std::int64_t first_step = 0;
  std::vector<RankRecord> ranks;   ///< Of processes, on rank 0 alone; the others have none.
  std::vector<std::string> hosts;  ///< Of processes, by rank; likewise.
  /// How the run differs from RunOptions::expected, a line each: it ended then, and its steps since
  /// the last checkpoint were not saved.
  std::vector<std::string> differences;
};

/// What a rank holds from its start to its end [B].
struct KeptMemory {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
};
[[nodiscard]] KeptMemory kept_by(const Optimizer& optimizer);

/// How a run ended before its last step: by a signal or by a fault.
struct EarlyEnd {
  /// The steps that all ranks completed, may be none; where ranks are processes, no records.
  RunRecord record;
  std::int64_t done_steps = 0;                    ///< That the ranks of this process completed,
  std::int64_t asked_steps = 0;                   ///< of those that the run was to have.
  int signal = 0;                                 ///< That ended it, or 0:
  std::string fault;                              ///< "rank 3: 2F0 of step 4: ...".
  ExitStatus status = ExitStatus::kRuntimeFault;  ///< Of the fault.
  bool is_told_elsewhere = false;                 ///< By the process where it was found.
  int process = -1;                     ///< Rank of this process; −1: ranks are threads.
  int out_of_memory_rank = -1;          ///< Whose memory did not suffice, if that is the fault,
  std::int64_t out_of_memory_peak = 0;  ///< the most that it had allocated,
  /// and what of it was kept; nothing where it failed before all of that was there.
  KeptMemory out_of_memory_kept = {};
  std::string actions;      ///< What every rank was in, and did last: lines.
  std::string few_actions;  ///< The same in lines that a terminal holds.
};

/// Thrown where a run ends before its last step.
class EndedEarly : public Error {
 public:
  explicit EndedEarly(EarlyEnd end);

  [[nodiscard]] const EarlyEnd& end() const { return *end_; }

 private:
  std::shared_ptr<const EarlyEnd> end_;
};

struct RunOptions {
  std::int64_t steps = 1;
  CheckpointOptions checkpoint;
  /// What a step should send and hold: looked at after the first and the last one and before each
  /// checkpoint.
  std::optional<StepExpectation> expected;
  std::function<void(const StepProgress&)> on_step;  ///< Called by one thread.
  const std::atomic<bool>* stop = nullptr;           ///< Ends the run after its step.
  const std::atomic<int>* interrupt = nullptr;       ///< A signal: ends it at once. 0: none.
  DeadlineRule deadlines;
  BackendMaker make_backend;
  JobProcess* process = nullptr;  ///< Of as many as there are ranks; null: ranks are threads.
  /// Tensors travel over NCCL, between GPUs that make_backend's backends are of; all else between
  /// backends of make_host_backend.
  bool uses_nccl = false;
  BackendMaker make_host_backend = {};
  /// Also told of the actions of a rank, after the log.
  std::function<ActionHooks(int rank)> hooks;
  /// Called by another thread where ranks do not end: half a second after a signal or a stall,
  /// and once the deadlines of what they are in have passed after a fault. It should end the
  /// process; where it returns, the ranks are waited for.
  std::function<void(const EarlyEnd&)> give_up;
};

/// Runs every rank, as a thread of this process or, with options.process, as a process each: all of
/// them call it, and hear of each other's faults. Throws EndedEarly where a rank fails or hangs, or
/// `interrupt` is raised.
[[nodiscard]] RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                                     const RunOptions& options);

}  // namespace ptdp
