// Tests of explanations why a configuration is not the best.
#include "planner/explain/explain.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TEST(ParsePartialConfig, ReadsEveryKey) {
  const SearchSpace space = parse_partial_config(
      "tp=8,pp=64,dp=6,cp=4,vpp=2,b=1,schedule=interleaved,recompute=full,sequence_parallel=off,"
      "zero_stage=0",
      "--explain");
  EXPECT_EQ(space.tp, IntegerRanges(8));
  EXPECT_EQ(space.pp, IntegerRanges(64));
  EXPECT_EQ(space.dp, IntegerRanges(6));
  EXPECT_EQ(space.cp, IntegerRanges(4));
  EXPECT_EQ(space.vpp, IntegerRanges(2));
  EXPECT_EQ(space.micro_batch_size, IntegerRanges(1));
  EXPECT_EQ(space.zero_stage, IntegerRanges(0));
  EXPECT_THAT(space.schedules, testing::ElementsAre(ScheduleKind::kInterleaved));
  EXPECT_THAT(space.recompute, testing::ElementsAre(Recompute::kFull));
  EXPECT_EQ(space.sequence_parallel, false);
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

// Not as the value of a key that nobody wrote: only a whole name stands for schedule=….
TEST(ParsePartialConfig, TakesNothingThatOnlyBeginsLikeAScheduleForOne) {
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    const std::string name(schedule.name);
    EXPECT_THAT(parse_partial_config(name, "--explain").schedules,
                testing::ElementsAre(schedule.value));
    EXPECT_EQ(message_of([&] { return parse_partial_config("tp=8," + name + ":2", "--explain"); }),
              "--explain: expected key=value, got \"" + name + ":2\"");
  }
}

TEST(Differences, AddUpToTheDifferenceOfTheTotals) {
  const Scenario scenario = selene_2021("1T");
  const CostBreakdown slow =
      iteration_cost({scenario, {.tp = 8, .pp = 128, .dp = 3, .recompute = Recompute::kFull}});
  const CostBreakdown fast =
      iteration_cost({scenario, {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull}});
  double sum = 0.0;
  double before = 1e300;
  for (const TermDifference& term : differences(slow, fast)) {
    sum += term.difference.value();
    EXPECT_LE(std::abs(term.difference.value()), before) << term.term;
    before = std::abs(term.difference.value());
  }
  EXPECT_NEAR(sum, (slow.total() - fast.total()).value(), 1e-9);
}

