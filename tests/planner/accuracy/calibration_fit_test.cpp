// Tests of factors that are fitted to measured runs.
#include "planner/accuracy/calibration_fit.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/profiles_variable.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns runs of a stack on Selene that took `ratios` seconds and were predicted at one second.
std::vector<CostedRun> runs_of(const std::string& stack, const std::vector<double>& ratios) {
  std::vector<CostedRun> runs;
  runs.reserve(ratios.size());
  for (const double ratio : ratios) {
    runs.push_back(run_of(stack, "", ratio));
  }
  return runs;
}

// By hand for ratios 1.0, 1.25, 1.25, 2.0 of a job: the shipped levels multiply all predictions by
// one factor f, so that the errors are f/1.0 - 1, f/1.25 - 1 twice and f/2.0 - 1.
TEST(StackFit, MatchesTheHandComputedFigures) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-core-2024", {1.0, 1.25, 1.25, 2.0}), "runs.csv");
  ASSERT_EQ(refits.size(), 1U);
  const StackFit& found = refits.front();
  EXPECT_EQ(found.calibration.source, "runs.csv");
  const double f = found.before.factor;
  EXPECT_NEAR(found.shipped_errors.mean_absolute,
              (std::abs(f - 1.0) + 2.0 * std::abs(f / 1.25 - 1.0) + std::abs(f / 2.0 - 1.0)) / 4.0,
              1e-9);
  EXPECT_LT(found.in_sample.mean_absolute, found.shipped_errors.mean_absolute);
  EXPECT_LT(found.in_sample.mean_absolute, found.leave_one_out.mean_absolute);
}

TEST(StackFit, SaysWhatOneRunIsWorth) {
  const std::vector<StackFit> refits = refit(runs_of("megatron-lm-2021", {1.25}), "runs.csv");
  const StackFit& found = refits.front();
  EXPECT_EQ(found.before.support.num_runs, 64);
  EXPECT_EQ(found.after.support.num_runs, 1);
  EXPECT_GT(found.after.factor, found.before.factor);
  EXPECT_NEAR(found.in_sample.mean_absolute, 0.0, 0.03);
}

TEST(StackFit, ShowsTheShippedFactorBesideItsOwn) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
  EXPECT_THAT(to_text(refits, {{"x", "g", "a reason"}}),
              testing::AllOf(HasSubstr("x1.0"), HasSubstr("x1.1"), HasSubstr("1  a reason")));
}

TEST(WriteCalibrations, WritesAFilePerClusterAndStack) {
  const TemporaryDirectory directory;
  const std::filesystem::path made = directory.path() / "new" / "deeper";
  std::vector<CostedRun> runs = runs_of("megatron-lm-2021", {1.2, 1.2, 1.2});
  for (const CostedRun& run : runs_of("megatron-lm-2022", {1.2, 1.2})) {
    runs.push_back(run);
  }
  write_calibrations(made, refit(runs, "runs.csv"));
  EXPECT_TRUE(std::filesystem::exists(made / "selene-a100+megatron-lm-2021.json"));
  EXPECT_TRUE(std::filesystem::exists(made / "selene-a100+megatron-lm-2022.json"));
}

TEST(WriteCalibrations, RefusesTheShippedProfiles) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
  const std::filesystem::path profiles = PTDP_SOURCE_DIR "/profiles";
  const ProfilesVariable variable(profiles.string());
  for (const char* inside : {".", "stacks", "new/deeper", "stacks/../new"}) {
    EXPECT_THAT(message_of([&] {
                  write_calibrations(profiles / inside, refits);
                  return 0;
                }),
                HasSubstr("lies in the shipped profiles"))
        << inside;
  }
  EXPECT_FALSE(std::filesystem::exists(profiles / "new"));
}

TEST(WriteCalibrations, RefusesToWriteNothing) {
  const TemporaryDirectory directory;
  EXPECT_THAT(message_of([&] {
                write_calibrations(directory.path() / "new", {});
                return 0;
              }),
              HasSubstr("nothing to write"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
}

TEST(RefitTable, ShowsFactorsAndErrorsBesideTheShippedOnes) {
  StackFit refit{.calibration = {.cluster = "c", .stack = "s", .has_experts = true},
                 .before = {.support = {.all_runs = 9}, .factor = 1.5, .interval = {0.8, 1.2}},
                 .after = {.support = {.all_runs = 9}, .factor = 1.25, .interval = {0.9, 1.1}},
                 .shipped_errors = {.mean_absolute = 0.25},
                 .in_sample = {.mean_absolute = 0.1},
                 .leave_one_out = {.mean_absolute = 0.125}};
  refit.calibration.runs.resize(2);
  EXPECT_THAT(to_text({refit}, {}),
              HasSubstr("\nc + s, experts                                       2    x1.500   20.0 "
                        "  25.0    x1.250   10.0   10.0          12.5\n"));
}

// Cauchy's distribution with deviations of 1 and 0.5 GiB: 95 % lie below 6.31375 of them.
TEST(RefitTable, ShowsMemoryBesideWhatIsShipped) {
  StackFit refit{.calibration = {.cluster = "c", .stack = "s"}};
  refit.calibration.runs.resize(3);
  const auto belief = [](const Support& support, double expected, double deviation) {
    return MemoryBelief{.support = support,
                        .expected = gibibytes(expected),
                        .deviation = gibibytes(deviation),
                        .degrees = 1.0};
  };
  refit.memory = StackMemoryFit{
      .num_runs = 2,
      .before = belief({.all_runs = 87}, -1.25, 1.0),
      .after =
          belief({.num_runs = 2, .stack_runs = 2, .program_runs = 2, .all_runs = 89}, 2.5, 0.5),
      .shipped_errors = {.mean_absolute = 0.25},
      .leave_one_out = {.mean_absolute = 0.125}};
  EXPECT_THAT(
      to_text({refit}, {}),
      HasSubstr("\nc + s                                                2      -1.2    6.3   "
                "25.0      +2.5    3.2   12.5\n"
                "  rests on 2 runs of this cluster and stack\n"
                "errors with these runs: leave-one-out\n"));
  refit.memory->before = {};
  EXPECT_THAT(to_text({refit}, {}), HasSubstr("   2      none          25.0      +2.5"));
  refit.memory.reset();
  EXPECT_THAT(to_text({refit}, {}), testing::Not(HasSubstr("memory beyond the formulas")));
}

// Runs of ptdp-run hold their profiles: those of one name must be one.
TEST(StackFit, RefusesTwoMachinesOfOneName) {
  std::vector<CostedRun> runs = runs_of("megatron-lm-2021", {1.2, 1.2, 1.2});
  Scenario scenario = scenario_of(runs[0]);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].run.source = std::string(1, static_cast<char>('a' + i)) + ".json";
    runs[i].scenario = std::make_shared<const Scenario>(scenario);
  }
  EXPECT_EQ(refit(runs, "files").size(), 1U);
  scenario.cluster.nvlink.efficiency *= 0.5;
  runs[2].scenario = std::make_shared<const Scenario>(scenario);
  EXPECT_EQ(
      message_of([&] { return refit(runs, "files"); }),
      "c.json: its selene-a100 or megatron-lm-2021 differs from that of a.json; expected runs "
      "of one machine");
}

}  // namespace
}  // namespace ptdp
