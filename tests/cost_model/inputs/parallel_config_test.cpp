// Tests of parallel configurations: numbers of ranks, microbatches and modules, text and JSON.
#include "cost_model/inputs/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns a configuration whose every field differs from its default, where another value exists.
ParallelConfig unusual_config() {
  return {.tp = 8,
          .pp = 12,
          .dp = 6,
          .cp = 2,
          .ep = 3,
          .etp = 2,
          .vpp = 4,
          .micro_batch_size = 5,
          .schedule = ScheduleKind::kInterleaved,
          .recompute = Recompute::kSelective,
          .sequence_parallel = true,
          .zero_stage = 1,
          .rank_order = RankOrder::kTpCpEpDpPp,
          .offload = Offload::kBoth,
          .offload_num_layers = 7,
          .layers_per_stage = {2, 1, 3}};
}

/// Returns a configuration that recomputes all of some layers, which excludes unusual_config()'s
/// selective recomputation.
ParallelConfig recomputing_some_layers() {
  return {.recompute = Recompute::kFull,
          .recompute_method = RecomputeMethod::kEvery,
          .recompute_num_layers = 2};
}

std::string refusal_of_config(const std::string& from, const std::string& to) {
  return message_of(
      [&] { return parse<ParallelConfig>(replaced(dump(unusual_config()), from, to)); });
}

// 8·12·6·2; the experts' 3 are carved out of dp.
TEST(WorldSize, IsTheProductOfTheDegreesButExperts) {
  EXPECT_EQ(unusual_config().world_size(), 1152);
  EXPECT_EQ(ParallelConfig{}.world_size(), 1);
}

