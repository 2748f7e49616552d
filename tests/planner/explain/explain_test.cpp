#include "planner/explain/explain.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TEST(ParsePartialConfig, ReadsEveryKey) {
  const Pins pins = parse_partial_config(
      "tp=8,pp=64,dp=6,cp=4,vpp=2,b=1,schedule=interleaved,recompute=full,sequence_parallel=off,"
      "zero_stage=0",
      "--explain");
  EXPECT_EQ(pins.tp, IntegerRanges(8));
  EXPECT_EQ(pins.pp, IntegerRanges(64));
  EXPECT_EQ(pins.dp, IntegerRanges(6));
  EXPECT_EQ(pins.cp, IntegerRanges(4));
  EXPECT_EQ(pins.vpp, IntegerRanges(2));
  EXPECT_EQ(pins.micro_batch_size, IntegerRanges(1));
  EXPECT_EQ(pins.zero_stage, IntegerRanges(0));
  EXPECT_THAT(pins.schedules, testing::ElementsAre(ScheduleKind::kInterleaved));
  EXPECT_THAT(pins.recompute, testing::ElementsAre(Recompute::kFull));
  EXPECT_EQ(pins.sequence_parallel, false);
}

TEST(ParsePartialConfig, RefusesWhatItCannotRead) {
  struct Row {
    const char* text;
    const char* message;
  };
  for (const Row& row : {Row{"", "expected key=value"},
                         Row{"tp", "expected key=value"},
                         Row{"tp=", "--explain: tp"},
                         Row{"tp=0", "from 1"},
                         Row{"tp=x", "\"x\""},
                         Row{"tpp=8", "did you mean"},
                         Row{"recompute=some", "none, selective, full"},
                         Row{"tp=8,tp=4", "given twice"},
                         Row{"b=1,micro_batch_size=1", "given twice"},
                         Row{"block=1,every=2", "given twice"},
                         Row{"modules=mpl", "one of core_attn, moe_act"},
                         Row{"modules=mlp+mlp", "mlp is given twice"},
                         Row{"modules=op+mlp", "expected op alone"},
                         Row{"block=0", "from 1"},
                         Row{"sequence_parallel=maybe", "one of off, on"},
                         Row{"layers=", "--explain: layers"},
                         Row{"layers=2,", "expected key=value"},
                         Row{"layers=2,3,", "expected key=value"},
                         Row{"layers=0x2", "from 1"},
                         Row{"layers=2x-1", "\"-1\""},
                         Row{"layers=100000x1,100000x1,1", "at most 200000"},
                         Row{"limit=0", "from 1"},
                         Row{"tp=8,", "expected key=value"}}) {
    try {
      (void)parse_partial_config(row.text, "--explain");
      ADD_FAILURE() << row.text << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(row.message)) << row.text;
    }
  }
}

TEST(Differences, AddUpToTheDifferenceOfTheTotals) {
  const Scenario scenario = selene_2021("1T");
  const CostBreakdown slow =
      iteration_cost(scenario, {.tp = 8, .pp = 128, .dp = 3, .recompute = Recompute::kFull});
  const CostBreakdown fast =
      iteration_cost(scenario, {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull});
  double sum = 0.0;
  double before = 1e300;
  for (const TermDifference& term : differences(slow, fast)) {
    sum += term.difference.value();
    EXPECT_LE(std::abs(term.difference.value()), before) << term.term;
    before = std::abs(term.difference.value());
  }
  EXPECT_NEAR(sum, (slow.total() - fast.total()).value(), 1e-9);
}

// Twice the stages for the same number of microbatches: twice the bubble, and fewer GPUs per layer.
TEST(DescribeDifferences, NamesTheBubbleOfADeeperPipeline) {
  const Scenario scenario = selene_2021("1T");
  const auto cost = [&](int tp, int pp) {
    return iteration_cost(scenario, {.tp = tp, .pp = pp, .dp = 6, .recompute = Recompute::kFull});
  };
  EXPECT_THAT(describe_differences(cost(4, 128), cost(8, 64)), testing::StartsWith("+"));
  EXPECT_THAT(describe_differences(cost(4, 128), cost(8, 64)), HasSubstr(" s bubble"));
}

TEST(Explain, FindsTheBestCompletionOfWhatIsGiven) {
  const Scenario scenario = selene_2021("1T");
  const Explanation explanation =
      explain(scenario, {.gpus = 3072}, parse_partial_config("tp=8,pp=128", "--explain"));
  ASSERT_FALSE(explanation.matching.best.empty());
  EXPECT_EQ(explanation.matching.best.front().config.pp, 128);
  EXPECT_LT(explanation.all.best.front().time, explanation.matching.best.front().time);
}

TEST(Explain, KeepsToThePinsOfTheSearch) {
  const Scenario scenario = selene_2021("18B");
  const SearchOptions options{.gpus = 256, .pins = {.recompute = {Recompute::kFull}}};
  const Explanation explanation =
      explain(scenario, options, parse_partial_config("tp=8", "--explain"));
  EXPECT_EQ(explanation.matching.best.front().config.tp, 8);
  EXPECT_EQ(explanation.matching.best.front().config.recompute, Recompute::kFull);
  EXPECT_GE(explanation.matching.best.front().time, explanation.all.best.front().time);
}

