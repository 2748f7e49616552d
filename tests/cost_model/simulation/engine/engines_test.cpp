// Compares the two simulation engines for random schedules and durations.
#include <gtest/gtest.h>

#include "cost_model/simulation/engine/step_engines.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/simulation/random_steps.h"
#include "tests/cost_model/simulation/reference_simulator.h"

namespace ptdp {
namespace {

/// Expects both engines to agree on a step in which no link is shared.
void expect_same(const Schedule& schedule, const StepTimes& times) {
  std::vector<std::vector<Span>> spans;
  for (const std::vector<Action>& order : schedule.orders) {
    spans.emplace_back(order.size());
  }
  std::vector<std::vector<Span>> contended_spans = spans;
  const SimulatedTimes expected = simulate_uncontended(schedule, times, &spans);
  const SimulatedTimes found = simulate_contended(schedule, times, &contended_spans);
  const double tolerance = 1e-12 * expected.makespan().value();
  const auto is_near = [&](Seconds a, Seconds b) { return std::abs((a - b).value()) <= tolerance; };
  for (int rank = 0; rank < schedule.pp; ++rank) {
    for (std::size_t i = 0; i < spans[rank].size(); ++i) {
      RC_ASSERT(is_near(spans[rank][i].start, contended_spans[rank][i].start));
      RC_ASSERT(is_near(spans[rank][i].end, contended_spans[rank][i].end));
    }
    RC_ASSERT(is_near(expected.ranks[rank].start, found.ranks[rank].start));
    RC_ASSERT(is_near(expected.ranks[rank].end, found.ranks[rank].end));
    RC_ASSERT(is_near(expected.ranks[rank].work, found.ranks[rank].work));
    RC_ASSERT(is_near(expected.ranks[rank].compute_end, found.ranks[rank].compute_end));
    RC_ASSERT(expected.ranks[rank].peak_activations == found.ranks[rank].peak_activations);
  }
}

TEST(Engines, AgreeWhereNothingIsShared) {
  EXPECT_TRUE(rc::check([] {
    const RandomStep step = random_step();
    expect_same(step.schedule, step.times);
  }));
}

// Two ranks that send one message at a time: no link ever carries two.
TEST(Engines, AgreeWhereSharingNeverBinds) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_step(2);
    step.times.shares_links = true;
    step.times.messages = MessageMode::kBlocking;
    step.times.data_is_across_nodes = true;
    step.times.node_of.assign(step.schedule.pp, 0);
    expect_same(step.schedule, step.times);
  }));
}

void expect_reference(const Schedule& schedule, const StepTimes& times) {
  const Timeline found = simulate_step(schedule, times);
  const std::vector<std::vector<Span>> expected = ReferenceSimulator(schedule, times).run();
  const double tolerance = 1e-9 * (1.0 + found.times.makespan().value());
  for (int rank = 0; rank < schedule.pp; ++rank) {
    for (std::size_t i = 0; i < expected[rank].size(); ++i) {
      const auto [start, end] = found.spans[rank][i];
      RC_ASSERT(std::abs((start - expected[rank][i].start).value()) <= tolerance);
      RC_ASSERT(std::abs((end - expected[rank][i].end).value()) <= tolerance);
    }
  }
}

TEST(Engines, GiveTheSpansOfAPlainSimulation) {
  EXPECT_TRUE(rc::check([] {
    const RandomStep step = random_step(5, 6);
    expect_reference(step.schedule, step.times);
  }));
}

TEST(Engines, ShareLinksAndSlowComputeAsAPlainSimulationDoes) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_step(5, 6);
    step.times.shares_links = *rc::gen::arbitrary<bool>();
    step.times.overlap_slowdown = *rc::gen::element(0.0, 0.25, 0.6, 1.0);
    expect_reference(step.schedule, step.times);
  }));
}

}  // namespace
}  // namespace ptdp
