// Tests of the memory of a stage: states, activations, buffers, against papers and by hand.
#include "cost_model/memory/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/inputs/rank_sizes.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

Scenario selene_2022(const std::string& model, std::int64_t batch) {
  return shipped_scenario(model, "selene-a100", "megatron-lm-2022", batch);
}

// 18 bytes for each of 340 billion parameters; ZeRO-1 over 64 replicas leaves 6 + 12/64.
TEST(StateBytes, AreTheNumbersOfTheField) {
  const StackSpec mixed{.weight_bytes = 2.0, .gradient_bytes = 4.0, .optimizer_bytes = 12.0};
  const auto bytes = [](const StackSpec& stack, int zero_stage, int dp) {
    return model_state(stack, {.dp = dp, .zero_stage = zero_stage}, {.dense = 1.0}, {}).value();
  };
  EXPECT_DOUBLE_EQ(bytes(mixed, 0, 64) * 340e9 / 1e9, 6120.0);
  EXPECT_DOUBLE_EQ(bytes(mixed, 1, 64), 6.0 + 12.0 / 64.0);
  const StackSpec fp16{.weight_bytes = 2.0, .gradient_bytes = 2.0, .optimizer_bytes = 16.0};
  EXPECT_DOUBLE_EQ(bytes(fp16, 0, 8), 20.0);
  EXPECT_DOUBLE_EQ(bytes(fp16, 1, 8), 4.0 + 16.0 / 8.0);
  // Rajbhandari et al. (arXiv:1910.02054), figure 1: 7.5 billion parameters on 64 GPUs with 16
  // bytes each take 120, 31.4, 16.6 and 1.9 GB.
  const StackSpec zero{.weight_bytes = 2.0, .gradient_bytes = 2.0, .optimizer_bytes = 12.0};
  const std::array published = {120.0, 31.4, 16.6, 1.9};
  for (int rank = 0; rank <= 3; ++rank) {
    EXPECT_NEAR(7.5 * bytes(zero, rank, 64), published[static_cast<std::size_t>(rank)], 0.05);
  }
}

// SC21 section 3.5 and Korthikanti et al. section 4.1: (10 + 24/t) per sbh, (10 + 24)/t with
// sequence parallelism.
TEST(LayerActivations, AreTheCoefficientsOfThePapers) {
  TransformerConfig model = find_model("22B").config;
  const double sbh = 2048.0 * 4 * 6144;
  const auto coefficient = [&](Recompute recompute, int tp, bool is_sequence_parallel) {
    return layer_activations(model, 4, tp, recompute, is_sequence_parallel).value() / sbh;
  };
  EXPECT_DOUBLE_EQ(coefficient(Recompute::kSelective, 8, false), 10.0 + 24.0 / 8);
  EXPECT_DOUBLE_EQ(coefficient(Recompute::kSelective, 8, true), (10.0 + 24.0) / 8);
  EXPECT_DOUBLE_EQ(coefficient(Recompute::kFull, 8, false), 2.0);
  // 5as/h = 5·64·2048/6144
  EXPECT_DOUBLE_EQ(coefficient(Recompute::kNone, 1, false), 34.0 + 5.0 * 64 * 2048 / 6144);
}

// By hand: no masks of h each, and of the scores the softmax alone, 2 bytes each.
TEST(LayerActivations, LackMasksAndDroppedScoresWithoutDropout) {
  TransformerConfig model = find_model("22B").config;
  model.dropout = false;
  const double sbh = 2048.0 * 4 * 6144;
  EXPECT_DOUBLE_EQ(layer_activations(model, 4, 1, Recompute::kNone, false).value() / sbh,
                   32.0 + 2.0 * 64 * 2048 / 6144);
}

TEST(LayerActivations, LackTheScoresUnderFusedAttention) {
  const TransformerConfig model = find_model("22B").config;
  EXPECT_EQ(layer_activations(model, 1, 8, Recompute::kNone, true, {.stores_scores = false}),
            layer_activations(model, 1, 8, Recompute::kSelective, true));
}