// Twice the stages for the same number of microbatches have twice the bubble, and fewer GPUs per
// layer.
TEST(DescribeDifferences, NamesTheBubbleOfADeeperPipeline) {
  const Scenario scenario = selene_2021("1T");
  const auto cost = [&](int tp, int pp) {
    return iteration_cost({scenario, {.tp = tp, .pp = pp, .dp = 6, .recompute = Recompute::kFull}});
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
  const SearchOptions options{.gpus = 256, .space = {.recompute = {Recompute::kFull}}};
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
  const SearchSpace space = parse_partial_config(to_string(config), "--explain");
  EXPECT_EQ(space.tp, IntegerRanges(8));
  EXPECT_EQ(space.pp, IntegerRanges(64));
  EXPECT_EQ(space.dp, IntegerRanges(6));
  EXPECT_EQ(space.cp, IntegerRanges(4));
  EXPECT_EQ(space.vpp, IntegerRanges(2));
  EXPECT_EQ(space.micro_batch_size, IntegerRanges(1));
  EXPECT_EQ(space.schedules, std::vector<ScheduleKind>{ScheduleKind::kInterleaved});
  EXPECT_EQ(space.recompute, std::vector<Recompute>{Recompute::kSelective});
  EXPECT_EQ(space.sequence_parallel, true);
  EXPECT_EQ(space.zero_stage, IntegerRanges(1));
  EXPECT_EQ(space.rank_orders, std::vector(1, RankOrder::kTpCpEpPpDp));
  EXPECT_EQ(space.offload, std::vector(1, Offload::kBoth));
  EXPECT_EQ(space.offload_num_layers, 7);
}

// What is not printed is as usual, and open where keys are given one by one.
TEST(ParsePartialConfig, ReadsAPrintedConfigurationAsThatOneAlone) {
  const SearchSpace printed = parse_partial_config(to_string(ParallelConfig{.pp = 2}), "--explain");
  EXPECT_EQ(printed.cp, IntegerRanges(1));
  EXPECT_EQ(printed.vpp, IntegerRanges(1));
  EXPECT_EQ(printed.zero_stage, IntegerRanges(0));
  EXPECT_EQ(printed.dp_replicate, IntegerRanges(1));
  EXPECT_EQ(printed.sequence_parallel, false);
  EXPECT_EQ(printed.reshard_after_forward, true);
  EXPECT_EQ(printed.offload, std::vector(1, Offload::kNone));
  const SearchSpace partial =
      parse_partial_config("tp=1,pp=2,dp=1,b=1,recompute=none", "--explain");
  EXPECT_TRUE(partial.cp.is_any());
  EXPECT_TRUE(partial.zero_stage.is_any());
  EXPECT_FALSE(partial.sequence_parallel.has_value());
}

TEST(ParsePartialConfig, ReadsLayersAndTheLimitOfASearchedSchedule) {
  const ParallelConfig config{.pp = 4,
                              .schedule = ScheduleKind::kZbAuto,
                              .layers_per_stage = {3, 5, 5, 4},
                              .memory_limit = 7};
  const SearchSpace space = parse_partial_config(to_string(config), "--explain");
  EXPECT_EQ(space.memory_limit, 7);
  EXPECT_EQ(space.layers_per_stage, config.layers_per_stage);
  // Between other keys, too, and behind a comma.
  const SearchSpace between = parse_partial_config("tp=8,layers=0,2x1,0,b=2", "--explain");
  EXPECT_EQ(between.layers_per_stage, (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(between.tp, IntegerRanges(8));
  EXPECT_EQ(between.micro_batch_size, IntegerRanges(2));
}

// Another split than the balanced one, equal stages in their place, and what holds too few layers.
TEST(Explain, KeepsToTheLayersThatAreGiven) {
  const Scenario scenario =
      shipped_scenario("llama-3.1-405b", "grand-teton-h100", "meta-llama3", 2048);
  const std::string others = "tp=8,pp=16,dp=2,cp=1,vpp=1,b=1,";
  const auto best = [&](const std::string& layers) {
    const Explanation explanation = explain(
        scenario, {.gpus = 256}, parse_partial_config(others + "layers=" + layers, "--explain"));
    return explanation.matching;
  };
  EXPECT_EQ(best("15,6x8,9x7").shortfall->config.layers_per_stage.front(), 15);
  EXPECT_EQ(best("16x7").violations.begin()->first, Constraint::kLayersPerStage);
  EXPECT_EQ(best("7,7").violations.begin()->first, Constraint::kLayersPerStage);
}

TEST(Explain, RefusesToOffloadLayersOfNothing) {
  const SearchSpace partial = parse_partial_config("offload_num_layers=7", "--explain");
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
  const SearchSpace space = parse_partial_config(to_string(layers), "--explain");
  EXPECT_EQ(space.recompute_method, RecomputeMethod::kUniform);
  EXPECT_EQ(space.recompute_num_layers, 3);
}

// 33 of the 48 layers of one stage are recomputed; the search alone knows only all or none.
TEST(Explain, ComparesWithPlansThatRecomputeSomeLayers) {
  const Scenario scenario =
      shipped_scenario("39B", "mosaicml-a100-40gb", "megatron-core-2024", 2440);
  const SearchOptions options{.gpus = 2440, .space = {.tp = IntegerRanges(8)}};
  const Explanation explanation =
      explain(scenario, options, parse_partial_config("pp=2", "--explain"));
  const Candidate& best = explanation.all.best.front();
  EXPECT_TRUE(best.config.recomputes_by_layers()) << to_string(best.config);
  EXPECT_LT(best.time, search(scenario, options).best.front().time);
  EXPECT_LT(best.time, explanation.matching.best.front().time);
}

/// Asks a search that is pinned to one configuration for another, in its printed form. Expects the
/// pinned one to be the best without the request, and the printed form to leave nothing open or
/// out.
void expect_in_place_of(const ParallelConfig& pinned, const ParallelConfig& asked,
                        const Scenario& scenario, std::int64_t gpus) {
  SCOPED_TRACE(to_string(asked) + " in place of " + to_string(pinned));
  const SearchOptions options{.gpus = gpus,
                              .space = parse_partial_config(to_string(pinned), "flags")};
  const Explanation explanation =
      explain(scenario, options, parse_partial_config(to_string(asked), "--explain"));
  ASSERT_EQ(explanation.matching.best.size(), 1U);
  ASSERT_EQ(explanation.all.best.size(), 1U);
  EXPECT_EQ(to_string(explanation.matching.best.front().config), to_string(asked));
  EXPECT_EQ(to_string(explanation.all.best.front().config), to_string(pinned));
}

/// Returns eight layers of Mixtral.
Scenario few_experts() {
  Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 16);
  scenario.job.model.num_layers = 8;
  return scenario;
}

// Every key that a printed configuration may have.
TEST(Explain, SearchesTheConfigurationThatIsPrintedAndNoOther) {
  const ParallelConfig shared{.tp = 2,
                              .pp = 2,
                              .dp = 4,
                              .ep = 4,
                              .etp = 2,
                              .vpp = 2,
                              .micro_batch_size = 2,
                              .schedule = ScheduleKind::kInterleaved,
                              .recompute = Recompute::kSelective,
                              .recompute_modules = {RecomputeModule::kMlp},
                              .sequence_parallel = true,
                              .zero_stage = 1};
  const ParallelConfig activations{.dp = 16,
                                   .ep = 8,
                                   .zero_stage = 1,
                                   .offload = Offload::kActivations,
                                   .offload_num_layers = 3};
  const ParallelConfig optimizer{
      .dp = 16, .ep = 8, .zero_stage = 1, .offload = Offload::kOptimizer};
  const ParallelConfig far_apart{.pp = 2,
                                 .dp = 4,
                                 .cp = 2,
                                 .ep = 2,
                                 .recompute = Recompute::kFull,
                                 .recompute_method = RecomputeMethod::kUniform,
                                 .recompute_num_layers = 2,
                                 .zero_stage = 3,
                                 .rank_order = RankOrder::kTpCpEpPpDp};
  const ParallelConfig uneven{
      .pp = 4, .dp = 4, .ep = 4, .micro_batch_size = 2, .layers_per_stage = {1, 2, 3, 2}};
  const Scenario experts = few_experts();
  expect_in_place_of(shared, activations, experts, 16);
  expect_in_place_of(activations, shared, experts, 16);
  expect_in_place_of(activations, optimizer, experts, 16);
  ParallelConfig all_but_the_last = activations;
  all_but_the_last.offload_num_layers = 0;
  expect_in_place_of(activations, all_but_the_last, experts, 16);
  expect_in_place_of(shared, far_apart, experts, 16);
  expect_in_place_of(far_apart, shared, experts, 16);
  ParallelConfig all_layers = far_apart;
  all_layers.recompute_method = {};
  all_layers.recompute_num_layers = 0;
  expect_in_place_of(far_apart, all_layers, experts, 16);
  expect_in_place_of(optimizer, uneven, experts, 16);

  const Scenario replicated = shipped_scenario("gpt2-1.5b", "dgx-h100", "torchtitan-2024", 32);
  const ParallelConfig once{.dp = 32, .recompute = Recompute::kNone, .zero_stage = 3};
  const ParallelConfig often{.dp = 32,
                             .recompute = Recompute::kSelective,
                             .recompute_modules = {RecomputeModule::kEverySecondProduct},
                             .zero_stage = 3,
                             .dp_replicate = 4};
  expect_in_place_of(once, often, replicated, 32);
  expect_in_place_of(often, once, replicated, 32);

  const Scenario kept = shipped_scenario("gpt2-1.5b", "dgx-h100", "composer-fsdp-2024", 32);
  const ParallelConfig gathered_again{.dp = 16, .recompute = Recompute::kFull, .zero_stage = 3};
  const ParallelConfig gathered_once{.dp = 16, .zero_stage = 3, .reshard_after_forward = false};
  expect_in_place_of(gathered_again, gathered_once, kept, 16);

  const ParallelConfig searched{
      .pp = 4, .dp = 4, .schedule = ScheduleKind::kZbAuto, .memory_limit = 5};
  expect_in_place_of({.dp = 16, .micro_batch_size = 2}, searched,
                     shipped_scenario("gpt2-1.5b", "dgx-h100", "zero-bubble-2023", 32), 16);
}

// The number of layers in the flags is that of what the flags offload.
TEST(Explain, ForgetsTheLayersOfWhatIsOffloadedInstead) {
  const auto asked = [](const std::string& flags, const std::string& text) {
    const SearchOptions options{
        .gpus = 16,
        .space = parse_partial_config(
            "tp=1,pp=1,dp=16,cp=1,ep=8,b=1,recompute=none,zero_stage=1," + flags, "flags")};
    return explain(few_experts(), options, parse_partial_config(text, "--explain"));
  };
  const Explanation instead =
      asked("offload=activations,offload_num_layers=5", "offload=optimizer+activations");
  const Explanation without = asked("offload=activations", "offload=optimizer+activations");
  ASSERT_FALSE(instead.matching.best.empty());
  EXPECT_EQ(to_string(instead.matching.best.front().config),
            to_string(without.matching.best.front().config));
  EXPECT_EQ(instead.all.best.front().config.offload_num_layers, 5);
  // Numbers that are asked for stay, and so do those of what is not replaced.
  EXPECT_EQ(asked("offload=activations,offload_num_layers=5", "offload_num_layers=4")
                .matching.best.front()
                .config.offload_num_layers,
            4);
  EXPECT_EQ(asked("offload=activations,offload_num_layers=5", "vpp=1")
                .matching.best.front()
                .config.offload_num_layers,
            5);
}

// By hand: +2 of products, -1 of attention, +0.5 of the bubble, +0.3 of the optimizer, and a tenth
// of the largest, 0.2, is the least that is told.
TEST(DescribeDifferences, NamesThreeTermsThatMatterLargestFirst) {
  const CostBreakdown shorter{.matmul = Seconds(8.0),
                              .attention = Seconds(6.0),
                              .bubble = Seconds(2.5),
                              .optimizer = Seconds(1.0)};
  CostBreakdown longer{.matmul = Seconds(10.0),
                       .attention = Seconds(5.0),
                       .bubble = Seconds(3.0),
                       .optimizer = Seconds(1.3)};
  EXPECT_EQ(describe_differences(longer, shorter), "+2 s matmul, -1 s attention, +0.5 s bubble");
  EXPECT_EQ(describe_differences(shorter, longer), "-2 s matmul, +1 s attention, -0.5 s bubble");
  longer.optimizer = Seconds(1.0);
  longer.bubble = Seconds(2.71);
  EXPECT_EQ(describe_differences(longer, shorter), "+2 s matmul, -1 s attention, +0.21 s bubble");
  longer.bubble = Seconds(2.69);
  EXPECT_EQ(describe_differences(longer, shorter), "+2 s matmul, -1 s attention");
  EXPECT_EQ(describe_differences(shorter, shorter), "no term differs");
  // What rounding leaves of equal terms is no difference.
  longer = shorter;
  longer.matmul = Seconds(8.0 + 1e-13);
  EXPECT_EQ(describe_differences(longer, shorter), "no term differs");
}

// By hand: -3 +2 -1 +0.9 +0.8 +0.7 is +0.4, and the first sum above 0. The optimizer's +0.1 adds
// nothing.
TEST(DescribeDifferences, NamesAsManyTermsAsSayWhichOneIsLonger) {
  const CostBreakdown shorter{
      .matmul = Seconds(8.0), .attention = Seconds(6.0), .bubble = Seconds(2.5)};
  CostBreakdown longer{.matmul = Seconds(10.0),
                       .attention = Seconds(3.0),
                       .memory_bound = Seconds(0.9),
                       .launch = Seconds(0.7),
                       .tensor_parallel = Seconds(0.8),
                       .bubble = Seconds(1.5),
                       .optimizer = Seconds(0.1)};
  EXPECT_EQ(
      describe_differences(longer, shorter),
      "-3 s attention, +2 s matmul, -1 s bubble, +0.9 s memory_bound, +0.8 s tensor_parallel, "
      "+0.7 s launch");
  longer.matmul = Seconds(9.5);  // the two are equal
  EXPECT_EQ(describe_differences(longer, shorter), "-3 s attention, +1.5 s matmul, -1 s bubble");
}

// Twelve terms are always there, four where one of the two has them.
TEST(Differences, LeaveOutOptionalTermsThatDoNotDiffer) {
  const CostBreakdown reference{.matmul = Seconds(8.0), .expert_parallel = Seconds(1.0)};
  EXPECT_EQ(differences(reference, reference).size(), 12U);
  EXPECT_EQ(differences(reference, CostBreakdown{}).size(), 13U);
  const std::vector<TermDifference> found = differences(reference, CostBreakdown{});
  EXPECT_EQ(found[0].term, "matmul");
  EXPECT_EQ(found[1].term, "expert_parallel");
  EXPECT_EQ(found[1].difference, Seconds(1.0));
}

// 2 · 3 · 4 GPUs are paid for.
TEST(Counted, IsInSecondsOrInThoseOfAllGpus) {
  const CostBreakdown cost{.matmul = Seconds(5.0), .bubble = Seconds(0.5)};
  const ParallelConfig config{.tp = 2, .pp = 3, .dp = 4};
  EXPECT_EQ(counted(cost, config, Objective::kTime).total(), Seconds(5.5));
  EXPECT_EQ(counted(cost, config, Objective::kCost).matmul, Seconds(120.0));
  EXPECT_EQ(counted(cost, config, Objective::kCost).bubble, Seconds(12.0));
  EXPECT_EQ(unit_of(Objective::kTime), "s");
  EXPECT_EQ(unit_of(Objective::kCost), "GPU-s");
}

}  // namespace
}  // namespace ptdp
