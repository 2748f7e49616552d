// Simulated and measured steps as timelines that a page draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/analysis/critical_path.h"
#include "cost_model/simulation/timeline.h"
#include "planner/report/report.h"

namespace ptdp {

/// A step to draw. It keeps references, which must outlive it.
struct DrawnStep {
  std::string name;  ///< What it is called beside the others.
  const Schedule& schedule;
  const Timeline& timeline;
  MessageMode messages = MessageMode::kOverlapped;
  DataMode data = DataMode::kOverlapped;
  const CriticalPath* critical_path = nullptr;  ///< Null where none is known.
  Seconds bubble;  ///< How long the pacing rank waits for the others' passes.
};

/// Most actions of a schedule that are drawn; a page with more is too large.
inline constexpr std::int64_t kMostDrawnActions = 300'000;
/// Ticks of a packed timeline: what a page can show of a step without more digits.
inline constexpr double kTicksOfStep = 1 << 18;

/// Returns the steps as one view, made on some threads; all have as many ranks. A rank's row has
/// what occupies its compute lane: passes, the norm, the optimizer, and messages or collectives
/// that take turns with them. Collectives that run beside compute show where the rank would else be
/// idle, piece by piece. An overlapped pair is one action. Receives, copies and what takes less
/// than half a tick are left out.
[[nodiscard]] TimelineView step_timeline(const std::vector<DrawnStep>& steps,
                                         std::size_t num_workers);

}  // namespace ptdp
