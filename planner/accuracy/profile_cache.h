// The profiles that rows name, found once each.
#pragma once

#include <map>
#include <string>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/measured_run.h"

namespace ptdp {

/// Whether runs on one say something about how long others take on the other: names, sources, and
/// what decides whether a plan fits do not matter; nor do precision and overlap of a stack, which
/// runs state themselves.
[[nodiscard]] bool takes_as_long(const ClusterSpec& a, const ClusterSpec& b);
[[nodiscard]] bool takes_as_long(const StackSpec& a, const StackSpec& b);

/// Finds profiles once each; a row names them again and again.
class ProfileCache {
 public:
  /// The scenario of a run: its profiles, with what the row itself says of overlap and precision.
  /// Throws Error for unknown profiles.
  [[nodiscard]] Scenario scenario_of(const MeasuredRun& run);

  /// Whether a run's cluster and stack are those of the scenario, whatever they are called: whether
  /// the run says something about how long others take there. False for unknown profiles.
  [[nodiscard]] bool is_run_on(const MeasuredRun& run, const Scenario& scenario);

 private:
  [[nodiscard]] const ClusterSpec& cluster_of(const MeasuredRun& run);
  [[nodiscard]] const StackSpec& stack_of(const MeasuredRun& run);

  std::map<std::string, ClusterSpec> clusters_;
  std::map<std::string, StackSpec> stacks_;
};

}  // namespace ptdp
