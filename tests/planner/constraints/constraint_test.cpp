#include "planner/constraints/constraint.h"

#include <gtest/gtest.h>

#include "cost_model/memory/memory.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// A configuration of the 1T model that violates nothing.
ParallelConfig valid() {
  return {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
}

std::optional<Constraint> violation(const ParallelConfig& config) {
  const Scenario scenario = selene_2021("1T");
  return find_violation(scenario, config, usable_memory(scenario.cluster.gpu, 0.0));
}

TEST(FindViolation, FindsNothingInThePublishedConfiguration) {
  EXPECT_EQ(violation(valid()), std::nullopt);
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
    return find_shape_violation(shipped_scenario(model, "dgx-h100", stack, 512), config);
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
    EXPECT_EQ(find_shape_violation(fp8, activations), expected) << recipe;
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

TEST(FindViolation, NamesTheMlpWidthAndTheSequence) {
  Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  scenario.job.model.ffn_hidden_size = 4 * 25600 + 4;
  EXPECT_EQ(find_shape_violation(scenario, valid()), Constraint::kFfnByTp);
  scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  scenario.job.model.seq_length = 2044;
  ParallelConfig config = valid();
  config.sequence_parallel = true;
  EXPECT_EQ(find_shape_violation(scenario, config), Constraint::kSequenceByTp);
}

// 160 heads, 2048 tokens: in two chunks per GPU, cp may be up to 1024; with tp = 8 each of cp = 4
// has 5 heads, of cp = 8 none has as many. Parts of 2048/512 tokens do not split over tp = 8.
TEST(FindViolation, NamesWhatSharedSequencesViolate) {
  Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  ParallelConfig config = valid();
  config.dp = 1;
  const auto violation = [&](int cp) {
    config.cp = cp;
    return find_shape_violation(scenario, config);
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
  const Bytes first = stage_memory(scenario, config, 0).total();
  ASSERT_GT(stage_memory(scenario, config, 1).total(), first);
  EXPECT_EQ(find_violation(scenario, config, first), Constraint::kMemoryLastStage);
  // Where neither fits, the first is named.
  EXPECT_EQ(find_violation(scenario, config, first - Bytes(1.0)), Constraint::kMemoryFirstStage);
}

TEST(FindViolation, AcceptsTheLastByteAndRefusesTheNext) {
  const Scenario scenario = selene_2021("1T");
  const Bytes peak = peak_memory(scenario, valid());
  EXPECT_EQ(find_violation(scenario, valid(), peak), std::nullopt);
  EXPECT_EQ(find_violation(scenario, valid(), peak - Bytes(1.0)), Constraint::kMemoryFirstStage);
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
    return find_shape_violation(scenario, config);
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
  EXPECT_EQ(find_shape_violation(dense, {.dp = 2, .ep = 2}), Constraint::kExpertsByEp);
  EXPECT_EQ(find_shape_violation(dense, {.tp = 2, .dp = 2}), std::nullopt);
}

TEST(FindViolation, NamesWhatCannotBeOffloaded) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation(scenario, config);
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
  EXPECT_EQ(find_shape_violation(scenario, config), std::nullopt);
  scenario.job.model.first_dense_layers = 1;
  EXPECT_EQ(find_shape_violation(scenario, config), Constraint::kFfnByTp);
  scenario.job.model.ffn_hidden_size = 14336;
  scenario.job.model.moe_shared_expert_intermediate_size = 4097;
  EXPECT_EQ(find_shape_violation(scenario, config), Constraint::kFfnByTp);
}

}  // namespace
}  // namespace ptdp
