// Tests of linear layers in 8 bits: casts, kept activations and weights.
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"

#include <gtest/gtest.h>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/memory/memory.h"
#include "cost_model/operations/linear_layer.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

constexpr double kMicrobatchTokens = 512.0;
constexpr double kHidden = 256.0;

TransformerConfig small_gpt() {
  return resolved({.num_layers = 4,
                   .hidden_size = 256,
                   .num_attention_heads = 4,
                   .vocab_size = 1024,
                   .seq_length = 512},
                  "model");
}

/// Returns a scenario with round peaks, in which 8-bit products are twice as fast.
Scenario plain_fp8(Fp8Recipe recipe, const TransformerConfig& model = small_gpt()) {
  Scenario scenario = plain_scenario(model);
  scenario.cluster.gpu.peak_fp8 = FlopsPerSecond(2.0 * kPlainFlops);
  scenario.cluster.gpu.fp8_matmul_efficiency.reset();
  scenario.cluster.gpu.low_bit_products.clear();
  scenario.stack.fp8_recipes = {recipe};
  scenario.stack.fp8 = recipe.scaling;
  return scenario;
}

Scenario on_blackwell(Scenario scenario) {
  scenario.cluster.gpu.fp8_any_layout = true;
  scenario.cluster.gpu.fp8_mx = true;
  return scenario;
}

LayerCasts casts_of(const Scenario& scenario, const ParallelConfig& config = {}) {
  return layer_casts(scenario, config, LayerKind{});
}

/// Returns bytes per token and hidden feature.
double per_feature(Bytes bytes) {
  return bytes.value() / (kMicrobatchTokens * kHidden);
}

// 1024 visits of eight experts with 128 features. Neither the input of the second product nor the
// gradient of what the first returns (twice as wide) is cast. A cast is read (2) and written twice,
// with a scale of a byte for 32 elements (2 · 33/32).
TEST(Fp8Casts, LeaveOutWhatExpertsDoWithinProducts) {
  Scenario scenario = plain_fp8({.scaling = Fp8Scaling::kMx}, small_expert_model());
  const ParallelConfig config{.micro_batch_size = 2};
  const LayerKind kind{.has_experts = true};
  const LayerCasts apart = layer_casts(scenario, config, kind);
  scenario.stack.fused_expert_activation = true;
  const LayerCasts fused = layer_casts(scenario, config, kind);
  EXPECT_DOUBLE_EQ((apart.forward - fused.forward).value(), 4.0625 * 1024 * 128);
  EXPECT_DOUBLE_EQ((apart.backward - fused.backward).value(), 4.0625 * 1024 * 256);
  // Two casts in each pass for each of eight experts, or one for all.
  EXPECT_EQ(apart.forward_kernels - fused.forward_kernels, 2.0 * 8 - 1);
  EXPECT_EQ(apart.backward_kernels - fused.backward_kernels, 2.0 * 8 - 1);
}

// By delayed scales one kernel casts the inputs of all experts; by others there is one for each,
// again where only the activation is recomputed.
TEST(Fp8Casts, OfEachExpertAreKernelsOfTheirOwn) {
  const LayerKind kind{.has_experts = true};
  const ParallelConfig config{.micro_batch_size = 2,
                              .recompute = Recompute::kSelective,
                              .recompute_modules = {RecomputeModule::kMoeActivation}};
  const auto kernels = [&](Fp8Scaling scaling, bool again) {
    const Scenario scenario = plain_fp8({.scaling = scaling}, small_expert_model());
    return (again ? repeated_casts(scenario, config, kind) : layer_casts(scenario, config, kind))
        .forward_kernels;
  };
  EXPECT_EQ(kernels(Fp8Scaling::kBlock, false) - kernels(Fp8Scaling::kDelayed, false), 2.0 * 7);
  EXPECT_EQ(kernels(Fp8Scaling::kBlock, true), 8.0);
  EXPECT_EQ(kernels(Fp8Scaling::kDelayed, true), 1.0);
}

