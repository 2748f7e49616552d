// Tests of every constraint that a configuration may violate.
#include "planner/constraints/constraint.h"
#include "cost_model/inputs/stack_precision.h"

#include <gtest/gtest.h>

#include "cost_model/iteration/offload.h"
#include "cost_model/memory/memory.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a configuration of the 1T model that violates nothing.
ParallelConfig valid() {
  return {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
}

std::optional<Constraint> violation(const ParallelConfig& config) {
  const Scenario scenario = selene_2021("1T");
  return find_violation({scenario, config}, usable_memory(scenario.cluster.gpu, 0.0));
}

TEST(FindViolation, FindsNothingInThePublishedConfiguration) {
  EXPECT_EQ(violation(valid()), std::nullopt);
}

// Composer's FSDP shards weights, and splits no product over GPUs.
TEST(FindViolation, KnowsStacksWithoutTensorParallelism) {
  const Scenario scenario = shipped_scenario("llama-2-7b", "mosaicml-h100", "composer-fsdp-2024");
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  const auto of = [&](int tp) {
    return find_violation({scenario, {.tp = tp, .dp = 16 / tp, .zero_stage = 3}}, capacity);
  };
  EXPECT_EQ(of(1), std::nullopt);
  EXPECT_EQ(of(2), Constraint::kNotRunByStack);
}

// The 1T model: 160 heads, MLP width 102400, 128 layers, batch 3072, 2048 tokens.
TEST(FindViolation, NamesTheConstraint) {
  const auto changed = [](auto change) {
    ParallelConfig config = valid();
    change(config);
    return violation(config);
  };
  using C = ParallelConfig;
  EXPECT_EQ(changed([](C& c) { c.tp = 3; }), Constraint::kHeadsByTp);
  EXPECT_EQ(changed([](C& c) { c.pp = 3; }), Constraint::kLayersByPp);
  EXPECT_EQ(changed([](C& c) { c.dp = 4096; }), Constraint::kDpBeyondBatch);
  EXPECT_EQ(changed([](C& c) { c.dp = 5; }), Constraint::kBatchByDp);
  EXPECT_EQ(changed([](C& c) { c.micro_batch_size = 5; }), Constraint::kBatchByDp);
  EXPECT_EQ(changed([](C& c) { c.recompute = Recompute::kSelective; }), Constraint::kNotRunByStack);
  EXPECT_EQ(changed([](C& c) { c.zero_stage = 1; }), Constraint::kNotRunByStack);
  EXPECT_EQ(changed([](C& c) { c.sequence_parallel = true; }), Constraint::kNotRunByStack);
  EXPECT_EQ(changed([](C& c) {
              c.vpp = 3;
              c.schedule = ScheduleKind::kInterleaved;
            }),
            Constraint::kLayersByPpVpp);
  EXPECT_EQ(changed([](C& c) {
              c.pp = 2;
              c.vpp = 2;
              c.schedule = ScheduleKind::kInterleaved;
            }),
            Constraint::kInterleavedMinStages);
  EXPECT_EQ(changed([](C& c) {
              c.vpp = 2;
              c.schedule = ScheduleKind::kInterleaved;
              c.micro_batch_size = 16;  // 32 microbatches for 64 stages
            }),
            Constraint::kMicrobatchesByPp);
  EXPECT_EQ(changed([](C& c) { c.recompute = Recompute::kNone; }), Constraint::kMemoryFirstStage);
}

TEST(FindViolation, KnowsWhatTheStackRecomputes) {
  const auto of = [](const std::string& model, const std::string& stack,
                     const ParallelConfig& config) {
    return find_shape_violation({shipped_scenario(model, "dgx-h100", stack, 512), config});
  };
  const ParallelConfig modules{
      .tp = 8,
      .recompute = Recompute::kSelective,
      .recompute_modules = {RecomputeModule::kCoreAttention, RecomputeModule::kMlp}};
  EXPECT_EQ(of("18B", "megatron-core-2025", modules), std::nullopt);
  EXPECT_EQ(of("18B", "megatron-core-2024", modules), Constraint::kNotRunByStack);
  const ParallelConfig products{.recompute = Recompute::kSelective,
                                .recompute_modules = {RecomputeModule::kEverySecondProduct},
                                .zero_stage = 3};
  EXPECT_EQ(of("llama-3-8b", "torchtitan-2024", products), std::nullopt);
  EXPECT_EQ(of("mixtral-8x7b", "torchtitan-2024", products), Constraint::kNotRunByStack);
  EXPECT_EQ(of("llama-3-8b", "megatron-core-2025", products), Constraint::kNotRunByStack);
  // What delayed scaling would cast twice.
  Scenario fp8 = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 512);
  const ParallelConfig activations{.recompute = Recompute::kSelective,
                                   .recompute_modules = {RecomputeModule::kMoeActivation}};
  for (const auto& [recipe, expected] :
       {std::pair("fp8-delayed", std::optional(Constraint::kNotRunByStack)),
        std::pair("fp8-current", std::optional<Constraint>())}) {
    fp8.stack = with_fp8(find_stack("megatron-core-2025"), recipe);
    EXPECT_EQ(find_shape_violation({fp8, activations}), expected) << recipe;
  }
  // Ten layers on each stage.
  ParallelConfig layers{.tp = 8,
                        .pp = 4,
                        .recompute = Recompute::kFull,
                        .recompute_method = RecomputeMethod::kBlock,
                        .recompute_num_layers = 10};
  EXPECT_EQ(of("18B", "megatron-core-2025", layers), std::nullopt);
  layers.recompute_num_layers = 11;
  EXPECT_EQ(of("18B", "megatron-core-2025", layers), Constraint::kRecomputedLayers);
  layers.layers_per_stage = {9, 9, 11, 11};
  EXPECT_EQ(of("18B", "megatron-core-2025", layers), std::nullopt);
  layers.recompute_method = RecomputeMethod::kEvery;
  EXPECT_EQ(of("18B", "megatron-core-2025", layers), Constraint::kNotRunByStack);
}

