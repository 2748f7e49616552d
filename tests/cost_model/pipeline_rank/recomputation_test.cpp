// Tests of what recomputation drops, repeats and keeps, module by module and layer by layer.
#include <gtest/gtest.h>

#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/virtual_stage_durations.h"
#include "cost_model/memory/memory.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

using enum RecomputeModule;

constexpr LayerKind kDense{};
constexpr LayerKind kOfExperts{.has_experts = true};
constexpr double kTokens = 512.0;  // of two sequences

ParallelConfig repeating(RecomputeModules modules) {
  return {.micro_batch_size = 2, .recompute = Recompute::kSelective, .recompute_modules = modules};
}

/// Returns the bytes per token that the modules let a layer of the small latent model drop.
double dropped(RecomputeModules modules, LayerKind kind) {
  const TransformerConfig model = resolved(small_latent_model(), "model");
  const ActivationStorage storage{.stores_scores = false};
  const ParallelConfig config = repeating(modules);
  return (layer_activations(model, config, Recompute::kNone, kind, storage) -
          layer_activations(model, config, Recompute::kSelective, kind, storage))
             .value() /
         kTokens;
}

// Elements of 2 bytes. Four heads of 24 of queries, keys and values, from norms of 48 and 32; norms
// of 64; a dense MLP's gate, value and product of 192, a shared expert's of 128, and of the two
// experts that a token visits; their inputs and outputs of 64, and two scores of 4 bytes for each
// of eight.
TEST(Modules, DropTheTensorsThatTheyAreNamedFor) {
  struct Row {
    RecomputeModules modules;
    double dense = 0.0;
    double with_experts = 0.0;
  };
  const double up = 2.0 * (3 * 96 + 48 + 32);
  const double shared = 2.0 * 3 * 128;
  const double moe = shared + 2.0 * 2 * (2 * 64 + 3 * 128) + 2 * 4 * 8;
  for (const Row& row :
       {Row{{kCoreAttention}, 0.0, 0.0}, Row{{kMlaUpProjection}, up, up},
        Row{{kLayerNorm}, 2.0 * 64, 2.0 * 2 * 64}, Row{{kMlp}, 2.0 * (3 * 192 + 64), 0.0},
        Row{{kMoeActivation}, 0.0, 2.0 * 2 * 128}, Row{{kSharedExperts}, 0.0, shared},
        Row{{kMoe}, 0.0, moe}, Row{{kMoe, kMoeActivation, kSharedExperts}, 0.0, moe},
        Row{{kMlp, kMoe}, 2.0 * (3 * 192 + 64), moe}}) {
    EXPECT_DOUBLE_EQ(dropped(row.modules, kDense), row.dense) << to_string(row.modules);
    EXPECT_DOUBLE_EQ(dropped(row.modules, kOfExperts), row.with_experts) << to_string(row.modules);
  }
  const TransformerConfig model = resolved(small_latent_model(), "model");
  const auto kept = [&](bool keeps_outputs) {
    return layer_activations(model, {.micro_batch_size = 2}, Recompute::kNone, kOfExperts,
                             {.stores_scores = false, .keeps_expert_outputs = keeps_outputs})
               .value() /
           kTokens;
  };
  EXPECT_DOUBLE_EQ(kept(true) - kept(false), 2.0 * 2 * 64);
}

// Norms that are fused into the linear layer behind them are none of their own: all of Llama's.
TEST(Modules, LeaveNormsThatAreFusedIntoLinearLayers) {
  const TransformerConfig model = resolved(small_dense_model(), "model");
  const ActivationStorage storage{.stores_scores = false};
  EXPECT_EQ(
      layer_activations(model, repeating({kLayerNorm}), Recompute::kSelective, kDense, storage),
      layer_activations(model, {.micro_batch_size = 2}, Recompute::kNone, kDense, storage));
}

