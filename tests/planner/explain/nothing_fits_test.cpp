// Tests of the advice that is given when nothing fits.
#include "planner/explain/nothing_fits.h"
#include "cost_model/inputs/stack_precision.h"

#include <gmock/gmock.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TEST(WhyNothingFits, SaysWhichValuesWouldDo) {
  const Scenario scenario = selene_2021("1.7B", 512);  // 24 heads, 24 layers
  const auto why = [&](const SearchSpace& space, std::int64_t gpus) {
    const SearchOptions options{.gpus = gpus, .space = space};
    const SearchResult result = search(scenario, options);
    EXPECT_TRUE(result.best.empty());
    return why_nothing_fits(scenario, options, result);
  };
  EXPECT_THAT(why({.tp = IntegerRanges(7)}, 64), HasSubstr("tp can be 1, 2, 3, 4, 6, 8, 12, 24"));
  EXPECT_THAT(why({.tp = IntegerRanges(1), .pp = IntegerRanges(5)}, 64),
              HasSubstr("pp can be 1, 2, 3, 4, 6, 8, 12, 24"));
  // 7 replicas: 511 = 7·73 is the nearest batch.
  const std::string seven = why({.dp = IntegerRanges(7)}, 7);
  EXPECT_THAT(seven, HasSubstr("dp * micro_batch_size can be 1, 2, 4, 8,"));
  EXPECT_THAT(seven, HasSubstr("the nearest batch that would do is 511"));
  // The batch that was given is no advice.
  EXPECT_THAT(why({.dp = IntegerRanges(4), .micro_batch_size = IntegerRanges(256)}, 64),
              HasSubstr("the nearest batch that would do is 1024"));
}

TEST(WhyNothingFits, SaysHowSequencesCanBeShared) {
  Scenario scenario = selene_2021("1.7B", 512);  // 24 heads
  scenario.job.model.seq_length = 24;
  scenario.stack.can_run.context_parallel = true;
  const auto why = [&](const SearchSpace& space) {
    const SearchOptions options{.gpus = 64, .space = space};
    return why_nothing_fits(scenario, options, search(scenario, options));
  };
  EXPECT_THAT(why({.cp = IntegerRanges(5)}), HasSubstr("cp can be 1, 2, 3, 4, 6, 12\n"));
  scenario.stack.context_parallel_kind = ContextParallel::kAllToAll;
  EXPECT_THAT(why({.tp = IntegerRanges(8), .cp = IntegerRanges(2)}),
              HasSubstr("tp * cp must divide 24\n"));
  EXPECT_THAT(why({.tp = IntegerRanges(8), .dp = IntegerRanges(8), .cp = IntegerRanges(2)}),
              HasSubstr("tp=8 pp=1 dp=8 cp=2, the smallest asked for, need more than 64 GPUs"));
  scenario.job.model.num_query_groups = 4;
  EXPECT_THAT(why({.tp = IntegerRanges(2), .cp = IntegerRanges(3)}),
              HasSubstr("tp * cp must divide 24, and cp 4 / tp or the other way round"));
  scenario.stack.can_run.context_parallel = false;
  EXPECT_THAT(
      why({.tp = IntegerRanges(2), .cp = IntegerRanges(2)}),
      HasSubstr("stack megatron-lm-2021 runs 1f1b or interleaved, "
                "recompute none or full, ZeRO 0, ranks as tp-cp-ep-dp-pp, no offload, no sequence "
                "parallelism, no experts, no "
                "context parallelism"));
}

TEST(WhyNothingFits, SaysWhatTheStackRuns) {
  const Scenario scenario = selene_2021("1.7B", 512);
  const SearchOptions options{.gpus = 8, .space = {.sequence_parallel = true}};
  EXPECT_THAT(why_nothing_fits(scenario, options, search(scenario, options)),
              HasSubstr("stack megatron-lm-2021 runs 1f1b or interleaved, recompute none or full, "
                        "ZeRO 0, ranks as tp-cp-ep-dp-pp, no offload, no sequence parallelism"));
}