// By hand for two ranks, b = 3, s = 256, h = 64, 4 heads: of what is split, in 2 bytes, a second
// copy of queries and the softmax of 4 by 256 scores; and the keys of 256 distances once.
// Recomputed attention leaves these keys alone, a recomputed layer nothing.
TEST(LayerActivations, KeepKeysOfRelativePositionsOnce) {
  const StackSpec fused = shipped_scenario("7.5B", "dgx-h100", "megatron-core-2025").stack;
  const auto more = [&](int size, Recompute recompute) {
    TransformerConfig model = resolved(small_relative_model(), "model");
    const Bytes kept =
        layer_activations(model, size, 2, recompute, false, activation_storage(model, fused));
    model.position_embedding = PositionEmbedding::kNone;
    return (kept -
            layer_activations(model, size, 2, recompute, false, activation_storage(model, fused)))
        .value();
  };
  const double once = 2.0 * 256 * 64 / 2;
  const double of_token = 2.0 * (64 + 4 * 256) / 2;
  EXPECT_EQ(more(3, Recompute::kNone), 3 * 256 * of_token + once);
  EXPECT_EQ(more(1, Recompute::kNone), 256 * of_token + once);
  EXPECT_EQ(more(3, Recompute::kSelective), once);
  EXPECT_EQ(more(3, Recompute::kFull), 0.0);
}

// By hand: 16 elements in place of 16·2 bytes, and 2 masks, per sbh; scores are two elements and a
// mask.
TEST(LayerActivations, AreOfElementsOfThePrecision) {
  const TransformerConfig model = find_model("22B").config;
  const double sbh = 2048.0 * 6144;
  const ActivationStorage fp64{.element_bytes = 8.0};
  EXPECT_DOUBLE_EQ(layer_activations(model, 1, 1, Recompute::kSelective, false, fp64).value() / sbh,
                   16.0 * 8 + 2);
  EXPECT_DOUBLE_EQ(layer_activations(model, 1, 1, Recompute::kFull, false, fp64).value() / sbh,
                   8.0);
  EXPECT_DOUBLE_EQ(layer_activations(model, 1, 1, Recompute::kNone, false, fp64).value() / sbh,
                   16.0 * 8 + 2 + 17.0 * 64 * 2048 / 6144);
}

// Korthikanti et al. figure 1, in GiB as listed in calculon's validation.py: parameters and
// optimizer, activations without recomputation, activations with both techniques. The figure counts
// 12lh²/t parameters on each of p stages, and activations of l(1 + (p−1)/(pv)) layers.
TEST(Memory, ReproducesFigureOneOfKorthikanti) {
  struct Row {
    const char* model;
    int batch;
    int micro_batch_size;
    int pp;
    int vpp;
    double state;
    double none;
    double both;
  };
  for (const Row& row : {Row{"22B", 4, 4, 1, 1, 45.56, 59.25, 9.56},
                         Row{"gpt3-175b", 64, 1, 8, 3, 45.56, 66.84, 12.35},
                         Row{"530B", 280, 1, 35, 3, 31.64, 114.02, 23.08},
                         Row{"1T", 512, 1, 64, 1, 32.96, 131.25, 26.56}}) {
    const Scenario scenario = selene_2022(row.model, row.batch);
    ParallelConfig config{
        .tp = 8,
        .pp = row.pp,
        .vpp = row.vpp,
        .micro_batch_size = row.micro_batch_size,
        .schedule = row.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB};
    const TransformerConfig& model = scenario.job.model;
    const double matrices =
        12.0 * model.num_layers * model.hidden_size * model.hidden_size / (8.0 * row.pp);
    EXPECT_NEAR(
        model_state(scenario.stack, {}, {.dense = matrices}, {}).value() / kGibi / row.state, 1.0,
        1e-3)
        << row.model;

    // Ours adds the embedding's dropout masks on the first stage, which the figure leaves out.
    const auto activations = [&](Recompute recompute, bool is_sequence_parallel) {
      config.recompute = recompute;
      config.sequence_parallel = is_sequence_parallel;
      const double shards = is_sequence_parallel ? 8.0 : 1.0;
      // Interleaved, two chunks' warm-ups of p microbatches begin in the first chunk.
      const int kept = row.vpp > 1 ? 2 * row.pp : row.pp;
      const double masks = 1.0 * std::min(kept, row.batch / row.micro_batch_size) *
                           row.micro_batch_size * model.seq_length * model.hidden_size / shards;
      return (rank_memory({scenario, config}, 0).activations.value() - masks) / kGibi;
    };
    EXPECT_NEAR(activations(Recompute::kNone, false) / row.none, 1.0, 1e-3) << row.model;
    EXPECT_NEAR(activations(Recompute::kSelective, true) / row.both, 1.0, 1e-3) << row.model;
  }
}

