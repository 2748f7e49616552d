// Tests of what runs say of a prediction: factor, interval, distance.
#include "cost_model/measured/calibration.h"

#include <gmock/gmock.h>

#include <cmath>
#include <span>
#include <vector>

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Jobs scatter by 0.04 and runs of a job by 0.03 in every scope with as many runs as you like.
constexpr LevelModel kModel = {
    .job = 0.64, .noise = 0.36, .scatter = 0.05, .scatter_runs = 1e6, .usual_scatter = 0.05};

/// Eleven other scopes expect a factor of 1.1, give or take 0.1.
constexpr LevelPrior kPrior = {.mean = {0.09531017980432486, 100.0},
                               .stack_runs = 5,
                               .program_runs = 20,
                               .all_runs = 30,
                               .num_scopes = 11};

CalibrationRun run_of(double ratio, const std::string& job, std::int64_t gpus = 8) {
  return {.measured = Seconds(ratio * 2.0),
          .predicted = Seconds(2.0),
          .point = {.gpus = gpus},
          .job = job};
}

TEST(FitCalibration, OfNothingIsNotCalibrated) {
  const CalibrationFit fit = fit_calibration(kModel, {}, {}, "job");
  EXPECT_FALSE(fit.is_calibrated());
  const Calibration calibration = fit.at({.gpus = 32});
  EXPECT_EQ(calibration.factor, 1.0);
  EXPECT_EQ(calibration.interval, kUncalibratedInterval);
}

// By hand: the deviation is that of the other scopes, 0.1, with job and noise, 0.05. Tables of
// Student's distribution with 10 degrees of freedom have 95 % below 1.812.
TEST(FitCalibration, WithoutRunsIsWhatOtherScopesExpect) {
  const Calibration calibration = fit_calibration(kModel, kPrior, {}, "job").at({});
  EXPECT_NEAR(calibration.factor, 1.1, 1e-12);
  EXPECT_NEAR(std::log(calibration.interval.high), 1.812 * std::hypot(0.1, 0.05), 1e-3);
  EXPECT_NEAR(calibration.interval.low * calibration.interval.high, 1.0, 1e-12);
  EXPECT_THAT(calibration.outside_runs, ElementsAre(HasSubstr("no measured run of this stack on")));
}

// By hand: one run of another job says 1.3 with a variance of 0.05²; the others say 1.1 with 0.1².
TEST(FitCalibration, WeighsARunOfAnotherJobAgainstOtherScopes) {
  const std::vector<CalibrationRun> runs = {run_of(1.3, "other")};
  const CalibrationFit fit = fit_calibration(kModel, kPrior, runs, "job");
  const double mean = (400.0 * std::log(1.3) + 100.0 * std::log(1.1)) / 500.0;
  EXPECT_NEAR(std::log(fit.factor), mean, 1e-9);
  EXPECT_NEAR(fit.variance, 1.0 / 500.0 + 0.04 * 0.04 + 0.03 * 0.03, 1e-9);
  EXPECT_EQ(fit.support,
            (Support{.num_runs = 1, .stack_runs = 6, .program_runs = 21, .all_runs = 31}));
}

// By hand: a run of the very job leaves its own scatter, 0.03, between itself and the job's mean,
// which other scopes know with a variance of 0.1² + 0.04².
TEST(FitCalibration, TrustsARunOfTheJobItselfMore) {
  const std::vector<CalibrationRun> runs = {run_of(1.3, "job")};
  const CalibrationFit fit = fit_calibration(kModel, kPrior, runs, "job");
  const double of_run = 1.0 / 0.0009;
  const double of_others = 1.0 / (0.01 + 0.0016);
  EXPECT_NEAR(std::log(fit.factor),
              (of_run * std::log(1.3) + of_others * std::log(1.1)) / (of_run + of_others), 1e-9);
  EXPECT_NEAR(fit.variance, 1.0 / (of_run + of_others) + 0.0009, 1e-9);
}

