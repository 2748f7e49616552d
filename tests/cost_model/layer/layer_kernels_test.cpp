// Tests of a layer's kernels and linear layers, and of the sums of its terms.
#include "cost_model/layer/layer_kernels.h"

#include <gtest/gtest.h>

#include "cost_model/layer/transformer_layer.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr LayerKind kExperts = {.has_experts = true};

// Eight experts on a rank, two on each of four streams: two products forward, four backward.
TEST(LayerKernels, AreOneForEachProductOfEachExpert) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const LayerKernels all = layer_kernels(scenario, {}, kExperts, {});
  EXPECT_EQ(all.forward.by_host, 30.0 + 28.0 + 2 * 8);
  EXPECT_EQ(all.forward.on_device, 30.0 + 28.0 + 2 * 2);
  EXPECT_EQ(all.backward.by_host, 60.0 + 46.0 + 4 * 8);
  EXPECT_EQ(all.backward.on_device, 60.0 + 46.0 + 4 * 2);
  EXPECT_EQ(layer_kernels(scenario, {}, {}, {}).forward.by_host, 30.0);

  // On eight ranks with one expert each a layer has 30 and 50 kernels more than without experts.
  const LayerKernels one = layer_kernels(scenario, {.dp = 8, .ep = 8}, kExperts, {});
  EXPECT_EQ(one.forward.by_host, 60.0);
  EXPECT_EQ(one.backward.on_device, 110.0);
}

TEST(LayerKernels, AreThoseOfOneExpertWhereProductsAreFused) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.fused_expert_activation = true;
  scenario.stack.fp8 = Fp8Scaling::kMx;
  EXPECT_EQ(layer_kernels(scenario, {}, kExperts, {}).forward.by_host, 60.0);
}

// QKV, projection and two of the MLP, twice as many backward; latent attention has five products in
// place of two, experts a router and two groups in place of an MLP, unfused attention 2 and 4 more.
TEST(LayerKernels, HaveTheStartsOfProductsThatContainTheirs) {
  const auto starts = [](Scenario scenario, LayerKind kind, double start_us) {
    scenario.cluster.gpu.matmul_start = microseconds(start_us);
    const LayerKernels kernels = layer_kernels(scenario, {}, kind, {});
    return std::pair(kernels.forward.with_start, kernels.backward.with_start);
  };
  Scenario scenario = plain_scenario(small_expert_model());
  EXPECT_EQ(starts(scenario, {}, 0.0), std::pair(0.0, 0.0));
  EXPECT_EQ(starts(scenario, {}, 2.0), std::pair(4.0, 8.0));
  EXPECT_EQ(starts(scenario, kExperts, 2.0), std::pair(5.0, 10.0));
  EXPECT_EQ(starts(plain_scenario(small_latent_model()), kExperts, 2.0), std::pair(10.0, 20.0));
  scenario.stack.attention = "unfused";
  EXPECT_EQ(starts(scenario, {}, 2.0), std::pair(6.0, 12.0));
}

TEST(LayerKernels, OfGraphsAreNotLaunchedByTheHost) {
  Scenario scenario = plain_scenario(small_expert_model());
  const LayerCasts casts{.forward_kernels = 3.0, .backward_kernels = 5.0};
  const auto by_host = [&](CudaGraphs graphs, LayerKind kind) {
    scenario.stack.cuda_graphs = graphs;
    const LayerKernels kernels = layer_kernels(scenario, {}, kind, casts);
    EXPECT_EQ(kernels.forward.on_device, kind.has_experts ? 30.0 + 28.0 + 4.0 + 3.0 : 33.0);
    return std::pair(kernels.forward.by_host, kernels.backward.by_host);
  };
  EXPECT_EQ(by_host(CudaGraphs::kNone, kExperts), std::pair(77.0, 143.0));
  EXPECT_EQ(by_host(CudaGraphs::kRouter, kExperts), std::pair(77.0 - 16.0, 143.0 - 12.0));
  EXPECT_EQ(by_host(CudaGraphs::kAttentionAndRouter, kExperts),
            std::pair(77.0 - 16.0 - 30.0, 143.0 - 12.0 - 60.0));
  EXPECT_EQ(by_host(CudaGraphs::kRouter, {}), std::pair(33.0, 65.0));
  EXPECT_EQ(by_host(CudaGraphs::kStep, kExperts), std::pair(0.0, 0.0));
  EXPECT_EQ(by_host(CudaGraphs::kStep, {}), std::pair(0.0, 0.0));
}

