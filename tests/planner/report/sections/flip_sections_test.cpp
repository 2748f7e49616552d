// Tests of the sections that explain a plan.
#include "planner/report/sections/flip_sections.h"

#include <gtest/gtest.h>

#include "planner/answer/plan_explanation.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

TEST(FlipsSection, HasCalibratedTimesOfEachChange) {
  PlanningResult result = plan_training(selene_2021("1T"), {.gpus = 3072});
  result.explanation = explain_plan(result);
  const ReportSection section = flips_section(result);
  const auto& view = std::get<FlipsView>(section.view);
  ASSERT_EQ(view.inputs.size(), result.explanation->flips.inputs.size());
  for (std::size_t i = 0; i < view.inputs.size(); ++i) {
    const std::vector<FlipPoint>& points = result.explanation->flips.inputs[i].points;
    ASSERT_EQ(view.inputs[i].steps.size(), points.size());
    for (std::size_t j = 0; j < points.size(); ++j) {
      const FlipStep& step = view.inputs[i].steps[j];
      EXPECT_EQ(step.change, points[j].change);
      EXPECT_EQ(step.winner, to_string(points[j].best->config));
      EXPECT_DOUBLE_EQ(*step.time_s, points[j].best->time.value() * result.calibration.factor);
      EXPECT_EQ(step.is_same, step.winner == to_string(result.plans.front().config));
    }
  }
  EXPECT_EQ(std::get<TextView>(explanation_section(result).view).paragraphs,
            explanation_sentences(result));
}

}  // namespace
}  // namespace ptdp
