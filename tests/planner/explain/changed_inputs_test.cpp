// Tests of jobs with a changed input.
#include "planner/explain/changed_inputs.h"

#include <gtest/gtest.h>

#include "cost_model/memory/memory.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

Scenario job_on_selene() {
  return shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2021", 48);
}

ChangedJob changed(const Scenario& scenario, const ParallelConfig& config, InputChange change,
                   std::int64_t gpus = 16) {
  return changed_job(scenario, gpus, config, change).value();
}

TEST(ChangedInput, LeavesWhatTheStackReservesOfOtherMemory) {
  Scenario scenario = job_on_selene();
  scenario.stack.reserve_fraction = 0.1;  // 8 of 80 GiB
  for (const double change : {-0.2, 0.2}) {
    const Scenario other = changed(scenario, {}, {ChangedInput::kMemory, change}).scenario;
    EXPECT_DOUBLE_EQ(other.cluster.gpu.memory.value() / kGibi, 80.0 * (1.0 + change));
    EXPECT_NEAR(reserved_memory(other.cluster.gpu, other.stack).value() / kGibi, 8.0, 1e-9);
  }
}

// A batch keeps dp·b = 6 where a multiple is near, and pp·dp·b = 24 for the interleaved schedule.
TEST(ChangedInput, RoundsABatchToWhatThePlanDivides) {
  Scenario scenario = job_on_selene();
  scenario.job.global_batch_size = 1200;
  const ParallelConfig plain{.pp = 4, .dp = 3, .micro_batch_size = 2};
  const auto batch_of = [&](const ParallelConfig& config, double change) {
    return changed(scenario, config, {ChangedInput::kBatch, change}).value;
  };
  EXPECT_EQ(batch_of(plain, 0.1), 1320);
  EXPECT_EQ(batch_of(plain, 0.05), 1260);
  ParallelConfig interleaved = plain;
  interleaved.vpp = 2;
  interleaved.schedule = ScheduleKind::kInterleaved;
  EXPECT_EQ(batch_of(interleaved, 0.05), 1272);  // 52.5 groups of 24, rounded up
  scenario.job.global_batch_size = 7;
  EXPECT_EQ(batch_of({.dp = 7}, -0.2), 6);
  EXPECT_FALSE(changed_job(scenario, 7, {.dp = 7}, {ChangedInput::kBatch, 0.05}));
}

TEST(ChangedInput, TakesWholeNodesAndNoNetworkWithinOne) {
  const Scenario scenario = job_on_selene();                                    // nodes of eight
  EXPECT_EQ(changed(scenario, {}, {ChangedInput::kGpus, 0.2}, 64).value, 80);   // 76.8
  EXPECT_EQ(changed(scenario, {}, {ChangedInput::kGpus, -0.1}, 64).value, 56);  // 57.6
  EXPECT_FALSE(changed_job(scenario, 64, {}, {ChangedInput::kGpus, 0.05}));
  EXPECT_EQ(changed(scenario, {}, {ChangedInput::kGpus, -0.2}, 8).value, 6);  // 6.4 of one node
  EXPECT_FALSE(changed_job(scenario, 8, {}, {ChangedInput::kNetwork, 0.2}));
  EXPECT_FALSE(changed_job(scenario, 1, {}, {ChangedInput::kNodeLinks, 0.2}));
}

// A curve of 10 us, and 90 us more for 16 MB: a quarter faster, these are 72 us.
TEST(ChangedInput, ScalesTheTransferOfMeasuredCurves) {
  Scenario scenario = job_on_selene();
  const MeasuredCurve curve({{Bytes(2e6), microseconds(10.0)}, {Bytes(16e6), microseconds(100.0)}},
                            "curve");
  scenario.cluster.all_reduce_curves = {{.ranks = 8, .nodes = 1, .curve = curve},
                                        {.ranks = 16, .nodes = 2, .curve = curve}};
  const Scenario faster = changed(scenario, {}, {ChangedInput::kNodeLinks, 0.25}).scenario;
  const auto last = [](const AllReduceCurve& measured) {
    return measured.curve.points().back().time.value() / kMicro;
  };
  EXPECT_DOUBLE_EQ(last(faster.cluster.all_reduce_curves[0]), 82.0);
  EXPECT_DOUBLE_EQ(last(faster.cluster.all_reduce_curves[1]), 100.0);
  const Scenario network = changed(scenario, {}, {ChangedInput::kNetwork, 0.25}).scenario;
  EXPECT_DOUBLE_EQ(last(network.cluster.all_reduce_curves[0]), 100.0);
  EXPECT_DOUBLE_EQ(last(network.cluster.all_reduce_curves[1]), 82.0);
}

TEST(ChangedInput, ScalesMeasuredProductsWithThePeak) {
  const Scenario scenario =
      shipped_scenario("gpt2-1.5b", "dgx-h100-measured", "megatron-core-2025", 48);
  const Scenario faster = changed(scenario, {}, {ChangedInput::kPeak, 0.2}).scenario;
  ASSERT_FALSE(scenario.cluster.gpu.measured_operations.empty());
  for (std::size_t i = 0; i < scenario.cluster.gpu.measured_operations.size(); ++i) {
    const MeasuredOperation& before = scenario.cluster.gpu.measured_operations[i];
    const MeasuredOperation& after = faster.cluster.gpu.measured_operations[i];
    const bool is_product = before.operation() == DeviceOperation::kForwardProduct ||
                            before.operation() == DeviceOperation::kAttention;
    const bool is_copy = before.operation() == DeviceOperation::kCopy ||
                         before.operation() == DeviceOperation::kLayerNorm;
    const double ratio = before.points().front().time / after.points().front().time;
    if (is_product || is_copy) {
      EXPECT_NEAR(ratio, is_product ? 1.2 : 1.0, 1e-12);
    }
  }
}

}  // namespace
}  // namespace ptdp