TEST(DenseMlpWidth, IsThatOfTheSharedExpertsWhereThereAreExperts) {
  const TransformerConfig latent = small_latent_model();
  EXPECT_EQ(dense_mlp_width(latent, {}), 192);
  EXPECT_EQ(dense_mlp_width(latent, kExperts), 128);
  EXPECT_EQ(dense_mlp_width(small_expert_model(), kExperts), 0);
}

// By hand: h; of latent attention the ranks of queries, 48, and of keys and values, 32, and the
// rotary part, 8; the hidden states where queries are not compressed.
TEST(AttentionInputWidth, IsThatOfWhatIsCompressed) {
  EXPECT_EQ(attention_input_width(small_expert_model()), 64.0);
  TransformerConfig latent = small_latent_model();
  EXPECT_EQ(attention_input_width(latent), 48.0 + 32.0 + 8.0);
  latent.q_lora_rank = 0;
  EXPECT_EQ(attention_input_width(latent), 64.0 + 32.0 + 8.0);
}

/// Expects three products of `multiply_adds` each, at kPlainFlops.
void expect_products(const LinearTime& time, double multiply_adds) {
  for (const Seconds product : {time.forward, time.input_gradient, time.weight_gradient}) {
    EXPECT_NEAR(product.value(), 2.0 * multiply_adds / kPlainFlops, 1e-9 * product.value());
  }
}