TEST(ParsePartialConfig, ReadsAConfigurationAsItIsPrinted) {
  const ParallelConfig config{.tp = 8,
                              .pp = 64,
                              .dp = 6,
                              .cp = 4,
                              .vpp = 2,
                              .schedule = ScheduleKind::kInterleaved,
                              .recompute = Recompute::kSelective,
                              .sequence_parallel = true,
                              .zero_stage = 1,
                              .rank_order = RankOrder::kTpCpEpPpDp,
                              .offload = Offload::kBoth,
                              .offload_num_layers = 7};
  const Pins pins = parse_partial_config(to_string(config), "--explain");
  EXPECT_EQ(pins.tp, IntegerRanges(8));
  EXPECT_EQ(pins.pp, IntegerRanges(64));
  EXPECT_EQ(pins.dp, IntegerRanges(6));
  EXPECT_EQ(pins.cp, IntegerRanges(4));
  EXPECT_EQ(pins.vpp, IntegerRanges(2));
  EXPECT_EQ(pins.micro_batch_size, IntegerRanges(1));
  EXPECT_EQ(pins.schedules, std::vector<ScheduleKind>{ScheduleKind::kInterleaved});
  EXPECT_EQ(pins.recompute, std::vector<Recompute>{Recompute::kSelective});
  EXPECT_EQ(pins.sequence_parallel, true);
  EXPECT_EQ(pins.zero_stage, IntegerRanges(1));
  EXPECT_EQ(pins.rank_orders, std::vector(1, RankOrder::kTpCpEpPpDp));
  EXPECT_EQ(pins.offload, std::vector(1, Offload::kBoth));
  EXPECT_EQ(pins.offload_num_layers, 7);
}

// What is not printed is as usual, and open where keys are given one by one.
TEST(ParsePartialConfig, ReadsAPrintedConfigurationAsThatOneAlone) {
  const Pins printed = parse_partial_config(to_string(ParallelConfig{.pp = 2}), "--explain");
  EXPECT_EQ(printed.cp, IntegerRanges(1));
  EXPECT_EQ(printed.vpp, IntegerRanges(1));
  EXPECT_EQ(printed.zero_stage, IntegerRanges(0));
  EXPECT_EQ(printed.dp_replicate, IntegerRanges(1));
  EXPECT_EQ(printed.sequence_parallel, false);
  EXPECT_EQ(printed.reshard_after_forward, true);
  EXPECT_EQ(printed.offload, std::vector(1, Offload::kNone));
  const Pins partial = parse_partial_config("tp=1,pp=2,dp=1,b=1,recompute=none", "--explain");
  EXPECT_TRUE(partial.cp.is_any());
  EXPECT_TRUE(partial.zero_stage.is_any());
  EXPECT_FALSE(partial.sequence_parallel.has_value());
}

TEST(ParsePartialConfig, ReadsLayersAndTheLimitOfASearchedSchedule) {
  const ParallelConfig config{.pp = 4,
                              .schedule = ScheduleKind::kZbAuto,
                              .layers_per_stage = {3, 5, 5, 4},
                              .memory_limit = 7};
  const Pins pins = parse_partial_config(to_string(config), "--explain");
  EXPECT_EQ(pins.memory_limit, 7);
  EXPECT_EQ(pins.layers_per_stage, config.layers_per_stage);
  // Between other keys, too, and behind a comma.
  const Pins between = parse_partial_config("tp=8,layers=0,2x1,0,b=2", "--explain");
  EXPECT_EQ(between.layers_per_stage, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(between.tp, IntegerRanges(8));
  EXPECT_EQ(between.micro_batch_size, IntegerRanges(2));
}

// Another split than the balanced one, equal stages in their place, and what holds too few layers.
TEST(Explain, KeepsToTheLayersThatAreGiven) {
  const Scenario scenario =
      shipped_scenario("llama-3.1-405b", "grand-teton-h100", "meta-llama3", 2048);
  const std::string others = "tp=8,pp=16,dp=128,cp=1,vpp=1,b=1,";
  const auto best = [&](const std::string& layers) {
    const Explanation explanation = explain(
        scenario, {.gpus = 16384}, parse_partial_config(others + "layers=" + layers, "--explain"));
    return explanation.matching;
  };
  EXPECT_EQ(best("15,6x8,9x7").shortfall->config.layers_per_stage.front(), 15);
  EXPECT_EQ(best("16x7").violations.begin()->first, Constraint::kLayersPerStage);
  EXPECT_EQ(best("7,7").violations.begin()->first, Constraint::kLayersPerStage);
}

TEST(Explain, RefusesToOffloadLayersOfNothing) {
  const Pins partial = parse_partial_config("offload_num_layers=7", "--explain");
  EXPECT_THAT(message_of([&] { return explain(selene_2021("1T"), {.gpus = 3072}, partial); }),
              testing::HasSubstr("offload_num_layers: expected offload=activations beside it"));
}

TEST(ParsePartialConfig, ReadsWhatRecomputationIsOf) {
  const ParallelConfig modules{
      .recompute = Recompute::kSelective,
      .recompute_modules = {RecomputeModule::kCoreAttention, RecomputeModule::kMoe}};
  EXPECT_EQ(parse_partial_config(to_string(modules), "--explain").recompute_modules,
            modules.recompute_modules);
  const ParallelConfig layers{.recompute = Recompute::kFull,
                              .recompute_method = RecomputeMethod::kUniform,
                              .recompute_num_layers = 3};
  const Pins pins = parse_partial_config(to_string(layers), "--explain");
  EXPECT_EQ(pins.recompute_method, RecomputeMethod::kUniform);
  EXPECT_EQ(pins.recompute_num_layers, 3);
}

}  // namespace
}  // namespace ptdp