TEST(WhyNothingFits, NamesPinsThatContradictEachOther) {
  const Scenario scenario = selene_2021("1.7B", 512);
  const auto why = [&](const SearchSpace& space) {
    const SearchOptions options{.gpus = 64, .space = space};
    return why_nothing_fits(scenario, options, search(scenario, options));
  };
  EXPECT_THAT(why({.vpp = IntegerRanges(2), .schedules = {ScheduleKind::kOneFOneB}}),
              HasSubstr("schedule and vpp contradict"));
  EXPECT_THAT(why({.pp = IntegerRanges(1), .schedules = {ScheduleKind::kInterleaved}}),
              HasSubstr("interleaved and pp=1 contradict"));
  EXPECT_THAT(why({.tp = IntegerRanges(1), .sequence_parallel = true}),
              HasSubstr("sequence parallelism and tp=1 contradict"));
}

// 1T keeps 20 bytes of state per parameter, 18776 GiB in all, and a GPU holds 70.3 GiB beside the
// reserve: no fewer than 268 GPUs will do, and 512 are the first power of two.
TEST(GpusThatWouldDo, AreTheFirstMultipleThatFits) {
  const Scenario scenario = selene_2021("1T");
  const auto found = gpus_that_would_do(scenario, {.gpus = 8});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->gpus, 512);
  EXPECT_EQ(find_violation({scenario, found->config}, usable_memory(scenario.cluster.gpu, 0.0)),
            std::nullopt);
}

TEST(GpusThatWouldDo, AreNoneWhereMoreDoNotHelp) {
  // 7 does not divide 160 heads on any number of GPUs.
  EXPECT_FALSE(
      gpus_that_would_do(selene_2021("1T"), {.gpus = 8, .space = {.tp = IntegerRanges(7)}}));
}

TEST(GpusThatWouldDo, AreNoMoreThanTheClusterHas) {
  Scenario scenario = selene_2021("1T");
  scenario.cluster.network_tiers = {{.gpus = 256, .oversubscription = 1.0}};
  EXPECT_FALSE(gpus_that_would_do(scenario, {.gpus = 8}));
}

/// Returns the advice about one violation, counted 7 times: the line without its count.
std::string advice(Constraint constraint, const Scenario& scenario,
                   const SearchOptions& options = {.gpus = 64}) {
  SearchResult result{.enumerated = 7, .violations = {{constraint, 7}}};
  result.shortfall = MemoryShortfall{.config = {.tp = 2}, .missing = Bytes(1.5 * kGibi + 0.25)};
  const std::string text = why_nothing_fits(scenario, options, result);
  const std::string begin =
      "  " + std::string(text_of(constraint).description) + ": 7 candidates; ";
  EXPECT_THAT(text, testing::StartsWith(begin));
  EXPECT_THAT(text, testing::EndsWith("\n"));
  return text.substr(begin.size(), text.size() - begin.size() - 1);
}

