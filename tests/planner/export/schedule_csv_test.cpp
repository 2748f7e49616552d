// Tests of orders written for torch.distributed.pipelining, against orders written by hand.
#include <gmock/gmock.h>

#include "planner/export/exporter.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using ::testing::IsEmpty;

/// Returns a plan of two stages and as many microbatches of one sequence.
Plan two_stages(ScheduleKind schedule, int microbatches, int vpp = 1) {
  const Scenario scenario =
      shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", microbatches);
  const ParallelConfig config = {.pp = 2, .vpp = vpp, .schedule = schedule};
  return make_plan({scenario, config}, 2, 0.0, {});
}

std::string orders(ScheduleKind schedule, int microbatches, int vpp = 1) {
  const Plan plan = two_stages(schedule, microbatches, vpp);
  EXPECT_THAT(schedule_csv_refusals(plan), IsEmpty());
  return schedule_csv_export(plan).files.front().content;
}

TEST(ScheduleCsv, OrdersAreAsWrittenByHand) {
  EXPECT_EQ(orders(ScheduleKind::kOneFOneB, 3),
            "0F0,0F1,0B0,0F2,0B1,0B2\n"
            "1F0,1B0,1F1,1B1,1F2,1B2\n");
  EXPECT_EQ(orders(ScheduleKind::kGPipe, 2),
            "0F0,0F1,0B0,0B1\n"
            "1F0,1F1,1B0,1B1\n");
  EXPECT_EQ(orders(ScheduleKind::kLoopedBfs, 2, 2),
            "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n"
            "1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n");
}

TEST(ScheduleCsv, RefusesSchedulesThatTorchCannotRun) {
  for (const ScheduleKind schedule :
       {ScheduleKind::kDualPipe, ScheduleKind::kPipeDream, ScheduleKind::kPipeDream2Bw}) {
    const std::vector<ExportRefusal> refusals = schedule_csv_refusals(two_stages(schedule, 4));
    ASSERT_EQ(refusals.size(), 1);
    EXPECT_EQ(refusals.front().field, "schedule");
    EXPECT_EQ(refusals.front().found, traits_of(schedule).name);
  }
}

}  // namespace
}  // namespace ptdp