// (10^8)² = 10^16, which an int does not hold; (10^8)³ = 10^24, which nothing holds.
TEST(WorldSize, IsAtMostTheLargestNumber) {
  constexpr int most = 100'000'000;
  EXPECT_EQ((ParallelConfig{.tp = most, .pp = most}).world_size(), 10'000'000'000'000'000);
  EXPECT_EQ((ParallelConfig{.tp = most, .pp = most, .dp = most, .cp = most}).world_size(),
            std::numeric_limits<std::int64_t>::max());
}

// SC21 table 1, row 1T: a batch of 3072 on 6 replicas is 512 microbatches of one; row 1.7B: 512 on
// 32 replicas is one of 16.
TEST(NumMicrobatches, MatchesThePublishedRuns) {
  EXPECT_EQ(num_microbatches(3072, {.tp = 8, .pp = 64, .dp = 6}), 512);
  EXPECT_EQ(num_microbatches(512, {.dp = 32, .micro_batch_size = 16}), 1);
}

TEST(NumMicrobatches, HoldsProductsBeyondAnInt) {
  EXPECT_EQ(num_microbatches(30'000'000'000, {.dp = 100'000, .micro_batch_size = 100'000}), 3);
}

TEST(ParallelConfigText, SaysWhatIsOutOfTheOrdinary) {
  ParallelConfig config = unusual_config();
  config.cp = 1;
  config.ep = config.etp = 1;
  EXPECT_EQ(to_string(config),
            "tp=8 pp=12 dp=6 vpp=4 b=5 interleaved recompute=selective sequence-parallel zero=1 "
            "offload=optimizer+activations offload_num_layers=7 layers=2,1,3");
}

TEST(ParallelConfigText, SaysHowExpertsAreDivided) {
  EXPECT_EQ(to_string(ParallelConfig{.tp = 2, .dp = 8, .ep = 4, .etp = 2}),
            "tp=2 pp=1 dp=8 ep=4 etp=2 b=1 1f1b recompute=none");
}

TEST(ParallelConfigText, SaysEachThingThatIsSeldomDone) {
  const std::vector<std::pair<ParallelConfig, std::string>> rows = {
      {{.cp = 3}, " cp=3 b=1 1f1b recompute=none"},
      {{.micro_batch_size = 2, .schedule = ScheduleKind::kZbAuto, .memory_limit = 7},
       " b=2 zb-auto limit=7 recompute=none"},
      {{.recompute = Recompute::kFull,
        .recompute_method = RecomputeMethod::kUniform,
        .recompute_num_layers = 3},
       " b=1 1f1b recompute=full uniform=3"},
      {{.recompute = Recompute::kFull,
        .recompute_modules = {RecomputeModule::kMlp},
        .sequence_parallel = true},
       " b=1 1f1b recompute=full sequence-parallel"},
      {{.zero_stage = 3, .dp_replicate = 2, .reshard_after_forward = false},
       " b=1 1f1b recompute=none zero=3 dp_replicate=2 reshard_after_forward=off"},
      {{.rank_order = RankOrder::kTpCpEpPpDp, .offload = Offload::kOptimizer},
       " b=1 1f1b recompute=none order=tp-cp-ep-pp-dp offload=optimizer"},
      {{.layers_per_stage = {4}}, " b=1 1f1b recompute=none layers=4"},
      {{.layers_per_stage = {4, 4, 4, 5, 4, 4}}, " b=1 1f1b recompute=none layers=3x4,5,2x4"}};
  for (const auto& [config, text] : rows) {
    EXPECT_EQ(to_string(config), "tp=1 pp=1 dp=1" + text);
  }
}

TEST(RecomputeModules, AreASetThatIsWrittenInOneOrder) {
  using Module = RecomputeModule;
  const auto parse_modules = [](const char* text) {
    return parse_recompute_modules(text, "--recompute");
  };
  EXPECT_EQ(
      parse_modules("mlp,core_attn moe+layernorm"),
      (RecomputeModules{Module::kCoreAttention, Module::kLayerNorm, Module::kMlp, Module::kMoe}));
  EXPECT_EQ(to_string(parse_modules("mlp,core_attn moe+layernorm")), "core_attn+layernorm+mlp+moe");
  EXPECT_EQ(to_string(RecomputeModules{}), "");
  EXPECT_TRUE(RecomputeModules{}.is_empty());
  for (const auto& [module, name] : kRecomputeModuleNames) {
    EXPECT_EQ(to_string(RecomputeModules{module}), name);
    EXPECT_EQ(parse_recompute_modules(name, "x"), RecomputeModules{module});
    EXPECT_FALSE(RecomputeModules{module}.is_empty());
    EXPECT_TRUE(RecomputeModules{module}.are_among({Module::kEverySecondProduct, module}));
    EXPECT_TRUE(RecomputeModules{}.are_among({module}));
    EXPECT_FALSE((RecomputeModules{module}).are_among({}));
  }
  EXPECT_EQ(message_of([&] { return parse_modules("moe,mlp,moe"); }),
            "--recompute: moe is given twice");
  EXPECT_EQ(message_of([&] { return parse_modules("mlp+op"); }),
            "--recompute: expected op alone, which is of whole layers, got mlp+op");
  EXPECT_EQ(message_of([&] { return parse_modules("mlp,"); }),
            "--recompute: expected one of core_attn, moe_act, layernorm, mla_up_proj, mlp, moe, "
            "shared_experts, op, got \"\"");
}

// The dense MLP of a layer with experts is their shared one.
TEST(RecomputeModules, CoverTheMlpThatALayerHas) {
  const std::vector<std::tuple<RecomputeModule, bool, bool>> rows = {
      {RecomputeModule::kMlp, true, false},
      {RecomputeModule::kMoe, false, true},
      {RecomputeModule::kSharedExperts, false, true},
      {RecomputeModule::kMoeActivation, false, false}};
  for (const auto& [module, dense, with_experts] : rows) {
    EXPECT_EQ(cover_mlp({module}, false), dense);
    EXPECT_EQ(cover_mlp({module}, true), with_experts);
  }
}

TEST(Offload, IsOfTheOptimizerOfActivationsOrOfBoth) {
  EXPECT_FALSE(offloads_optimizer(Offload::kNone) || offloads_activations(Offload::kNone));
  EXPECT_TRUE(offloads_optimizer(Offload::kOptimizer));
  EXPECT_FALSE(offloads_activations(Offload::kOptimizer));
  EXPECT_FALSE(offloads_optimizer(Offload::kActivations));
  EXPECT_TRUE(offloads_activations(Offload::kActivations));
  EXPECT_TRUE(offloads_optimizer(Offload::kBoth) && offloads_activations(Offload::kBoth));
}

TEST(Schedules, OfPipeDreamAloneTrainWithStaleWeights) {
  for (const auto& [schedule, name] : kScheduleNames) {
    EXPECT_EQ(traits_of(schedule).is_synchronous, !std::string_view(name).starts_with("pipedream"))
        << name;
  }
}

TEST(ParallelConfig, IsOrderedFieldByField) {
  const std::vector<ParallelConfig> ascending = {
      {.tp = 1, .pp = 1, .dp = 9},
      {.tp = 1, .pp = 2, .dp = 1},
      {.tp = 1, .pp = 2, .dp = 3},
      {.tp = 2, .pp = 1, .dp = 1},
      {.tp = 2, .recompute = Recompute::kFull},
      {.tp = 2, .zero_stage = 1, .layers_per_stage = {}}};
  EXPECT_LT(ascending[0], ascending[1]);
  EXPECT_LT(ascending[1], ascending[2]);
  EXPECT_LT(ascending[2], ascending[3]);
  EXPECT_LT(ascending[3], ascending[4]);
  EXPECT_LT(ascending[5], ascending[4]);
}

TEST(ParallelConfigName, OfEveryEnumeratorIsItsSpelling) {
  EXPECT_EQ(name_of(ScheduleKind::kOneFOneB), "1f1b");
  EXPECT_EQ(name_of(ScheduleKind::kInterleaved), "interleaved");
  EXPECT_EQ(name_of(Recompute::kNone), "none");
  EXPECT_EQ(name_of(Recompute::kSelective), "selective");
  EXPECT_EQ(name_of(Recompute::kFull), "full");
  EXPECT_EQ(name_of(Precision::kFp16), "fp16");
  EXPECT_EQ(name_of(Precision::kBf16), "bf16");
  EXPECT_EQ(name_of(Precision::kFp32), "fp32");
  EXPECT_EQ(name_of(Precision::kFp64), "fp64");
  EXPECT_EQ(name_of(ExpertDispatch::kAllToAll), "all-to-all");
  EXPECT_EQ(name_of(ExpertDispatch::kAllGather), "all-gather");
  EXPECT_EQ(name_of(ExpertDispatch::kHierarchical), "hierarchical");
  EXPECT_EQ(name_of(ContextParallel::kRing), "ring");
  EXPECT_EQ(name_of(ContextParallel::kAllGather), "all-gather");
  EXPECT_EQ(name_of(ContextParallel::kAllToAll), "all-to-all");
}

TEST(Precision, HasTheElementsOfItsNameAndSumsInFp32OrMore) {
  EXPECT_EQ(element_bytes(Precision::kFp16), 2);
  EXPECT_EQ(element_bytes(Precision::kBf16), 2);
  EXPECT_EQ(element_bytes(Precision::kFp32), 4);
  EXPECT_EQ(element_bytes(Precision::kFp64), 8);
  EXPECT_EQ(accumulator_bytes(Precision::kBf16), 4);
  EXPECT_EQ(accumulator_bytes(Precision::kFp32), 4);
  EXPECT_EQ(accumulator_bytes(Precision::kFp64), 8);
}

TEST(ParallelConfigJson, ReadsBackAsItWas) {
  for (const ParallelConfig& config : {ParallelConfig{}, unusual_config()}) {
    const std::string text = dump(config);
    EXPECT_EQ(parse<ParallelConfig>(text), config) << text;
    EXPECT_EQ(dump(parse<ParallelConfig>(text)), text);
  }
}

TEST(ParallelConfigJson, HasEveryKeyButThatOfUndividedExperts) {
  EXPECT_EQ(dump(ParallelConfig{}), R"({
  "tp": 1,
  "pp": 1,
  "dp": 1,
  "cp": 1,
  "ep": 1,
  "vpp": 1,
  "micro_batch_size": 1,
  "schedule": "1f1b",
  "recompute": "none",
  "sequence_parallel": false,
  "zero_stage": 0,
  "rank_order": "tp-cp-ep-dp-pp",
  "layers_per_stage": []
}
)");
}

TEST(ParallelConfigJson, HasEveryFieldUnderItsName) {
  EXPECT_EQ(dump(unusual_config()), R"({
  "tp": 8,
  "pp": 12,
  "dp": 6,
  "cp": 2,
  "ep": 3,
  "etp": 2,
  "vpp": 4,
  "micro_batch_size": 5,
  "schedule": "interleaved",
  "recompute": "selective",
  "sequence_parallel": true,
  "zero_stage": 1,
  "rank_order": "tp-cp-ep-dp-pp",
  "offload": "optimizer+activations",
  "offload_num_layers": 7,
  "layers_per_stage": [
    2,
    1,
    3
  ]
}
)");
  // Rarely used fields, each by itself.
  const std::vector<std::pair<ParallelConfig, std::string>> rest = {
      {{.dp = 4, .dp_replicate = 2}, R"("dp_replicate": 2)"},
      {{.reshard_after_forward = false}, R"("reshard_after_forward": false)"},
      {{.offload = Offload::kOptimizer}, R"("offload": "optimizer")"},
      {{.recompute = Recompute::kFull,
        .recompute_method = RecomputeMethod::kUniform,
        .recompute_num_layers = 3},
       "\"recompute_num_layers\": 3,\n  \"recompute_method\": \"uniform\""},
      {{.rank_order = RankOrder::kTpCpEpPpDp}, R"("rank_order": "tp-cp-ep-pp-dp")"},
      {{.schedule = ScheduleKind::kZbAuto, .memory_limit = 9}, R"("memory_limit": 9)"}};
  for (const auto& [config, line] : rest) {
    EXPECT_THAT(dump(config), HasSubstr(line));
    EXPECT_EQ(parse<ParallelConfig>(dump(config)), config) << line;
  }
}

// zb-auto alone has a limit: of as many microbatches as there are stages where nobody says.
TEST(ParallelConfigJson, WritesTheLimitOfASearchAlways) {
  const ParallelConfig config{.pp = 6, .schedule = ScheduleKind::kZbAuto};
  EXPECT_THAT(dump(config), HasSubstr("\"memory_limit\": 6\n"));
  EXPECT_EQ(parse<ParallelConfig>(dump(config)).memory_limit, 6);
  EXPECT_THAT(dump(ParallelConfig{.pp = 6, .memory_limit = 6}), Not(HasSubstr("memory_limit")));
  EXPECT_EQ(message_of([&] {
              return parse<ParallelConfig>(
                  replaced(dump(config), "\"memory_limit\": 6", "\"memory_limit\": 200000001"));
            }),
            "test.json: memory_limit: expected a whole number from 1 to 200000000, got 200000001");
}

TEST(ParallelConfigJson, RefusesLayersToOffloadWhereNoneAre) {
  for (const char* offload : {"none", "optimizer"}) {
    EXPECT_EQ(refusal_of_config("\"optimizer+activations\"", '"' + std::string(offload) + '"'),
              "test.json: offload_num_layers: expected offload \"activations\" or "
              "\"optimizer+activations\" beside it");
  }
  EXPECT_EQ(refusal_of_config("\"optimizer+activations\"", "\"activations\""),
            "nothing was thrown");
  EXPECT_EQ(refusal_of_config("\"offload_num_layers\": 7", "\"offload_num_layers\": 0"),
            "test.json: offload_num_layers: expected a whole number from 1 to 100000, got 0");
}

TEST(ParallelConfigJson, RefusesDegreesOfNothing) {
  for (const std::string edit : {"\"tp\": 8", "\"pp\": 12", "\"dp\": 6", "\"cp\": 2", "\"ep\": 3",
                                 "\"etp\": 2", "\"vpp\": 4", "\"micro_batch_size\": 5"}) {
    const std::string key = edit.substr(1, edit.find(':') - 2);
    EXPECT_EQ(refusal_of_config(edit, '"' + key + "\": 0"),
              "test.json: " + key + ": expected a whole number from 1 to 100000000, got 0");
  }
}

TEST(ParallelConfigJson, RefusesWhatIsOutOfRange) {
  EXPECT_EQ(refusal_of_config("\"zero_stage\": 1", "\"zero_stage\": 4"),
            "test.json: zero_stage: expected a whole number from 0 to 3, got 4");
  EXPECT_EQ(refusal_of_config("    3\n", "    -1\n"),
            "test.json: layers_per_stage: expected a whole number from 0 to 100000000, got -1");
  EXPECT_EQ(refusal_of_config("\"tp-cp-ep-dp-pp\"", "\"pp-tp\""),
            "test.json: rank_order: expected one of tp-cp-ep-dp-pp, tp-cp-ep-pp-dp, got \"pp-tp\"");
  EXPECT_EQ(refusal_of_config("\"selective\"", "\"some\""),
            "test.json: recompute: expected one of none, selective, full, got \"some\"");
}

TEST(ParallelConfigJson, RefusesAMissingKey) {
  EXPECT_EQ(refusal_of_config("\"micro_batch_size\": 5,", ""),
            "test.json: micro_batch_size: missing");
}

TEST(ParallelConfigJson, LeavesExpertsUndividedWhereItSaysNothing) {
  const auto text = replaced(dump(unusual_config()), "\"etp\": 2,", "");
  EXPECT_EQ(parse<ParallelConfig>(text).etp, 1);
}

TEST(ParallelConfigJson, RefusesAMisspeltKey) {
  EXPECT_EQ(refusal_of_config("\"vpp\": 4,", "\"vpp\": 4, \"vpps\": 2,"),
            "test.json: \"vpps\": unknown key; did you mean \"vpp\"?");
}

TEST(ParallelConfig, PrintsLayersPerStageUnlessEqual) {
  EXPECT_EQ(to_string(ParallelConfig{.tp = 8, .pp = 4, .layers_per_stage = {3, 4, 4, 2}}),
            "tp=8 pp=4 dp=1 b=1 1f1b recompute=none layers=3,2x4,2");
}

TEST(ParallelConfig, SaysWhatRecomputationIsOf) {
  ParallelConfig config = unusual_config();
  config.recompute_modules = {RecomputeModule::kMlp, RecomputeModule::kCoreAttention};
  EXPECT_THAT(to_string(config), HasSubstr(" recompute=selective modules=core_attn+mlp "));
  EXPECT_THAT(dump(config), HasSubstr("\"recompute_modules\": \"core_attn+mlp\""));
  EXPECT_EQ(parse<ParallelConfig>(dump(config)), config);
  const ParallelConfig some = recomputing_some_layers();
  EXPECT_THAT(to_string(some), HasSubstr(" recompute=full every=2"));
  EXPECT_EQ(parse<ParallelConfig>(dump(some)), some);
  // Default values are not written.
  EXPECT_THAT(dump(unusual_config()), Not(HasSubstr("recompute_")));
}

TEST(ParallelConfig, RefusesModulesAndLayersOfAnotherRecomputation) {
  const std::string modules = R"("selective", "recompute_modules": "mlp")";
  EXPECT_EQ(refusal_of_config("\"selective\"", modules), "nothing was thrown");
  EXPECT_EQ(refusal_of_config("\"selective\"", "\"full\", \"recompute_modules\": \"mlp\""),
            "test.json: recompute_modules: expected recompute \"selective\" beside it");
  EXPECT_EQ(refusal_of_config("\"selective\"", "\"selective\", \"recompute_modules\": \"mpl\""),
            "test.json: recompute_modules: expected one of core_attn, moe_act, layernorm, "
            "mla_up_proj, mlp, moe, shared_experts, op, got \"mpl\"");
  EXPECT_EQ(
      refusal_of_config("\"selective\"",
                        "\"none\", \"recompute_num_layers\": 2, \"recompute_method\": \"block\""),
      "test.json: recompute_num_layers: expected recompute \"full\" beside it");
}

}  // namespace
}  // namespace ptdp