// Over 512 tokens and 1024 visits: FLOPs of forward products, and bytes of passes. A norm has two
// passes, a gate three, and queries and keys two each where positions are added to them.
TEST(Modules, RepeatTheirForwardWork) {
  const Scenario scenario = plain_scenario(small_latent_model());
  struct Row {
    RecomputeModules modules;
    LayerKind kind;
    double weights = 0.0;  // that a token meets
    double bytes = 0.0;
  };
  const double shared_bytes = 2.0 * 3 * 128 * kTokens;
  const double router_bytes = 6.0 * 4 * kTokens * 8;
  for (const Row& row :
       {Row{{kMlaUpProjection}, kDense, 48.0 * 96 + 32.0 * 4 * (16 + 24), 2.0 * 2 * 192 * kTokens},
        Row{{kLayerNorm}, kDense, 0.0, 2.0 * 2 * 64 * kTokens},
        Row{{kLayerNorm}, kOfExperts, 0.0, 2.0 * 4 * 64 * kTokens},
        Row{{kMlp}, kDense, 3.0 * 64 * 192, (2.0 * 3 * 192 + 2.0 * 2 * 64) * kTokens},
        Row{{kMlp}, kOfExperts, 0.0, 0.0},
        Row{{kMoeActivation}, kOfExperts, 0.0, 2.0 * 3 * 128 * 1024},
        Row{{kSharedExperts}, kOfExperts, 3.0 * 64 * 128, shared_bytes},
        Row{{kMoe},
            kOfExperts,
            3.0 * 64 * 128 + 64.0 * 8 + 2 * 3.0 * 64 * 128,
            shared_bytes + router_bytes + 2.0 * 2 * (512 + 1024) * 64 + 2.0 * 3 * 128 * 1024}}) {
    const PassTime again =
        layer_costs(scenario, repeating(row.modules), row.kind).recompute(Recompute::kSelective);
    EXPECT_NEAR(again.matmul.value() * kPlainFlops, 2.0 * kTokens * row.weights, 1e-3)
        << to_string(row.modules);
    EXPECT_NEAR(again.memory_bound.value() * kPlainBandwidth, row.bytes, 1e-3)
        << to_string(row.modules);
    EXPECT_EQ(again.attention, Seconds(0.0));
    EXPECT_EQ(again.collectives(), Seconds(0.0));
  }
}

// All modules of a layer with experts repeat no more than the layer's forward pass, and with the
// projections of attention, its compressions and the residual sums all of it.
TEST(Modules, TogetherStayBelowFullRecomputation) {
  const Scenario scenario = plain_scenario(small_latent_model());
  for (const LayerKind kind : {kDense, kOfExperts}) {
    const ParallelConfig config =
        repeating({kCoreAttention, kLayerNorm, kMlaUpProjection, kMlp, kMoe});
    const LayerCosts costs = layer_costs(scenario, config, kind);
    const PassTime again = costs.recompute(Recompute::kSelective);
    EXPECT_EQ(again.attention, costs.forward.attention);
    EXPECT_LT(again.memory_bound, costs.forward.memory_bound);
    const double left = 64.0 * (48 + 32 + 8) + 96.0 * 64;
    EXPECT_NEAR((costs.forward.matmul - again.matmul).value() * kPlainFlops, 2.0 * kTokens * left,
                1e-3);
  }
}

// Llama 3 8B, two sequences of 8192: a layer's input, queries, attention's result of 4096, values
// of 1024, the gate's product of 14336. Keys, projection and value's product are formed again.
TEST(EverySecondProduct, KeepsAndRepeatsByTheOrderOfLlamasProducts) {
  TransformerConfig model = find_model("llama-3-8b").config;
  model.seq_length = 8192;
  const Scenario scenario = plain_scenario(model);
  const ParallelConfig config = repeating({kEverySecondProduct});
  const double tokens = 2.0 * 8192;
  EXPECT_DOUBLE_EQ(layer_activations(scenario.job.model, config, Recompute::kSelective, kDense,
                                     {.stores_scores = false})
                       .value(),
                   2.0 * tokens * (3 * 4096 + 1024 + 14336));
  const LayerCosts costs = layer_costs(scenario, config);
  const PassTime again = costs.recompute(Recompute::kSelective);
  EXPECT_NEAR(again.matmul.value() * kPlainFlops / (2.0 * tokens * 4096 * (1024 + 4096 + 14336)),
              1.0, 1e-12);
  EXPECT_EQ(again.memory_bound, costs.forward.memory_bound);
  EXPECT_EQ(again.attention, Seconds(0.0));
}

