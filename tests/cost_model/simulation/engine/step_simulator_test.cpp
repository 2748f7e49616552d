// Tests of the simulation of complete steps, by hand.
#include "cost_model/simulation/engine/step_simulator.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/action_durations.h"
#include "tests/cost_model/schedule/golden_schedules.h"
#include "tests/cost_model/simulation/complete_orders.h"
#include "tests/cost_model/simulation/plain_passes.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

/// Returns times of F = 1 s, I = 1 s, W = 1 s, B = 2 s and R = 1 s; messages have 0.25 s of latency
/// and 0.5 s of transfer.
StepTimes unit_times() {
  StepTimes times;
  times.stages = {stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0))};
  times.stages[0].recompute = Seconds(1.0);
  times.within_node = {Seconds(0.25), Seconds(0.5)};
  times.across_nodes = {Seconds(0.5), Seconds(2.0)};
  times.reductions = {{Seconds(0.5), Seconds(1.0)}};
  times.gathers = {{Seconds(0.25), Seconds(0.5)}};
  times.tied = {Seconds(0.5), Seconds(0.25)};
  times.norm = Seconds(0.125);
  times.optimizer = {Seconds(2.0)};
  return times;
}

/// Returns the start and end of every action of a rank: "0-1 1-1.75".
std::string spans_of(const Timeline& timeline, int rank) {
  std::ostringstream text;
  for (const Span& span : timeline.spans[rank]) {
    text << (text.tellp() > 0 ? " " : "") << span.start.value() << '-' << span.end.value();
  }
  return text.str();
}

const std::vector<std::string> kOneMicrobatch = {"0F0 0SEND_F0 0RECV_B0 0B0",
                                                 "1RECV_F0 1F0 1B0 1SEND_B0"};

// By hand: F, message, F, B, message, B in a row, whatever the mode.
TEST(StepSimulator, ChainsOneMicrobatch) {
  StepTimes times = unit_times();
  for (const MessageMode mode : {MessageMode::kOverlapped, MessageMode::kBlocking}) {
    times.messages = mode;
    const Timeline timeline = simulate_step(complete_schedule(kOneMicrobatch, 1), times);
    EXPECT_EQ(spans_of(timeline, 0), "0-1 1-1.75 4.75-5.5 5.5-7.5");
    EXPECT_EQ(spans_of(timeline, 1), "1-1.75 1.75-2.75 2.75-4.75 4.75-5.5");
    EXPECT_EQ(timeline.times.makespan(), Seconds(7.5));
    EXPECT_EQ(timeline.times.ranks[0].work, Seconds(3.0));
    EXPECT_EQ(timeline.times.ranks[0].idle_in_span(), Seconds(4.5));
    EXPECT_EQ(timeline.times.ranks[1].idle_in_span(), Seconds(0.0));
    EXPECT_EQ(timeline.times.bubble(), Seconds(4.5));
  }
}

TEST(StepSimulator, TakesTheSlowerLinkBetweenNodes) {
  StepTimes times = unit_times();
  times.node_of = {0, 1};
  EXPECT_EQ(simulate_step(complete_schedule(kOneMicrobatch, 1), times).times.makespan(),
            Seconds(6.0 + 2 * 2.5));
}

// By hand: the sender's second forward pass waits for its first message where messages block, and
// runs beside it where they have lanes of their own.
TEST(StepSimulator, HidesMessagesOnLanesOfTheirOwn) {
  const Schedule schedule =
      complete_schedule({"0F0 0SEND_F0 0F1 0SEND_F1", "1RECV_F0 1F0 1RECV_F1 1F1"}, 2);
  StepTimes times = unit_times();
  const Timeline overlapped = simulate_step(schedule, times);
  EXPECT_EQ(spans_of(overlapped, 0), "0-1 1-1.75 1-2 2-2.75");
  EXPECT_EQ(spans_of(overlapped, 1), "1-1.75 1.75-2.75 2-2.75 2.75-3.75");
  times.messages = MessageMode::kBlocking;
  const Timeline blocking = simulate_step(schedule, times);
  EXPECT_EQ(spans_of(blocking, 0), "0-1 1-1.75 1.75-2.75 2.75-3.5");
  EXPECT_EQ(spans_of(blocking, 1), "1-1.75 1.75-2.75 2.75-3.5 3.5-4.5");
}