// Mixtral 8x7B with a shared expert of 4096: 32 heads in 8 groups, 32 layers, MLPs of 14336, 4096
// tokens, 8 experts; a batch of 64.
TEST(WhyNothingFits, GivesForEachConstraintTheNumbersThatWouldDo) {
  Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  scenario.job.model.moe_ffn_hidden_size = 1792;
  scenario.stack.can_run.interleaved_min_stages = 5;
  scenario.cluster.host->memory = gibibytes(96.0);
  const auto of = [&](Constraint constraint) { return advice(constraint, scenario); };
  using C = Constraint;
  EXPECT_EQ(of(C::kHeadsByTp), "tp can be 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(of(C::kFfnByTp), "tp must divide 14336");
  EXPECT_EQ(of(C::kGroupsByTp), "tp can be 1, 2, 4, 8");
  scenario.stack.can_run.split_key_heads = SplitKeyHeads::kGatherQkv;
  EXPECT_EQ(of(C::kGroupsByTp), "tp can be 1, 2, 4, 8, 16, 32");
  scenario.stack.can_run.split_key_heads = SplitKeyHeads::kNever;
  EXPECT_EQ(of(C::kLayersByPp), "pp can be 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(of(C::kLayersByPpVpp), "pp * vpp can be 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(of(C::kHeadsByTpCp), "tp * cp must divide 32, and cp 8 / tp or the other way round");
  EXPECT_EQ(of(C::kExpertsByEp), "ep can be 1, 2, 4, 8");
  EXPECT_EQ(of(C::kExpertFfnByEtp), "etp must divide 1792");
  EXPECT_EQ(of(C::kLayersPerStage), "the numbers must add up to 32");
  EXPECT_EQ(of(C::kInterleavedMinStages), "it needs pp >= 5");
  EXPECT_EQ(of(C::kHostMemory), "a GPU's share of its host is 96 GiB");
  EXPECT_EQ(of(C::kSequenceByTp), "tp * cp must divide 4096");
  EXPECT_EQ(of(C::kBatchByDp), "dp * micro_batch_size can be 1, 2, 4, 8, 16, 32, 64");
  EXPECT_EQ(of(C::kDpBeyondBatch), "dp * micro_batch_size can be 1, 2, 4, 8, 16, 32, 64");
  for (const C memory : {C::kMemoryFirstStage, C::kMemoryLastStage, C::kMemoryMiddleStage}) {
    EXPECT_EQ(of(memory), "tp=2 pp=1 dp=1 b=1 1f1b recompute=none comes closest, 1.50 GiB short");
  }
  scenario.job.model.moe_shared_expert_intermediate_size = 4096;
  EXPECT_EQ(of(C::kFfnByTp), "tp must divide 14336 and 4096");
  scenario.job.model.num_query_groups = 32;
  EXPECT_EQ(of(C::kHeadsByTpCp), "tp * cp must divide 32");
  scenario.job.model.num_experts = 0;
  EXPECT_EQ(of(C::kExpertsByEp), "the model has no experts");
  scenario.cluster.host.reset();
  EXPECT_EQ(of(C::kHostMemory),
            "cluster dgx-h100 says nothing about its hosts: add a \"host\" to it");
  scenario.stack.can_run.context_parallel = false;
  EXPECT_EQ(of(C::kSequenceByTp), "tp must divide 4096");
  EXPECT_EQ(advice(C::kSequenceByTp, scenario, {.gpus = 64, .space = {.cp = IntegerRanges(2)}}),
            "tp * cp must divide 4096");
}

// Advice that has no number of its own names what to change.
TEST(WhyNothingFits, NamesTheFlagsThatAreInTheWay) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  for (const auto& [constraint, expected] : std::vector<std::pair<Constraint, std::string>>{
           {Constraint::kOffloadedActivations, "pp must be 1, recompute none"},
           {Constraint::kOffloadedOptimizer, "zero_stage must be at least 1"},
           {Constraint::kExpertsByRankOrder, "ep * etp must be tp * cp"},
           {Constraint::kReplicasOfShards, "--zero-stage 3; dp_replicate can also go with 1 or 2"},
           {Constraint::kDpByReplicas, "dp_replicate must divide dp"},
           {Constraint::kExpertsWholeSequences, "--sequence-parallel on"},
           {Constraint::kRanksByExperts, "ep * etp must divide tp * cp * dp / dp_replicate"},
           {Constraint::kScheduleByPp, "even pp"},
           {Constraint::kRecomputedLayers, "num_layers / (pp * vpp)"},
           {Constraint::kScheduleByMicrobatches, "at least 2 pp, and even"},
           {Constraint::kScheduleTooLong, "fewer stages"},
           {Constraint::kMicrobatchesByPp, "must be a multiple of pp"}}) {
    EXPECT_THAT(advice(constraint, scenario), HasSubstr(expected));
  }
}

TEST(WhyNothingFits, ListsWhatIsViolatedMostFirst) {
  const Scenario scenario = selene_2021("1.7B", 512);
  SearchResult result{.enumerated = 60,
                      .violations = {{Constraint::kHeadsByTp, 10},
                                     {Constraint::kLayersByPp, 30},
                                     {Constraint::kMicrobatchesByPp, 20}}};
  const std::string text = why_nothing_fits(scenario, {.gpus = 64}, result);
  const std::size_t layers = text.find("  layers not divisible by pp: 30 candidates; ");
  const std::size_t microbatches = text.find("(interleaved schedule): 20 candidates; ");
  const std::size_t heads = text.find("  attention heads not divisible by tp: 10 candidates; ");
  EXPECT_EQ(layers, 0U);
  EXPECT_LT(layers, microbatches);
  EXPECT_LT(microbatches, heads);
  EXPECT_NE(heads, std::string::npos);
  // 24 heads and layers, but nothing of the kind was asked for.
  result = {};
  EXPECT_EQ(why_nothing_fits(scenario, {.gpus = 64}, result),
            "  no sizes asked for suit a model of 24 layers and 24 heads\n");
}

// 2^23 has 24 divisors, all of which are listed; 2^24 has one more.
TEST(WhyNothingFits, ListsTwoDozenValuesAtMost) {
  Scenario scenario = selene_2021("1.7B", 1 << 23);
  std::string all = "dp * micro_batch_size can be 1";
  for (int power = 1; power < 24; ++power) {
    all += ", " + std::to_string(1 << power);
  }
  EXPECT_EQ(advice(Constraint::kBatchByDp, scenario), all);
  scenario.job.global_batch_size = 1 << 24;
  EXPECT_EQ(advice(Constraint::kBatchByDp, scenario), all + ", ...");
}

// 100 sequences: of what 7 or 9 replicas of 4 would do, 84, 112, 72 and 108, 108 is the nearest.
TEST(WhyNothingFits, SuggestsTheNearestBatchOfAllThatIsAskedFor) {
  const Scenario scenario = selene_2021("1.7B", 100);
  EXPECT_THAT(advice(Constraint::kBatchByDp, scenario,
                     {.gpus = 64,
                      .space = {.dp = IntegerRanges::parse("7,9", 1, 64, ""),
                                .micro_batch_size = IntegerRanges(4)}}),
              HasSubstr("50, 100; the nearest batch that would do is 108"));
  // 128 replicas have no smaller batch than 128.
  EXPECT_THAT(advice(Constraint::kDpBeyondBatch, scenario,
                     {.gpus = 128, .space = {.dp = IntegerRanges(128)}}),
              HasSubstr("the nearest batch that would do is 128"));
}

TEST(WhyNothingFits, SaysAllThatAStackRuns) {
  const auto of = [](const StackSpec& stack) {
    Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
    scenario.stack = stack;
    return advice(Constraint::kNotRunByStack, scenario);
  };
  EXPECT_EQ(
      of(find_stack("megatron-core-2025")),
      "stack megatron-core-2025 runs 1f1b or interleaved, recompute none or selective or full "
      "of core_attn+moe_act+layernorm+mla_up_proj+mlp+moe+shared_experts by block or uniform, "
      "ZeRO 0 or 1 or 3, ranks as tp-cp-ep-dp-pp or tp-cp-ep-pp-dp, offload optimizer or "
      "activations or optimizer+activations, sequence parallelism, experts, context "
      "parallelism, dp_replicate with ZeRO 1, reshard_after_forward on");
  EXPECT_THAT(of(with_fp8(find_stack("megatron-core-2025"), "fp8-delayed")),
              testing::EndsWith(
                  ", reshard_after_forward on, with fp8-delayed neither moe_act nor layernorm"));
  Scenario normed = shipped_scenario("qwen3-8b", "dgx-h100", "ptdp-cuda", 64);
  normed.job.model.qk_layernorm_width = QkNormWidth::kAllHeads;
  const auto of_norms = [&] { return advice(Constraint::kNotRunByStack, normed); };
  EXPECT_THAT(of_norms(), testing::Not(testing::HasSubstr("norms")));
  normed.job.model.normalization = Normalization::kLayerNorm;
  EXPECT_THAT(of_norms(), testing::EndsWith(", layer norms over all heads with tp 1"));
  StackSpec other = find_stack("torchtitan-2024");
  other.can_run.kept_weights = true;
  other.can_run.schedules.clear();
  EXPECT_EQ(of(other),
            "stack torchtitan-2024 runs no pipeline, recompute none or selective or full of op by "
            "every, ZeRO 3, ranks as tp-cp-ep-dp-pp, no offload, sequence parallelism, no experts, "
            "context parallelism, dp_replicate, reshard_after_forward on or off");
}

TEST(WhyNothingFits, NamesEachContradictionButNoneWhereThereIsAWay) {
  const Scenario scenario = selene_2021("1.7B", 512);
  const auto why = [&](const SearchSpace& space, std::int64_t gpus = 64) {
    return why_nothing_fits(scenario, {.gpus = gpus, .space = space}, {});
  };
  const std::string none = why({});
  const auto one_or_two = IntegerRanges::parse("1:2", 1, 8, "");
  using Kind = ScheduleKind;
  const std::string chunks =
      "  schedule and vpp contradict each other: 1f1b has vpp=1, interleaved more\n";
  EXPECT_EQ(why({.vpp = IntegerRanges(2), .schedules = {Kind::kOneFOneB}}), chunks);
  EXPECT_EQ(why({.vpp = IntegerRanges(1), .schedules = {Kind::kInterleaved}}), chunks);
  EXPECT_EQ(why({.vpp = one_or_two, .schedules = {Kind::kOneFOneB}}), none);
  EXPECT_EQ(why({.vpp = one_or_two, .schedules = {Kind::kInterleaved}}), none);
  EXPECT_EQ(why({.pp = one_or_two, .schedules = {Kind::kInterleaved}}), none);
  EXPECT_EQ(why({.tp = one_or_two, .sequence_parallel = true}), none);
  EXPECT_EQ(why({.tp = IntegerRanges(1), .sequence_parallel = false}), none);
  EXPECT_EQ(why({.schedules = {Kind::kPipeDream2Bw}}),
            "  pipedream-2bw changes what the optimizer does: it takes "
            "--allow-stale-weights as well\n");
  EXPECT_EQ(why({.schedules = {Kind::kPipeDream, Kind::kOneFOneB}}), none);
  EXPECT_EQ(why({.schedules = {Kind::kPipeDream}, .allow_stale_weights = true}), none);
  // The smallest of each: 2 * 4 * 8 = 64 GPUs.
  const SearchSpace most{
      .tp = IntegerRanges::parse("2,4", 1, 8, ""), .pp = IntegerRanges(4), .dp = IntegerRanges(8)};
  EXPECT_EQ(why(most, 64), none);
  EXPECT_EQ(why(most, 63), "  tp=2 pp=4 dp=8, the smallest asked for, need more than 63 GPUs\n");
}

// A cluster of 512 GPUs has as many as the trillion needs; twice 300 are more than that, and a
// search that starts beyond half of it has no larger cluster to look at.
TEST(GpusThatWouldDo, DoubleUpToTheWholeCluster) {
  Scenario scenario = selene_2021("1T");
  scenario.cluster.network_tiers = {{.gpus = 512, .oversubscription = 1.0}};
  EXPECT_EQ(gpus_that_would_do(scenario, {.gpus = 8})->gpus, 512);
  EXPECT_EQ(gpus_that_would_do(scenario, {.gpus = 256})->gpus, 512);
  EXPECT_FALSE(gpus_that_would_do(scenario, {.gpus = 257}));
}

}  // namespace
}  // namespace ptdp