TEST(PeakMemory, IsTheSameForAnyBatchFromTheDepthOn) {
  const ParallelConfig config{.tp = 8, .pp = 8, .recompute = Recompute::kFull};
  const auto peak = [&](std::int64_t batch) {
    return peak_memory({selene_2021("145B", batch), config});
  };
  EXPECT_EQ(peak(8), peak(16));
  EXPECT_EQ(peak(8), peak(64));
  EXPECT_LT(peak(4), peak(8));
}

TEST(StageParameters, AddUpToTheModelAndTheSecondEmbedding) {
  const TransformerConfig model = find_model("145B").config;
  ParallelConfig config{.pp = 8};
  double total = 0.0;
  for (int rank = 0; rank < config.pp; ++rank) {
    total += rank_parameters(model, config, rank).total();
  }
  const double second_embedding = 51200.0 * model.hidden_size;  // 51200 needs no padding
  EXPECT_DOUBLE_EQ(total, static_cast<double>(parameter_count(model)) + second_embedding);
  config.pp = 1;
  EXPECT_DOUBLE_EQ(rank_parameters(model, config, 0).total(),
                   static_cast<double>(parameter_count(model)));
}

TEST(HeaviestStage, IsTheMaximumOverAllStages) {
  for (const char* name : {"18B", "145B", "1T", "gpt2-1.5b"}) {
    const Scenario scenario = selene_2022(name, 512);
    for (const int pp : {1, 2, 8}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        const ParallelConfig config{
            .tp = 1, .pp = pp, .micro_batch_size = 2, .recompute = recompute};
        const std::vector<MemoryBreakdown> ranks = memory_by_rank({scenario, config});
        const auto heaviest = std::max_element(
            ranks.begin(), ranks.end(), [](const MemoryBreakdown& a, const MemoryBreakdown& b) {
              return a.total() < b.total();
            });
        EXPECT_EQ(peak_memory({scenario, config}), heaviest->total())
            << name << " pp " << pp << ' ' << name_of(recompute);
      }
    }
  }
}

// 16.7 % of an A100's 80 GiB, of a V100's 32, and no more of a GB300's 279.
TEST(ReservedMemory, DoesNotGrowBeyondWhatWasMeasured) {
  const StackSpec stack = find_stack("megatron-lm-2021");
  const auto reserved = [&](const char* gpu) {
    return reserved_memory(find_cluster(gpu).gpu, stack).value() / kGibi;
  };
  EXPECT_NEAR(reserved("selene-a100"), 13.36, 0.01);
  EXPECT_NEAR(reserved("jean-zay-v100"), 5.34, 0.01);
  EXPECT_NEAR(reserved("dgx-gb300"), 13.36, 0.01);
}

