// Tests of the simulation of passes alone.
#include "cost_model/simulation/engine/step_simulator.h"

#include <gmock/gmock.h>

#include <iterator>
#include <map>
#include <random>
#include <sstream>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/validator/validator.h"
#include "tests/cost_model/schedule/golden_schedules.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

StageDurations durations(double forward, double input_gradient, double weight_gradient) {
  return stage_durations(Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient));
}

SimulatedTimes simulate_equal(const Schedule& schedule, const StageDurations& each,
                              double latency = 0.0) {
  return simulate(schedule, {&each, 1}, Seconds(latency));
}

std::vector<double> numbers_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<double>(stream), std::istream_iterator<double>()};
}

// Every schedule of the file, those of our generators and those of torch, sail and DeepSeek.
TEST(Simulator, TimesEveryGoldenScheduleAsTheReferenceDoes) {
  std::map<std::string, Schedule> schedules;
  for (const GoldenSchedule& golden : golden_schedules()) {
    schedules.emplace(golden.title(), parse_schedule_csv(golden.csv, golden.title()));
  }
  const CsvTable table = CsvTable::from_file(PTDP_SOURCE_DIR "/tests/golden/schedule_times.csv");
  EXPECT_EQ(table.num_rows(), 514U);
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto number = [&](const char* column) {
      return parse_number(table.text(row, column), 0.0, 1e9, table.place_of(row, column));
    };
    const std::string title = table.text(row, "schedule") + " p=" + table.text(row, "p") +
                              " m=" + table.text(row, "m") + " v=" + table.text(row, "v");
    ASSERT_TRUE(schedules.contains(title)) << title;
    const SimulatedTimes times =
        simulate_equal(schedules[title], durations(number("durF"), number("durI"), number("durW")));
    EXPECT_EQ(times.makespan().value(), number("makespan")) << title;
    EXPECT_EQ(times.bubble().value(), number("bubble")) << title;
    EXPECT_NEAR(times.bubble_ratio(), number("bubble_ratio"), 0.5e-5) << title;
    std::vector<double> idle;
    std::vector<double> peaks;
    for (const RankTimes& rank : times.ranks) {
      EXPECT_EQ(rank.work.value(), number("work_per_rank")) << title;
      idle.push_back(rank.idle_in_span().value());
      peaks.push_back(rank.peak_activations);
    }
    EXPECT_EQ(idle, numbers_of(table.text(row, "idle_in_span_per_rank"))) << title;
    EXPECT_EQ(peaks, numbers_of(table.text(row, "peak_chunk_acts_per_rank"))) << title;
  }
}

// (p − 1)(F + B) of one stage, for all four; interleaved where the groups are as large as p.
TEST(Simulator, FindsTheBubblesOfTheTheory) {
  const StageDurations each = durations(3.0, 5.0, 7.0);
  for (const int pp : {1, 2, 5, 16, 64}) {
    for (const int rounds : {1, 2, 5}) {
      for (const int vpp : {1, 2, 4}) {
        const ScheduleShape shape{.pp = pp, .vpp = vpp, .num_microbatches = rounds * pp};
        for (const char* name : {"gpipe", "1f1b", "interleaved", "looped-bfs"}) {
          const ScheduleTraits& generator = *find_schedule(name);
          if (!generator.find_conflict(shape)) {
            EXPECT_DOUBLE_EQ(simulate_equal(generator.generate(shape), each).bubble().value(),
                             (pp - 1) * 15.0)
                << generator.name << " " << pp << " " << rounds << " " << vpp;
          }
        }
      }
    }
  }
}