TEST(FitCalibration, DoesNotDependOnTheOrderOfTheRuns) {
  const std::vector<CalibrationRun> runs = {run_of(1.0, "a"), run_of(1.2, "b"), run_of(1.1, "a")};
  const std::vector<CalibrationRun> turned(runs.rbegin(), runs.rend());
  EXPECT_NEAR(fit_calibration(kModel, kPrior, runs, "a").factor,
              fit_calibration(kModel, kPrior, turned, "a").factor, 1e-12);
}

// By hand: without its prior, a scope's scatter is the sample deviation, sqrt(2)·0.1 for ±0.1.
TEST(FitCalibration, IsAsUnsureAsItsRunsScatter) {
  LevelModel model = kModel;
  model.scatter_runs = 0.0;
  const double up = std::exp(0.1);
  const std::vector<CalibrationRun> runs = {run_of(up, "a"), run_of(1.0 / up, "b")};
  const CalibrationFit fit = fit_calibration(model, {}, runs, "job");
  EXPECT_NEAR(fit.factor, 1.0, 1e-12);
  EXPECT_NEAR(fit.variance, 0.02 * (0.5 + 0.64 + 0.36), 1e-12);
}

/// Returns three runs that took 1.25 times as long as predicted, on 8, 16 and 64 GPUs.
std::vector<CalibrationRun> runs_on_gpus() {
  return {run_of(1.25, "a", 8), run_of(1.25, "b", 16), run_of(1.25, "c", 64)};
}

// On 32 GPUs: two doublings from 8, one from 16, one from 64.
TEST(CalibrationFit, TellsTheDistanceWithinWhichThreeOfItsRunsLie) {
  const Calibration calibration =
      fit_calibration(kModel, {}, runs_on_gpus(), "job").at({.gpus = 32});
  EXPECT_DOUBLE_EQ(calibration.support.distance, 2.0);
  EXPECT_NEAR(calibration.factor, 1.25, 1e-12);
  EXPECT_THAT(calibration.outside_runs, ElementsAre());
}

TEST(CalibrationFit, WidensAwayFromItsRunsAndSaysSo) {
  const CalibrationFit fit = fit_calibration(kModel, {}, runs_on_gpus(), "job");
  EXPECT_LT(fit.at({.gpus = 32}).interval.high, fit.at({.gpus = 1024}).interval.high);
  EXPECT_THAT(fit.at({.gpus = 129}).outside_runs,
              ElementsAre("129 GPUs, where runs of this cluster and stack have at most 64"));
  EXPECT_THAT(fit.at({.gpus = 128}).outside_runs, ElementsAre());
  EXPECT_THAT(fit.at({.gpus = 3}).outside_runs,
              ElementsAre("3 GPUs, where runs of this cluster and stack have at least 8"));
}

// All runs are in bf16, so that fp8 is 1 farther away from them.
TEST(CalibrationFit, WidensForWhatNoRunHas) {
  std::vector<CalibrationRun> runs = runs_on_gpus();
  for (CalibrationRun& run : runs) {
    run.point.precision = "bf16";
  }
  const CalibrationFit fit = fit_calibration(kModel, {}, runs, "job");
  const Calibration seen = fit.at({.gpus = 32, .precision = "bf16"});
  const Calibration unseen = fit.at({.gpus = 32, .precision = "fp8"});
  EXPECT_DOUBLE_EQ(unseen.support.distance, seen.support.distance + 1.0);
  EXPECT_GT(unseen.interval.high, seen.interval.high);
  EXPECT_THAT(unseen.outside_runs,
              ElementsAre("precision fp8, which no run of this cluster and stack has"));
}

