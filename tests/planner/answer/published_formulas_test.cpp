// Tests of SC21's formulas with a plan's figures, by hand and by the paper's examples.
#include "planner/answer/published_formulas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/answer/planning_output.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr double kDay = 86400.0;

Plan formula_plan(const Scenario& scenario, const ParallelConfig& config) {
  return make_plan({scenario, config}, config.world_size(), 0.0, {});
}

std::map<std::string, double> formula_values(const Plan& plan, const RunBudget& budget = {}) {
  std::map<std::string, double> result;
  for (const PublishedFormula& formula : published_formulas(plan, budget)) {
    result.emplace(formula.key, formula.value);
  }
  return result;
}

/// Returns the plan of SC21 table 1 for 1T, which takes 0.1 s for a microbatch.
Plan published_trillion() {
  Plan plan =
      formula_plan(selene_2021("1T"), {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull});
  plan.predicted.per_gpu.value = teraflops(163.0);
  plan.predicted.breakdown = {.matmul = Seconds(30.0),
                              .tensor_parallel = Seconds(5.0),
                              .recompute = Seconds(16.2),
                              .bubble = Seconds(6.3),
                              .pipeline_messages = Seconds(1.0)};
  return plan;
}

// By hand: p = 64, m = 3072/6 = 512, h = 25600, l = 128, s = 2048, V = 51200, B = 3072. A batch
// takes (512 + 63)·0.1 s. 84 days are SC21's (section 5.1) for 450e9 tokens at 163 TFLOP/s. A layer
// keeps sbh(10 + 24/8 + 5·160·2048/(25600·8)) = 21sbh of the 2sbh that enter, two layers a stage.
TEST(PublishedFormulas, HaveTheValuesOfTheTrillionParameterRun) {
  const std::map<std::string, double> found =
      formula_values(published_trillion(), RunBudget{.tokens = 450e9});
  EXPECT_THAT(found, UnorderedElementsAre(Key("bubble_fraction"), Key("ring_all_reduce_share"),
                                          Key("batch_time"), Key("training_time"),
                                          Key("checkpoints"), Key("parameters"), Key("flops")));
  EXPECT_DOUBLE_EQ(found.at("bubble_fraction"), 63.0 / 512.0);
  EXPECT_DOUBLE_EQ(found.at("ring_all_reduce_share"), 5.0 / 6.0);
  EXPECT_NEAR(found.at("batch_time"), 57.5, 1e-9);
  EXPECT_NEAR(found.at("training_time") / kDay, 84.0, 0.5);
  EXPECT_NEAR(found.at("checkpoints"), std::sqrt(21.0), 1e-9);
  EXPECT_NEAR(found.at("parameters") / 1.008039e12, 1.0, 1e-6);
  EXPECT_NEAR(found.at("flops") / 5.13905e19, 1.0, 1e-5);
}

// SC21 section 5.1: 300e9 tokens through GPT-3's 175e9 parameters on 1024 GPUs at 140 TFLOP/s take
// 34 days.
TEST(PublishedFormulas, GiveTheDaysOfGpt3) {
  Plan plan = formula_plan(selene_2021("gpt3-175b", 1536),
                           {.tp = 8, .pp = 8, .dp = 16, .recompute = Recompute::kFull});
  plan.predicted.per_gpu.value = teraflops(140.0);
  EXPECT_NEAR(formula_values(plan, RunBudget{.tokens = 300e9}).at("training_time") / kDay, 34.0,
              0.5);
  EXPECT_THAT(formula_values(plan), Not(Contains(Key("training_time"))));
  plan.config.recompute = Recompute::kNone;  // 6TP in place of 8TP
  EXPECT_THAT(formula_values(plan, RunBudget{.tokens = 300e9}),
              Not(Contains(Key("training_time"))));
}

// By hand: 76B of SC21 table 1 has p = 4, v = 3, m = 1792/32/2 = 28: 3/84.
TEST(PublishedFormulas, DivideTheBubbleByTheChunks) {
  const Plan plan = formula_plan(selene_2021("76B"), {.tp = 8,
                                                      .pp = 4,
                                                      .dp = 32,
                                                      .vpp = 3,
                                                      .micro_batch_size = 2,
                                                      .schedule = ScheduleKind::kInterleaved,
                                                      .recompute = Recompute::kFull});
  const std::map<std::string, double> found = formula_values(plan);
  EXPECT_DOUBLE_EQ(found.at("bubble_fraction"), 3.0 / 84.0);
  EXPECT_THAT(found, Not(Contains(Key("batch_time"))));  // equation 1 knows no chunks
  EXPECT_THAT(formulas_text(plan), HasSubstr("over ideal time: (p-1)/(v m) (section 2.2.2)"));
}