// Four tensor-parallel ranks: the MLP's gather and reduction, each of the bsh elements that the
// forward pass has in four.
TEST(Modules, RepeatTheCollectivesOfAnMlp) {
  const Scenario scenario = plain_scenario(small_dense_model());
  ParallelConfig config = repeating({kMlp});
  config.tp = 4;
  config.sequence_parallel = true;
  const LayerCosts costs = layer_costs(scenario, config);
  EXPECT_NEAR(costs.recompute(Recompute::kSelective).tensor_parallel.value(),
              0.5 * costs.forward.tensor_parallel.value(), 1e-12);
  const auto elements = [&](const ParallelConfig& of) {
    return tensor_parallel_elements(scenario.job.model, of, kDense);
  };
  ParallelConfig without = config;
  without.recompute = Recompute::kNone;
  EXPECT_DOUBLE_EQ(elements(config) - elements(without), 2.0 * kTokens * 64 * 3 / 4);
  // A gathering of half as large elements beside a reduce-scatter of whole ones.
  const auto halves = [&](const ParallelConfig& of) {
    return tensor_parallel_elements(scenario.job.model, of, kDense, 0.5);
  };
  EXPECT_DOUBLE_EQ(halves(config) - halves(without), 1.5 * kTokens * 64 * 3 / 4);
}

// By hand, a layer of 64 leaves out three things: the second product of the MLP's 192; its
// reduction, one of the bsh elements that the forward pass has in four; and a sum of two tensors
// into a third. A layer with experts leaves out nothing.
TEST(FullRecomputation, LeavesOutTheLastProductWhereItStopsEarly) {
  Scenario scenario = plain_scenario(small_dense_model());
  const ParallelConfig config = {.tp = 4,
                                 .dp = 2,
                                 .micro_batch_size = 2,
                                 .recompute = Recompute::kFull,
                                 .sequence_parallel = true};
  const LayerCosts whole = layer_costs(scenario, config);
  EXPECT_EQ(whole.recompute(Recompute::kFull).total(), whole.forward.total());
  const Traffic all_sent = iteration_traffic({scenario, config}, Seconds(1.0));

  scenario.stack.recompute_stops_early = true;
  const LayerCosts costs = layer_costs(scenario, config);
  EXPECT_EQ(costs.forward.total(), whole.forward.total());
  const PassTime again = costs.recompute(Recompute::kFull);
  EXPECT_NEAR((costs.forward.matmul - again.matmul).value() * kPlainFlops,
              2.0 * kTokens * 64 * 192 / 4, 1e-3);
  EXPECT_NEAR((costs.forward.tensor_parallel - again.tensor_parallel).value(),
              0.25 * costs.forward.tensor_parallel.value(), 1e-12);
  EXPECT_EQ(again.attention, costs.forward.attention);
  EXPECT_NEAR((costs.forward.memory_bound - again.memory_bound).value() * kPlainBandwidth,
              3.0 * 2.0 * kTokens * 64 / 4, 1e-3);
  const double layers = scenario.job.model.num_layers;
  const double microbatches = 1.0 * static_cast<double>(scenario.job.global_batch_size) / 2 / 2;
  EXPECT_NEAR((all_sent.tensor_parallel -
               iteration_traffic({scenario, config}, Seconds(1.0)).tensor_parallel)
                  .value(),
              microbatches * layers * 2.0 * kTokens * 64 * 3 / 4, 1e-3);
  EXPECT_LT(iteration_cost({scenario, config}).recompute,
            microbatches * layers * whole.forward.total());

  // No faster than its 28 kernels are launched.
  scenario.stack.host_time_per_kernel = Seconds(1.0);
  EXPECT_NEAR(layer_costs(scenario, config).recompute(Recompute::kFull).total().value(), 28.0,
              1e-9);
  scenario.stack.host_time_per_kernel = Seconds(0.0);
  // Dropout behind the last product asks for its mask.
  scenario.job.model.dropout = true;
  const LayerCosts dropped = layer_costs(scenario, config);
  EXPECT_EQ(dropped.recompute(Recompute::kFull).total(), dropped.forward.total());

  Scenario experts = plain_scenario(small_expert_model());
  experts.stack.recompute_stops_early = true;
  const LayerCosts mixture = layer_costs(experts, {.micro_batch_size = 2}, kOfExperts);
  EXPECT_EQ(mixture.recompute(Recompute::kFull).total(), mixture.forward.total());
}

