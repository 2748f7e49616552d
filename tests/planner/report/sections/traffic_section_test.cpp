// Tests of the bytes that a plan sends, and of the links they cross.
#include "planner/report/sections/traffic_section.h"

#include <gmock/gmock.h>

#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

// Tensor ranks of Selene fill a node of 8; each of 8 stages is a node of its own.
TEST(TrafficSection, SaysWhatEachGroupSendsAndWhereItLies) {
  const Plan plan = plan_of_39b();
  const std::optional<ReportSection> section = traffic_section(plan);
  ASSERT_TRUE(section);
  const auto& view = std::get<BarsView>(section->view);
  ASSERT_EQ(view.bars.size(), 2U);
  EXPECT_EQ(view.bars[0].name, "tensor parallel, within a node");
  EXPECT_NEAR(view.bars[0].value, plan.predicted.traffic.tensor_parallel.value(), 1.0);
  EXPECT_THAT(view.bars[0].note, HasSubstr("8 GPUs within a node"));
  EXPECT_EQ(view.bars[1].name, "pipeline, between nodes");
  EXPECT_NEAR(view.bars[1].value, plan.predicted.traffic.pipeline.value(), 1.0);
  EXPECT_THAT(view.bars[1].note, HasSubstr("8 GPUs over 8 nodes"));
}

TEST(TrafficSection, IsLeftOutForOneGpu) {
  EXPECT_FALSE(traffic_section(
      plan_of(shipped_scenario("gpt2-124m", "hgx-h200", "ptdp-cuda", 8), {.micro_batch_size = 8})));
}

}  // namespace
}  // namespace ptdp