// A second run, however far, must not make a prediction beside the first less sure.
TEST(CalibrationFit, IsAsNearAsTheNearestOfFewRuns) {
  const std::vector<CalibrationRun> runs = {run_of(1.2, "a", 8), run_of(1.2, "b", 1024)};
  const auto width = [&](std::size_t count) {
    return fit_calibration(kModel, kPrior, {runs.data(), count}, "a").at({.gpus = 8}).interval.high;
  };
  EXPECT_LE(width(2), width(1));
}

TEST(CalibrationFit, ComparesWithAQuarterOfAMillionRunsInNoTime) {
  const CalibrationFit fit{.factor = 1.1,
                           .variance = 0.01,
                           .degrees = 10.0,
                           .support = {.all_runs = 250'000},
                           .points = std::vector<CalibrationPoint>(250'000)};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(fit.at({.gpus = 2}).support.distance, 1.0);
  }
}

TEST(LeaveOneOut, IsTheFitOfTheOthers) {
  const std::vector<CalibrationRun> runs = {run_of(1.0, "a", 8), run_of(1.1, "a", 16),
                                            run_of(1.2, "b", 8), run_of(1.6, "c", 64)};
  const std::vector<Calibration> found = leave_one_out(kModel, kPrior, runs);
  ASSERT_EQ(found.size(), runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<CalibrationRun> others = runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const Calibration expected =
        fit_calibration(kModel, kPrior, others, runs[i].job).at(runs[i].point);
    EXPECT_NEAR(found[i].factor, expected.factor, 1e-9) << i;
    EXPECT_NEAR(found[i].interval.high, expected.interval.high, 1e-9) << i;
    EXPECT_EQ(found[i].support, expected.support) << i;
  }
}

TEST(LeaveOneOut, OfOneRunIsNotCalibratedWithoutOtherScopes) {
  const std::vector<CalibrationRun> alone = {run_of(2.0, "a")};
  EXPECT_FALSE(leave_one_out(kModel, {}, alone).front().is_calibrated());
  EXPECT_TRUE(leave_one_out(kModel, {}, {}).empty());
}

TEST(SupportText, SaysHowNearTheRunsAre) {
  EXPECT_EQ(to_text(Support{.num_runs = 1, .stack_runs = 6, .program_runs = 21, .all_runs = 31}),
            "1 run of this cluster and stack, 21 of its kind of program");
  EXPECT_EQ(to_text(Support{.stack_runs = 5, .program_runs = 20, .all_runs = 30}),
            "5 runs of this stack elsewhere, 20 of its kind of program");
  EXPECT_EQ(to_text(Support{.program_runs = 20, .all_runs = 30}),
            "no run of this stack, 20 runs of its kind of program");
  EXPECT_EQ(to_text(Support{.all_runs = 30}), "no run of this kind of program, 30 runs of others");
}

// By hand: absolute values 0.1, 0.2, 0.4, 0; in order 0, 0.1, 0.2, 0.4.
TEST(Summarize, MatchesTheHandComputedFigures) {
  const ErrorSummary summary = summarized(std::vector<double>{0.1, -0.2, 0.4, 0.0});
  EXPECT_EQ(summary.count, 4);
  EXPECT_NEAR(summary.mean_absolute, 0.175, 1e-12);
  EXPECT_NEAR(summary.median_absolute, 0.15, 1e-12);
  EXPECT_NEAR(summary.p90_absolute, 0.34, 1e-12);  // 0.7 of the way from 0.2 to 0.4
  EXPECT_NEAR(summary.max_absolute, 0.4, 1e-12);
  EXPECT_NEAR(summary.bias, 0.075, 1e-12);
}

TEST(Summarize, FindsTheWorstOnEitherSide) {
  EXPECT_NEAR(summarized(std::vector<double>{0.1, -0.7, 0.4}).max_absolute, 0.7, 1e-12);
}

TEST(Summarize, OfNothingIsZero) {
  const ErrorSummary summary = summarized(std::span<const double>());
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.mean_absolute, 0.0);
  EXPECT_EQ(summary.max_absolute, 0.0);
}

}  // namespace
}  // namespace ptdp