// On Hopper the norms write one byte in place of two and what they wrote is transposed (2 − 1);
// the other two inputs, h and 4h wide, are read (2) and written twice (1 + 1).
TEST(Fp8Casts, OfDelayedScalingAreHalfInTheNorms) {
  const LayerCasts casts =
      casts_of(plain_fp8({.scaling = Fp8Scaling::kDelayed, .norms_cast = true}));
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 1.0 + 1.0 + 4.0 + 4.0 * 4.0);
  // Gradients of 3h, h, 4h and h features.
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 4.0 * (3.0 + 1.0 + 4.0 + 1.0));
  EXPECT_EQ(casts.forward_kernels, 4.0);
  EXPECT_EQ(casts.backward_kernels, 4.0);
}

// On four GPUs a rank casts a quarter of what is gathered, and transposes all of it.
TEST(Fp8Casts, AreOfARanksPartOfASequence) {
  const Scenario scenario =
      plain_fp8({.scaling = Fp8Scaling::kDelayed, .norms_cast = true, .gathers_activations = true});
  const ParallelConfig split = {.tp = 4, .sequence_parallel = true};
  const LayerCasts casts = casts_of(scenario, split);
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 2.0 * (2.0 - 0.25) + 4.0 * 0.25 + 4.0);
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 4.0 * (0.75 + 1.0) + 2.0 * (3.0 * 0.25 + 2.0));
  // All-gathers are of one byte, reduce-scatters of two: forward 2 of each, backward 4 and 2.
  const double sent = kMicrobatchTokens * kHidden * 3.0 / 4.0;
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(scenario.job.model, split, {},
                                            gathered_activation_bytes(scenario.stack) / 2.0),
                   sent * (2.0 * 0.5 + 2.0 + 4.0 * 0.5 + 2.0));
}

// Tensor cores that read factors in any layout need one copy; the largest element costs a read of
// two bytes, but not behind a norm.
TEST(Fp8Casts, OfCurrentScalingReadTwice) {
  const LayerCasts casts =
      casts_of(on_blackwell(plain_fp8({.scaling = Fp8Scaling::kCurrent, .norms_cast = true})));
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 2.0 * 3.0 + 5.0 + 4.0 * 5.0);
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 5.0 * 9.0);
}

// Two copies of 33/32 bytes on every GPU.
TEST(Fp8Casts, OfBlocksWriteTwice) {
  for (const Fp8Scaling scaling : {Fp8Scaling::kBlock, Fp8Scaling::kMx}) {
    const LayerCasts casts = casts_of(on_blackwell(plain_fp8({.scaling = scaling})));
    EXPECT_DOUBLE_EQ(per_feature(casts.forward), (2.0 + 2.0 * 33.0 / 32.0) * 7.0);
    EXPECT_DOUBLE_EQ(per_feature(casts.backward), (2.0 + 2.0 * 33.0 / 32.0) * 9.0);
  }
}

// On Hopper the inputs of the MLP's products are read (2) and written twice (1 + 1), h and 4h wide;
// recomputed in full all four are, h more of each norm and projection.
// Every factor is read twice (2 · 2), for its largest elements and to be cast, and written twice, 4
// bits with a byte for 16 (2 · 9/16). Inputs are h, h, h and 4h wide, gradients 3h, h, 4h and h.
TEST(Fp8Casts, OfFourBitsReadTwiceAndWriteTwice) {
  const LayerCasts casts = casts_of(plain_fp8({.scaling = Fp8Scaling::kNvfp4}));
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 5.125 * 7.0);
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 5.125 * 9.0);
  EXPECT_EQ(casts.forward_kernels, 2.0 * 4.0);
  EXPECT_EQ(casts.backward_kernels, 2.0 * 4.0);
}