// By hand: t = 2, p = 4, d = 1, b = 2, B = 64: (8/2 − 1)/32. t = 1, p = 4, d = 8, b = 1, B = 512:
// (32 − 8)/512.
TEST(PublishedFormulas, HaveTheFormsOfTensorAndOfDataParallelism) {
  const std::map<std::string, double> tensor = formula_values(
      formula_plan(selene_2021("1.7B", 64), {.tp = 2, .pp = 4, .micro_batch_size = 2}));
  EXPECT_DOUBLE_EQ(tensor.at("tensor_pipeline_bubble_fraction"), 3.0 / 32.0);
  EXPECT_DOUBLE_EQ(tensor.at("bubble_fraction"), 3.0 / 32.0);
  EXPECT_THAT(tensor, Not(Contains(Key("data_pipeline_bubble_fraction"))));
  EXPECT_THAT(tensor, Not(Contains(Key("ring_all_reduce_share"))));
  const std::map<std::string, double> data =
      formula_values(formula_plan(selene_2021("1.7B", 512), {.pp = 4, .dp = 8}));
  EXPECT_DOUBLE_EQ(data.at("data_pipeline_bubble_fraction"), 24.0 / 512.0);
  EXPECT_DOUBLE_EQ(data.at("bubble_fraction"), 3.0 / 64.0);
  EXPECT_THAT(data, Not(Contains(Key("tensor_pipeline_bubble_fraction"))));
}

// A pipeline of one stage has no bubble; ZB-H1, PipeDream, and groups of more than p microbatches
// have other ones. SC21 does not share sequences.
TEST(PublishedFormulas, AreLeftOutWhereTheyDoNotHold) {
  const Scenario zero_bubble = shipped_scenario("7.5B", "roce-a100", "zero-bubble-2023", 24);
  for (const ScheduleKind kind :
       {ScheduleKind::kZbH1, ScheduleKind::kZbH2, ScheduleKind::kPipeDream2Bw}) {
    const std::map<std::string, double> found =
        formula_values(formula_plan(zero_bubble, {.pp = 4, .dp = 2, .schedule = kind}));
    EXPECT_THAT(found, Not(Contains(Key("bubble_fraction"))));
    EXPECT_THAT(found, Not(Contains(Key("data_pipeline_bubble_fraction"))));
    EXPECT_THAT(found, Not(Contains(Key("batch_time"))));
    EXPECT_THAT(found, Contains(Key("ring_all_reduce_share")));
  }
  EXPECT_THAT(formula_values(formula_plan(selene_2021("1.7B"), {.dp = 8})),
              Not(Contains(Key("bubble_fraction"))));
  Plan groups = formula_plan(selene_2021("76B"), {.tp = 8,
                                                  .pp = 4,
                                                  .vpp = 3,
                                                  .schedule = ScheduleKind::kInterleaved,
                                                  .recompute = Recompute::kFull});
  EXPECT_THAT(formula_values(groups), Contains(Key("bubble_fraction")));
  groups.schedule.microbatch_group_size = 8;
  EXPECT_THAT(formula_values(groups), Not(Contains(Key("bubble_fraction"))));
  const Scenario llama = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024", 64);
  EXPECT_THAT(formula_values(formula_plan(llama, {.cp = 2})), testing::IsEmpty());
  const std::map<std::string, double> gated = formula_values(
      formula_plan(llama, {.tp = 2, .recompute = Recompute::kFull}), RunBudget{.tokens = 1e12});
  EXPECT_THAT(gated,
              UnorderedElementsAre(Key("batch_time"), Key("training_time"), Key("checkpoints")));
}

TEST(PublishedFormulas, AreLinesAtTheEndOfThePlanAndObjectsInJson) {
  const Plan plan = published_trillion();
  const std::string text =
      "\nFormulas of SC21 (arXiv:2104.04473) for this plan\n"
      "      12.3 %  pipeline bubble over ideal time: (p-1)/m (section 2.2.1)\n"
      "      83.3 %  of the gradients, sent in each half of a ring all-reduce: (d-1)/d (section "
      "3.3.1)\n"
      "      57.5 s  time of a batch, messages and reductions left out: (b'/b+p-1)(t_f+t_b), b' = "
      "B/d (equation 1)\n"
      "       4.583  activation checkpoints of a stage with the least memory: sqrt(l "
      "A_intermediate/A_input) (section 3.5)\n"
      "   1.008e+12  parameters: 12lh^2 (1 + 13/(12h) + (V+s)/(12lh)) (equation 2)\n"
      "   5.139e+19  FLOPs of a batch, all layers recomputed: 96Bslh^2 (1 + s/(6h) + V/(16lh)) "
      "(equation 3)\n";
  EXPECT_EQ(formulas_text(plan), text);
  EXPECT_THAT(to_text(plan, RunBudget{}), EndsWith(text));
  std::vector<nlohmann::json> objects;
  for (const ObjectWriter& json : formulas_json(plan)) {
    objects.push_back(nlohmann::json::parse(json.dump()));
  }
  ASSERT_EQ(objects.size(), 6U);
  EXPECT_EQ(objects[0], (nlohmann::json{{"key", "bubble_fraction"},
                                        {"name", "pipeline bubble over ideal time"},
                                        {"equation", "(p-1)/m"},
                                        {"source", "SC21 (arXiv:2104.04473) section 2.2.1"},
                                        {"value", 0.123046875},
                                        {"unit", ""}}));
  EXPECT_EQ(objects[2]["unit"], "s");
}

}  // namespace
}  // namespace ptdp
