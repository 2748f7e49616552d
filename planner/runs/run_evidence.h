// Which runs of ptdp-run a fit may rest on, and what it takes from them.
#pragma once

#include <string>
#include <vector>

#include "planner/accuracy/costed_runs.h"
#include "planner/runs/run_report.h"

namespace ptdp {

/// The report of a run with its name in messages, usually its file.
struct NamedReport {
  std::string name;
  RunReport report;
};

/// Throws Error, naming the run, unless the run says how long such plans take. It must not be
/// shrunk or interrupted, and this version of ptdp must have predicted it.
void check_evidence(const NamedReport& run);

/// Throws Error unless all runs pass check_evidence() and are of one cluster, stack and precision.
/// Clusters and stacks may differ in name as long as takes_as_long() holds.
void check_evidence_of_one_machine(const std::vector<NamedReport>& runs);

/// Returns what the uncalibrated cost model predicted for the run. check_evidence() must accept the
/// run.
[[nodiscard]] Seconds uncalibrated_time(const RunReport& report);

/// Returns the run as a row beside published measured runs. check_evidence() must accept the run.
[[nodiscard]] CostedRun costed_run(const NamedReport& run);

}  // namespace ptdp
