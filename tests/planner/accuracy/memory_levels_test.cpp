// Tests of which runs say how much memory lies beyond the formulas.
#include "planner/accuracy/memory_levels.h"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "cost_model/memory/memory.h"
#include "cost_model/text/csv_table.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/run_calibration.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

std::vector<MemoryRun> runs_beyond(double gib, int count) {
  std::vector<MemoryRun> runs;
  runs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    runs.push_back({.measured = Bytes((40.0 + gib) * kGibi),
                    .formulas = Bytes(40.0 * kGibi),
                    .job = "job " + std::to_string(i)});
  }
  return runs;
}

// `ptdp-calibrate --levels` writes the file.
TEST(ShippedMemoryLevels, FollowFromThePublishedRuns) {
  const LevelSet found = make_levels(costed_published_runs().costed).memory;
  const LevelSet& shipped = shipped_levels().memory;
  ASSERT_EQ(found.scopes.size(), shipped.scopes.size());
  for (std::size_t i = 0; i < found.scopes.size(); ++i) {
    EXPECT_EQ(found.scopes[i].path, shipped.scopes[i].path);
    EXPECT_EQ(found.scopes[i].num_runs, shipped.scopes[i].num_runs) << i;
    EXPECT_NEAR(found.scopes[i].mean.mean, shipped.scopes[i].mean.mean, 1e-6);
    EXPECT_NEAR(found.scopes[i].mean.precision / shipped.scopes[i].mean.precision, 1.0, 1e-4) << i;
  }
  EXPECT_NEAR(found.model.usual_scatter, shipped.model.usual_scatter, 1e-4);
  for (std::size_t level = 0; level < kNumLevels; ++level) {
    EXPECT_NEAR(found.model.variances[level], shipped.model.variances[level],
                1e-4 * (1.0 + shipped.model.variances[level]))
        << level;
  }
}

// What scipy's L-BFGS-B finds for the restricted likelihood of the same rows, written with whole
// covariance matrices (make_memory_levels_golden.py). Nothing is left for programs. All rows are of
// dense models, so that the variance of experts stays where it started.
TEST(ShippedMemoryLevels, AreThoseOfScipy) {
  const CsvTable table = CsvTable::from_file(std::filesystem::path(PTDP_SOURCE_DIR) /
                                             "tests/golden/memory_levels_fit.csv");
  std::map<std::string, double> found;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    found[table.text(row, "name")] = std::stod(table.text(row, "value"));
  }
  const LevelModel& model = shipped_levels().memory.model;
  EXPECT_NEAR(model.scatter, found.at("scatter"), 1e-3);
  EXPECT_NEAR(model.scatter_runs, found.at("scatter_runs"), 1e-3);
  EXPECT_NEAR(model.variances[3], found.at("cluster"), 0.05);
  EXPECT_NEAR(model.variances[0], found.at("program"), 0.01);
  EXPECT_NEAR(model.variances[1], found.at("stack"), 0.01);
  EXPECT_EQ(model.variances[2], found.at("experts"));
  EXPECT_NEAR(model.job, found.at("job"), 1e-3);
  EXPECT_NEAR(model.noise, found.at("noise"), 1e-3);
}

// Five runs of +2.3 GiB of one's own count for more than the +12.5 of the stack elsewhere.
TEST(OwnMemory, IsThatOfOnesOwnRuns) {
  const Scenario scenario = shipped_scenario("gpt3-175b", "dgx-h100", "megatron-deepspeed-2021");
  const MemoryBelief before = own_memory({}, scenario, 64);
  const MemoryBelief one = own_memory(runs_beyond(2.3, 1), scenario, 64);
  const MemoryBelief five = own_memory(runs_beyond(2.3, 5), scenario, 64);
  EXPECT_EQ(before.support.num_runs, 0);
  EXPECT_NEAR(five.expected.value() / kGibi, 2.3, 0.2);
  EXPECT_LT(five.half_width(), one.half_width());
  EXPECT_LT(five.half_width(), before.half_width());
}

// Selene reserves a share of 80 GiB: 8 of them are 0.1.
TEST(WithReserve, IsTheUpperEndOfTheBelief) {
  const Scenario scenario = selene_2021("1T");
  const MemoryBelief belief = own_memory(runs_beyond(2.3, 5), scenario, 3072);
  const ReservedScenario reserved = with_reserve(scenario, belief);
  EXPECT_NEAR(reserved_memory(reserved.scenario.cluster.gpu, reserved.scenario.stack).value(),
              belief.quantile(0.9).value(), 1.0);
  EXPECT_EQ(reserved.probability, 0.9);
  const ReservedScenario unknown = with_reserve(scenario, {});
  EXPECT_EQ(unknown.scenario, scenario);
  EXPECT_FALSE(unknown.probability.has_value());
}

