// What ptdp-run tells on standard error while it trains.
#pragma once

#include <chrono>
#include <string>

#include "cost_model/units.h"
#include "runtime/run/training_run.h"
#include "tools/run/run_plan.h"

namespace ptdp {

/// Standard error may be closed or full: that ends no training.
void tell(const std::string& text);

/// A line per step of the training, at most one a second.
class Progress {
 public:
  /// `flops`: of an iteration, all ranks together.
  Progress(const PreparedRun& run, Flops flops);

  void operator()(const StepProgress& step);

 private:
  double tokens_ = 0.0;
  Flops flops_per_rank_;
  double total_ = 0.0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace ptdp
