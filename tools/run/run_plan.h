// From a plan and flags to the settings of a run, and from what it measured to a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cost_model/simulation/timeline.h"
#include "planner/plan/plan.h"
#include "planner/runs/run_report.h"
#include "runtime/executor/training_settings.h"
#include "runtime/run/step_expectation.h"
#include "runtime/run/training_run.h"
#include "tools/run/run_device.h"

namespace ptdp {

/// What ptdp-run was asked for besides the plan.
struct RunRequest {
  std::int64_t training_steps = 10;  ///< Of the training, whichever of them are done.
  std::int64_t steps = 10;           ///< Of this run.
  std::int64_t warm_up = 2;
  std::uint64_t seed = 1;
  std::optional<Precision> precision;  ///< Instead of the plan's.
  std::optional<std::string> data;     ///< A file of tokens,
  std::optional<TokenType> data_type;  ///< of this type where it does not say.
  std::optional<std::string> orders;   ///< A CSV of orders instead of the plan's.
  std::optional<double> dropout;
  std::optional<Overlap> overlap;   ///< Instead of what the plan's stack overlaps.
  std::optional<int> microbatches;  ///< With `shrinks` or `rehearses`: only the first of them.
  bool shrinks = false;
  bool rehearses = false;  ///< One rank alone: not all ranks and their memory need be here.
  bool is_reproducible = false;
  std::optional<DeviceKind> device;  ///< Instead of what the plan is for.
  bool uses_graphs = false;
  LearningRateSchedule learning_rate;
  double weight_decay = 0.1;
  double gradient_clip = 1.0;
  std::optional<int> ranks_here;  ///< Of this machine, where ranks are processes.
  int place_here = 0;             ///< Of this process among them.
  int rank = 0;                   ///< Of this process.
  /// How processes meet; "threads" where there is one.
  std::string meeting = "threads";
  /// Whether tensors travel over NCCL; without it they do where every rank has a GPU to itself.
  std::optional<bool> uses_nccl;
  bool allows_other_gpu = false;  ///< Than the plan's.
};

/// A plan ready to run.
struct PreparedRun {
  Plan plan;      ///< As given, at the precision that is run where its stack knows it.
  Plan executed;  ///< What runs: the same, or shrunk.
  Precision precision = Precision::kFp32;
  RunDevice device;  ///< Of the ranks here.
  bool uses_nccl = false;
  /// Whether times and memory of `executed` are predictions of this run: not of what is shrunk, of
  /// other orders, of a stack that is not this runtime, of a precision that it does not know, or of
  /// another kind of device.
  bool is_predicted = true;
  std::string basis;  ///< What a prediction rests on, or why there is none.
  TrainingSettings settings;
};

/// Throws Error for what cannot be run here: a model with features that the layers lack, a schedule
/// with a fault (naming the action) or stale weights, more ranks or memory than this machine has, a
/// device that is not there, is another than the plan's or does not compute in the precision, ranks
/// that are not placed as their links need it.
[[nodiscard]] PreparedRun prepare_run(const Plan& plan, const RunRequest& request);

/// Makes the backends of the run's ranks, which must outlive it. `place`: of this process's rank
/// among those of its machine; none where ranks are threads. `on_note` is rank 0's, as GpuUse has
/// it.
[[nodiscard]] BackendMaker backend_maker(
    const PreparedRun& run, std::optional<int> place,
    const std::function<void(const std::string&)>& on_note = {});

/// What a step of the run sends if it follows the plan's strategy and, on a host, what a rank then
/// holds at most.
[[nodiscard]] StepExpectation expected_step(const PreparedRun& run);

/// Predicted beside measured.
[[nodiscard]] RunReport make_report(const PreparedRun& run, const RunRequest& request,
                                    const RunRecord& record);

/// The steps of one pipeline (tensor rank 0 of replica 0) as a timeline: the median one of those
/// that are measured, from its first action on.
[[nodiscard]] Timeline measured_timeline(const PreparedRun& run, const RunRecord& record,
                                         std::int64_t warm_up);

}  // namespace ptdp