ParallelConfig recomputing(RecomputeMethod method, int number) {
  return {.pp = 2,
          .dp = 4,
          .recompute = Recompute::kFull,
          .recompute_method = method,
          .recompute_num_layers = number};
}

Scenario sixteen_layers() {
  TransformerConfig model = small_latent_model();
  model.num_layers = 16;
  return plain_scenario(model);
}

// Layer by layer: the first two of each virtual stage, or every third, whatever their kinds.
TEST(RecomputedLayers, AreThoseThatAWalkOverTheLayersFinds) {
  TransformerConfig model = resolved(small_latent_model(), "model");
  model.num_layers = 12;
  model.first_dense_layers = 5;
  for (const std::vector<int>& layers : {std::vector<int>{}, {1, 4, 5, 2}}) {
    for (const RecomputeMethod method : {RecomputeMethod::kBlock, RecomputeMethod::kEvery}) {
      ParallelConfig config = recomputing(method, method == RecomputeMethod::kBlock ? 2 : 3);
      config.vpp = 2;
      config.layers_per_stage = layers;
      LayerCounts all{};
      int layer = 0;
      for (int rank = 0; rank < 4; ++rank) {
        LayerCounts counts{};
        const int own = layers.empty() ? 3 : layers[static_cast<std::size_t>(rank)];
        for (int place = 0; place < own; ++place, ++layer) {
          const bool is_recomputed = method == RecomputeMethod::kBlock ? place < 2 : place % 3 == 2;
          counts[index_of(kind_of_layer(model, layer))] += is_recomputed ? 1.0 : 0.0;
        }
        EXPECT_EQ(recomputed_of_virtual_stage(model, config, rank), counts) << rank;
        all += counts;
      }
      EXPECT_EQ(recomputed_of_model(model, config), all);
    }
  }
}

// A stage of eight layers, two microbatches in flight on the first: three that keep their input
// and five that keep all; in groups of three three inputs, with three layers at once when one of
// them is computed again.
TEST(RecomputedLayers, DecideWhatAStageKeeps) {
  Scenario scenario = sixteen_layers();
  scenario.job.model.first_dense_layers = 16;
  const auto layer = [&](Recompute recompute) {
    return layer_activations(scenario.job.model, {}, recompute, kDense, {.stores_scores = false})
        .value();
  };
  const double input = layer(Recompute::kFull);
  const double whole = layer(Recompute::kNone);
  const MemoryBreakdown block = rank_memory({scenario, recomputing(RecomputeMethod::kBlock, 3)}, 0);
  EXPECT_NEAR(block.activations.value(), 2.0 * (3 * input + 5 * whole), 1e-6);
  EXPECT_NEAR(block.working_set.value(), whole - input, 1e-6);
  const MemoryBreakdown every = rank_memory({scenario, recomputing(RecomputeMethod::kEvery, 3)}, 0);
  EXPECT_NEAR(every.activations.value(), 2.0 * (2 * input + 6 * whole), 1e-6);
  const MemoryBreakdown uniform =
      rank_memory({scenario, recomputing(RecomputeMethod::kUniform, 3)}, 0);
  EXPECT_NEAR(uniform.activations.value(), 2.0 * 3 * input, 1e-6);
  EXPECT_NEAR(uniform.working_set.value(), 3 * whole - input, 1e-6);
  EXPECT_EQ(virtual_stage_activations({scenario, recomputing(RecomputeMethod::kBlock, 3)}, 1),
            Bytes(3 * input + 5 * whole));
}

