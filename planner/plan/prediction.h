// The prediction of what a plan will cost, in the units people compare, with intervals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/pipeline_rank/planned_job.h"

namespace ptdp {

/// A predicted number with its 90 % interval.
template <class Value>
struct Estimate {
  Value value{};
  Value low{};
  Value high{};
};

/// What an iteration of a configuration is predicted to take, calibrated.
struct Prediction {
  Estimate<Seconds> iteration_time;
  CostBreakdown breakdown;  ///< Calibrated parts of the time; they add up to iteration_time.value.
  double calibration_factor = 1.0;
  Support support;                   ///< Runs behind the factor; the distance is left out.
  Flops model_flops;                 ///< FLOPs of an iteration without recomputation.
  Flops hardware_flops;              ///< FLOPs of an iteration, recomputation included.
  Estimate<FlopsPerSecond> per_gpu;  ///< Rate of hardware_flops per GPU in use.
  Estimate<double> mfu;  ///< Model FLOPs utilization: model_flops over the peak, a fraction.
  Estimate<double> hfu;  ///< Hardware FLOPs utilization ("% of peak"): a fraction of the peak.
  Estimate<double> tokens_per_second;
  Traffic traffic;
  /// What the prediction takes from beyond all measured operations and messages, one line each.
  std::vector<std::string> extrapolations;
  /// What lies outside of all runs behind the factor, one line each.
  std::vector<std::string> outside_runs;

  /// Returns "rests on " and the runs behind the factor, or "not calibrated: ", what the job's
  /// profiles are made of, and the steps that its interval is made of, if there are any.
  [[nodiscard]] std::string basis(const PlannedJob& job) const;
};

/// Returns a calibrated time of the job's iteration with its interval. Without runs behind the
/// calibration, the interval is that of step_errors(), where there are such steps.
[[nodiscard]] Estimate<Seconds> with_interval(const PlannedJob& job, Seconds calibrated,
                                              const Calibration& calibration);

/// Predicts an iteration: the cost model's time multiplied with the calibration's factor,
/// with_interval(). The configuration must pass find_shape_violation().
[[nodiscard]] Prediction predict(const PlannedJob& job, const Calibration& calibration);

/// Returns the standard deviation of the logarithm of an estimated time; the estimate counts as
/// lognormal.
[[nodiscard]] double log_deviation(const Estimate<Seconds>& time);

/// What a user says about the whole training run.
struct RunBudget {
  std::optional<double> tokens;              ///< Tokens to train on.
  std::optional<double> price_per_gpu_hour;  ///< Price of a GPU-hour, in any currency.
};

/// What a whole training run takes.
struct TrainingRun {
  Estimate<Seconds> time;
  Estimate<double> gpu_hours;            ///< Hours of the GPUs in use, all together.
  std::optional<Estimate<double>> cost;  ///< Price of the GPU-hours; nullopt if unknown.
};
/// Predicts a training run on `tokens` tokens with `gpus` GPUs in use.
[[nodiscard]] TrainingRun training_run(const Prediction& prediction, std::int64_t gpus,
                                       double tokens,
                                       std::optional<double> price_per_gpu_hour = {});

}  // namespace ptdp
