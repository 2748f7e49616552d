// Tests of the text that says whether a configuration fits, and what would make it fit.
#include "planner/answer/fit_output.h"

#include <gmock/gmock.h>

#include <sstream>

#include "planner/explain/explain.h"
#include "planner/explain/named_config.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

MemoryBreakdown stage_of(double activations) {
  return {.weights = gibibytes(10.0),
          .gradients = gibibytes(10.0),
          .optimizer = gibibytes(40.0),
          .activations = gibibytes(activations),
          .working_set = gibibytes(0.3),
          .buffers = gibibytes(0.5),
          .reserve = gibibytes(5.0)};
}

/// Returns a plan of four stages with 25.5, 15.5, 10.5 and 4.2 GiB of activations on GPUs of 80.
Plan four_stages() {
  Plan plan{.scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64),
            .config = {.pp = 4}};
  plan.memory.stages = {stage_of(25.5), stage_of(15.5), stage_of(10.5), stage_of(4.2)};
  return plan;
}

// 10 + 10 + 40 + 25.5 + 0.3 + 0.5 + 5 = 91.3.
TEST(FitLine, SaysByHowMuchTheHeaviestStageDoesNotFit) {
  Plan plan = four_stages();
  EXPECT_EQ(fit_line(plan),
            "Fits: no, stage 1 of 4 needs 91.30 of 80.00 GiB, 11.30 GiB too much\n");
  plan.memory_headroom = 0.1;
  EXPECT_EQ(fit_line(plan),
            "Fits: no, stage 1 of 4 needs 91.30 of the 72.00 GiB that the headroom leaves, 19.30 "
            "GiB too much\n");
  plan.memory_headroom = 0.0;
  plan.memory.stages[0].activations = gibibytes(14.25);
  EXPECT_EQ(fit_line(plan),
            "Fits: no, stage 1 of 4 needs 80.05 of 80.00 GiB, 51.20 MiB too much\n");
}

TEST(FitLine, SaysHowLikelyItFits) {
  Plan plan = four_stages();
  plan.memory.heaviest_rank = 3;
  EXPECT_EQ(fit_line(plan), "Fits: yes; stage 4 of 4 needs 70.00 of 80.00 GiB\n");
  plan.memory.beyond = {.support = {.num_runs = 3, .all_runs = 3}};
  plan.memory.probability_of_fitting = 0.93;
  EXPECT_EQ(fit_line(plan), "Fits: yes, with 93 %; stage 4 of 4 needs 70.00 of 80.00 GiB\n");
  plan.memory.probability_of_fitting = 0.31;
  EXPECT_EQ(fit_line(plan),
            "Fits: yes by the formulas, with 31 %; stage 4 of 4 needs 70.00 of 80.00 GiB\n");
  plan.memory.heaviest_rank = 0;
  EXPECT_EQ(fit_line(plan),
            "Fits: no (with 31 % only), stage 1 of 4 needs 91.30 of 80.00 GiB, 11.30 GiB too "
            "much\n");
  plan.memory.probability_of_fitting = 0.004;
  EXPECT_EQ(fit_line(plan),
            "Fits: no, stage 1 of 4 needs 91.30 of 80.00 GiB, 11.30 GiB too much\n");
}

TEST(StageTable, ShowsTheFirstTheHeaviestAndTheLastStage) {
  Plan plan = four_stages();
  EXPECT_EQ(stage_table(plan),
            "Memory by stage [GiB]\n"
            "stage   weights gradients optimizer activations working buffers reserve   total\n"
            "1/4       10.00     10.00     40.00       25.50    0.30    0.50    5.00   91.30\n"
            "4/4       10.00     10.00     40.00        4.20    0.30    0.50    5.00   70.00\n"
            "a GPU                                                                     80.00\n");
  plan.memory.heaviest_rank = 1;
  plan.memory.stages[1].activations = gibibytes(30.0);
  plan.memory_headroom = 0.1;
  const std::string text = stage_table(plan);
  EXPECT_THAT(text, HasSubstr("\n1/4 "));
  EXPECT_THAT(text, HasSubstr("\n2/4 "));
  EXPECT_THAT(text, testing::Not(HasSubstr("\n3/4 ")));
  EXPECT_THAT(text, HasSubstr("\n4/4 "));
  EXPECT_THAT(text, HasSubstr("\nusable "));
  EXPECT_THAT(text, HasSubstr(" 72.00\n"));
}