TEST(PeakMemory, GrowsWithTheMicrobatchSize) {
  for (const int vpp : {1, 2}) {
    Bytes before;
    for (const int micro_batch_size : {1, 2, 4, 8, 16}) {
      const Bytes peak =
          peak_memory({selene_2021("145B", 2304),
                       {.tp = 8,
                        .pp = 8,
                        .dp = 18,
                        .vpp = vpp,
                        .micro_batch_size = micro_batch_size,
                        .schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB,
                        .recompute = Recompute::kFull}});
      EXPECT_GE(peak, before) << "vpp " << vpp << " b " << micro_batch_size;
      before = peak;
    }
  }
}

TEST(StageMemory, ShardsOnlyTheOptimizerUnderZeroOne) {
  const Scenario scenario = selene_2022("22B", 64);
  const ParallelConfig replicated{.tp = 8, .dp = 16};
  ParallelConfig sharded = replicated;
  sharded.zero_stage = 1;
  const MemoryBreakdown before = rank_memory({scenario, replicated}, 0);
  const MemoryBreakdown after = rank_memory({scenario, sharded}, 0);
  EXPECT_EQ(after.optimizer, before.optimizer / 16.0);
  EXPECT_EQ(after.weights, before.weights);
  EXPECT_EQ(after.gradients, before.gradients);
  EXPECT_EQ(after.activations, before.activations);
}

/// Returns a model of Llama's kind that is small enough to count by hand.
TransformerConfig small_llama() {
  TransformerConfig model;
  model.num_layers = 4;
  model.hidden_size = 512;
  model.num_attention_heads = 8;
  model.num_query_groups = 2;
  model.ffn_hidden_size = 1024;
  model.vocab_size = 1024;
  model.seq_length = 256;
  model.gated_linear_unit = true;
  model.add_bias_linear = false;
  model.untied_embeddings = true;
  model.position_embedding = PositionEmbedding::kRope;
  model.normalization = Normalization::kRmsNorm;
  return resolved(model, "test");
}

// parameter_count() is the oracle: it counts the model as a whole. Tied embeddings stand on two
// stages; these are not tied.
TEST(StageParameters, OfAllStagesOfALlamaAreItsParameters) {
  const auto all = static_cast<double>(parameter_count(small_llama()));
  for (const int pp : {1, 2, 4}) {
    double sum = 0.0;
    for (int rank = 0; rank < pp; ++rank) {
      sum += rank_parameters(small_llama(), {.pp = pp}, rank).total();
    }
    EXPECT_EQ(sum, all) << pp;
  }
  const ParallelConfig uneven{.pp = 2, .layers_per_stage = {3, 1}};
  EXPECT_EQ(rank_parameters(small_llama(), uneven, 0).total() +
                rank_parameters(small_llama(), uneven, 1).total(),
            all);
}

// By hand, per token: inputs of norms and of column-parallel layers 8·512; QKV 2·(512 + 2·128), the
// attention's result 2·512, gate and value 2·2048, their product 2·1024; no masks.
TEST(LayerActivations, OfALlamaAreTheTensorsItKeeps) {
  const double tokens = 3.0 * 256;
  EXPECT_EQ(
      layer_activations(small_llama(), 3, 1, Recompute::kNone, false, {.stores_scores = false}),
      Bytes(tokens * (8 * 512 + 2 * 768 + 2 * 512 + 2 * 2048 + 2 * 1024)));
  EXPECT_EQ(
      layer_activations(small_llama(), 3, 2, Recompute::kNone, true, {.stores_scores = false}),
      Bytes(tokens * (8 * 512 + 2 * 768 + 2 * 512 + 2 * 2048 + 2 * 1024) / 2));
}

