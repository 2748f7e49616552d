// Checks which runs a fit may rest on, and makes rows of measured runs from them.
#include "planner/runs/run_evidence.h"

#include <filesystem>
#include <memory>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "planner/accuracy/profile_cache.h"

namespace ptdp {

void check_evidence(const NamedReport& run) {
  const RunReport& report = run.report;
  const auto refuse = [&](const std::string& why) { throw Error(run.name + ": " + why); };
  if (report.execution.is_shrunk) {
    refuse("a shrunk run, whose time says nothing of its plan's; expected a run of a whole plan");
  }
  if (report.execution.steps < report.execution.requested_steps) {
    refuse("an interrupted run; expected one that ran all its steps");
  }
  if (report.predicted_time.value.value() <= 0.0) {
    refuse("a run of which nothing was predicted (" + report.execution.basis +
           "); expected one with a prediction");
  }
  if (report.tool_version != PTDP_VERSION || report.plan.tool_version != PTDP_VERSION) {
    const std::string& other =
        report.tool_version != PTDP_VERSION ? report.tool_version : report.plan.tool_version;
    refuse("tool_version: predictions of " + other +
           " are not those of " PTDP_VERSION "; plan and run it again");
  }
}

void check_evidence_of_one_machine(const std::vector<NamedReport>& runs) {
  for (const NamedReport& run : runs) {
    check_evidence(run);
    const Scenario& first = runs.front().report.plan.scenario;
    const Scenario& other = run.report.plan.scenario;
    if (!takes_as_long(first.cluster, other.cluster) || !takes_as_long(first.stack, other.stack) ||
        first.stack.precision != other.stack.precision) {
      throw Error(run.name + ": planned for another cluster, stack or precision (" +
                  other.cluster.name + ", " + other.stack.name + ", " +
                  std::string(name_of(other.stack.precision)) + ") than " + runs.front().name +
                  " (" + first.cluster.name + ", " + first.stack.name + ", " +
                  std::string(name_of(first.stack.precision)) + "); expected runs of one");
    }
  }
}

Seconds uncalibrated_time(const RunReport& report) {
  return report.predicted_time.value * (1.0 / report.plan.predicted.calibration_factor);
}

CostedRun costed_run(const NamedReport& run) {
  const RunReport& report = run.report;
  const Scenario& scenario = report.plan.scenario;
  return {.run = {.id = std::filesystem::path(run.name).filename().string(),
                  .group = "ptdp-run",
                  .source = run.name,
                  .cluster = scenario.cluster.name,
                  .stack = scenario.stack.name,
                  .model = scenario.job.model,
                  .global_batch_size = scenario.job.global_batch_size,
                  .config = report.plan.config,
                  .precision = std::string(name_of(scenario.stack.precision)),
                  .iteration_time = report.measured_time},
          .predicted = uncalibrated_time(report),
          .precision = precision_name(scenario.stack),
          .scenario = std::make_shared<const Scenario>(scenario)};
}

}  // namespace ptdp
