// Which runs of ptdp-run a fit may rest on, and what it takes from them.
#pragma once

#include <string>
#include <vector>

#include "planner/accuracy/costed_runs.h"
#include "planner/runs/run_report.h"

namespace ptdp {

/// A run with what messages call it: its file, as a rule.
struct NamedReport {
  std::string name;
  RunReport report;
};

/// Throws Error, naming the run, for one that says nothing of how long such plans take: one that
/// was shrunk, interrupted or not predicted, or that another version of ptdp predicted.
void check_evidence(const NamedReport& run);

/// The same for all, and that they are of one cluster and one stack: those which take as long,
/// whatever they are called.
void check_evidence_of_one_machine(const std::vector<NamedReport>& runs);

/// What the cost model, uncalibrated, predicted for the run. check_evidence() must accept it.
[[nodiscard]] Seconds uncalibrated_time(const RunReport& report);

/// As a row beside those of measured runs. check_evidence() must accept it.
[[nodiscard]] CostedRun costed_run(const NamedReport& run);

}  // namespace ptdp
