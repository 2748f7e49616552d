// Tests of predictions from a profile with measured operations.
#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/attention.h"
#include "cost_model/operations/gemm.h"

namespace ptdp {
namespace {

MeasuredOperation::Point point(double a, double b, double c, double us) {
  return {.sizes = {a, b, c}, .time = microseconds(us)};
}

MeasuredOperation table(DeviceOperation operation, std::vector<MeasuredOperation::Point> points) {
  return {operation, Precision::kFp32, std::move(points), "table"};
}

/// Returns gpt-tiny on a host whose layer norm is measured, so that operations are timed one by
/// one.
Scenario host_with_layer_norms() {
  const ModelProfile model = find_model("gpt-tiny");
  Scenario scenario{.job = {.model_name = "gpt-tiny",
                            .model = model.config,
                            .global_batch_size = model.global_batch_size},
                    .cluster = find_cluster("host"),
                    .stack = find_stack("ptdp-cpu")};
  scenario.cluster.gpu.measured_operations = {
      table(DeviceOperation::kLayerNorm, {point(128, 128, 1, 7), point(256, 128, 1, 11)})};
  return scenario;
}

TEST(MeasuredProducts, TakeTheTimeThatWasMeasured) {
  GpuSpec gpu = find_gpu("cpu-zen5-core");
  const MatmulShape shape = {.m = 128, .n = 64, .k = 32, .element_bytes = 4, .output_bytes = 4};
  const Seconds modelled = matmul_time(shape, gpu, gpu.peak_fp32);
  gpu.measured_operations = {
      table(DeviceOperation::kForwardProduct, {point(128, 64, 32, 77), point(128, 64, 64, 140)})};
  const auto time = [&](DeviceOperation operation, Precision precision) {
    return product_time(operation, shape, gpu, precision).value();
  };
  EXPECT_NEAR(time(DeviceOperation::kForwardProduct, Precision::kFp32), 77e-6, 1e-15);
  EXPECT_EQ(time(DeviceOperation::kInputGradientProduct, Precision::kFp32), modelled.value());
  EXPECT_EQ(time(DeviceOperation::kForwardProduct, Precision::kFp64),
            matmul_time(shape, gpu, gpu.peak_fp64).value());
}

TEST(MeasuredAttention, TakesTheTimeThatWasMeasuredWithDropoutOrWithout) {
  Scenario scenario = host_with_layer_norms();
  TransformerConfig& model = scenario.job.model;  // 4 heads of 32, 128 tokens
  GpuSpec& gpu = scenario.cluster.gpu;
  const auto time = [&] { return attention_time(model, 2, 1, gpu, scenario.stack); };
  const AttentionTime modelled = time();
  gpu.measured_operations.push_back(
      table(DeviceOperation::kDropoutAttention, {point(8, 128, 32, 90), point(8, 256, 32, 300)}));
  EXPECT_EQ(time().forward, modelled.forward);  // nobody asked for dropout of probabilities
  model.dropout_rates.attention = 0.1;
  EXPECT_NEAR(time().forward.value(), 90e-6, 1e-15);
  EXPECT_EQ(time().backward, modelled.backward);
  model.position_embedding = PositionEmbedding::kNone;  // trained without dropout
  EXPECT_EQ(time().forward, modelled.forward);
}

TEST(Attention, HasTheRateOfTheKernelWithDropoutWhereTheGpuHasOne) {
  Scenario scenario = host_with_layer_norms();
  scenario.cluster = find_cluster("hgx-h200");
  scenario.stack = find_stack("ptdp-cuda");
  TransformerConfig& model = scenario.job.model;
  GpuSpec& gpu = scenario.cluster.gpu;
  for (AttentionRate& rate : gpu.attention_rates) {
    rate = {.kernel = rate.kernel, .forward = 0.5, .backward = 0.25};
    if (rate.kernel == "ptdp-cuda-dropout") {
      rate = {.kernel = rate.kernel, .forward = 0.125, .backward = 0.03125};
    }
  }
  const auto time = [&] { return attention_time(model, 2, 1, gpu, scenario.stack); };
  const AttentionTime without = time();
  model.dropout_rates.attention = 0.1;
  EXPECT_DOUBLE_EQ(time().forward / without.forward, 4.0);
  EXPECT_DOUBLE_EQ(time().backward / without.backward, 8.0);
  std::erase_if(gpu.attention_rates,
                [](const AttentionRate& rate) { return rate.kernel == "ptdp-cuda-dropout"; });
  EXPECT_EQ(time().forward, without.forward);
}

// A core works on one head after another: eight heads take twice what four take on as many tokens.
// Multiprocessors share heads, so that their number matters.
TEST(MeasuredAttention, IsProportionalToTheHeadsOfOneCore) {
  Scenario scenario = host_with_layer_norms();
  TransformerConfig& model = scenario.job.model;  // 4 heads of 32, 128 tokens
  model.position_embedding = PositionEmbedding::kNone;
  GpuSpec& gpu = scenario.cluster.gpu;
  gpu.measured_operations = {
      table(DeviceOperation::kAttention, {point(4, 128, 32, 50), point(16, 64, 32, 90)})};
  const auto time = [&] {
    return attention_time(model, 2, 1, gpu, scenario.stack).forward.value();
  };
  EXPECT_NEAR(time(), 100e-6, 1e-15);
  gpu.num_multiprocessors = 2;
  // In log2 the squared distances are 1 and 2: weights 1 and 1/4. Sixteen heads on half as many
  // tokens have as much work as four heads, so that the ratios are 50 to 90.
  EXPECT_NEAR(time(), 100e-6 * std::pow(1.8, 0.2), 1e-12);
}

// 128 tokens, h = 128, by hand: of all operations only the norm is measured, 7 us. The other norm
// is of a sum.
TEST(MeasuredElementWise, AddsUpTheOperationsOfALayer) {
  const Scenario scenario = host_with_layer_norms();
  const GpuSpec& gpu = scenario.cluster.gpu;
  ASSERT_TRUE(has_measured_operations(scenario));
  const double rate = gpu.memory_bandwidth.value() * gpu.memory_efficiency;
  const auto modelled = [&](double passes, double width) {
    return passes * 128.0 * width * 4.0 / rate + gpu.kernel_latency.value();
  };
  const ElementWiseTime time = layer_element_wise_time(scenario, {.micro_batch_size = 1});
  EXPECT_NEAR(time.forward.value(),
              7e-6 + modelled(4, 128) + modelled(3, 128) + modelled(3, 512) + modelled(2, 384),
              1e-12);
  EXPECT_NEAR(time.weight_gradient.value(),
              modelled(1, 384) + modelled(1, 512) + 2 * modelled(1, 128), 1e-12);
  EXPECT_NEAR((time.backward - time.weight_gradient).value(),
              modelled(3, 512) + 2 * modelled(4, 128) + 2 * modelled(2, 128), 1e-12);
}

TEST(MeasuredElementWise, IsForThisRuntimeAloneAndContainsLaunches) {
  Scenario scenario = host_with_layer_norms();
  EXPECT_EQ(
      iteration_cost({scenario, {}}).launch,
      static_cast<double>(scenario.job.global_batch_size) * scenario.stack.microbatch_overhead);
  scenario.stack.memory_model = MemoryModel::kMegatron;
  EXPECT_FALSE(has_measured_operations(scenario));
}

// A pass that the host cannot launch faster takes what launching its kernels takes.
TEST(MeasuredElementWise, IsNoFasterThanTheHostLaunchesIt) {
  Scenario scenario = host_with_layer_norms();
  scenario.stack.host_time_per_kernel = Seconds(1.0);
  const LayerCosts costs = layer_costs(scenario, {});
  EXPECT_NEAR(costs.forward.total().value(), 10.0, 1e-9);
  EXPECT_NEAR(costs.backward.total().value(), 28.0, 1e-9);
  // Products add biases, but apply no GELU in 32 bits. Where they also sum bias gradients, each of
  // four sums is added by one kernel, not made by two.
  scenario.stack.fused_epilogues = true;
  EXPECT_NEAR(layer_costs(scenario, {}).backward.total().value(), 28.0, 1e-9);
  scenario.stack.fused_bias_gradients = true;
  const LayerCosts fused = layer_costs(scenario, {});
  EXPECT_NEAR(fused.forward.total().value(), 9.0, 1e-9);
  EXPECT_NEAR(fused.backward.total().value(), 24.0, 1e-9);
}

TEST(MeasuredCollectives, FollowTheirOwnCurvesAndTheFactorOfAFit) {
  ClusterSpec cluster = find_cluster("host");
  const GroupPlacement two = {.size = 2, .ranks_per_node = 2};
  const Bytes size(1024.0);
  const Seconds half = all_gather_time(size, two, cluster);
  cluster.all_gather_curves = {{.ranks = 2,
                                .curve = {{{.size = Bytes(1024.0), .time = microseconds(50)},
                                           {.size = Bytes(2048.0), .time = microseconds(60)}},
                                          "curve"}}};
  EXPECT_EQ(all_gather_time(size, two, cluster), microseconds(50));
  EXPECT_EQ(reduce_scatter_time(size, two, cluster), half);
  cluster.time_factors.communication = 2.0;
  EXPECT_EQ(all_gather_time(size, two, cluster), microseconds(100));
  EXPECT_EQ(reduce_scatter_time(size, two, cluster), 2.0 * half);
}

// Work of two ranks on one core, by hand: what dp = 2 takes on two cores, and its compute again.
TEST(CoreSharingOfAnIteration, IsTheComputeOfTheOtherRankWhereTwoShareACore) {
  Scenario scenario = host_with_layer_norms();
  const ParallelConfig config = {.dp = 2};
  const CostBreakdown apart = iteration_cost({scenario, config});
  EXPECT_EQ(apart.core_contention, Seconds(0.0));
  scenario.cluster.cores_per_node = 1;
  const CostBreakdown shared = iteration_cost({scenario, config});
  const double compute = (apart.total() - apart.data_parallel - apart.tensor_parallel).value();
  EXPECT_NEAR(shared.core_contention.value(), compute, 1e-9 * compute);
}

}  // namespace
}  // namespace ptdp