// torchao's roofline_utils.py, rowwise, in bytes an element. Of a gradient: 2 + 1 + 2 in one
// kernel, 2 + 1 in the next. Of an input that is kept in 16 bits: 2 + 1, or 1 behind a norm;
// backward it is transposed, 2 + 2, and cast, 2 + 1. Of a weight that is cast in every pass: 2 + 1,
// then 2 + 2 and 2 + 1.
TEST(Fp8Casts, OfRowsCastEachCopyByItself) {
  const Fp8Recipe recipe = {.scaling = Fp8Scaling::kRowwise,
                            .norms_cast = true,
                            .keeps_inputs = false,
                            .casts_weights_once = true};
  const LayerCasts casts = casts_of(plain_fp8(recipe));
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 1.0 * 2.0 + 3.0 * 5.0);
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 7.0 * 7.0 + 8.0 * 9.0);
  EXPECT_EQ(casts.forward_kernels, 2.0);
  EXPECT_EQ(casts.backward_kernels, 2.0 * 4.0 + 2.0 * 4.0);

  Fp8Recipe every_pass = recipe;
  every_pass.casts_weights_once = false;
  const LayerCasts with_weights = casts_of(plain_fp8(every_pass));
  const double weights = 12.0 * kHidden * kHidden;
  EXPECT_DOUBLE_EQ((with_weights.forward - casts.forward).value(), 3.0 * weights);
  EXPECT_DOUBLE_EQ((with_weights.backward - casts.backward).value(), 7.0 * weights);
}

// What is kept in 8 bits is transposed from what the first kernel reads: 2 + 1 + 2, and 2 + 1.
TEST(Fp8Casts, OfRowsThatAreKeptAreMadeInTheForwardPass) {
  const LayerCasts casts = casts_of(plain_fp8({.scaling = Fp8Scaling::kRowwise}));
  EXPECT_DOUBLE_EQ(per_feature(casts.forward), 8.0 * 7.0);
  EXPECT_DOUBLE_EQ(per_feature(casts.backward), 8.0 * 9.0);
}

TEST(Fp8Casts, AreRepeatedByWhatIsRecomputed) {
  const Scenario scenario = plain_fp8({.scaling = Fp8Scaling::kDelayed});
  const auto repeated = [&](RecomputeModules modules) {
    return repeated_casts(
        scenario, {.recompute = Recompute::kSelective, .recompute_modules = modules}, LayerKind{});
  };
  const LayerCasts mlp = repeated({RecomputeModule::kMlp});
  EXPECT_DOUBLE_EQ(per_feature(mlp.forward), 4.0 * (1.0 + 4.0));
  EXPECT_EQ(mlp.forward_kernels, 2.0);
  EXPECT_EQ(mlp.backward, Bytes(0.0));
  EXPECT_EQ(repeated({RecomputeModule::kCoreAttention}).forward, Bytes(0.0));
  const ParallelConfig config{.recompute = Recompute::kSelective,
                              .recompute_modules = {RecomputeModule::kMlp}};
  Scenario bf16 = scenario;
  bf16.stack.fp8.reset();
  const auto again = [&](const Scenario& of) {
    return layer_costs(of, config).recompute(Recompute::kSelective).memory_bound;
  };
  EXPECT_NEAR((again(scenario) - again(bf16)).value(),
              20.0 * kMicrobatchTokens * kHidden / kPlainBandwidth, 1e-15);
}

// A pass over 10^12 bytes takes a second here, and a product half of what it takes in bf16.
TEST(Fp8Casts, TakeTimeAndProductsHalf) {
  const Scenario fp8 = plain_fp8({.norms_cast = true});
  Scenario bf16 = fp8;
  bf16.stack.fp8.reset();
  const LayerCosts with = layer_costs(fp8, {});
  const LayerCosts without = layer_costs(bf16, {});
  EXPECT_NEAR((with.forward.memory_bound - without.forward.memory_bound).value(),
              22.0 * kMicrobatchTokens * kHidden / kPlainBandwidth, 1e-15);
  EXPECT_NEAR((with.backward.memory_bound - without.backward.memory_bound).value(),
              36.0 * kMicrobatchTokens * kHidden / kPlainBandwidth, 1e-15);
  EXPECT_DOUBLE_EQ(with.forward.matmul.value(),
                   2.0 * 12.0 * kHidden * kHidden * kMicrobatchTokens / (2.0 * kPlainFlops));
  EXPECT_DOUBLE_EQ(with.backward.matmul / without.backward.matmul, 0.5);
  EXPECT_EQ(with.forward.attention, without.forward.attention);
  // The logits stay.
  EXPECT_EQ(microbatch_costs(fp8, {}).logits.matmul, microbatch_costs(bf16, {}).logits.matmul);
}