// By hand: the receiver is in a pass of its own until 3 s; the sender goes on meanwhile, for the
// receive was posted ahead.
TEST(StepSimulator, LetsNoSenderWaitForItsReceiver) {
  StepTimes times = unit_times();
  times.stages.resize(2, times.stages[0]);
  times.stages[1].recompute = Seconds(3.0);
  for (const MessageMode mode : {MessageMode::kBlocking, MessageMode::kOverlapped}) {
    times.messages = mode;
    const Timeline timeline =
        simulate_step(complete_schedule({"0F0 0SEND_F0", "1R0 1RECV_F0 1F0"}, 2), times);
    EXPECT_EQ(spans_of(timeline, 0), "0-1 1-1.75");
    EXPECT_EQ(spans_of(timeline, 1), "0-3 1-1.75 3-4");
  }
}

// With messages of c that block, a middle rank does F, c, B and c for every microbatch. Filling and
// draining take (p − 1)(F + c + B + c). The step is the closed form's (m + p − 1)(F + B + 2c), less
// what the last rank does not send.
TEST(StepSimulator, BlocksOneFOneBForTwoMessagesAMicrobatch) {
  for (const int pp : {3, 4, 8}) {
    const int microbatches = 4 * pp;
    StepTimes times = unit_times();
    times.messages = MessageMode::kBlocking;
    const Schedule schedule =
        insert_messages(one_f_one_b({.pp = pp, .num_microbatches = microbatches}));
    const double closed_form = (microbatches + pp - 1) * (1.0 + 2.0 + 2 * 0.75);
    const double makespan = simulate_step(schedule, times).times.makespan().value();
    EXPECT_LE(makespan, closed_form) << pp;
    EXPECT_GE(makespan, closed_form - 3 * 0.75) << pp;
  }
}

// By hand: the last B from 1 to 3 s has run by halves at 2 and 3 s; each bucket takes 1.5 s. Then
// the norm, for which both ranks wait, and the optimizer.
TEST(StepSimulator, ReducesBucketsAsTheLastWeightGradientGoesOn) {
  const Schedule schedule =
      complete_schedule({"0F0 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0NORM0 0OPTIMIZER0"}, 1);
  const Timeline timeline = simulate_step(schedule, unit_times());
  EXPECT_EQ(spans_of(timeline, 0), "0-1 1-3 2-3.5 3.5-5 5-5.125 5.125-7.125");
  EXPECT_EQ(timeline.times.makespan(), Seconds(7.125));
  EXPECT_EQ(timeline.times.ranks[0].idle_in_span(), Seconds(0.0));
  EXPECT_EQ(timeline.times.bubble(), Seconds(4.125));
}

// By hand: two buckets of stage 0 until 0.75 and 1.5 s. The first F begins with the one, is half
// done at 1.25 s and waits for the other. Then one of stage 1, which its first F awaits.
TEST(StepSimulator, GathersParametersAsTheFirstForwardPassOfTheirStageNeedsThem) {
  const Schedule schedule =
      complete_schedule({"0UNSHARD0 0UNSHARD1 0F0 1UNSHARD0 1COPY_F0 1F0 1B0 0COPY_B0 0B0"}, 1, 2);
  const Timeline timeline = simulate_step(schedule, unit_times());
  EXPECT_EQ(spans_of(timeline, 0),
            "0-0.75 0.75-1.5 0.75-2 1.5-2.25 2-2 2.25-3.25 3.25-5.25 5.25-5.25 5.25-7.25");
}

