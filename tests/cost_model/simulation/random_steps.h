// Random complete schedules and durations, for property tests of the simulator.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <span>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// The most buckets of a stage's gradients, or of its parameters.
inline constexpr int kMostBuckets = 4;

/// A random schedule with random times.
struct RandomStep {
  Schedule compute;   ///< The passes alone, as the generator made them.
  Schedule schedule;  ///< The schedule completed with messages, reductions and the end of the step.
  StepTimes times;    ///< Durations and messages; links are not shared.
};

/// Returns any number from `low` to `high`, alike for every size of the case.
[[nodiscard]] inline int random_number(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}

/// Returns a random time from 0 to `most`, which is 0 now and then.
[[nodiscard]] inline Seconds random_time(double most = 1.0) {
  return Seconds(most * std::max(random_number(-100, 1000), 0) / 1000.0);
}

[[nodiscard]] inline TransferTime random_transfer(double most) {
  return {random_time(0.1 * most), random_time(most)};
}

/// Returns a schedule of a random generator, for a random shape that it takes.
[[nodiscard]] inline Schedule random_schedule(int most_ranks, int most_microbatches) {
  const std::span<const ScheduleTraits> generators = kSchedules;
  const ScheduleTraits& generator =
      generators[random_number(0, static_cast<int>(generators.size()) - 1)];
  while (true) {
    const ScheduleShape shape{.pp = random_number(1, most_ranks),
                              .vpp = random_number(1, 4),
                              .num_microbatches = random_number(1, most_microbatches)};
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
  const int ranks_per_node = random_number(1, schedule.pp);
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
    times.stragglers = {{random_number(0, schedule.pp - 1), 1.3}};
    times.jitter = {.sigma = 0.05, .seed = static_cast<std::uint64_t>(random_number(0, 100))};
  }
  return times;
}

[[nodiscard]] inline RandomStep random_step(int most_ranks = 8, int most_microbatches = 12) {
  RandomStep step;
  step.compute = random_schedule(most_ranks, most_microbatches);
  StepActions actions{.merges_backward = *rc::gen::arbitrary<bool>(),
                      .overlaps_reductions = *rc::gen::arbitrary<bool>(),
                      .gathers_parameters = *rc::gen::arbitrary<bool>(),
                      .ties_embeddings = *rc::gen::arbitrary<bool>(),
                      .reduces_norm = *rc::gen::arbitrary<bool>(),
                      .has_optimizer = *rc::gen::arbitrary<bool>()};
  if (*rc::gen::arbitrary<bool>()) {
    actions.gradient_buckets = {random_number(1, kMostBuckets)};
  }
  step.schedule = complete(step.compute, actions);
  step.times = random_times(step.schedule);
  step.times.data =
      *rc::gen::element(DataMode::kOverlapped, DataMode::kBlocking, DataMode::kBlockingGathers);
  return step;
}

}  // namespace ptdp
