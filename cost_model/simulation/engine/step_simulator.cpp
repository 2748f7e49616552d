#include "cost_model/simulation/engine/step_simulator.h"

#include <cassert>
#include <string>

#include "cost_model/error.h"
#include "cost_model/simulation/engine/step_engines.h"

namespace ptdp {
namespace {

SimulatedTimes simulate_into(const Schedule& schedule, const StepTimes& times, SpansOut spans) {
  assert(times.overlap_slowdown >= 0.0 && times.overlap_slowdown <= 1.0);
  const bool is_contended = times.shares_links || times.overlap_slowdown > 0.0;
  return is_contended ? simulate_contended(schedule, times, spans)
                      : simulate_uncontended(schedule, times, spans);
}

}  // namespace

void throw_deadlock(const Schedule& schedule, int rank, std::size_t position,
                    std::string_view lane) {
  throw Error("schedule " + schedule.name + ": rank " + std::to_string(rank) + ", action " +
              std::to_string(position) + ": " + to_string(schedule.orders[rank][position]) +
              " waits for ever on the lane of " + std::string(lane) + "; expected no deadlock");
}

Timeline simulate_step(const Schedule& schedule, const StepTimes& times) {
  Timeline timeline;
  timeline.spans.reserve(schedule.orders.size());
  for (const std::vector<Action>& order : schedule.orders) {
    timeline.spans.emplace_back(order.size());
  }
  timeline.times = simulate_into(schedule, times, &timeline.spans);
  return timeline;
}

SimulatedTimes simulate_step_times(const Schedule& schedule, const StepTimes& times) {
  return simulate_into(schedule, times, nullptr);
}

}  // namespace ptdp
