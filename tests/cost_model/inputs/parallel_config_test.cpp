#include "cost_model/inputs/parallel_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Every field away from its default, where it has another value.
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

/// Full recomputation of some layers, which excludes the above.
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
  // What is usual is not written.
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
