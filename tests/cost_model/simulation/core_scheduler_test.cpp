// Tests of pipelines whose ranks take turns on cores.
#include "cost_model/simulation/core_scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/schedule/golden_schedules.h"

namespace ptdp {
namespace {

StageDurations pass_durations(double forward, double input_gradient, double weight_gradient) {
  return stage_durations(Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient));
}

// Two microbatches of F = 1 s and B = 2 s through two stages.
TEST(SharedCores, TakeTurnsAsByHand) {
  const Schedule schedule = gpipe({.pp = 2, .num_microbatches = 2});
  const std::vector<StageDurations> each = {pass_durations(1, 1, 1)};
  const auto time = [&](int pipelines, int cores) {
    return time_on_shared_cores(schedule, each, pipelines, cores).value();
  };
  EXPECT_EQ(time(1, 2), 9.0);   // 0F0 0F1|1F0 1F1 1B0 0B0|1B1 0B1
  EXPECT_EQ(time(1, 1), 12.0);  // all of the work
  // Two pipelines a and b on two cores, which rank 0 of each takes, then rank 1: at 3 s all forward
  // passes but a1F1 and b1F1 are done, at 4 s these; 1B0 until 6 s, then 0B0 and 1B1 take turns.
  EXPECT_EQ(time(2, 2), 12.0);
  EXPECT_EQ(time(2, 4), 9.0);
}

// Every schedule of the reference: with a core for each rank nobody takes turns.
TEST(SharedCores, AreTheReferencesWithOneForEachRank) {
  std::map<std::string, Schedule> schedules;
  for (const GoldenSchedule& golden : golden_schedules()) {
    schedules.emplace(golden.title(), parse_schedule_csv(golden.csv, golden.title()));
  }
  const CsvTable table = CsvTable::from_file(PTDP_SOURCE_DIR "/tests/golden/schedule_times.csv");
  ASSERT_GT(table.num_rows(), 500U);
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto number = [&](const char* column) {
      return parse_number(table.text(row, column), 0.0, 1e9, table.place_of(row, column));
    };
    const std::string title = table.text(row, "schedule") + " p=" + table.text(row, "p") +
                              " m=" + table.text(row, "m") + " v=" + table.text(row, "v");
    const Schedule& schedule = schedules.at(title);
    const std::vector<StageDurations> each = {
        pass_durations(number("durF"), number("durI"), number("durW"))};
    EXPECT_EQ(time_on_shared_cores(schedule, each, 1, schedule.pp).value(), number("makespan"))
        << title;
    EXPECT_EQ(time_on_shared_cores(schedule, each, 1, 1).value(),
              number("work_per_rank") * schedule.pp)
        << title;
  }
}

// No list schedule is shorter than the work over the cores or the longest path. None is longer than
// the work over the cores and the rest of the path (Graham 1969, theorem 2).
TEST(SharedCores, StayWithinTheBoundsOfListScheduling) {
  const std::vector<StageDurations> stages = {pass_durations(3, 4, 2), pass_durations(5, 6, 2),
                                              pass_durations(3, 4, 2), pass_durations(7, 8, 4)};
  for (const char* name : {"gpipe", "1f1b", "zb-h1"}) {
    const Schedule schedule = find_schedule(name)->generate({.pp = 4, .num_microbatches = 8});
    const SimulatedTimes alone = simulate(schedule, stages);
    const double path = alone.makespan().value();
    double work = 0.0;
    for (const RankTimes& rank : alone.ranks) {
      work += rank.work.value();
    }
    for (const int pipelines : {1, 3}) {
      for (const int cores : {1, 2, 3, 5, 12}) {
        const double time = time_on_shared_cores(schedule, stages, pipelines, cores).value();
        const double share = pipelines * work / cores;
        EXPECT_GE(time, std::max(share, path)) << name << ' ' << pipelines << ' ' << cores;
        EXPECT_LE(time, share + path * (1.0 - 1.0 / cores))
            << name << ' ' << pipelines << ' ' << cores;
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