// A middle stage of an uneven pipeline can hold most: here 40 of 42 layers.
// Norms of queries and keys keep their inputs: two bytes of h and h/8 features, over four ranks.
TEST(LayerActivations, KeepTheInputsOfNormsOfHeads) {
  TransformerConfig model = find_model("llama-3-70b").config;
  const auto kept = [&] {
    return layer_activations(model, 1, 4, Recompute::kNone, true, {.stores_scores = false});
  };
  const Bytes without = kept();
  model.qk_layernorm = true;
  EXPECT_NEAR((kept() - without).value() / (8192.0 * 2.0 * (8192 + 1024) / 4), 1.0, 1e-12);
}

TEST(HeaviestStage, OfAnUnevenPipelineMayBeAnyOne) {
  Scenario scenario = selene_2021("1T");
  scenario.job.model.num_layers = 42;
  const ParallelConfig config{.tp = 8, .pp = 3, .dp = 6, .layers_per_stage = {1, 40, 1}};
  EXPECT_EQ(heaviest_rank({scenario, config}), 1);
  EXPECT_EQ(peak_memory({scenario, config}), rank_memory({scenario, config}, 1).total());
}

// A rank has s/cp of the tokens, and of each a row of s scores: a quarter of all that is kept, of
// the logits and of the messages; of the optimizer's states where ZeRO shards them.
TEST(StageMemory, OfSharedSequencesHoldsARanksPart) {
  const Scenario scenario = selene_2021("18B");
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    ParallelConfig config{.tp = 8, .pp = 4, .recompute = recompute, .zero_stage = 1};
    for (const int rank : {0, 3}) {
      config.cp = 1;
      const MemoryBreakdown whole = rank_memory({scenario, config}, rank);
      config.cp = 4;
      const MemoryBreakdown shared = rank_memory({scenario, config}, rank);
      EXPECT_DOUBLE_EQ(shared.activations / whole.activations, 0.25) << name_of(recompute);
      EXPECT_DOUBLE_EQ(shared.buffers / whole.buffers, 0.25);
      EXPECT_DOUBLE_EQ(shared.optimizer / whole.optimizer, 0.25);
      EXPECT_EQ(shared.weights, whole.weights);
      EXPECT_EQ(shared.gradients, whole.gradients);
      if (whole.working_set > Bytes(0.0)) {
        EXPECT_DOUBLE_EQ(shared.working_set / whole.working_set, 0.25);
      }
    }
  }
}

// A single replica whose sequences two GPUs share has buckets, too.
TEST(StageMemory, OfSharedSequencesHasBucketsOfAReduction) {
  Scenario scenario = selene_2021("18B");
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.gradient_bucket_bytes = 4.0;
  EXPECT_EQ(rank_memory({scenario, {.tp = 8}}, 0).buffers, Bytes(0.0));
  EXPECT_EQ(rank_memory({scenario, {.tp = 8, .cp = 2}}, 0).buffers,
            rank_memory({scenario, {.tp = 8, .dp = 2}}, 0).buffers);
}

// Elements of 2 bytes per token, by hand: both norms' inputs and outputs of 64; compressed queries
// of 48 and keys and values of 32 before and after their norms, and 8 of positions; four heads of
// 24 of queries, of keys, of values and of their sum; gate, value and their product of 192.
TEST(LayerActivations, OfLatentAttentionAreCountedTensorByTensor) {
  const TransformerConfig model = resolved(small_latent_model(), "model");
  const ActivationStorage storage{.stores_scores = false};
  const double whole = 4 * 64 + 2 * 48 + 2 * 32 + 8;
  const double split = 4 * 96 + 3 * 192;
  const auto kept = [&](const ParallelConfig& config) {
    return layer_activations(model, config, Recompute::kNone, LayerKind{}, storage).value();
  };
  EXPECT_DOUBLE_EQ(kept({.micro_batch_size = 2}), 2.0 * 512 * (whole + split));
  EXPECT_DOUBLE_EQ(kept({.tp = 4, .micro_batch_size = 2}), 2.0 * 512 * (whole + split / 4));
  EXPECT_DOUBLE_EQ(kept({.tp = 4, .micro_batch_size = 2, .sequence_parallel = true}),
                   2.0 * 512 * (whole + split) / 4);
}

