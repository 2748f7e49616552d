// A cache of the profiles that rows of measured runs name.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/measured_run.h"

namespace ptdp {

/// Returns whether runs on one cluster say how long runs take on the other. Names, sources, the
/// default stack and the GPUs' memory may differ.
[[nodiscard]] bool takes_as_long(const ClusterSpec& a, const ClusterSpec& b);
/// Returns whether runs of one stack say how long runs of the other take. Names, sources, kinds,
/// what the stack can run and its memory may differ. Precision, overlap, expert dispatch and CUDA
/// graphs may differ, too, since runs state them, and so may scatter_gather and fused_element_wise
/// between stacks of one name.
[[nodiscard]] bool takes_as_long(const StackSpec& a, const StackSpec& b);

/// Finds each profile once, though rows name it again and again.
class ProfileCache {
 public:
  /// Returns the scenario of a run: its profiles, with what the row itself says of overlap and
  /// precision. Throws Error for unknown profiles.
  [[nodiscard]] Scenario scenario_of(const MeasuredRun& run);

  /// Finds the profiles of runs, so that copies of this cache need not. Leaves unknown ones out.
  void find_all(const std::vector<MeasuredRun>& runs);

  /// Returns the kind of program that a run's stack is; the one of no name for unknown profiles.
  [[nodiscard]] ProgramKind program_of(const MeasuredRun& run);

  /// Returns whether a cluster and a stack of these names are those of the scenario, whatever their
  /// names. Runs there then say how long others take. Returns false for unknown profiles.
  [[nodiscard]] bool is_place_of(const std::string& cluster, const std::string& stack,
                                 const Scenario& scenario);

 private:
  /// Returns whether the cluster of this name takes as long as another one.
  [[nodiscard]] bool is_like(const std::string& name, const ClusterSpec& cluster);
  [[nodiscard]] const ClusterSpec& cluster_of(const std::string& name);
  [[nodiscard]] const StackSpec& stack_of(const std::string& name);

  std::map<std::string, ClusterSpec> clusters_;
  std::map<std::string, StackSpec> stacks_;
};

}  // namespace ptdp