// By hand: 1.5 s of gathers, then F and B; the reduction's two buckets as above.
TEST(StepSimulator, GathersInTurnWithComputeThoughReductionsOverlap) {
  StepTimes times = unit_times();
  times.data = DataMode::kBlockingGathers;
  const Schedule schedule =
      complete_schedule({"0UNSHARD0 0UNSHARD1 0F0 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0OPTIMIZER0"}, 1);
  EXPECT_EQ(spans_of(simulate_step(schedule, times), 0),
            "0-0.75 0.75-1.5 1.5-2.5 2.5-4.5 3.5-5 5-6.5 6.5-8.5");
  times.shares_links = true;
  EXPECT_EQ(spans_of(simulate_step(schedule, times), 0),
            "0-0.75 0.75-1.5 1.5-2.5 2.5-4.5 3.5-5 5-6.5 6.5-8.5");
}

// By hand: rank 1 has reduced at 5.5 s, rank 0, whose lane is free at 1.75 s, waits for it.
TEST(StepSimulator, LetsTwoRanksReduceTiedEmbeddingsTogether) {
  const Schedule schedule = complete_schedule(
      {"0F0 0SEND_F0 0TIED0 0NORM0", "1RECV_F0 1F0 1B0 1REDUCE_GRAD0 1TIED0 1NORM0"}, 1);
  const Timeline timeline = simulate_step(schedule, unit_times());
  EXPECT_EQ(spans_of(timeline, 0), "0-1 1-1.75 6.25-7 7-7.125");
  EXPECT_EQ(spans_of(timeline, 1), "1-1.75 1.75-2.75 2.75-4.75 4.75-6.25 6.25-7 7-7.125");
}

// By hand: 0F0 and 0B0 of two microbatches run together for 1 + 2 s once both inputs are there.
TEST(StepSimulator, RunsAPairForTheSumOfItsDurations) {
  const Schedule schedule = complete_schedule({"0F0 (0F1;0B0) 0B1"}, 2);
  EXPECT_EQ(spans_of(simulate_step(schedule, unit_times()), 0), "0-1 1-4 1-4 4-6");
}

TEST(StepSimulator, SlowsTheComputeOfAStraggler) {
  StepTimes times = unit_times();
  times.stragglers = {{.rank = 1, .factor = 1.5}};
  const Timeline timeline = simulate_step(complete_schedule(kOneMicrobatch, 1), times);
  EXPECT_EQ(timeline.times.makespan(), Seconds(7.5 + 1.5));
  EXPECT_EQ(timeline.times.ranks[1].work, Seconds(4.5));
}

// The mean of ln(factor) over n actions is normal with σ/√n, its variance σ² within σ²·√(2/n):
// four of these each.
TEST(StepSimulator, DrawsJitterThatIsLogNormal) {
  constexpr int num_draws = 20000;
  const Jitter jitter{.sigma = 0.1, .seed = 7};
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < num_draws; ++i) {
    const double z = std::log(jitter_factor(jitter, i % 7, static_cast<std::size_t>(i))) / 0.1;
    sum += z;
    squares += z * z;
  }
  EXPECT_NEAR(sum / num_draws, 0.0, 4.0 / std::sqrt(num_draws));
  EXPECT_NEAR(squares / num_draws, 1.0, 4.0 * std::sqrt(2.0 / num_draws));
  EXPECT_EQ(jitter_factor(jitter, 1, 2), jitter_factor(jitter, 1, 2));
  EXPECT_NE(jitter_factor(jitter, 1, 2), jitter_factor(jitter, 2, 1));
  EXPECT_NE(jitter_factor(jitter, 1, 2), jitter_factor({.sigma = 0.1, .seed = 8}, 1, 2));
  EXPECT_EQ(jitter_factor({.sigma = 0.0, .seed = 8}, 1, 2), 1.0);
}

/// The splitmix64 generator of https://prng.di.unimi.it/splitmix64.c, with its state.
class Splitmix64 {
 public:
  explicit Splitmix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_;
};

