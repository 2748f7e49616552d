// The cluster of plans as a probe measured it, and plans on that cluster.
#pragma once

#include <optional>
#include <string>

#include "planner/clusters/new_cluster.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// Puts plans of one cluster onto the cluster that a probe makes of it.
class ProbedCluster {
 public:
  /// Reads the probe. Throws Error as read_probe() does.
  explicit ProbedCluster(const std::string& file);

  /// Returns a plan, costed anew without calibration on the probed cluster. Throws Error, naming
  /// `place`, for a plan of another cluster than that of the first.
  [[nodiscard]] Plan plan_on(const Plan& plan, const std::string& place);

  /// Returns the probed cluster; nullopt before the first plan.
  [[nodiscard]] const std::optional<NewCluster>& made() const { return made_; }

 private:
  FromFile<ProbeReport> probe_;
  std::optional<ClusterSpec> from_;  ///< Cluster of the plans.
  std::optional<NewCluster> made_;
};

}  // namespace ptdp
