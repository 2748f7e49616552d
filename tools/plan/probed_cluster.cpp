#include "tools/plan/probed_cluster.h"

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "planner/answer/given_config.h"

namespace ptdp {

ProbedCluster::ProbedCluster(const std::string& file)
    : probe_{file, read_probe(read_file(file), file)} {}

Plan ProbedCluster::plan_on(const Plan& plan, const std::string& place) {
  if (!from_) {
    from_ = plan.scenario.cluster;
    made_ = make_cluster({.from = from_, .probe = probe_});
  } else if (plan.scenario.cluster != *from_) {
    throw Error(place + ": expected plans of one cluster beside --probe, got " +
                plan.scenario.cluster.name + " beside " + from_->name);
  }
  Scenario scenario = plan.scenario;
  scenario.cluster = made_->cluster;
  const SearchOptions options{.gpus = plan.gpus, .memory_headroom = plan.memory_headroom};
  return plan_given_config(scenario, options, plan.config, CalibrationSource::none());
}

}  // namespace ptdp
