// Tests of a layer's operations: by hand, and against what the cost model says of the whole layer.
#include "planner/report/sections/layer_work.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/layer/transformer_layer.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

// By hand: 4·256 tokens of 64 features to queries, keys and values of 64 each. 2mnk FLOPs at 1e12
// FLOP/s; the bytes are those of input, weights and result, of 2 each.
TEST(LayerWork, OfOneProductIsThatByHand) {
  const std::vector<LayerWork> all =
      layer_work(plan_of(plain_scenario(small_dense_model()), {.micro_batch_size = 4}), {});
  ASSERT_EQ(all.front().name, "QKV");
  EXPECT_EQ(all.front().pass, "forward");
  EXPECT_EQ(all.front().sizes, "1024 x 192 x 64");
  EXPECT_EQ(all.front().flops.value(), 2.0 * 1024 * 192 * 64);
  EXPECT_EQ(all.front().bytes.value(), 2.0 * (1024 * 64 + 192 * 64 + 1024 * 192));
  EXPECT_NEAR(all.front().time.value(), 2.0 * 1024 * 192 * 64 / kPlainFlops, 1e-15);
}

// The parts of each pass add up to the layer's compute, whatever the layer has: experts, latent
// attention, casts to 8 bits, shared sequences, operations one by one.
TEST(LayerWork, AddsUpToTheLayersCompute) {
  std::vector<Plan> plans = various_plans();
  Scenario in_8_bits = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  in_8_bits.stack.fp8 = Fp8Scaling::kDelayed;
  plans.push_back(plan_of(in_8_bits, {.tp = 2, .micro_batch_size = 1}));
  for (const Plan& plan : plans) {
    const LayerKind kind = usual_layer_kind(plan.scenario.job.model);
    Seconds forward;
    Seconds backward;
    for (const LayerWork& work : layer_work(plan, kind)) {
      (work.pass == "forward" ? forward : backward) += work.time;
    }
    const LayerCosts costs = layer_costs(plan.scenario, plan.config, kind);
    EXPECT_NEAR(forward / costs.forward.compute(), 1.0, 1e-9) << to_string(plan.config);
    EXPECT_NEAR(backward / costs.backward.compute(), 1.0, 1e-9) << to_string(plan.config);
  }
}

TEST(LayerRoofline, HasNoPointAboveItsRoof) {
  for (const Plan& plan : various_plans()) {
    const ReportSection section = layer_roofline(plan);
    const ScatterView& view = std::get<ScatterView>(section.view);
    const GpuSpec& gpu = plan.scenario.cluster.gpu;
    const double peak = gpu.peak(plan.scenario.stack.precision).value();
    std::size_t points = 0;
    for (const ScatterGroup& group : view.groups) {
      for (const ScatterPoint& point : group.points) {
        EXPECT_LE(point.y, std::min(peak, point.x * gpu.memory_bandwidth.value()) * 1.0001)
            << point.name;
        ++points;
      }
    }
    EXPECT_GE(points, 14U);  // four products of three passes, attention of two
  }
}

// By hand: an H100 has 989.4 TFLOP/s in bf16 and 3.35 TB/s, which meet at 295 FLOPs per byte.
TEST(LayerRoofline, HasARoofOfPeakAndBandwidth) {
  const Plan plan = plan_of(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64),
                            {.micro_batch_size = 1});
  const ReportSection section = layer_roofline(plan);
  const Curve& roof = std::get<ScatterView>(section.view).curves.front();
  ASSERT_EQ(roof.x.size(), 3U);
  EXPECT_NEAR(roof.x[1], 989.4 / 3.35, 1.0);
  EXPECT_NEAR(roof.y[1], 989.4e12, 0.1e12);
  EXPECT_NEAR(roof.y[0] / roof.x[0], 3.35e12, 0.01e12);
  EXPECT_EQ(roof.y[2], roof.y[1]);
}

}  // namespace
}  // namespace ptdp
