// Checks what every generated schedule must satisfy, for random sizes: section "Schedules" of
// cost_model/schedule/generators/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "cost_model/schedule/validator/deadlock.h"
#include "cost_model/schedule/validator/validator.h"
#include "tests/cost_model/schedule/in_order_run.h"
#include "tests/cost_model/schedule/random_schedules.h"

namespace ptdp {
namespace {

Durations random_durations() {
  return {.forward = random_between(1, 40),
          .input_gradient = random_between(1, 40),
          .weight_gradient = random_between(1, 40)};
}

TEST(Properties, EveryStageDoesEveryMicrobatchOnceWithinItsMemory) {
  EXPECT_TRUE(rc::check([] {
    const RandomSchedule random = random_schedule({});
    const Schedule schedule = random.schedule();
    RC_ASSERT(is_complete(schedule));
    std::vector<int> limits;
    limits.reserve(static_cast<std::size_t>(random.shape.pp));
    for (int rank = 0; rank < random.shape.pp; ++rank) {
      limits.push_back(random.generator->peak_activations(random.shape, rank));
    }
    const auto fault = find_fault(schedule, limits);
    RC_LOG() << (fault ? fault->message() : "");
    RC_ASSERT(!fault.has_value());
    const Outcome outcome = run(schedule);
    RC_ASSERT(outcome.finished);
    for (int rank = 0; rank < random.shape.pp; ++rank) {
      RC_ASSERT(outcome.peaks[rank] <= limits[rank]);
    }
  }));
}

TEST(Properties, CompleteSchedulesAreProvenInBothModes) {
  EXPECT_TRUE(rc::check([] {
    const RandomSchedule random = random_schedule({});
    const Schedule schedule = random.schedule();
    const StepActions step = random_step_actions(num_stages(schedule));
    const Schedule lowered = complete(schedule, step);
    const auto fault = find_fault(lowered);
    RC_LOG() << (fault ? fault->message() : "");
    RC_ASSERT(!fault.has_value());
    for (const MessageMode mode : {MessageMode::kBlocking, MessageMode::kOverlapped}) {
      RC_ASSERT(!find_lane_deadlock(lowered, mode).has_value());
    }
    RC_ASSERT(compute_alone(lowered) ==
              (step.merges_backward ? merge_backward(schedule) : schedule));
    RC_ASSERT(parse_schedule_csv(to_csv(lowered), "again").orders == lowered.orders);
  }));
}

// The longest chain: a microbatch forward through all stages and back, and its weight gradient.
TEST(Properties, NoScheduleBeatsItsWorkOrItsCriticalPath) {
  EXPECT_TRUE(rc::check([] {
    const RandomSchedule random = random_schedule({});
    const Schedule schedule = random.schedule();
    const Durations each = random_durations();
    const int makespan = run(schedule, each).makespan;
    const int microbatch = each.forward + each.input_gradient + each.weight_gradient;
    RC_ASSERT(makespan >= microbatch * random.shape.vpp * random.shape.num_microbatches);
    RC_ASSERT(makespan >=
              num_stages(schedule) * (each.forward + each.input_gradient) + each.weight_gradient);
  }));
}

TEST(Properties, MoreTimeOfAnyKindIsNeverALoss) {
  EXPECT_TRUE(rc::check([] {
    const Schedule schedule = random_schedule({}).schedule();
    const Durations each = random_durations();
    const int makespan = run(schedule, each).makespan;
    for (int Durations::*kind :
         {&Durations::forward, &Durations::input_gradient, &Durations::weight_gradient}) {
      Durations longer = each;
      longer.*kind += random_between(1, 20);
      RC_ASSERT(run(schedule, longer).makespan >= makespan);
    }
  }));
}

// DualPipe's ranks are the same upside down, with the halves of the microbatches exchanged.
TEST(Properties, DualPipeIsSymmetricInItsRanks) {
  EXPECT_TRUE(rc::check([] {
    const int pp = 2 * random_between(1, 8);
    const int microbatches = 2 * random_between(pp, 32);
    const Schedule schedule =
        find_schedule("dualpipe")->generate({.pp = pp, .num_microbatches = microbatches});
    Schedule mirrored = schedule;
    std::reverse(mirrored.orders.begin(), mirrored.orders.end());
    for (std::vector<Action>& order : mirrored.orders) {
      for (Action& action : order) {
        action.microbatch = (action.microbatch + microbatches / 2) % microbatches;
      }
    }
    RC_ASSERT(mirrored == schedule);
  }));
}

}  // namespace
}  // namespace ptdp
