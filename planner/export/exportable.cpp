#include "planner/export/exportable.h"

#include <memory>
#include <mutex>
#include <utility>

namespace ptdp {
namespace {

/// A plan whose configuration changes, without prediction and memory: no exporter refuses for
/// these.
struct ChangingPlan {
  std::mutex mutex;
  Plan plan;
};

}  // namespace

std::function<bool(const ParallelConfig&)> refused_by(const Exporter& exporter,
                                                      const Scenario& scenario, std::int64_t gpus) {
  const auto changing = std::make_shared<ChangingPlan>();
  changing->plan.scenario = scenario;
  changing->plan.gpus = gpus;
  return [changing, refusals = exporter.find_refusals](const ParallelConfig& config) {
    const std::lock_guard lock(changing->mutex);
    Plan& plan = changing->plan;
    plan.config = config;
    plan.schedule = schedule_recipe({plan.scenario, config});
    return !refusals(plan).empty();
  };
}

}  // namespace ptdp
