// Random schedules of every generator, for property tests.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"

namespace ptdp {

/// The largest sizes of a random schedule.
struct LargestShape {
  int pp = 16;
  int vpp = 4;
  int num_microbatches = 64;
};

/// A row of the table of generators, and a shape that it takes.
struct RandomSchedule {
  const ScheduleTraits* generator = nullptr;
  ScheduleShape shape;

  [[nodiscard]] Schedule schedule() const { return generator->generate(shape); }
  [[nodiscard]] std::string title() const {
    return std::string(generator->name) + " p=" + std::to_string(shape.pp) +
           " v=" + std::to_string(shape.vpp) + " m=" + std::to_string(shape.num_microbatches);
  }
};

/// Returns any number from `low` to `high`, alike for every size of the case: RapidCheck starts
/// with small cases.
inline int random_between(int low, int high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(low, high + 1));
}

inline RandomSchedule random_schedule(const LargestShape& largest) {
  std::vector<RandomSchedule> possible;
  while (possible.empty()) {
    const int pp = random_between(1, largest.pp);
    const int microbatches = random_between(1, largest.num_microbatches);
    const int row = random_between(0, static_cast<int>(kSchedules.size()) - 1);
    const ScheduleTraits* generator = &kSchedules[row];
    for (int vpp = 1; vpp <= largest.vpp; ++vpp) {
      const ScheduleShape shape{.pp = pp, .vpp = vpp, .num_microbatches = microbatches};
      if (!generator->find_conflict(shape)) {
        possible.push_back({generator, shape});
      }
    }
  }
  RandomSchedule chosen = *rc::gen::elementOf(possible);
  RC_LOG() << chosen.title() << '\n';
  return chosen;
}

/// Returns a random mixture of everything that a step can have.
inline StepActions random_step_actions(int num_stages) {
  StepActions step{.merges_backward = *rc::gen::arbitrary<bool>(),
                   .gathers_parameters = *rc::gen::arbitrary<bool>(),
                   .ties_embeddings = *rc::gen::arbitrary<bool>(),
                   .reduces_norm = *rc::gen::arbitrary<bool>(),
                   .has_optimizer = *rc::gen::arbitrary<bool>()};
  const int entries = *rc::gen::element(0, 1, num_stages);
  for (int i = 0; i < entries; ++i) {
    step.gradient_buckets.push_back(random_between(1, 3));
  }
  return step;
}

}  // namespace ptdp