// By hand: 10^9 bytes at half of 10^12 B/s, and three starts of 2 us. Starts count once.
TEST(Fp8Casts, TakeTheirOwnShareOfBandwidthAndTheirStarts) {
  GpuSpec gpu;
  gpu.memory_bandwidth = BytesPerSecond(1e12);
  gpu.memory_efficiency = 0.25;
  EXPECT_DOUBLE_EQ(cast_time(Bytes(1e9), 3.0, gpu, LowBitFormat::kFp8).value(), 4e-3);
  gpu.cast_efficiency = 0.5;
  gpu.cast_start = microseconds(2.0);
  gpu.low_bit_products = {{.format = LowBitFormat::kFp8Mx, .cast_efficiency = 0.25},
                          {.format = LowBitFormat::kFp8Block}};
  for (const LowBitFormat format : {LowBitFormat::kFp8, LowBitFormat::kFp8Block}) {
    EXPECT_DOUBLE_EQ(cast_time(Bytes(1e9), 3.0, gpu, format).value(), 2e-3 + 6e-6);
  }
  EXPECT_DOUBLE_EQ(cast_time(Bytes(1e9), 3.0, gpu, LowBitFormat::kFp8Mx).value(), 4e-3 + 6e-6);
  Scenario fp8 = plain_fp8({.norms_cast = true});
  const PassKernels before = layer_kernels(fp8, {}, {}, casts_of(fp8)).forward;
  fp8.cluster.gpu.cast_start = microseconds(2.0);
  const LayerCasts casts = casts_of(fp8);
  const PassKernels forward = layer_kernels(fp8, {}, {}, casts).forward;
  EXPECT_EQ(forward.on_device, before.on_device);
  EXPECT_EQ(forward.with_start, before.with_start + casts.forward_kernels);
}

// bf16: 4 norms, 4 inputs, 6 of queries, keys and values, 2 context, 8 and 8 of the MLP, 2 masks,
// 34 in all. In 8 bits inputs take 2, the projection's 1 more than the context, the MLP's 4.
TEST(Fp8Activations, AreInputsOfOneByte) {
  const Scenario scenario = plain_fp8({});
  ASSERT_FALSE(activation_storage(scenario.job.model, scenario.stack).stores_scores);
  const auto kept = [](const Scenario& of) {
    return per_feature(kept_by_layer(of, {}, LayerKind{}));
  };
  EXPECT_DOUBLE_EQ(kept(scenario), 4.0 + 2.0 + 6.0 + 3.0 + 8.0 + 4.0 + 2.0);
  EXPECT_DOUBLE_EQ(kept(plain_fp8({.keeps_inputs = false})), 34.0);
}

// In 4 bits, inputs of h, h, h and 4h take 9/16 of a byte for each element: a number and its scale.
TEST(Fp8Activations, AreInputsOfHalfAByteAndTheirScales) {
  const Scenario scenario = plain_fp8({.scaling = Fp8Scaling::kNvfp4});
  EXPECT_DOUBLE_EQ(per_feature(kept_by_layer(scenario, {}, LayerKind{})),
                   4.0 + 6.0 + 2.0 + 8.0 + 2.0 + 7.0 * 9.0 / 16.0);
}

// Experts: norms 4, the attention's input 1, the router's 2, q, k, v 2·4·16·3 of h = 64 → 6,
// context 2 + 1; for each of two visits an input of 1, and of 128 features two gates of 2 and an
// input of 1; two scores of 4 bytes for eight experts.
TEST(Fp8Activations, OfExpertsLeaveTheRoutersInput) {
  const Scenario scenario = plain_fp8({}, small_expert_model());
  const double kept = kept_by_layer(scenario, {}, LayerKind{.has_experts = true}).value() / 256.0;
  EXPECT_DOUBLE_EQ(kept, 64.0 * (4.0 + 1.0 + 2.0 + 6.0 + 3.0) + 2.0 * (64.0 * 1.0 + 128.0 * 5.0) +
                             2.0 * 4.0 * 8.0);
}