// By hand: three stages, F of 1, 2, 3 s, B of twice that, one microbatch: 1 + 2 + 3 + 6 + 4 + 2 s.
TEST(Simulator, TakesDurationsStageByStage) {
  const std::vector<StageDurations> each = {durations(1, 1, 1), durations(2, 2, 2),
                                            durations(3, 3, 3)};
  const SimulatedTimes times = simulate(gpipe({.pp = 3, .num_microbatches = 1}), each);
  EXPECT_EQ(times.makespan(), Seconds(18.0));
  EXPECT_EQ(times.ranks[1].start, Seconds(1.0));
  EXPECT_EQ(times.ranks[1].end, Seconds(16.0));
  EXPECT_EQ(times.ranks[1].work, Seconds(6.0));
  EXPECT_EQ(times.ranks[1].idle_in_span(), Seconds(9.0));
  EXPECT_EQ(times.bubble(), Seconds(9.0));          // of the rank that works 3 s and 6 s
  EXPECT_EQ(times.not_computing(), Seconds(12.0));  // the mean work is 6 s
}

// By hand: a microbatch crosses p − 1 links forward and as many backward; in a V the turn between
// stages p − 1 and p is on one rank.
TEST(Simulator, DelaysMessagesBetweenRanksOnly) {
  const StageDurations each = durations(1, 1, 1);
  EXPECT_EQ(simulate_equal(gpipe({.pp = 4, .num_microbatches = 1}), each, 0.5).makespan(),
            Seconds(12.0 + 6 * 0.5));
  EXPECT_EQ(
      simulate_equal(looped_bfs({.pp = 2, .vpp = 2, .num_microbatches = 1}), each, 0.5).makespan(),
      Seconds(12.0 + 6 * 0.5));
  EXPECT_EQ(
      simulate_equal(looped_bfs({.pp = 1, .vpp = 2, .num_microbatches = 1}), each, 0.5).makespan(),
      Seconds(6.0));
  const Schedule v = parse_schedule_csv("0F0,3F0,3B0,0B0\n1F0,2F0,2B0,1B0\n", "v");
  EXPECT_EQ(simulate_equal(v, each, 0.5).makespan(), Seconds(12.0 + 4 * 0.5));
}

TEST(Simulator, HasWholeBackwardPassesOfTheirOwnLength) {
  const StageDurations each{.forward = Seconds(1.0),
                            .backward = Seconds(1.5),
                            .input_gradient = Seconds(1.0),
                            .weight_gradient = Seconds(1.0)};
  EXPECT_EQ(simulate_equal(parse_schedule_csv("0F0,0B0\n", "x"), each).makespan(), Seconds(2.5));
  EXPECT_EQ(simulate_equal(parse_schedule_csv("0F0,0I0,0W0\n", "x"), each).makespan(),
            Seconds(3.0));
}

/// Expects bounds and monotonicity. A rank is no faster than its work, and an iteration no faster
/// than one microbatch through all stages and back. Slowing any stage makes no iteration faster.
void expect_bounded_and_monotone(const Schedule& schedule, std::vector<StageDurations> stages,
                                 const std::string& title) {
  const SimulatedTimes times = simulate(schedule, stages);
  const Seconds slack(1e-9 * times.makespan().value());
  Seconds path;
  for (const StageDurations& stage : stages) {
    path += stage.forward + stage.input_gradient;
  }
  EXPECT_GE(times.makespan() + slack, path) << title;
  for (const RankTimes& rank : times.ranks) {
    EXPECT_GE(times.makespan() + slack, rank.work) << title;
    EXPECT_GE(rank.idle_in_span() + slack, Seconds(0.0)) << title;
  }
  for (StageDurations& stage : stages) {
    const StageDurations before = stage;
    stage = stage_durations(before.forward * 1.5, before.input_gradient * 1.25,
                            before.weight_gradient * 2.0);
    EXPECT_GE(simulate(schedule, stages).makespan() + slack, times.makespan()) << title;
    stage = before;
  }
  EXPECT_GE(simulate(schedule, stages, Seconds(0.1)).makespan() + slack, times.makespan()) << title;
}

/// Draws whole numbers from `low` to `high` that are the same on every machine.
class Draw {
 public:
  int operator()(int low, int high) {
    return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1));
  }

 private:
  std::mt19937 engine_{4};
};

