// The orders of a plan's schedule as torch.distributed.pipelining reads them.
#include "cost_model/schedule/schedule.h"

#include "cost_model/inputs/config_fields.h"
#include "planner/export/exporter.h"

namespace ptdp {

std::vector<ExportRefusal> schedule_csv_refusals(const Plan& plan) {
  const ScheduleTraits& traits = traits_of(plan.config.schedule);
  std::vector<ExportRefusal> refusals;
  if (!traits.is_synchronous) {
    refusals.push_back({"schedule", spelled(plan.config.schedule),
                        "a schedule that applies the gradients of a whole batch at once"});
  } else if (traits.placement == StagePlacement::kBidirectional) {
    refusals.push_back({"schedule", spelled(plan.config.schedule),
                        "a schedule whose microbatches all go the same way"});
  }
  return refusals;
}

Export schedule_csv_export(const Plan& plan) {
  const Schedule schedule = make_schedule(plan.schedule, plan.config.pp, plan.config.vpp);
  Export result;
  result.files = {{"schedule.csv", to_csv(schedule)}};
  result.expressed = {{"schedule", spelled(plan.config.schedule)}};
  result.checks = {
      "torch's _validate_schedule and _add_send_recv accept the file: a line per rank, 2F0 is the "
      "forward pass of microbatch 0 on virtual stage 2."};
  return result;
}

}  // namespace ptdp
