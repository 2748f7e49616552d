// The two engines by which step_simulator.cpp times a schedule.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Output spans by pipeline rank, as in Timeline; null if nobody wants them.
using SpansOut = std::vector<std::vector<Span>>*;

/// Gives every receive the span of its message, `span_of(receive)`, because it lasts as long.
template <class SpanOf>
void record_receives(const Schedule& schedule, SpansOut spans, const SpanOf& span_of) {
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const std::vector<Action>& order = schedule.orders[rank];
    for (std::size_t position = 0; position < order.size(); ++position) {
      if (!occupies_lane(order[position].kind)) {
        (*spans)[rank][position] = span_of(order[position]);
      }
    }
  }
}

/// Times a step in which nothing shares anything. Every action's end follows from ends before it,
/// so there is no clock and no queue: each rank goes on as far as it gets. Throws Error at a
/// deadlock.
[[nodiscard]] SimulatedTimes simulate_uncontended(const Schedule& schedule, const StepTimes& times,
                                                  SpansOut spans);

/// Times a step event by event, in the order of time, with rates that change as transfers start and
/// end. Throws Error at a deadlock.
[[nodiscard]] SimulatedTimes simulate_contended(const Schedule& schedule, const StepTimes& times,
                                                SpansOut spans);

/// Throws the Error of a schedule that stands still at an action of a rank.
[[noreturn]] void throw_deadlock(const Schedule& schedule, int rank, std::size_t position,
                                 std::string_view lane);

}  // namespace ptdp
