// Tests of the report of a validation made up by hand.
#include "planner/report/answers/validation_page.h"

#include <gmock/gmock.h>

#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns a row whose calibrated prediction is `factor` times the uncalibrated one.
ValidatedRun row_of(const std::string& id, const std::string& group, double factor) {
  ValidatedRun row{.costed = run_of("megatron-lm-2021", group, 1.0),
                   .calibration = {.factor = factor, .interval = {0.8, 1.2}}};
  row.costed.run.id = id;
  return row;
}

TEST(ValidationPage, HasEveryRowInItsGroup) {
  ValidationReport validation;
  validation.rows = {row_of("r1", "b", 1.0), row_of("r2", "a", 1.5), row_of("r3", "b", 0.5)};
  validation.total = {.group = "all",
                      .errors = {.count = 3, .mean_absolute = 0.25, .median_absolute = 0.125},
                      .inside_interval = 0.5};
  validation.groups = {
      {.group = "a",
       .errors = {.count = 1, .mean_absolute = 0.5, .max_absolute = 0.5, .bias = 0.5},
       .inside_interval = 0.0,
       .median_half_width = 0.2}};
  validation.skipped = {{.id = "x", .group = "a", .reason = "no profile"}};
  const Report report = validation_page(validation);
  EXPECT_EQ(report.title, "3 measured runs beside their predictions");
  EXPECT_EQ(
      report.sentence,
      "Predicted times are off by 25.0 % on average, half of them by less than 12.5 %; 50.0 % "
      "of the runs lie inside their 90 % interval.");
  EXPECT_THAT(report.rests_on,
              ElementsAre("Calibration: none.", "1 row could not be costed and is left out."));
  const ScatterView& times = std::get<ScatterView>(report.sections[0].view);
  ASSERT_EQ(times.groups.size(), 2U);
  EXPECT_EQ(times.groups[0].name, "a");
  ASSERT_EQ(times.groups[1].points.size(), 2U);
  for (const ScatterGroup& group : times.groups) {
    for (const ScatterPoint& point : group.points) {
      const double factor = point.name == "r1" ? 1.0 : point.name == "r2" ? 1.5 : 0.5;
      EXPECT_NEAR(point.y / point.x, factor, 1e-12) << point.name;
    }
  }
  const Curve& diagonal = times.curves.front();
  EXPECT_NEAR(diagonal.low[0] / diagonal.x[0], 1.0 / 1.2, 1e-12);
  EXPECT_NEAR(diagonal.high[0] / diagonal.x[0], 1.0 / 0.8, 1e-12);
  EXPECT_THAT(std::get<TableView>(report.sections[1].view).rows.front(),
              ElementsAre("a", "1", "50.0 %", "50.0 %", "+50.0 %", "0.0 %", "20.0 %"));
}

}  // namespace
}  // namespace ptdp