// Llama's layers have products in the order that the stack's policy knows; with latent attention,
// without any experts, there are more of them.
TEST(FindViolation, RecomputesEverySecondProductOfLlamasLayersAlone) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", 512);
  ParallelConfig config{.recompute = Recompute::kSelective,
                        .recompute_modules = {RecomputeModule::kEverySecondProduct},
                        .zero_stage = 3};
  EXPECT_EQ(find_shape_violation({scenario, config}), std::nullopt);
  TransformerConfig& model = scenario.job.model;
  model.kv_lora_rank = 512;
  model.qk_head_dim = 128;
  model.qk_pos_emb_head_dim = 64;
  model.v_head_dim = 128;
  ASSERT_EQ(model.num_experts, 0);
  EXPECT_EQ(find_shape_violation({scenario, config}), Constraint::kNotRunByStack);
  // The stack runs attention of this kind otherwise; only its recomputation is refused.
  config.recompute = Recompute::kNone;
  EXPECT_EQ(find_shape_violation({scenario, config}), std::nullopt);
}

TEST(FindViolation, LeavesSequencesOfRelativePositionsWhole) {
  const auto violation = [](const char* stack, const ParallelConfig& config) {
    const Scenario scenario = shipped_scenario("chinchilla-70b", "dgx-h100", stack, 512);
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(violation("megatron-core-2025", {.tp = 8}), std::nullopt);
  EXPECT_EQ(violation("megatron-core-2025", {.tp = 8, .cp = 2}), Constraint::kNotRunByStack);
  EXPECT_EQ(violation("torchtitan-2024", {.tp = 8, .zero_stage = 3}), std::nullopt);
  EXPECT_EQ(
      violation("torchtitan-2024", {.tp = 8,
                                    .recompute = Recompute::kSelective,
                                    .recompute_modules = {RecomputeModule::kEverySecondProduct},
                                    .zero_stage = 3}),
      Constraint::kNotRunByStack);
}

TEST(FindViolation, NamesTheMlpWidthAndTheSequence) {
  Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  scenario.job.model.ffn_hidden_size = 4 * 25600 + 4;
  EXPECT_EQ(find_shape_violation({scenario, valid()}), Constraint::kFfnByTp);
  scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  scenario.job.model.seq_length = 2044;
  ParallelConfig config = valid();
  config.sequence_parallel = true;
  EXPECT_EQ(find_shape_violation({scenario, config}), Constraint::kSequenceByTp);
}

// 160 heads, 2048 tokens: in two chunks per GPU, cp may be up to 1024; with tp = 8 each of cp = 4
// has 5 heads, of cp = 8 none has as many. Parts of 2048/512 tokens do not split over tp = 8.
TEST(FindViolation, NamesWhatSharedSequencesViolate) {
  Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  ParallelConfig config = valid();
  config.dp = 1;
  const auto violation = [&](int cp) {
    config.cp = cp;
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(violation(1), std::nullopt);
  EXPECT_EQ(violation(2), Constraint::kNotRunByStack);
  scenario.stack.can_run.context_parallel = true;
  EXPECT_EQ(violation(2), std::nullopt);
  EXPECT_EQ(violation(3), Constraint::kSequenceByCp);
  EXPECT_EQ(violation(512), std::nullopt);
  EXPECT_EQ(violation(2048), Constraint::kSequenceByCp);
  config.sequence_parallel = true;
  EXPECT_EQ(violation(256), std::nullopt);
  EXPECT_EQ(violation(512), Constraint::kSequenceByTp);
  scenario.stack.context_parallel_kind = ContextParallel::kAllToAll;
  EXPECT_EQ(violation(4), std::nullopt);
  EXPECT_EQ(violation(8), Constraint::kHeadsByTpCp);
}

TEST(FindViolation, NamesTheLastStageWhereTheLogitsAreTooMuch) {
  // A wide vocabulary on a shallow model: the last stage holds ten bytes per logit.
  Scenario scenario = selene_2021("gpt2-124m", 64);
  scenario.job.model.vocab_size = 5'000'000;
  const ParallelConfig config{.pp = 2, .micro_batch_size = 4, .recompute = Recompute::kFull};
  const Bytes first = rank_memory({scenario, config}, 0).total();
  ASSERT_GT(rank_memory({scenario, config}, 1).total(), first);
  EXPECT_EQ(find_violation({scenario, config}, first), Constraint::kMemoryLastStage);
  // If neither end fits, the first stage is named.
  EXPECT_EQ(find_violation({scenario, config}, first - Bytes(1.0)), Constraint::kMemoryFirstStage);
}

TEST(FindViolation, AcceptsTheLastByteAndRefusesTheNext) {
  const Scenario scenario = selene_2021("1T");
  const Bytes peak = peak_memory({scenario, valid()});
  EXPECT_EQ(find_violation({scenario, valid()}, peak), std::nullopt);
  EXPECT_EQ(find_violation({scenario, valid()}, peak - Bytes(1.0)), Constraint::kMemoryFirstStage);
}

TEST(UsableMemory, LeavesTheHeadroom) {
  const GpuSpec gpu = find_gpu("a100-80gb-sxm");
  EXPECT_EQ(usable_memory(gpu, 0.0), gpu.memory);
  EXPECT_DOUBLE_EQ(usable_memory(gpu, 0.08) / gpu.memory, 0.92);
}

TEST(Constraints, HaveOneTextEach) {
  for (const ConstraintText& text : kConstraints) {
    EXPECT_EQ(&text_of(text.constraint), &text) << text.name;
  }
}

// Mixtral 8x7B: 8 experts of 14336.
TEST(FindViolation, NamesWhatExpertsDoNotAllow) {
  const Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(of({.tp = 2, .dp = 8, .ep = 8, .etp = 2, .sequence_parallel = true}), std::nullopt);
  EXPECT_EQ(of({.dp = 3, .ep = 3}), Constraint::kExpertsByEp);
  EXPECT_EQ(of({.dp = 3, .etp = 3}), Constraint::kExpertFfnByEtp);
  EXPECT_EQ(of({.tp = 2, .dp = 4, .ep = 8}), Constraint::kExpertsWholeSequences);
  EXPECT_EQ(of({.dp = 4, .ep = 8}), Constraint::kRanksByExperts);
  EXPECT_EQ(of({.tp = 2, .dp = 2, .ep = 4, .etp = 2, .sequence_parallel = true}),
            Constraint::kRanksByExperts);
  const RankOrder replicas_last = RankOrder::kTpCpEpPpDp;
  EXPECT_EQ(of({.pp = 2, .dp = 8, .cp = 2, .ep = 2, .rank_order = replicas_last}), std::nullopt);
  EXPECT_EQ(of({.pp = 2, .dp = 8, .cp = 2, .ep = 4, .rank_order = replicas_last}),
            Constraint::kExpertsByRankOrder);
  const Scenario dense = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  EXPECT_EQ(find_shape_violation({dense, {.dp = 2, .ep = 2}}), Constraint::kExpertsByEp);
  EXPECT_EQ(find_shape_violation({dense, {.tp = 2, .dp = 2}}), std::nullopt);
}

TEST(FindViolation, NamesWhatCannotBeOffloaded) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(of({.dp = 2, .zero_stage = 1, .offload = Offload::kBoth}), std::nullopt);
  EXPECT_EQ(of({.dp = 2, .offload = Offload::kOptimizer}), Constraint::kOffloadedOptimizer);
  EXPECT_EQ(of({.pp = 2, .dp = 2, .offload = Offload::kActivations}),
            Constraint::kOffloadedActivations);
  EXPECT_EQ(of({.dp = 2, .recompute = Recompute::kFull, .offload = Offload::kActivations}),
            Constraint::kOffloadedActivations);
  ParallelConfig some{.dp = 2, .offload = Offload::kActivations, .offload_num_layers = 31};
  EXPECT_EQ(of(some), std::nullopt);
  some.offload_num_layers = 32;  // all
  EXPECT_EQ(of(some), Constraint::kOffloadedActivations);
  const ParallelConfig config{.dp = 2, .zero_stage = 1, .offload = Offload::kOptimizer};
  scenario.cluster.host->memory = Bytes(1e9);
  EXPECT_EQ(of(config), Constraint::kHostMemory);
  scenario.cluster.host.reset();
  EXPECT_EQ(of(config), Constraint::kHostMemory);
  scenario.stack.can_run.offload.clear();
  EXPECT_EQ(of(config), Constraint::kNotRunByStack);
}

// An MLP that tp does not divide matters where a layer has one.
TEST(FindViolation, LooksAtTheMlpOfDenseLayersAlone) {
  Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  const ParallelConfig config{.tp = 2, .dp = 8, .sequence_parallel = true};
  scenario.job.model.ffn_hidden_size = 14337;
  EXPECT_EQ(find_shape_violation({scenario, config}), std::nullopt);
  scenario.job.model.first_dense_layers = 1;
  EXPECT_EQ(find_shape_violation({scenario, config}), Constraint::kFfnByTp);
  scenario.job.model.ffn_hidden_size = 14336;
  scenario.job.model.moe_shared_expert_intermediate_size = 4097;
  EXPECT_EQ(find_shape_violation({scenario, config}), Constraint::kFfnByTp);
}

// 12 heads in 4 groups, an MLP of 48 and one shared by experts of 36. By long division: 5 divides
// no heads, 3, 6 and 12 do not divide the groups though some are larger; nothing else is in the
// way.
TEST(FindTpViolation, WantsHeadsMlpAndGroupsDividedInThisOrder) {
  Scenario scenario;
  TransformerConfig& model = scenario.job.model;
  model = {.num_layers = 2,
           .num_attention_heads = 12,
           .num_query_groups = 4,
           .kv_channels = 8,
           .ffn_hidden_size = 48,
           .moe_shared_expert_intermediate_size = 36};
  const auto of = [&](int tp) { return find_tp_violation(scenario, tp); };
  for (const int tp : {1, 2, 4}) {
    EXPECT_EQ(of(tp), std::nullopt) << tp;
  }
  for (const int tp : {3, 6, 12}) {
    EXPECT_EQ(of(tp), Constraint::kGroupsByTp) << tp;
  }
  for (const int tp : {5, 8, 24}) {
    EXPECT_EQ(of(tp), Constraint::kHeadsByTp) << tp;
  }
  model.moe_shared_expert_intermediate_size = 34;  // even, but no multiple of 4
  EXPECT_EQ(of(2), std::nullopt);
  EXPECT_EQ(of(4), Constraint::kFfnByTp);
  EXPECT_EQ(of(3), Constraint::kFfnByTp);  // before the groups
}

// Layer norms over all heads would need means over ranks, which this project's runtime does not
// form.
TEST(FindShapeViolation, KeepsLayerNormsOverAllHeadsOnOneRankOfTheOwnRuntime) {
  Scenario scenario{.job = {.model = find_model("qwen3-8b").config, .global_batch_size = 8},
                    .cluster = find_cluster("dgx-h100"),
                    .stack = find_stack("ptdp-cuda")};
  const auto of = [&](int tp) { return find_shape_violation({scenario, {.tp = tp}}); };
  EXPECT_EQ(of(2), std::nullopt);
  scenario.job.model.qk_layernorm_width = QkNormWidth::kAllHeads;
  EXPECT_EQ(of(2), std::nullopt);
  scenario.job.model.normalization = Normalization::kLayerNorm;
  EXPECT_EQ(of(2), Constraint::kNotRunByStack);
  EXPECT_EQ(of(1), std::nullopt);
  scenario.stack = find_stack("megatron-core-2025");
  EXPECT_EQ(of(2), std::nullopt);
}

// 12 heads of 8 elements in 2 groups. Of the divisors of 12 above 2, 3 is no multiple of 2; 6 and
// 12 would cut a head into 3 and 6 parts, which do not divide 8. Heads of 6 elements they divide.
TEST(FindTpViolation, LetsRanksShareKeyHeadsWhereTheStackSplitsThem) {
  Scenario scenario;
  TransformerConfig& model = scenario.job.model;
  model = {.num_layers = 2,
           .num_attention_heads = 12,
           .num_query_groups = 2,
           .kv_channels = 8,
           .ffn_hidden_size = 48};
  const auto of = [&](int tp) { return find_tp_violation(scenario, tp); };
  EXPECT_EQ(of(4), Constraint::kGroupsByTp);
  for (const SplitKeyHeads how : {SplitKeyHeads::kGatherKeysAndValues, SplitKeyHeads::kGatherQkv}) {
    scenario.stack.can_run.split_key_heads = how;
    model.kv_channels = 8;
    for (const int tp : {1, 2, 4}) {
      EXPECT_EQ(of(tp), std::nullopt) << tp;
    }
    for (const int tp : {3, 6, 12}) {
      EXPECT_EQ(of(tp), Constraint::kGroupsByTp) << tp;
    }
    model.kv_channels = 6;
    EXPECT_EQ(of(6), std::nullopt);
    EXPECT_EQ(of(12), std::nullopt);
    EXPECT_EQ(of(3), Constraint::kGroupsByTp);
  }
}

// A rank of tp = 2 without sequence parallelism routes tokens twice, spread experts or not; an
// order of ranks with replicas farthest apart wants tp * cp of them, as many as 1.
TEST(FindViolation, LooksAtExpertsThatNoRanksShare) {
  const Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(of({.tp = 2, .dp = 8}), Constraint::kExpertsWholeSequences);
  EXPECT_EQ(of({.tp = 2, .dp = 8, .sequence_parallel = true}), std::nullopt);
  EXPECT_EQ(of({.dp = 8}), std::nullopt);
  const RankOrder replicas_last = RankOrder::kTpCpEpPpDp;
  EXPECT_EQ(of({.pp = 2, .dp = 8, .rank_order = replicas_last}), std::nullopt);
  EXPECT_EQ(of({.tp = 2, .pp = 2, .dp = 8, .sequence_parallel = true, .rank_order = replicas_last}),
            Constraint::kExpertsByRankOrder);
  EXPECT_EQ(of({.dp = 8, .cp = 2, .rank_order = replicas_last}), std::nullopt);  // no stages
}

/// Returns Llama 3 8B (32 heads in 8 groups, 32 layers) on a stack that runs everything.
Scenario of_any_stack(std::int64_t batch = 64) {
  Scenario scenario =
      with_every_schedule(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", batch));
  scenario.stack.can_run.zero_stages = {0, 1, 2, 3};
  scenario.stack.can_run.hybrid_sharding = true;
  scenario.stack.can_run.kept_weights = true;
  return scenario;
}

// The last of each that can be, and its neighbor.
TEST(FindViolation, BeginsRightBehindEachLimit) {
  Scenario scenario = of_any_stack();
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation({scenario, config});
  };
  using C = Constraint;
  // 64 sequences: on as many replicas, and on one more; 32 pairs, but not 16 fours for 32 replicas.
  EXPECT_EQ(of({.dp = 64}), std::nullopt);
  EXPECT_EQ(of({.dp = 65}), C::kDpBeyondBatch);
  EXPECT_EQ(of({.dp = 32, .micro_batch_size = 2}), std::nullopt);
  EXPECT_EQ(of({.dp = 32, .micro_batch_size = 4}), C::kBatchByDp);
  EXPECT_EQ(of({.dp = 48}), C::kBatchByDp);

  const auto replicated = [](int dp_replicate, int zero_stage) {
    return ParallelConfig{.dp = 8, .zero_stage = zero_stage, .dp_replicate = dp_replicate};
  };
  EXPECT_EQ(of(replicated(8, 1)), std::nullopt);
  EXPECT_EQ(of(replicated(2, 0)), C::kReplicasOfShards);
  EXPECT_EQ(of(replicated(1, 0)), std::nullopt);
  EXPECT_EQ(of(replicated(3, 3)), C::kDpByReplicas);
  EXPECT_EQ(of(replicated(16, 3)), C::kDpByReplicas);
  // Weights are gathered for passes by stage 3 without a pipeline alone.
  ParallelConfig kept{.dp = 8, .zero_stage = 3, .reshard_after_forward = false};
  EXPECT_EQ(of(kept), std::nullopt);
  kept.pp = 2;
  EXPECT_EQ(of(kept), C::kReplicasOfShards);
  kept.pp = 1;
  kept.zero_stage = 2;
  EXPECT_EQ(of(kept), C::kReplicasOfShards);

  const auto spread = [](std::vector<int> layers, int pp, int vpp = 1) {
    return ParallelConfig{
        .pp = pp,
        .vpp = vpp,
        .schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB,
        .layers_per_stage = std::move(layers)};
  };
  EXPECT_EQ(of(spread({15, 17}, 2)), std::nullopt);
  EXPECT_EQ(of(spread({16, 17}, 2)), C::kLayersPerStage);
  EXPECT_EQ(of(spread({15, 16}, 2)), C::kLayersPerStage);
  EXPECT_EQ(of(spread({8, 8, 16}, 2)), C::kLayersPerStage);
  EXPECT_EQ(of(spread({7, 8, 8, 9}, 2, 2)), std::nullopt);
  EXPECT_EQ(of(spread({15, 17}, 2, 2)), C::kLayersPerStage);
  EXPECT_EQ(of(spread({}, 3)), C::kLayersByPp);
  EXPECT_EQ(of(spread({}, 4, 8)), std::nullopt);
  EXPECT_EQ(of(spread({}, 4, 3)), C::kLayersByPpVpp);
  // 64 / 16 = 4 microbatches fill four stages, 64 / 32 = 2 do not.
  ParallelConfig interleaved = spread({}, 4, 2);
  interleaved.dp = 16;
  EXPECT_EQ(of(interleaved), std::nullopt);
  interleaved.dp = 32;
  EXPECT_EQ(of(interleaved), C::kMicrobatchesByPp);
  interleaved.dp = 16;
  scenario.stack.can_run.interleaved_min_stages = 4;
  EXPECT_EQ(of(interleaved), std::nullopt);
  scenario.stack.can_run.interleaved_min_stages = 5;
  EXPECT_EQ(of(interleaved), C::kInterleavedMinStages);
  interleaved.vpp = 1;
  interleaved.schedule = ScheduleKind::kOneFOneB;
  EXPECT_EQ(of(interleaved), std::nullopt);
}

// DualPipe has two microbatches for each of an even number of stages at least, and an even number:
// 8 for four stages, neither 4 nor 9; with three stages it does not exist.
TEST(FindViolation, TellsStagesFromMicrobatchesThatAScheduleIsNotFor) {
  const auto of = [](int pp, int dp, std::int64_t batch) {
    Scenario scenario = of_any_stack(batch);
    scenario.job.model.num_layers = 12;
    return find_shape_violation(
        {scenario, {.pp = pp, .dp = dp, .schedule = ScheduleKind::kDualPipe}});
  };
  EXPECT_EQ(of(4, 8, 64), std::nullopt);
  EXPECT_EQ(of(4, 16, 64), Constraint::kScheduleByMicrobatches);
  EXPECT_EQ(of(4, 1, 9), Constraint::kScheduleByMicrobatches);
  EXPECT_EQ(of(4, 1, 10), std::nullopt);
  EXPECT_EQ(of(3, 8, 64), Constraint::kScheduleByPp);
  EXPECT_EQ(of(1, 64, 64), std::nullopt);  // one stage has no schedule
}

TEST(FindViolation, GivesAHostItsLastByte) {
  Scenario scenario = of_any_stack();
  const ParallelConfig config{.dp = 2, .zero_stage = 1, .offload = Offload::kBoth};
  const Bytes needed = host_memory({scenario, config});
  ASSERT_GT(needed, Bytes(1.0));
  scenario.cluster.host->memory = needed;
  EXPECT_EQ(find_shape_violation({scenario, config}), std::nullopt);
  scenario.cluster.host->memory = needed - Bytes(1.0);
  EXPECT_EQ(find_shape_violation({scenario, config}), Constraint::kHostMemory);
}

// Each capability is taken away from a stack that has all of them. What somebody did run can be
// costed all the same.
TEST(FindViolation, AsksTheStackForWhatAConfigurationNeeds) {
  struct Need {
    const char* name;
    ParallelConfig config;
    void (*take)(StackCapabilities&);
  };
  using Can = StackCapabilities;
  const std::vector<Need> needs = {
      {"schedule",
       {.pp = 2, .schedule = ScheduleKind::kGPipe},
       [](Can& can) { std::erase(can.schedules, ScheduleKind::kGPipe); }},
      {"recompute",
       {.recompute = Recompute::kFull},
       [](Can& can) { std::erase(can.recompute, Recompute::kFull); }},
      {"modules",
       {.recompute = Recompute::kSelective, .recompute_modules = {RecomputeModule::kMlp}},
       [](Can& can) { can.recompute_modules = kCoreAttentionAlone; }},
      {"method",
       {.recompute = Recompute::kFull,
        .recompute_method = RecomputeMethod::kUniform,
        .recompute_num_layers = 2},
       [](Can& can) { std::erase(can.recompute_methods, RecomputeMethod::kUniform); }},
      {"ZeRO", {.zero_stage = 2}, [](Can& can) { std::erase(can.zero_stages, 2); }},
      {"order",
       {.pp = 4, .rank_order = RankOrder::kTpCpEpPpDp},
       [](Can& can) { can.rank_orders.clear(); }},
      {"offload",
       {.zero_stage = 1, .offload = Offload::kOptimizer},
       [](Can& can) { std::erase(can.offload, Offload::kOptimizer); }},
      {"sequence parallelism",
       {.tp = 2, .sequence_parallel = true},
       [](Can& can) { can.sequence_parallel = false; }},
      {"context parallelism", {.cp = 2}, [](Can& can) { can.context_parallel = false; }},
      {"hybrid sharding",
       {.dp = 4, .zero_stage = 3, .dp_replicate = 2},
       [](Can& can) { can.hybrid_sharding = false; }},
      {"optimizer instances",
       {.dp = 4, .zero_stage = 1, .dp_replicate = 2},
       [](Can& can) { can.hybrid_sharding = can.optimizer_instances = false; }},
      {"optimizer instances, which are of ZeRO 1",
       {.dp = 4, .zero_stage = 3, .dp_replicate = 2},
       [](Can& can) { can.hybrid_sharding = false; }},
      {"kept weights",
       {.dp = 2, .zero_stage = 3, .reshard_after_forward = false},
       [](Can& can) { can.kept_weights = false; }},
      {"uneven layers", {.pp = 2, .layers_per_stage = {15, 17}}, [](Can& can) {
         can.uneven_layers = false;
       }}};
  for (const Need& need : needs) {
    Scenario scenario = of_any_stack();
    EXPECT_EQ(find_shape_violation({scenario, need.config}), std::nullopt) << need.name;
    need.take(scenario.stack.can_run);
    EXPECT_EQ(find_shape_violation({scenario, need.config}), Constraint::kNotRunByStack)
        << need.name;
    EXPECT_EQ(find_divisibility_violation({scenario, need.config}), std::nullopt) << need.name;
  }
  Scenario experts = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  EXPECT_EQ(find_shape_violation({experts, {}}), std::nullopt);
  experts.stack.can_run.expert_parallel = false;
  EXPECT_EQ(find_shape_violation({experts, {}}), Constraint::kNotRunByStack);
  EXPECT_EQ(find_divisibility_violation({experts, {}}), std::nullopt);
}

// What divides is asked of configurations that somebody ran as of those that are planned.
TEST(FindDivisibilityViolation, AsksForNumbersWhateverTheStackRuns) {
  Scenario scenario = of_any_stack();
  scenario.stack.can_run = {};
  const auto of = [&](const ParallelConfig& config) {
    return find_divisibility_violation({scenario, config});
  };
  using C = Constraint;
  EXPECT_EQ(of({.tp = 3}), C::kHeadsByTp);
  EXPECT_EQ(of({.tp = 16}), C::kGroupsByTp);
  EXPECT_EQ(of({.pp = 3}), C::kLayersByPp);
  EXPECT_EQ(of({.ep = 2}), C::kExpertsByEp);
  EXPECT_EQ(of({.dp = 4, .dp_replicate = 2}), C::kReplicasOfShards);
  EXPECT_EQ(of({.pp = 2, .recompute = Recompute::kFull, .recompute_num_layers = 16}), std::nullopt);
  EXPECT_EQ(of({.pp = 2, .recompute = Recompute::kFull, .recompute_num_layers = 17}),
            C::kRecomputedLayers);
  EXPECT_EQ(of({.dp = 128}), C::kDpBeyondBatch);
  // Too few stages for the stack are not too few for the schedule.
  scenario.stack.can_run.interleaved_min_stages = 3;
  EXPECT_EQ(of({.pp = 2, .vpp = 2, .schedule = ScheduleKind::kInterleaved}), std::nullopt);
}

// Four stages of 10, 40, 20 and 30 bytes.
TEST(FindMemoryViolation, NamesTheFirstThenTheLastThenOneBetween) {
  const auto of = [](const std::vector<double>& sizes, double capacity) {
    std::vector<MemoryBreakdown> stages;
    stages.reserve(sizes.size());
    for (const double size : sizes) {
      stages.push_back({.weights = Bytes(size)});
    }
    return find_memory_violation(stages, Bytes(capacity));
  };
  EXPECT_EQ(of({10, 40, 20, 30}, 40.0), std::nullopt);
  EXPECT_EQ(of({10, 40, 20, 30}, 39.0), Constraint::kMemoryMiddleStage);
  EXPECT_EQ(of({10, 20, 40, 30}, 39.0), Constraint::kMemoryMiddleStage);
  EXPECT_EQ(of({10, 40, 20, 30}, 29.0), Constraint::kMemoryLastStage);
  EXPECT_EQ(of({10, 40, 20, 30}, 9.0), Constraint::kMemoryFirstStage);
  EXPECT_EQ(of({10}, 10.0), std::nullopt);
  EXPECT_EQ(of({10}, 9.0), Constraint::kMemoryFirstStage);
}

// Written down from what the schedules are: DualPipeV, ZB-V and the V's with less memory have two
// chunks in a V, looped breadth-first any number, interleaving more than one.
TEST(HasChunks, IsWhatTheScheduleIsMadeOf) {
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    const std::string_view name = schedule.name;
    const bool is_v = name == "zb-v" || name == "v-half" || name == "v-min" || name == "dualpipev";
    const bool is_looped = name == "interleaved" || name == "looped-bfs";
    EXPECT_EQ(has_chunks(schedule.value, 1), !is_v && name != "interleaved") << name;
    EXPECT_EQ(has_chunks(schedule.value, 2), is_v || is_looped) << name;
    EXPECT_EQ(has_chunks(schedule.value, 3), is_looped) << name;
  }
}

