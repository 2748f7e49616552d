// Tests of the report of two plans beside each other.
#include "planner/report/answers/comparison_page.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "planner/answer/planning.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

TEST(ComparisonReport, HasTheTermsAndStagesOfBothPlans) {
  const PlanningResult result = plan_training(selene_2021("18B"), {.gpus = 64});
  const PlanComparison comparison =
      compare_plans({NamedPlan{"a.json", result.plans[0]}, {"b.json", result.plans[1]}},
                    CalibrationSource::shipped());
  const Report report = comparison_report(comparison);
  std::vector<std::string> ids;
  for (const ReportSection& section : report.sections) {
    ids.push_back(section.id);
  }
  EXPECT_EQ(ids,
            (std::vector<std::string>{"figures", "keys", "terms", "stage-times", "stage-memory"}));
  const auto& terms = std::get<StackedView>(report.sections[2].view);
  for (std::size_t which = 0; which < 2; ++which) {
    const std::vector<double>& values = terms.columns[which].values;
    EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0),
                result.plans[which].predicted.iteration_time.value.value(), 1e-6);
    const auto& memory = std::get<CurvesView>(report.sections[4].view);
    EXPECT_EQ(memory.curves[which].y.size(), result.plans[which].memory.stages.size());
  }
  EXPECT_EQ(std::get<CurvesView>(report.sections[4].view).limits.size(), 1U);
}

}  // namespace
}  // namespace ptdp
