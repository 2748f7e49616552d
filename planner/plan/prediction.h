// What a plan will cost, in the units people compare, with an interval.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/stage/planned_job.h"

namespace ptdp {

/// A number that is known to an interval, 90 %.
template <class Value>
struct Estimate {
  Value value{};
  Value low{};
  Value high{};
};

struct Prediction {
  Estimate<Seconds> iteration_time;
  CostBreakdown breakdown;  ///< Calibrated too: adds up to iteration_time.value.
  double calibration_factor = 1.0;
  int calibration_runs = 0;          ///< 0: not calibrated.
  Flops model_flops;                 ///< Per iteration.
  Flops hardware_flops;              ///< Per iteration, what is recomputed included.
  Estimate<FlopsPerSecond> per_gpu;  ///< Of hardware_flops, over the GPUs in use.
  Estimate<double> mfu;
  Estimate<double> hfu;  ///< Also "% of peak".
  Estimate<double> tokens_per_second;
  Traffic traffic;
  std::vector<std::string> extrapolations;  ///< Where it rests on no measurement, one line each.

  /// "calibrated on 9 runs", or "not calibrated: " and what the scenario's profiles are made of.
  [[nodiscard]] std::string basis(const Scenario& scenario) const;
};

/// The time of an iteration times the calibration's factor. The configuration must have no shape
/// violation.
[[nodiscard]] Prediction predict(const PlannedJob& job, const Calibration& calibration);

/// What a user told about the whole training run.
struct RunBudget {
  std::optional<double> tokens;              ///< To train on.
  std::optional<double> price_per_gpu_hour;  ///< In any currency.
};

/// Training on `tokens` tokens.
struct TrainingRun {
  Estimate<Seconds> time;
  Estimate<double> gpu_hours;            ///< Of the GPUs in use.
  std::optional<Estimate<double>> cost;  ///< Where a price is known.
};
[[nodiscard]] TrainingRun training_run(const Prediction& prediction, std::int64_t gpus,
                                       double tokens,
                                       std::optional<double> price_per_gpu_hour = {});

}  // namespace ptdp