TEST(StackRemark, TellsSchedulesThatAStackDoesNotRunFromThoseThatNoneCan) {
  const StackSpec stack = find_stack("megatron-lm-2021");
  const auto of = [&](int pp, ScheduleKind schedule) {
    return stack_remark(stack, {.pp = pp, .schedule = schedule});
  };
  EXPECT_EQ(of(2, ScheduleKind::kOneFOneB), "");
  EXPECT_EQ(of(2, ScheduleKind::kGPipe), " (not run by megatron-lm-2021)");
  EXPECT_EQ(of(1, ScheduleKind::kGPipe), "");
  EXPECT_EQ(of(2, ScheduleKind::kPipeDream), " (stale weights: another optimizer)");
}

// 4096 stages of a layer would be walked through with some thousands of microbatches; eight not.
TEST(FindViolation, RefusesSchedulesThatTakeForeverToSimulate) {
  Scenario scenario = of_any_stack(1 << 20);
  scenario.job.model.num_layers = 4096;
  EXPECT_EQ(find_shape_violation({scenario, {.pp = 4096}}), Constraint::kScheduleTooLong);
  EXPECT_EQ(find_shape_violation({scenario, {.pp = 8}}), std::nullopt);
  // Nothing is simulated of schedules that never end a step.
  scenario = with_stale_weights(scenario);
  EXPECT_EQ(find_shape_violation({scenario, {.pp = 4096, .schedule = ScheduleKind::kPipeDream}}),
            std::nullopt);
}

}  // namespace
}  // namespace ptdp