// Kept beside attention (four heads of 16 each of queries, keys, values and sum), for two visits of
// each token: rows of 64 that come and go, gate, value and product of 128. Also kept are two scores
// of 4 bytes for each of eight experts.
TEST(LayerActivations, OfExpertsAreThoseOfTheirRows) {
  TransformerConfig model = resolved(small_expert_model(), "model");
  const ActivationStorage storage{.stores_scores = false};
  const auto kept = [&](const ParallelConfig& config, Recompute recompute = Recompute::kNone) {
    return layer_activations(model, config, recompute, {.has_experts = true}, storage).value();
  };
  const double attention = 2.0 * (4 * 64 + 4 * 64);
  const double experts = 2.0 * 2 * (2 * 64 + 3 * 128);
  const double scores = 2.0 * 4 * 8;
  EXPECT_DOUBLE_EQ(kept({.micro_batch_size = 2}), 512 * (attention + experts + scores));
  // Whichever rank has the experts, each works on as many rows.
  EXPECT_DOUBLE_EQ(kept({.dp = 8, .ep = 8, .micro_batch_size = 2}),
                   512 * (attention + experts + scores));
  EXPECT_DOUBLE_EQ(kept({.tp = 2, .micro_batch_size = 2, .sequence_parallel = true}),
                   256 * (attention + experts + scores));
  // Two that share each have the other's rows, too, of half the width.
  EXPECT_DOUBLE_EQ(
      kept({.tp = 2, .ep = 4, .etp = 2, .micro_batch_size = 2, .sequence_parallel = true}),
      256 * (attention + scores + 2.0 * 4 * (2 * 64 + 3 * 64)));
  EXPECT_DOUBLE_EQ(kept({.micro_batch_size = 2}, Recompute::kFull), 512 * 2.0 * 64);
  model.moe_expert_capacity_factor = 1.25;
  EXPECT_DOUBLE_EQ(kept({.micro_batch_size = 2}), 512 * (attention + 1.25 * experts + scores));
}

// Layers 0 and 1 are dense: the first stage holds them, the second three with experts.
TEST(StageMemory, IsThatOfTheKindsOfItsLayers) {
  Scenario scenario = plain_scenario(small_latent_model());
  scenario.job.model.num_layers = 5;
  scenario.job.model.first_dense_layers = 2;
  const ParallelConfig config{.pp = 2, .dp = 4, .ep = 4, .layers_per_stage = {2, 3}};
  const auto kept = [&](LayerKind kind) { return kept_by_layer(scenario, config, kind); };
  // 1F1B: two microbatches on the first stage, one on the last.
  EXPECT_NEAR(rank_memory({scenario, config}, 0).activations.value(),
              (4.0 * kept(LayerKind{})).value(), 1e-6);
  EXPECT_NEAR(rank_memory({scenario, config}, 1).activations.value(),
              (3.0 * kept({.has_experts = true})).value(), 1e-6);
  EXPECT_EQ(heaviest_rank({scenario, config}), 1);
}

// By hand, interleaved: the last stage holds three chunks at its worst, which are all of the chunk
// of three layers while its other chunk has one.
TEST(StageMemory, HoldsTheChunksThatKeepMost) {
  Scenario scenario = plain_scenario(small_latent_model());
  scenario.job.model.num_layers = 8;
  scenario.job.model.first_dense_layers = 8;
  const ParallelConfig config{
      .pp = 2, .vpp = 2, .schedule = ScheduleKind::kInterleaved, .layers_per_stage = {3, 1, 1, 3}};
  EXPECT_NEAR(rank_memory({scenario, config}, 1).activations.value(),
              (9.0 * kept_by_layer(scenario, config, LayerKind{})).value(), 1e-6);
}

