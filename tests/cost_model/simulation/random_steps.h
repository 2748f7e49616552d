// Random complete schedules and durations, for property tests of the simulator.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/step_times.h"
#include "tests/cost_model/simulation/lowering.h"

namespace ptdp {

struct RandomStep {
  Schedule compute;   ///< As its generator made it.
  Schedule schedule;  ///< Completed.
  StepTimes times;    ///< Without contention.
};

/// 0 to `most`, and now and then nothing.
[[nodiscard]] inline Seconds random_time(double most = 1.0) {
  const int ticks = *rc::gen::inRange(-100, 1000);
  return Seconds(ticks <= 0 ? 0.0 : most * ticks / 1000.0);
}

[[nodiscard]] inline TransferTime random_transfer(double most) {
  return {random_time(0.1 * most), random_time(most)};
}

/// A schedule that some generator has for a random shape.
[[nodiscard]] inline Schedule random_schedule(int most_ranks, int most_microbatches) {
  while (true) {
    const ScheduleShape shape{.pp = *rc::gen::inRange(1, most_ranks + 1),
                              .vpp = *rc::gen::inRange(1, 5),
                              .num_microbatches = *rc::gen::inRange(1, most_microbatches + 1)};
    const ScheduleGenerator& generator = *rc::gen::elementOf(
        std::vector<ScheduleGenerator>(schedule_generators().begin(), schedule_generators().end()));
    if (!generator.find_conflict(shape)) {
      return generator.generate(shape);
    }
  }
}

[[nodiscard]] inline StepTimes random_times(const Schedule& schedule) {
  StepTimes times;
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    times.stages.push_back(stage_durations(random_time(), random_time(), random_time()));
  }
  times.messages = *rc::gen::arbitrary<bool>() ? MessageMode::kOverlapped : MessageMode::kBlocking;
  times.within_node = random_transfer(0.3);
  times.across_nodes = random_transfer(1.0);
  const int ranks_per_node = *rc::gen::inRange(1, schedule.pp + 1);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    times.node_of.push_back(rank / ranks_per_node);
  }
  times.reductions = {random_transfer(1.0)};
  times.gathers = {random_transfer(1.0)};
  times.data_is_across_nodes = *rc::gen::arbitrary<bool>();
  times.tied = random_transfer(0.5);
  times.norm = random_time();
  times.optimizer = {random_time()};
  if (*rc::gen::arbitrary<bool>()) {
    times.stragglers = {{*rc::gen::inRange(0, schedule.pp), 1.3}};
    times.jitter = {.sigma = 0.05, .seed = *rc::gen::inRange<std::uint64_t>(0, 100)};
  }
  return times;
}

[[nodiscard]] inline RandomStep random_step(int most_ranks = 8, int most_microbatches = 12) {
  RandomStep step;
  step.compute = random_schedule(most_ranks, most_microbatches);
  step.schedule = lowered(step.compute, {.buckets = *rc::gen::inRange(0, 4),
                                         .gathers = *rc::gen::inRange(0, 3),
                                         .ties = *rc::gen::arbitrary<bool>(),
                                         .finishes = *rc::gen::arbitrary<bool>()});
  step.times = random_times(step.schedule);
  return step;
}

}  // namespace ptdp