// By hand, 512 tokens on two ranks, h = 64: 4 heads of 16, an MLP of 192 with gates; cut into
// chunks the products are as large together.
TEST(LinearLayers, AreThoseOfADenseLayerPartByPart) {
  const Scenario scenario = plain_scenario(small_expert_model());
  const ParallelConfig config{.tp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  for (const std::int64_t chunks : {1, 4}) {
    const LinearLayers layers = linear_layers(scenario, config, {}, chunks);
    expect_products(layers.qkv, 512.0 * 64 * 3 * 64 / 2);
    expect_products(layers.projection, 512.0 * 64 * 64 / 2);
    expect_products(layers.up, 512.0 * 64 * 2 * 192 / 2);
    expect_products(layers.down, 512.0 * 64 * 192 / 2);
    EXPECT_EQ(layers.whole.forward, Seconds(0.0));
    expect_products(layers.column(), 512.0 * 64 * (3 * 64 + 2 * 192) / 2);
    expect_products(layers.total(), 512.0 * 64 * (4 * 64 + 3 * 192) / 2);
  }
  // Experts have products of their own, and no shared one here.
  EXPECT_EQ(linear_layers(scenario, config, kExperts).up.forward, Seconds(0.0));
  EXPECT_EQ(linear_layers(scenario, config, kExperts).down.forward, Seconds(0.0));
}

// Compressions, 64 to 48 and to 32 + 8, are of a rank's 256 tokens where the sequence is split;
// out of them come 4 heads of 24 and of 16 + 24, on two ranks.
TEST(LinearLayers, OfLatentAttentionCompressWhatARankHas) {
  Scenario scenario = plain_scenario(small_latent_model());
  ParallelConfig config{.tp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  const LinearLayers split = linear_layers(scenario, config, kExperts);
  expect_products(split.whole, 256.0 * 64 * (48 + 32 + 8));
  expect_products(split.qkv, 512.0 * (48 * 4 * 24 + 32 * 4 * (16 + 24)) / 2);
  expect_products(split.projection, 512.0 * 64 * 4 * 24 / 2);
  expect_products(split.up, 512.0 * 64 * 2 * 128 / 2);
  expect_products(split.down, 512.0 * 64 * 128 / 2);
  config.sequence_parallel = false;
  expect_products(linear_layers(scenario, config, kExperts).whole, 512.0 * 64 * (48 + 32 + 8));
  scenario.job.model.q_lora_rank = 0;
  const LinearLayers uncompressed = linear_layers(scenario, config, kExperts);
  expect_products(uncompressed.whole, 512.0 * 64 * (32 + 8));
  expect_products(uncompressed.qkv, 512.0 * (64 * 4 * 24 + 32 * 4 * (16 + 24)) / 2);
}

// By hand: 256 distances, 64 features in and 32 of keys out on two ranks, whatever the microbatch.
// The distances are constant: no product forms their gradient.
TEST(LinearLayers, ProjectRelativePositionsOncePerMicrobatch) {
  const Scenario scenario = plain_scenario(small_relative_model());
  for (const int size : {1, 4}) {
    const LinearLayers layers =
        linear_layers(scenario, {.tp = 2, .micro_batch_size = size}, LayerKind{});
    const double product = 2.0 * 256 * 64 * 32 / kPlainFlops;
    EXPECT_NEAR(layers.positions.forward.value(), product, 1e-9 * product);
    EXPECT_EQ(layers.positions.input_gradient, Seconds(0.0));
    EXPECT_NEAR(layers.positions.weight_gradient.value(), product, 1e-9 * product);
    expect_products(layers.qkv, size * 256.0 * 64 * 3 * 32);
    EXPECT_NEAR((layers.total().forward - layers.column().forward - layers.projection.forward -
                 layers.down.forward)
                    .value(),
                product, 1e-9 * product);
  }
}

// 6 kernels more forward and 8 backward than a layer without positions, one of these for a weight
// gradient; with a start in modeled times those of the products: projection, scores, and backward
// three.
TEST(LayerKernels, OfRelativePositionsComeOnTop) {
  Scenario scenario = plain_scenario(small_relative_model());
  scenario.cluster.gpu.matmul_start = Seconds(1e-6);
  const LayerKernels kernels = layer_kernels(scenario, {}, {}, {});
  EXPECT_EQ(kernels.forward.on_device, 36.0);
  EXPECT_EQ(kernels.backward.by_host, 68.0);
  EXPECT_EQ(kernels.weight_gradient, 5.0);
  scenario.stack.attention = "unfused";
  scenario.job.model.position_embedding = PositionEmbedding::kNone;
  const LayerKernels others = layer_kernels(scenario, {}, {}, {});
  EXPECT_EQ(kernels.forward.with_start - others.forward.with_start, 2.0);
  EXPECT_EQ(kernels.backward.with_start - others.backward.with_start, 3.0);
}

// Eight experts: 28 kernels and two products of each, again where all of them is recomputed.
TEST(RepeatedWork, IsLaunchedExpertByExpert) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.host_time_per_kernel = Seconds(1.0);
  const LayerCosts costs = layer_costs(
      scenario, {.recompute = Recompute::kSelective, .recompute_modules = {RecomputeModule::kMoe}},
      kExperts);
  EXPECT_NEAR(costs.recompute(Recompute::kSelective).total().value(), 28.0 + 2 * 8, 1e-9);
}

// 30 kernels of a millisecond each, and twice as long on slower hosts, of a layer that computes for
// next to no time.
TEST(LayerCosts, WaitForTheHostOfTheCluster) {
  Scenario scenario = plain_scenario(resolved(
      {.num_layers = 1, .hidden_size = 64, .num_attention_heads = 1, .seq_length = 64}, "model"));
  scenario.stack.host_time_per_kernel = Seconds(1e-3);
  EXPECT_NEAR(layer_costs(scenario, {}).forward.total().value(), 30e-3, 1e-12);
  scenario.cluster.launch_slowdown = 2.0;
  EXPECT_NEAR(layer_costs(scenario, {}).forward.total().value(), 60e-3, 1e-12);
  scenario.stack.cuda_graphs = CudaGraphs::kStep;
  EXPECT_EQ(layer_costs(scenario, {}).forward.launch, Seconds(0.0));
}

/// Returns terms that are each a digit of their own, so that a sum shows what it is made of.
PassTime terms_of_digits() {
  return {.matmul = Seconds(1.0),
          .attention = Seconds(10.0),
          .memory_bound = Seconds(100.0),
          .tensor_parallel = Seconds(1e3),
          .context_parallel = Seconds(1e4),
          .expert_parallel = Seconds(1e5),
          .launch = Seconds(1e6)};
}

TEST(PassTime, IsAddedAndMultipliedTermByTerm) {
  EXPECT_EQ(terms_of_digits().compute(), Seconds(111.0));
  EXPECT_EQ(terms_of_digits().collectives(), Seconds(111000.0));
  EXPECT_EQ(terms_of_digits().total(), Seconds(1111111.0));
  for (const PassTime& three :
       {terms_of_digits() * 3.0, terms_of_digits() + terms_of_digits() + terms_of_digits()}) {
    EXPECT_EQ(three.matmul, Seconds(3.0));
    EXPECT_EQ(three.attention, Seconds(30.0));
    EXPECT_EQ(three.memory_bound, Seconds(300.0));
    EXPECT_EQ(three.tensor_parallel, Seconds(3e3));
    EXPECT_EQ(three.context_parallel, Seconds(3e4));
    EXPECT_EQ(three.expert_parallel, Seconds(3e5));
    EXPECT_EQ(three.launch, Seconds(3e6));
  }
}

}  // namespace
}  // namespace ptdp