// All eight of each stage is full recomputation, which `uniform` is with any number; in between
// time grows and memory falls with each layer.
TEST(RecomputedLayers, LeadFromNoRecomputationToAllOfIt) {
  const Scenario scenario = sixteen_layers();
  const auto time = [&](const ParallelConfig& config) {
    return iteration_cost({scenario, config}).total().value();
  };
  ParallelConfig none = recomputing(RecomputeMethod::kBlock, 0);
  none.recompute = Recompute::kNone;
  const ParallelConfig full = recomputing(RecomputeMethod::kBlock, 0);
  const double step = (time(full) - time(none)) / 8.0;
  for (int number = 1; number <= 8; ++number) {
    const ParallelConfig config = recomputing(RecomputeMethod::kBlock, number);
    EXPECT_GT(time(config), time(none) + 0.5 * step * number);
    EXPECT_LE(time(config), time(full) * (1.0 + 1e-12));
    const Bytes fewer =
        rank_memory({scenario, recomputing(RecomputeMethod::kBlock, number - 1)}, 0).activations;
    if (number > 1) {
      EXPECT_LT(rank_memory({scenario, config}, 0).activations, fewer);
    }
  }
  EXPECT_NEAR(time(recomputing(RecomputeMethod::kBlock, 8)), time(full), 1e-12);
  EXPECT_NEAR(time(recomputing(RecomputeMethod::kUniform, 4)), time(full), 1e-12);
  EXPECT_NEAR(rank_memory({scenario, recomputing(RecomputeMethod::kBlock, 8)}, 0).total().value(),
              rank_memory({scenario, full}, 0).total().value(), 1e-3);
}

// What a rank does is the same summed over its chunks for the simulator as in closed form.
TEST(RecomputedLayers, TakeTheSameTimeInTheSimulator) {
  const Scenario scenario = sixteen_layers();
  for (const RecomputeMethod method :
       {RecomputeMethod::kBlock, RecomputeMethod::kUniform, RecomputeMethod::kEvery}) {
    ParallelConfig config = recomputing(method, 3);
    config.vpp = 2;
    config.schedule = ScheduleKind::kInterleaved;
    config.layers_per_stage = {5, 2, 3, 6};
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    const auto durations = virtual_stage_durations({scenario, config, &costs});
    for (int rank = 0; rank < 2; ++rank) {
      double sum = 0.0;
      for (const int virtual_stage : {rank, rank + 2}) {
        const StageDurations& of = durations[static_cast<std::size_t>(virtual_stage)];
        sum += (of.forward + of.input_gradient + of.weight_gradient).value();
      }
      EXPECT_NEAR(rank_costs({scenario, config, &costs}, rank).total().value() / sum, 1.0, 1e-12)
          << rank;
    }
  }
}

// Llama 3 8B with a batch of 8 sequences: an MLP is 3·4096·14336 weights of a layer, what `op`
// repeats 4096·(1024 + 4096 + 14336); of half the layers half of what all add.
TEST(HardwareFlops, CountWhatModulesAndLayersRepeat) {
  const TransformerConfig model = find_model("llama-3-8b").config;
  const double tokens = 8.0 * model.seq_length * model.num_layers;
  const auto more = [&](const ParallelConfig& config) {
    return (hardware_flops(model, 8, config) - model_flops(model, 8)).value();
  };
  EXPECT_NEAR(more(repeating({kMlp})) / (2.0 * tokens * 3 * 4096 * 14336), 1.0, 1e-9);
  EXPECT_NEAR(
      more(repeating({kEverySecondProduct})) / (2.0 * tokens * 4096.0 * (1024 + 4096 + 14336)), 1.0,
      1e-9);
  EXPECT_NEAR(more(repeating({kCoreAttention, kMlp})) /
                  (more(repeating({kCoreAttention})) + more(repeating({kMlp}))),
              1.0, 1e-9);
  EXPECT_NEAR(
      more(recomputing(RecomputeMethod::kBlock, 8)) / more(recomputing(RecomputeMethod::kBlock, 0)),
      0.5, 1e-9);
}

}  // namespace
}  // namespace ptdp
