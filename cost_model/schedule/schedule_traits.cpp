#include "cost_model/schedule/schedule_traits.h"

namespace ptdp {

StagePlacement placement_of(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipeV:
      return StagePlacement::kV;
    case ScheduleKind::kDualPipe:
      return StagePlacement::kBidirectional;
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbAuto:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      return StagePlacement::kLooped;
  }
  return StagePlacement::kLooped;
}

bool splits_backward(ScheduleKind schedule) {
  switch (schedule) {
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      return false;
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipe:
    case ScheduleKind::kDualPipeV:
    case ScheduleKind::kZbAuto:
      return true;
  }
  return true;
}

}  // namespace ptdp