// Megatron-Core's loss keeps one fp32 array beside the logits, Megatron-LM's of 2021 two: 4 bytes
// of 2048 tokens and 51200 entries of the vocabulary.
TEST(StageMemory, HoldsWhatTheLossKeepsOfEachLogit) {
  Scenario scenario = shipped_scenario("1.7B", "selene-a100", "megatron-lm-2021");
  const ParallelConfig config;
  const Bytes two = rank_memory({scenario, config}, 0).working_set;
  scenario.stack.loss_bytes = find_stack("megatron-core-2025").loss_bytes;
  EXPECT_EQ(two - rank_memory({scenario, config}, 0).working_set, Bytes(4.0 * 2048 * 51200));
}

// A loss that is written for split logits has arrays of its own; one rank alone has none of them.
TEST(StageMemory, HoldsWhatTheLossKeepsOfEachSplitLogit) {
  Scenario scenario = shipped_scenario("1.7B", "selene-a100", "megatron-lm-2021");
  const auto held = [&](int tp) { return rank_memory({scenario, {.tp = tp}}, 0).working_set; };
  const Bytes alone = held(1);
  const Bytes split = held(2);
  scenario.stack.split_loss_bytes = scenario.stack.loss_bytes + 6.0;
  EXPECT_EQ(held(1), alone);
  EXPECT_EQ(held(2) - split, Bytes(6.0 * 2048 * 51200 / 2));
}

// By hand, of modules that each predict one more token with logits of their own, on the last stage:
// 2 bytes and 4 of the loss of 2048 tokens and 51200 entries of the vocabulary over two ranks.
TEST(StageMemory, HoldsTheLogitsOfEveryTokenThatIsPredicted) {
  Scenario scenario = shipped_scenario("1.7B", "selene-a100", "megatron-core-2025");
  const auto held = [&](int rank) {
    return rank_memory({scenario, {.tp = 2, .pp = 2}}, rank).working_set;
  };
  const Bytes first = held(0);
  const Bytes last = held(1);
  for (const int more : {1, 2}) {
    scenario.job.model.mtp_num_layers = more;
    EXPECT_EQ(held(0), first);
    EXPECT_EQ(held(1) - last, Bytes(more * 6.0 * 2048 * 51200 / 2)) << more;
  }
}

// A fp32 copy of all that a rank reduces, experts included: of each of four layers it has all eight
// of three matrices of 64 by 128, or one.
TEST(StageMemory, HasBucketsOfTheGradientsOfItsExperts) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.gradient_bucket_bytes = 4.0;
  const auto all = static_cast<double>(parameter_count(scenario.job.model));
  EXPECT_DOUBLE_EQ(rank_memory({scenario, {.dp = 2}}, 0).buffers.value(), 4.0 * all);
  EXPECT_DOUBLE_EQ(rank_memory({scenario, {.dp = 8, .ep = 8}}, 0).buffers.value(),
                   4.0 * (all - 4.0 * 7 * 3 * 64 * 128));
}

Scenario llama_3_405b() {
  return shipped_scenario("llama-3.1-405b", "grand-teton-h100", "meta-llama3", 2048);
}

/// Returns Meta's configuration of Llama 3 405B: layers one by one, with embedding and logits as
/// chunks of their own.
ParallelConfig configuration_of_meta() {
  ParallelConfig config{.tp = 8,
                        .pp = 16,
                        .dp = 128,
                        .vpp = 8,
                        .schedule = ScheduleKind::kInterleaved,
                        .recompute = Recompute::kNone,
                        .sequence_parallel = true,
                        .zero_stage = 2};
  config.layers_per_stage.assign(128, 1);
  config.layers_per_stage.front() = 0;
  config.layers_per_stage.back() = 0;
  return config;
}

