// Checks properties of every generated complete schedule, for any durations of its actions.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/simulation/plain_passes.h"
#include "tests/cost_model/simulation/random_steps.h"

namespace ptdp {
namespace {

constexpr int kMostRanks = 16;
constexpr int kMostMicrobatches = 64;

RandomStep random_large_step() {
  return random_step(kMostRanks, kMostMicrobatches);
}

/// Returns the time of one microbatch: F and I of every stage, and the messages between.
Seconds one_microbatch(const RandomStep& step) {
  Seconds path;
  for (int stage = 0; stage < num_stages(step.schedule); ++stage) {
    const StageDurations& of = step.times.stages[stage];
    path += of.forward + of.input_gradient;
    const int rank = rank_of(step.schedule, stage, 0);
    const int before = stage > 0 ? rank_of(step.schedule, stage - 1, 0) : rank;
    if (rank != before) {
      const TransferTime& message = step.times.node_of[rank] == step.times.node_of[before]
                                        ? step.times.within_node
                                        : step.times.across_nodes;
      path += 2.0 * (message.latency + message.transfer);
    }
  }
  return path;
}

TEST(StepProperties, NoStepIsFasterThanARanksWorkOrAMicrobatchsPath) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_large_step();
    step.times.jitter = {};
    if (*rc::gen::arbitrary<bool>()) {
      step.times.shares_links = true;
      step.times.overlap_slowdown = 0.3;
    }
    const SimulatedTimes times = simulate_step_times(step.schedule, step.times);
    const Seconds slack = 1e-9 * times.makespan();
    RC_ASSERT(times.makespan() + slack >= one_microbatch(step));
    for (const RankTimes& rank : times.ranks) {
      RC_ASSERT(times.makespan() + slack >= rank.work);
      RC_ASSERT(rank.idle_in_span() + slack >= Seconds(0.0));
      RC_ASSERT(rank.compute_end <= rank.end);
    }
  }));
}

/// Returns every duration that a step rests on.
std::vector<Seconds*> durations_of(StepTimes& times) {
  std::vector<Seconds*> all = {&times.norm};
  for (TransferTime* transfer : {&times.within_node, &times.across_nodes, &times.tied,
                                 times.reductions.data(), times.gathers.data()}) {
    all.push_back(&transfer->latency);
    all.push_back(&transfer->transfer);
  }
  for (Seconds& optimizer : times.optimizer) {
    all.push_back(&optimizer);
  }
  for (StageDurations& stage : times.stages) {
    for (Seconds* duration :
         {&stage.forward, &stage.backward, &stage.input_gradient, &stage.weight_gradient}) {
      all.push_back(duration);
    }
  }
  return all;
}

TEST(StepProperties, SharingLinksOrSlowingComputeMakesNoStepFaster) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_large_step();
    const Seconds alone = simulate_step_times(step.schedule, step.times).makespan();
    step.times.shares_links = *rc::gen::arbitrary<bool>();
    step.times.overlap_slowdown = *rc::gen::element(0.0, 0.25, 0.6, 1.0);
    RC_ASSERT(simulate_step_times(step.schedule, step.times).makespan() >= alone * (1.0 - 1e-12));
  }));
}

TEST(StepProperties, NothingThatTakesLongerMakesAStepFaster) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_large_step();
    const Seconds before = simulate_step_times(step.schedule, step.times).makespan();
    const std::vector<Seconds*> all = durations_of(step.times);
    for (int i = 0; i < 5; ++i) {
      Seconds& duration = *all[random_number(0, static_cast<int>(all.size()) - 1)];
      const Seconds was = duration;
      duration += random_time();
      RC_ASSERT(simulate_step_times(step.schedule, step.times).makespan() >=
                before * (1.0 - 1e-12));
      duration = was;
    }
    step.times.stragglers.push_back({random_number(0, step.schedule.pp - 1), 1.5});
    RC_ASSERT(simulate_step_times(step.schedule, step.times).makespan() >= before * (1.0 - 1e-12));
  }));
}