// 12h² weights of a layer: copies beside bf16, or in place of it; one where layouts do not matter.
TEST(Fp8Weights, AreKeptInTheCopiesThatProductsNeed) {
  const double matrices = 12.0 * kHidden * kHidden;
  const RankParameters layer = layer_parameters_of_rank(small_gpt(), {}, LayerKind{});
  EXPECT_DOUBLE_EQ(layer.matrices, matrices);
  const auto bytes = [&](const Scenario& scenario) {
    return stored_weights(scenario.stack, scenario.cluster.gpu, layer).total() -
           2.0 * (layer.dense - matrices);
  };
  EXPECT_DOUBLE_EQ(bytes(plain_fp8({})), (2.0 + 2.0) * matrices);
  EXPECT_DOUBLE_EQ(bytes(plain_fp8({.casts_weights_once = false})), 2.0 * matrices);
  const Fp8Recipe alone = {.has_only_fp8_weights = true};
  EXPECT_DOUBLE_EQ(bytes(plain_fp8(alone)), 2.0 * matrices);
  EXPECT_DOUBLE_EQ(bytes(on_blackwell(plain_fp8(alone))), matrices);
  EXPECT_DOUBLE_EQ(bytes(plain_fp8({.scaling = Fp8Scaling::kMx, .has_only_fp8_weights = true})),
                   2.0 * 33.0 / 32.0 * matrices);
  EXPECT_DOUBLE_EQ(bytes(plain_fp8({.scaling = Fp8Scaling::kNvfp4, .has_only_fp8_weights = true})),
                   2.0 * 9.0 / 16.0 * matrices);
}

// A shard of weights that exist in 8 bits only has one byte of a matrix's, else two.
TEST(Fp8Weights, AreKeptOnceInShards) {
  const ParallelConfig fsdp = {.dp = 8, .zero_stage = 3};
  const RankParameters held = rank_parameters(small_gpt(), fsdp, 0);
  const auto kept = [&](const Scenario& scenario) {
    return 8.0 * rank_memory({scenario, fsdp}, 0).weights.value();
  };
  EXPECT_DOUBLE_EQ(kept(plain_fp8({})), 2.0 * held.total());
  EXPECT_DOUBLE_EQ(kept(plain_fp8({.has_only_fp8_weights = true})),
                   2.0 * held.total() - 4.0 * 12.0 * kHidden * kHidden);
}

// Read as bf16 and written twice; of weights that come in 8 bits the transposed copy alone; in
// every forward pass with full sharding.
TEST(Fp8Weights, AreCastOnceOrInEveryPass) {
  const ParallelConfig zero1 = {.dp = 8, .zero_stage = 1};
  const ParallelConfig fsdp = {.dp = 8, .zero_stage = 3};
  const double matrices = 12.0 * kHidden * kHidden;
  const RankParameters layer = layer_parameters_of_rank(small_gpt(), zero1, LayerKind{});
  const Scenario copied = plain_fp8({});
  const Scenario gathered = plain_fp8({.gathers_weights = true});
  EXPECT_DOUBLE_EQ(weight_cast_traffic(copied, zero1, layer).value(), 4.0 * matrices);
  EXPECT_DOUBLE_EQ(weight_cast_traffic(gathered, zero1, layer).value(), 2.0 * matrices);
  EXPECT_EQ(weight_cast_traffic(copied, fsdp, layer), Bytes(0.0));
  EXPECT_DOUBLE_EQ((casts_of(copied, fsdp).forward - casts_of(copied, zero1).forward).value(),
                   4.0 * matrices);
  EXPECT_DOUBLE_EQ((casts_of(gathered, fsdp).backward - casts_of(gathered, zero1).backward).value(),
                   2.0 * matrices);
}

// A gathered parameter takes one byte, one of the embedding two.
TEST(Fp8Weights, AreGatheredInOneByte) {
  const Scenario scenario = plain_fp8({.gathers_weights = true});
  const ParallelConfig config = {.dp = 8, .zero_stage = 1};
  const RankParameters held = rank_parameters(scenario.job.model, config, 0);
  const double bytes = 2.0 * held.total() - 4.0 * 12.0 * kHidden * kHidden;
  EXPECT_DOUBLE_EQ(gathered_weights(scenario.stack, held).total(), bytes);
  EXPECT_DOUBLE_EQ(iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel.value(),
                   7.0 / 8.0 * (bytes + 4.0 * held.total()));
}

}  // namespace
}  // namespace ptdp