// By hand, Llama 3 405B as arXiv:2407.21783 trains it (table 4 and section 3.3.2): tp 8, pp 16,
// layers one by one, embedding and logits as chunks of their own, bf16, no recomputation, fp32
// gradients. A layer has (2·16384² + 2·16384·1024 + 3·16384·53248)/8 + 2·16384 = 398,491,648
// parameters on a rank. It keeps of each of its 8192 tokens 8·16384 bytes of norms and what they
// give, 2·(16384 + 2·1024) of q, k and v, 2·16384 of attention and 6·53248 of the MLP, all over 8.
// All 16 microbatches of 16 stages are forward first, so 8·16 layers are kept. The gradients of two
// layers are whole; of the other six a rank has a 128th each.
TEST(StageMemory, OfChunksThatAreReducedOneByOneHasWholeGradientsOfTwo) {
  const Scenario scenario = llama_3_405b();
  ParallelConfig config = configuration_of_meta();
  const double layer = 398'491'648.0;
  const double kept = 8192.0 * (8 * 16384 + 2 * 18432 + 2 * 16384 + 6 * 53248) / 8;
  const MemoryBreakdown all = rank_memory({scenario, config}, 1);
  EXPECT_DOUBLE_EQ(all.weights.value(), 2.0 * 8 * layer);
  EXPECT_DOUBLE_EQ(all.gradients.value(), 4.0 * (2 * layer + 6 * layer / 128));
  EXPECT_DOUBLE_EQ(all.activations.value(), 8 * 16 * kept);
  EXPECT_LT(all.total(), scenario.cluster.gpu.memory);

  // On half as many GPUs two groups of 16 take turns: 7·16 + 2·14 + 1 layers are kept (SC21,
  // Megatron-LM's warm-up), and all gradients accumulate at once.
  config.dp = 64;
  const MemoryBreakdown in_turns = rank_memory({scenario, config}, 1);
  EXPECT_DOUBLE_EQ(in_turns.gradients.value(), 4.0 * 8 * layer);
  EXPECT_DOUBLE_EQ(in_turns.activations.value(), 141 * kept);
}

// The first stage has the embedding's 128256·16384/8 parameters whole, too, and seven layers.
TEST(StageMemory, OfReducedChunksHasTheEndsOfTheModelWhole) {
  const Scenario scenario = llama_3_405b();
  ParallelConfig config = configuration_of_meta();
  const double table = static_cast<double>(padded_vocab_size(scenario.job.model, 8)) * 16384 / 8;
  const double layer = 398'491'648.0;
  EXPECT_DOUBLE_EQ(rank_memory({scenario, config}, 0).gradients.value(),
                   4.0 * (table + 2 * layer + 5 * layer / 128));
  config.zero_stage = 1;
  EXPECT_DOUBLE_EQ(rank_memory({scenario, config}, 0).gradients.value(), 4.0 * (table + 7 * layer));
}

// Twice as large microbatches of twice the batch are equally many. One more sequence in each adds
// what one sequence takes.
TEST(MemoryOfRanks, KnowWhatIsProportionalToTheMicrobatch) {
  const Scenario one = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-bridge-2025", 64);
  const Scenario two = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-bridge-2025", 128);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    ParallelConfig config{.tp = 2,
                          .pp = 3,
                          .dp = 4,
                          .ep = 8,
                          .recompute = recompute,
                          .sequence_parallel = true,
                          .zero_stage = 1,
                          .layers_per_stage = {21, 20, 20}};
    const LayersOfRanks layers(one.job.model, config);
    const MemoryOfRanks memories({one, config});
    for (int rank = 0; rank < config.pp; ++rank) {
      const MemoryBreakdown memory = memories.of_rank(config, layers, rank);
      ParallelConfig twice = config;
      twice.micro_batch_size = 2;
      const Bytes added = rank_memory({two, twice}, rank).total() - memory.total();
      EXPECT_NEAR(added / memories.proportional_to_size(memory), 1.0, 1e-9) << rank;
    }
  }
}

}  // namespace
}  // namespace ptdp