// Every loop that the engine may take gives the result of plain passes.
TEST(StepProperties, OfComputeAloneAreThoseOfPlainPasses) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_large_step();
    step.times.node_of.clear();
    step.times.stragglers.clear();
    step.times.jitter = {};
    const Seconds latency = step.times.within_node.latency + step.times.within_node.transfer;
    const SimulatedTimes expected = PlainPasses(step.compute, step.times.stages, latency).run();
    for (const SimulatedTimes& found : {simulate(step.compute, step.times.stages, latency),
                                        simulate_step_times(step.compute, step.times)}) {
      for (int rank = 0; rank < step.schedule.pp; ++rank) {
        RC_ASSERT(found.ranks[rank].start == expected.ranks[rank].start);
        RC_ASSERT(found.ranks[rank].end == expected.ranks[rank].end);
        RC_ASSERT(found.ranks[rank].compute_end == expected.ranks[rank].compute_end);
        RC_ASSERT(found.ranks[rank].work == expected.ranks[rank].work);
        RC_ASSERT(found.ranks[rank].peak_activations == expected.ranks[rank].peak_activations);
      }
    }
  }));
}

bool has_microbatch(ActionKind kind) {
  return kind <= ActionKind::kCopyBackward;
}

void renumber(Schedule& schedule, const std::function<int(int)>& number) {
  for (std::vector<Action>& order : schedule.orders) {
    for (Action& action : order) {
      if (has_microbatch(action.kind)) {
        action.microbatch = number(action.microbatch);
      }
    }
  }
}

void expect_same_spans(const std::vector<std::vector<Span>>& one,
                       const std::vector<std::vector<Span>>& other) {
  RC_ASSERT(one.size() == other.size());
  for (std::size_t rank = 0; rank < one.size(); ++rank) {
    for (std::size_t i = 0; i < one[rank].size(); ++i) {
      RC_ASSERT(one[rank][i].start == other[rank][i].start);
      RC_ASSERT(one[rank][i].end == other[rank][i].end);
    }
  }
}

// Microbatches are alike: other numbers for them, in each direction of a bidirectional pipeline,
// and for the nodes change nothing.
TEST(StepProperties, NumbersOfMicrobatchesAndNodesDoNotMatter) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_large_step();
    const auto before = simulate_step(step.schedule, step.times).spans;
    const int m = step.schedule.num_microbatches;
    const bool is_split = step.schedule.placement == StagePlacement::kBidirectional;
    renumber(step.schedule, [&](int microbatch) {
      return is_split ? (microbatch < m / 2 ? m / 2 - 1 - microbatch : m - 1 - (microbatch - m / 2))
                      : m - 1 - microbatch;
    });
    for (int& node : step.times.node_of) {
      node = 100 - node;
    }
    expect_same_spans(simulate_step(step.schedule, step.times).spans, before);
  }));
}

// A bidirectional pipeline seen from its other end is the same pipeline.
TEST(StepProperties, ABidirectionalPipelineIsItsMirrorImage) {
  EXPECT_TRUE(rc::check([] {
    const int pp = 2 * random_number(1, kMostRanks / 2);
    const int m = 2 * random_number(pp, kMostMicrobatches / 2);
    const ScheduleTraits& generator = *find_schedule("dualpipe");
    const ScheduleShape shape{.pp = pp, .num_microbatches = m};
    RC_PRE(!generator.find_conflict(shape));
    RandomStep step;
    step.schedule = complete(generator.generate(shape), {.gradient_buckets = {2}});
    step.times = random_times(step.schedule);
    step.times.jitter = {};
    auto mirrored = simulate_step(step.schedule, step.times).spans;
    std::reverse(mirrored.begin(), mirrored.end());
    renumber(step.schedule, [&](int microbatch) { return (microbatch + m / 2) % m; });
    std::reverse(step.schedule.orders.begin(), step.schedule.orders.end());
    std::reverse(step.times.node_of.begin(), step.times.node_of.end());
    for (Straggler& straggler : step.times.stragglers) {
      straggler.rank = pp - 1 - straggler.rank;
    }
    expect_same_spans(simulate_step(step.schedule, step.times).spans, mirrored);
  }));
}

}  // namespace
}  // namespace ptdp
