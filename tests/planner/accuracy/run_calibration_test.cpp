// Tests of which rows calibrate a row.
#include "planner/accuracy/run_calibration.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/planner/costed_runs.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns runs on two stacks. The first has groups a (1.1 four times) and b (1.5 three times, 1.3
/// once).
std::vector<CostedRun> runs() {
  std::vector<CostedRun> all;
  all.reserve(9);
  for (int i = 0; i < 4; ++i) {
    all.push_back(run_of("one", "a", 1.1));
  }
  for (int i = 0; i < 3; ++i) {
    all.push_back(run_of("one", "b", 1.5));
  }
  all.push_back(run_of("one", "b", 1.3));
  all.push_back(run_of("two", "a", 2.0));
  return all;
}

double factor_of_first(CalibrationKind kind) {
  return calibrations_of(runs(), kind).front().factor;
}

TEST(CalibrationsOf, LeaveTheClosedFormAsItIs) {
  for (const Calibration& calibration : calibrations_of(runs(), CalibrationKind::kNone)) {
    EXPECT_FALSE(calibration.is_calibrated());
  }
}

// The middle two of all eight are 1.1 and 1.3; the factor is their geometric mean.
TEST(CalibrationsOf, ScaleByAllRowsOfTheStack) {
  EXPECT_NEAR(factor_of_first(CalibrationKind::kScale), std::sqrt(1.1 * 1.3), 1e-12);
}

// If one row of 1.1 is left out, the middle of the other seven is 1.3.
TEST(CalibrationsOf, LeaveOutTheRowItself) {
  EXPECT_NEAR(factor_of_first(CalibrationKind::kLeaveOneOut), 1.3, 1e-12);
}

TEST(CalibrationsOf, LeaveOutTheGroupOfTheRow) {
  EXPECT_NEAR(factor_of_first(CalibrationKind::kLeaveOneGroupOut), 1.5, 1e-12);
}

TEST(CalibrationsOf, KeepStacksApart) {
  for (const CalibrationKind kind : {CalibrationKind::kScale, CalibrationKind::kLeaveOneOut,
                                     CalibrationKind::kLeaveOneGroupOut}) {
    EXPECT_FALSE(calibrations_of(runs(), kind).back().is_calibrated());
  }
}

// Four rows with experts of the same cluster and stack that take twice as long.
TEST(CalibrationsOf, KeepKindsOfModelsApart) {
  std::vector<CostedRun> all = runs();
  for (int i = 0; i < 4; ++i) {
    all.push_back(run_of("one", "c", 2.0));
    all.back().run.model.num_experts = 8;
  }
  for (const CalibrationKind kind : {CalibrationKind::kScale, CalibrationKind::kLeaveOneOut,
                                     CalibrationKind::kLeaveOneGroupOut}) {
    const std::vector<Calibration> calibrations = calibrations_of(all, kind);
    EXPECT_EQ(calibrations.front().factor, factor_of_first(kind));
    EXPECT_NEAR(calibrations.back().factor, kind == CalibrationKind::kLeaveOneGroupOut ? 1.0 : 2.0,
                1e-12);
  }
}

// What the planner would multiply SC21's trillion with: the published runs of other jobs.
TEST(CalibrationsOf, AreThoseOfThePlannerWhereShipped) {
  const MeasuredRuns published = read_published_runs();
  const std::vector<CostedRun> costed = cost_runs(published).costed;
  const std::vector<Calibration> calibrations = calibrations_of(costed, CalibrationKind::kShipped);
  for (std::size_t i = 0; i < costed.size(); ++i) {
    if (costed[i].run.id == "sc21-t1-1T") {
      const CalibrationFit fit = calibrate_by_published(published, selene_2021("1T"), 3072);
      EXPECT_EQ(calibrations[i].factor, fit.factor);
      EXPECT_EQ(calibrations[i].support.num_runs, fit.num_runs());
      return;
    }
  }
  FAIL() << "no run of the trillion";
}

}  // namespace
}  // namespace ptdp