std::vector<StageDurations> random_durations(const Schedule& schedule, Draw& draw) {
  std::vector<StageDurations> stages(num_stages(schedule));
  for (StageDurations& stage : stages) {
    stage = durations(draw(1, 1000), draw(1, 1000), draw(1, 1000));
  }
  return stages;
}

TEST(Simulator, IsBoundedAndMonotoneForRandomShapesAndDurations) {
  Draw draw;
  for (const ScheduleTraits& generator : kSchedules) {
    int simulated = 0;
    for (int i = 0; i < 400; ++i) {
      const ScheduleShape shape{
          .pp = draw(1, 16), .vpp = draw(1, 4), .num_microbatches = draw(1, 64)};
      if (generator.find_conflict(shape)) {
        continue;
      }
      const Schedule schedule = generator.generate(shape);
      expect_bounded_and_monotone(schedule, random_durations(schedule, draw),
                                  schedule.name + " p=" + std::to_string(shape.pp) +
                                      " v=" + std::to_string(shape.vpp) +
                                      " m=" + std::to_string(shape.num_microbatches));
      ++simulated;
    }
    EXPECT_GT(simulated, 0) << generator.name;
  }
}

TEST(Simulator, IsBoundedAndMonotoneForGoldenSchedules) {
  Draw draw;
  for (const GoldenSchedule& golden : golden_schedules()) {
    const Schedule schedule = parse_schedule_csv(golden.csv, golden.title());
    expect_bounded_and_monotone(schedule, random_durations(schedule, draw), golden.title());
  }
}

TEST(Simulator, CountsTheActivationsThatTheValidatorCounts) {
  for (const GoldenSchedule& golden : golden_schedules()) {
    const Schedule schedule = parse_schedule_csv(golden.csv, golden.title());
    std::vector<int> peaks;
    for (const RankTimes& rank : simulate_equal(schedule, durations(1, 1, 1)).ranks) {
      peaks.push_back(rank.peak_activations);
    }
    EXPECT_EQ(peaks, peak_activations(schedule)) << golden.title();
  }
}

TEST(Simulator, NamesTheActionOfADeadlock) {
  const Schedule schedule = parse_schedule_csv("0B0,0F0\n1F0,1B0\n", "x");
  EXPECT_THAT(message_of([&] { return simulate_equal(schedule, durations(1, 1, 1)); }),
              testing::HasSubstr("rank 0, action 0: 0B0 waits for ever on the lane of compute"));
}

TEST(Simulator, OfNothingThatTakesTimeHasNoBubble) {
  EXPECT_EQ(
      simulate_equal(gpipe({.pp = 2, .num_microbatches = 2}), durations(0, 0, 0)).bubble_ratio(),
      0.0);
}

// By hand: two ranks that work for 3 s and 5 s of 10 s and 8 s.
TEST(SimulatedTimes, SumUpWhatTheRanksDid) {
  const SimulatedTimes times{.ranks = {{.start = Seconds(4.0),
                                        .end = Seconds(10.0),
                                        .work = Seconds(3.0),
                                        .compute_end = Seconds(9.0)},
                                       {.start = Seconds(3.0),
                                        .end = Seconds(8.0),
                                        .work = Seconds(5.0),
                                        .compute_end = Seconds(7.0),
                                        .gathers = Seconds(2.0)}}};
  EXPECT_EQ(times.makespan(), Seconds(10.0));
  EXPECT_EQ(times.longest_span(), Seconds(7.0));
  EXPECT_EQ(times.most_work(), Seconds(5.0));
  EXPECT_EQ(times.bubble(), Seconds(5.0));
  EXPECT_DOUBLE_EQ(times.bubble_ratio(), 0.5);
  EXPECT_EQ(times.not_computing(), Seconds(6.0));
  EXPECT_EQ(times.ranks[0].idle_in_span(), Seconds(2.0));
  EXPECT_EQ(times.ranks[1].idle_in_span(), Seconds(0.0)) << "rounding leaves no less";
}

}  // namespace
}  // namespace ptdp
