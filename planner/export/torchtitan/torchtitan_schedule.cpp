// Which of torch's schedules stands for a plan's, and whether a file must give its orders.
#include "cost_model/schedule/generators/generators.h"
#include "planner/export/torchtitan/torchtitan_settings.h"

namespace ptdp {

std::string_view torchtitan_schedule(const ParallelConfig& config) {
  switch (config.schedule) {
    case ScheduleKind::kGPipe:
      return "GPipe";
    case ScheduleKind::kInterleaved:
      return "Interleaved1F1B";
    case ScheduleKind::kLoopedBfs:
      return config.vpp > 1 ? "LoopedBFS" : "1F1B";
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
      return "ZBVZeroBubble";
    case ScheduleKind::kDualPipeV:
      return "DualPipeV";
    default:
      return "1F1B";
  }
}

bool needs_schedule_csv(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const std::int64_t microbatches = plan.schedule.num_microbatches;
  switch (config.schedule) {
    case ScheduleKind::kOneFOneB:  // torch's own refuses fewer microbatches than stages
      return config.pp > 1 && microbatches < config.pp;
    case ScheduleKind::kInterleaved:
      return plan.schedule.microbatch_group_size !=
             default_microbatch_group_size(config.pp, static_cast<int>(microbatches));
    case ScheduleKind::kLoopedBfs:  // torchtitan refuses it with one stage per rank
      return config.pp > 1 && config.vpp == 1;
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbAuto:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
      return config.pp > 1;
    default:
      return false;
  }
}

}  // namespace ptdp