// Cauchy's distribution around the expected memory: 1/2 + atan(z)/π lies below z deviations. Of 72
// GiB, the most of 80 that a stack may reserve, 71 expected with a deviation of 2 leave z = 1/2,
// and 74 leave z = −1. Nothing at all is enough for −20 ± 2 with z = 10.
TEST(WithReserve, SaysHowLikelyWhatCanBeReservedIsEnough) {
  const Scenario scenario = selene_2021("1T");
  struct Row {
    double expected;
    double fraction;
    double probability;
  };
  for (const Row& row : {Row{71.0, 0.9, 0.5 + std::atan(0.5) / M_PI}, Row{74.0, 0.9, 0.25},
                         Row{-20.0, 0.0, 0.5 + std::atan(10.0) / M_PI}}) {
    const MemoryBelief belief = {.support = {.num_runs = 2, .all_runs = 2},
                                 .expected = gibibytes(row.expected),
                                 .deviation = gibibytes(2.0),
                                 .degrees = 1.0};
    const ReservedScenario reserved = with_reserve(scenario, belief);
    EXPECT_EQ(reserved.scenario.stack.reserve_fraction, row.fraction) << row.expected;
    EXPECT_NEAR(reserved.probability.value_or(0.0), row.probability, 1e-4) << row.expected;
  }
}

TEST(WithReserve, LeavesTheOwnRuntimeAlone) {
  const Scenario own = shipped_scenario("gpt-tiny", "hgx-h200", "ptdp-cuda");
  const ReservedScenario reserved = with_reserve(own, own_memory(runs_beyond(2.3, 5), own, 8));
  EXPECT_EQ(reserved.scenario, own);
  EXPECT_FALSE(reserved.probability.has_value());
  EXPECT_FALSE(published_memory(published_runs(), own, 8).is_known());
}

// The published 22 runs of zero bubble have +2.5 GiB on their cluster, by 22 runs; one of their
// jobs rests on the others alone.
TEST(PublishedMemory, RestsOnOtherJobsOfTheClusterAndStack) {
  const PublishedRuns& published = published_runs();
  int of_scope = 0;
  const MeasuredRun* first = nullptr;
  for (const MeasuredRun& run : read_published_runs().runs) {
    if (run.group == "zero-bubble" && run.memory) {
      ++of_scope;
      first = first == nullptr ? &run : first;
    }
  }
  ASSERT_NE(first, nullptr);
  const Scenario scenario = scenario_of(*first);
  const MemoryBelief other = published_memory(published, scenario, 0);
  EXPECT_EQ(other.support.num_runs, of_scope);
  EXPECT_NEAR(other.expected.value() / kGibi, 2.5, 0.3);
  const MemoryBelief job = published_memory(published, scenario, first->config.world_size());
  EXPECT_LT(job.support.num_runs, of_scope);
}

// By hand: 24 of 80 GiB is 0.3 of the mean and of what is not known of it; how runs of a cluster
// scatter stays. Cards of 141 GiB are as those of 80.
TEST(PublishedMemory, OfAnotherClusterShrinksWithItsGpus) {
  const auto beyond = [](double gib) {
    Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025");
    scenario.cluster.name = "elsewhere";
    scenario.cluster.gpu.memory = gibibytes(gib);
    return published_memory(published_runs(), scenario, 8);
  };
  const MemoryBelief usual = beyond(80.0);
  const MemoryBelief small = beyond(24.0);
  ASSERT_EQ(usual.support.num_runs, 0);
  EXPECT_NEAR(small.expected / usual.expected, 0.3, 1e-12);
  const auto variance = [](const MemoryBelief& belief) {
    return std::pow(belief.deviation.value() / kGibi, 2);
  };
  const double scatter = (variance(small) - 0.09 * variance(usual)) / 0.91;
  EXPECT_GT(scatter, 0.0);
  const double half = variance(beyond(40.0));
  EXPECT_NEAR(half, 0.25 * (variance(usual) - scatter) + scatter, 1e-9 * half);
  EXPECT_EQ(beyond(141.0), usual);
}

/// Returns a row of its own job with `gib` GiB beyond the formulas.
MemoryRow row_beyond(double gib, const std::string& group, const std::string& stack, int place) {
  MemoryRun memory = runs_beyond(gib, 1).front();
  memory.job = "job " + std::to_string(place);
  return {.place = static_cast<std::size_t>(place),
          .group = group,
          .path = {.program = ProgramKind::kOther, .stack = stack, .cluster = "c"},
          .memory = memory};
}

TEST(MemoryRows, AreThoseOfRunsThatReportMemory) {
  std::vector<CostedRun> runs(3, run_of("megatron-lm-2021", "group", 1.0));
  runs[1].run.memory = gibibytes(30.0);
  const std::vector<MemoryRow> rows = memory_rows(runs);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].place, 1U);
  EXPECT_EQ(rows[0].group, "group");
  EXPECT_EQ(rows[0].path.stack, "megatron-lm-2021");
  EXPECT_EQ(rows[0].memory.measured, gibibytes(30.0));
}

