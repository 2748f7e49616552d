#include "cost_model/schedule/validator/validator.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/stage_ranks.h"
#include "cost_model/schedule/validator/deadlock.h"
#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

std::optional<ScheduleFault> find_size_fault(const Schedule& schedule) {
  const auto fault = [&](const std::string& size, const std::string& expected, std::int64_t found) {
    return ScheduleFault{.what =
                             size + ": expected " + expected + ", got " + std::to_string(found)};
  };
  if (schedule.pp < 1) {
    return fault("pp", "a positive number of ranks", schedule.pp);
  }
  if (schedule.vpp < 1) {
    return fault("vpp", "a positive number of stages per rank", schedule.vpp);
  }
  if (schedule.num_microbatches < 1) {
    return fault("microbatches", "a positive number", schedule.num_microbatches);
  }
  if (schedule.placement == StagePlacement::kV && schedule.vpp != 2) {
    return fault("vpp", "2 stages per rank in a V", schedule.vpp);
  }
  if (schedule.placement == StagePlacement::kBidirectional && schedule.vpp != 1) {
    return fault("vpp", "1 stage per rank and direction", schedule.vpp);
  }
  if (std::ssize(schedule.orders) != schedule.pp) {
    return fault("orders", "one for each of " + std::to_string(schedule.pp) + " ranks",
                 std::ssize(schedule.orders));
  }
  return std::nullopt;
}

std::optional<ScheduleFault> find_memory_fault(const Schedule& schedule,
                                               std::span<const int> limits) {
  if (limits.empty()) {
    return std::nullopt;
  }
  std::vector<int> held(schedule.pp, 0);
  return first_of(schedule, [&](Place place) -> std::optional<ScheduleFault> {
    const Action& action = schedule.orders[place.rank][place.position];
    int& live = held[place.rank];
    if ((kWeightGradientBits & bit_of(action.kind)) != 0) {
      --live;
    } else if (action.kind == ActionKind::kForward && ++live > limits[place.rank]) {
      return expected_at(schedule, place,
                         "at most " + std::to_string(limits[place.rank]) +
                             " activations at a time, got " + std::to_string(live));
    }
    return std::nullopt;
  });
}

/// Finds a fault in what remains to be proven when messages are implied.
std::optional<ScheduleFault> find_compute_fault(const Schedule& schedule, const StageRanks& ranks) {
  if (auto fault = find_deadlock(schedule)) {
    return fault;
  }
  return find_fifo_fault(schedule, ranks);
}

/// Finds a fault in what remains to be proven when passes added messages and collectives.
std::optional<ScheduleFault> find_lowering_fault(const Schedule& schedule,
                                                 const StageRanks& ranks) {
  for (const auto find : {find_step_fault, find_fifo_fault}) {
    if (auto fault = find(schedule, ranks)) {
      return fault;
    }
  }
  for (const MessageMode messages : {MessageMode::kBlocking, MessageMode::kOverlapped}) {
    if (auto fault = find_lane_deadlock(schedule, messages)) {
      return fault;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<ScheduleFault> find_fault(const Schedule& schedule,
                                        std::span<const int> peak_limits) {
  if (auto fault = find_size_fault(schedule)) {
    return fault;
  }
  const StageRanks ranks(schedule);
  for (const auto find : {find_place_fault, find_count_fault, find_order_fault}) {
    if (auto fault = find(schedule, ranks)) {
      return fault;
    }
  }
  if (auto fault = is_compute_only(schedule) ? find_compute_fault(schedule, ranks)
                                             : find_lowering_fault(schedule, ranks)) {
    return fault;
  }
  return find_memory_fault(schedule, peak_limits);
}

std::vector<int> peak_activations(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const std::vector<Action>& order : schedule.orders) {
    int live = 0;
    int peak = 0;
    for (const Action& action : order) {
      if (action.kind == ActionKind::kForward) {
        peak = std::max(peak, ++live);
      } else if ((kWeightGradientBits & bit_of(action.kind)) != 0) {
        --live;
      }
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace ptdp
