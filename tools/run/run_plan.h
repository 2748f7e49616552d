// Turns a plan and flags into the settings of a run, and its measurements into a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cost_model/simulation/timeline.h"
#include "planner/plan/plan.h"
#include "planner/report/answers/run_page.h"
#include "planner/runs/run_report.h"
#include "runtime/executor/training_settings.h"
#include "runtime/run/step_expectation.h"
#include "runtime/run/training_run.h"
#include "tools/run/run_device.h"

namespace ptdp {

/// What the flags ask of ptdp-run, besides the plan.
struct RunRequest {
  /// Steps of the whole training, including those done by earlier runs.
  std::int64_t training_steps = 10;
  std::int64_t steps = 10;  ///< Steps that this run will do.
  /// First steps of this run that are not measured.
  std::int64_t warm_up = 2;
  std::uint64_t seed = 1;
  std::optional<Precision> precision;  ///< Precision to run in; nullopt for the plan's.
  std::optional<std::string> data;     ///< Path of a file of tokens; nullopt for synthetic text.
  std::optional<TokenType> data_type;  ///< Token type of a raw `data` file, which does not say.
  /// Path of a CSV of orders to run; nullopt for the plan's schedule.
  std::optional<std::string> orders;
  /// One dropout probability everywhere; nullopt for the model's.
  std::optional<double> dropout;
  /// What overlaps compute; nullopt for what the plan's stack overlaps.
  std::optional<Overlap> overlap;
  /// Number of the plan's first microbatches to run, with `shrinks` or `rehearses`.
  std::optional<int> microbatches;
  /// Whether to run with tiny layers and one replica (--shrink).
  bool shrinks = false;
  /// Whether one rank runs alone (--rehearse); the other ranks and their memory need not be here.
  bool rehearses = false;
  bool is_reproducible = false;
  /// Device to run on; nullopt for the one that the plan is for.
  std::optional<DeviceKind> device;
  LearningRateSchedule learning_rate;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  /// Number of ranks on this machine when ranks are processes; nullopt when they are threads.
  std::optional<int> ranks_here;
  int place_here = 0;  ///< Place of this process among those of its machine, from 0.
  int rank = 0;        ///< Rank of this process.
  /// How processes meet, as the report names it: "mpi" or "tcp"; "threads" in a single process.
  std::string meeting = "threads";
  /// Whether ranks may be threads of one process over NCCL (kNcclThreads).
  bool allows_nccl_threads = false;
  /// Whether tensors travel over NCCL. With nullopt they do if the build has NCCL, there are
  /// several ranks, and each has a GPU to itself.
  std::optional<bool> uses_nccl;
  bool asks_estimates = false;    ///< Whether NCCL is asked what it expects of the run's calls.
  bool allows_other_gpu = false;  ///< Whether to run on GPUs of another kind than the plan's.
};

/// Value of --transport that keeps ranks with a GPU each threads of one process.
inline constexpr const char* kNcclThreads = "nccl-threads";

/// A plan ready to run.
struct PreparedRun {
  Plan plan;  ///< The plan as given, at the precision of the run if its stack knows that precision.
  /// The plan that runs: `plan`, or a smaller version of it (shrunk, or with fewer microbatches).
  Plan executed;
  Precision precision = Precision::kFp32;
  RunDevice device;  ///< The device of the ranks on this machine.
  bool uses_nccl = false;
  /// Whether times and memory of `executed` are predictions of this run. False for a shrunk run,
  /// other orders, --reproducible, a stack that is not this runtime, an unknown precision, or
  /// another kind of device.
  bool is_predicted = true;
  std::string basis;  ///< What the prediction rests on, or why there is none.
  TrainingSettings settings;
};

/// Prepares a run of the plan. Throws Error for a plan that cannot run here:
/// - a model with features that the layers lack;
/// - a schedule with stale weights, or with a fault (the message names the action);
/// - more ranks or memory than this machine has;
/// - a device that is missing, is not the plan's, or does not compute in the precision;
/// - ranks that are not placed as their links need it.
[[nodiscard]] PreparedRun prepare_run(const Plan& plan, const RunRequest& request);

/// Returns what dropout of attention's probabilities costs a predicted run on GPUs, for the user
/// before it starts. It is empty where nothing of the kind is asked for.
[[nodiscard]] std::string dropout_note(const PreparedRun& run);

/// Returns a maker of backends for the run's ranks. `run` must outlive it. `place` is the place of
/// this process's rank on its machine; nullopt when ranks are threads. `on_note` receives the notes
/// of rank 0's GPU (GpuUse::on_note).
[[nodiscard]] BackendMaker backend_maker(
    const PreparedRun& run, std::optional<int> place,
    const std::function<void(const std::string&)>& on_note = {});

/// Returns what one step should send if it follows the plan's strategy. On a host, also returns the
/// most memory that a rank should then hold.
[[nodiscard]] StepExpectation expected_step(const PreparedRun& run);

/// Returns what the plan leaves of each rank's GPU; nullopt where nothing is predicted, and unless
/// every rank has a GPU to itself.
[[nodiscard]] std::optional<PlannedMemory> planned_memory(const PreparedRun& run);

/// Compares the predicted values with the measured ones in a report.
[[nodiscard]] RunReport make_report(const PreparedRun& run, const RunRequest& request,
                                    const RunRecord& record);

/// Returns the timeline of one pipeline (tensor rank 0 of replica 0), starting with the step. It is
/// that of the median step among the measured ones whose actions are recorded.
[[nodiscard]] Timeline measured_timeline(const PreparedRun& run, const RunRecord& record,
                                         std::int64_t warm_up);

/// Returns what a run recorded beside its report: the time of each step, measured_timeline(), and
/// the step as predicted.
[[nodiscard]] RunRecording recording_of(const PreparedRun& run, const RunRecord& record,
                                        std::int64_t warm_up);

}  // namespace ptdp
