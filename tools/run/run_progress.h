// The progress lines that ptdp-run prints on standard error while it trains.
#pragma once

#include <chrono>
#include <string>

#include "cost_model/units.h"
#include "runtime/run/training_run.h"
#include "tools/run/run_plan.h"

namespace ptdp {

/// Writes text to standard error, made safe for a terminal. Ignores errors: a closed or full
/// standard error must not end a training.
void tell(const std::string& text);

/// Prints a line per training step, at most one a second.
class Progress {
 public:
  /// `flops` counts the operations of one iteration on all ranks together.
  Progress(const PreparedRun& run, Flops flops);

  void operator()(const StepProgress& step);

 private:
  double tokens_ = 0.0;
  Flops flops_per_rank_;
  double total_ = 0.0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace ptdp