// Group a has 1 and 3 GiB, b 7, 8 and 12, all of one scope, and jobs of their own. Of a row of a
// the mean of b is expected, 9, of one of b that of a, 2. By levels.h the scatter w² of b is (4 + 1
// + 9 + v·w0²)/(2 + v), and the next job's run lies (job + noise)·w² around a mean that is known to
// a third of that.
TEST(MemoryLeaveGroupOut, ExpectsTheMeanOfTheOtherGroup) {
  const std::vector<MemoryRow> rows = {row_beyond(1.0, "a", "s", 0), row_beyond(7.0, "b", "s", 1),
                                       row_beyond(8.0, "b", "s", 2), row_beyond(3.0, "a", "s", 3),
                                       row_beyond(12.0, "b", "s", 4)};
  const std::vector<std::optional<MemoryBelief>> beliefs = memory_leave_group_out(rows);
  ASSERT_EQ(beliefs.size(), rows.size());
  const LevelModel& model = shipped_levels().memory.model;
  const double v = model.scatter_runs;
  const double scatter = (14.0 + v * model.scatter * model.scatter) / (2.0 + v);
  for (const std::size_t of_a : {0, 3}) {
    EXPECT_EQ(beliefs[of_a]->support.num_runs, 3);
    EXPECT_NEAR(beliefs[of_a]->expected.value() / kGibi, 9.0, 1e-9);
    EXPECT_NEAR(beliefs[of_a]->deviation.value() / kGibi,
                std::sqrt((model.job + model.noise) * scatter * (1.0 + 1.0 / 3.0)), 1e-9);
    EXPECT_NEAR(beliefs[of_a]->degrees, 2.0 + v, 1e-9);
  }
  for (const std::size_t of_b : {1, 2, 4}) {
    EXPECT_EQ(beliefs[of_b]->support.num_runs, 2);
    EXPECT_NEAR(beliefs[of_b]->expected.value() / kGibi, 2.0, 1e-9);
  }
}

// Group b is alone on its stack: what is said of it is the mean of the only other scope.
TEST(MemoryLeaveGroupOut, TakesAnotherStackWhereNoRowOfTheOwnIsLeft) {
  const std::vector<std::optional<MemoryBelief>> beliefs = memory_leave_group_out(
      std::vector<MemoryRow>{row_beyond(1.0, "a", "s", 0), row_beyond(3.0, "a", "s", 1),
                             row_beyond(7.0, "b", "t", 2)});
  EXPECT_EQ(beliefs[2]->support.num_runs, 0);
  EXPECT_EQ(beliefs[2]->support.all_runs, 2);
  EXPECT_NEAR(beliefs[2]->expected.value() / kGibi, 2.0, 1e-9);
}

TEST(MemoryLeaveGroupOut, KnowsNothingWithoutAnotherGroup) {
  const std::vector<std::optional<MemoryBelief>> beliefs = memory_leave_group_out(
      std::vector<MemoryRow>{row_beyond(1.0, "a", "s", 0), row_beyond(3.0, "a", "t", 1)});
  EXPECT_THAT(beliefs, testing::Each(std::nullopt));
}

// Enough scopes for a fit: neither levels nor constants may know the group that is held out.
TEST(MemoryLeaveGroupOut, DoesNotRestOnTheGroup) {
  const auto rows_with = [](double of_group) {
    std::vector<MemoryRow> rows;
    rows.reserve(24);
    for (int i = 0; i < 24; ++i) {
      const double gib = (i * i) % 11;
      const bool is_held = i % 8 == 3;
      rows.push_back(row_beyond(is_held ? of_group * i : gib, is_held ? "held" : "others",
                                std::string("stack") + static_cast<char>('a' + i % 12), i));
    }
    return rows;
  };
  const std::vector<std::optional<MemoryBelief>> one = memory_leave_group_out(rows_with(1.0));
  const std::vector<std::optional<MemoryBelief>> other = memory_leave_group_out(rows_with(2.0));
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i] == other[i], i % 8 == 3) << i;
  }
}

// What ptdp-validate promises of the shipped rows.
TEST(MemoryLeaveOneOut, HasTenPercentOfErrorInEachGroup) {
  const std::vector<MemoryRow> rows = memory_rows(costed_published_runs().costed);
  const std::vector<std::optional<MemoryBelief>> beliefs = memory_leave_one_out(rows);
  ASSERT_EQ(beliefs.size(), rows.size());
  std::map<std::string, std::vector<double>> errors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MemoryRun& run = rows[i].memory;
    ASSERT_TRUE(beliefs[i].has_value()) << i;
    errors[rows[i].group].push_back((run.formulas + beliefs[i]->expected) / run.measured - 1.0);
  }
  for (const auto& [group, of_group] : errors) {
    EXPECT_LE(summarized(of_group).mean_absolute, 0.10) << group;
  }
}

}  // namespace
}  // namespace ptdp