TEST(StageTable, ShowsEqualStagesOnceWithin80Columns) {
  Plan plan = four_stages();
  plan.config.pp = 128;
  plan.memory.heaviest_rank = 99;
  plan.memory.stages.assign(128, stage_of(12345.0));
  std::istringstream lines(stage_table(plan));
  std::vector<std::string> read;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    read.push_back(line);
  }
  ASSERT_EQ(read.size(), 4U);
  EXPECT_TRUE(read[2].starts_with("100/128 ")) << read[2];
}

TEST(Typed, ReadsAsTheSameConfiguration) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  for (const ParallelConfig& config : std::vector<ParallelConfig>{
           {.tp = 8, .pp = 4, .dp = 2, .recompute = Recompute::kFull},
           {.tp = 2,
           .pp = 2,
           .dp = 2,
           .cp = 2,
           .micro_batch_size = 4,
           .recompute = Recompute::kSelective,
           .recompute_modules = parse_recompute_modules("core_attn+mlp", ""),
           .sequence_parallel = true,
           .zero_stage = 1},
           {.pp = 4,
           .dp = 2,
           .vpp = 2,
           .schedule = ScheduleKind::kInterleaved,
           .recompute = Recompute::kFull,
           .recompute_method = RecomputeMethod::kUniform,
           .recompute_num_layers = 2,
           .rank_order = RankOrder::kTpCpEpPpDp,
           .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 5}},
           {.dp = 8,
           .zero_stage = 1,
           .dp_replicate = 2,
           .offload = Offload::kBoth,
           .offload_num_layers = 8}}) {
    EXPECT_EQ(named_config(parse_partial_config(typed(config), "--config"), scenario, 64, ""),
              config)
        << typed(config);
  }
}

TEST(ChangesText, SaysWhatChangesWhatItCostsAndWhatToType) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const SearchOptions options{.gpus = 16};
  const ParallelConfig config{.tp = 2, .dp = 8, .micro_batch_size = 4};
  FittingChange fewer{
      .candidate = {.config = config, .time = Seconds(4.5), .memory = gibibytes(70.0)},
      .fields = {"micro_batch_size"}};
  fewer.candidate.config.micro_batch_size = 1;
  FittingChange layers{
      .candidate = {.config = config, .time = Seconds(6.0), .memory = gibibytes(60.0)},
      .fields = {"recompute", "recompute_num_layers"}};
  layers.candidate.config.recompute = Recompute::kFull;
  layers.candidate.config.recompute_num_layers = 7;
  FittingChange more{
      .candidate = {.config = config, .time = Seconds(2.0), .memory = gibibytes(50.0)},
      .fields = {"tp"}};
  more.candidate.config.tp = 4;
  const ChangedConfig from{.scenario = scenario,
                           .options = options,
                           .config = config,
                           .time = Seconds(8.0),
                           .calibration_factor = 2.0};
  EXPECT_EQ(changes_text({.found = {fewer, layers, more}}, from),
            "Smallest changes that make it fit\n"
            "  1. b 4 -> 1\n"
            "     9 s (+12.5 %), 70.00 GiB\n"
            "     --config tp=2,pp=1,dp=8,b=1,1f1b,recompute=none\n"
            "  2. recompute none -> full, recompute_num_layers block 7\n"
            "     12 s (+50.0 %), 60.00 GiB\n"
            "     --config tp=2,pp=1,dp=8,b=4,1f1b,recompute=full,block=7\n"
            "  3. tp 2 -> 4\n"
            "     4 s (-50.0 %), 50.00 GiB\n"
            "     --gpus 32 --config tp=4,pp=1,dp=8,b=4,1f1b,recompute=none\n");
  EXPECT_EQ(changes_text({}, from), "No change of one or two fields makes it fit.\n");
  EXPECT_THAT(changes_text({.is_complete = false}, from), HasSubstr("within the time limit"));
  const ChangedConfig impossible{.scenario = scenario, .options = options, .config = config};
  EXPECT_THAT(changes_text({.found = {more}}, impossible),
              testing::StartsWith("Smallest changes that make it run\n"
                                  "  1. tp 2 -> 4\n"
                                  "     2 s, 50.00 GiB\n"));
}

}  // namespace
}  // namespace ptdp