// The hashes are splitmix64's, so that whoever has a seed can draw the same in another language.
// Published outputs: rosettacode.org, "Pseudo-random numbers/Splitmix64", of the seed 1234567.
TEST(StepSimulator, DrawsJitterByPublishedHashes) {
  Splitmix64 published(1234567);
  for (const std::uint64_t output :
       {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U,
        16408922859458223821U}) {
    EXPECT_EQ(published.next(), output);
  }
  const auto hash = [](std::uint64_t value) { return Splitmix64(value).next(); };
  const auto uniform = [](std::uint64_t bits) {  // in (0, 1], by the upper 53 bits
    return (static_cast<double>(bits >> 11U) + 1.0) / 9007199254740992.0;
  };
  for (const std::uint64_t seed : {0U, 7U, 1234567U}) {
    for (const int rank : {0, 1, 5}) {
      for (const std::size_t position : {0U, 1U, 1000U}) {
        const std::uint64_t key =
            hash(hash(hash(seed) ^ static_cast<std::uint64_t>(rank)) ^ position);
        const double z = std::sqrt(-2.0 * std::log(uniform(key))) *
                         std::cos(2.0 * std::acos(-1.0) * uniform(hash(key)));
        EXPECT_NEAR(jitter_factor({.sigma = 0.25, .seed = seed}, rank, position),
                    std::exp(0.25 * z), 1e-12)
            << seed << ' ' << rank << ' ' << position;
      }
    }
  }
  // An independent program computed this factor.
  EXPECT_NEAR(jitter_factor({.sigma = 0.5, .seed = 7}, 1, 2), 0.8319686137126167, 1e-12);
}

TEST(StepSimulator, OfComputeAloneGivesThoseOfPlainPasses) {
  StepTimes times = unit_times();
  for (const GoldenSchedule& golden : golden_schedules()) {
    const Schedule schedule = parse_schedule_csv(golden.csv, golden.title());
    const SimulatedTimes expected = PlainPasses(schedule, times.stages, Seconds(0.75)).run();
    for (const SimulatedTimes& found :
         {simulate(schedule, times.stages, Seconds(0.75)), simulate_step(schedule, times).times}) {
      for (int rank = 0; rank < schedule.pp; ++rank) {
        EXPECT_EQ(found.ranks[rank].start, expected.ranks[rank].start) << golden.title();
        EXPECT_EQ(found.ranks[rank].end, expected.ranks[rank].end) << golden.title();
        EXPECT_EQ(found.ranks[rank].work, expected.ranks[rank].work) << golden.title();
        EXPECT_EQ(found.ranks[rank].idle_in_span(), expected.ranks[rank].idle_in_span());
        EXPECT_EQ(found.ranks[rank].peak_activations, expected.ranks[rank].peak_activations);
      }
    }
  }
}

TEST(StepSimulator, NamesTheActionOfADeadlock) {
  StepTimes times = unit_times();
  const auto message = [&](const std::vector<std::string>& orders) {
    const Schedule schedule = complete_schedule(orders, 2);
    std::string alone = message_of([&] { return simulate_step(schedule, times); });
    StepTimes shared = times;
    shared.shares_links = true;
    EXPECT_EQ(message_of([&] { return simulate_step(schedule, shared); }), alone);
    return alone;
  };
  // Nobody sends; nobody makes what is sent; only one comes to the norm.
  for (const MessageMode mode : {MessageMode::kBlocking, MessageMode::kOverlapped}) {
    times.messages = mode;
    EXPECT_EQ(message({"0F0", "1RECV_F0 1F0"}),
              "schedule written: rank 1, action 1: 1F0 waits for ever on the lane of compute; "
              "expected no deadlock");
    EXPECT_THAT(message({"0SEND_F0", "1RECV_F0"}),
                testing::HasSubstr("rank 0, action 0: 0SEND_F0 waits for ever"));
    EXPECT_THAT(message({"0F0 0NORM0", "1R0"}), testing::HasSubstr("0NORM0 waits for ever"));
  }
}

}  // namespace
}  // namespace ptdp
