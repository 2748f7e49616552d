#include "planner/answer/summary.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "planner/answer/explanation_report.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string summary(const Scenario& scenario, const SearchOptions& options,
                    const RunBudget& budget = {}) {
  return summarize(plan_training(scenario, options), budget, {"an assumption"}, "a command");
}

TEST(Summary, AnswersInItsFirstLine) {
  EXPECT_THAT(summary(selene_2021("1T"), {.gpus = 3072}),
              StartsWith("Train 1T on 3072 GPUs (selene-a100 with megatron-lm-2021) with tp=8 "
                         "pp=64 dp=6 b=1 1f1b recompute=full: "));
}

TEST(Summary, HasEverySection) {
  EXPECT_THAT(
      summary(selene_2021("1T"), {.gpus = 3072}),
      AllOf(HasSubstr("\nConfiguration\n"), HasSubstr("\nPredicted (90 % interval; "),
            HasSubstr("\nWhere the time goes\n"), HasSubstr("\nMemory of the heaviest"),
            HasSubstr("\nSent by each GPU"), HasSubstr("\nRunners-up\n"),
            HasSubstr("\nRules of thumb\n"), HasSubstr("sc21-t1-1T"), HasSubstr("\nCandidates: "),
            HasSubstr("an assumption"), HasSubstr("\nNext\n  a command\n")));
}

TEST(Summary, SaysHowManyGpusStayIdle) {
  const SearchOptions options{.gpus = 2560,
                              .pins = {.tp = IntegerRanges(8), .pp = IntegerRanges(35)}};
  EXPECT_THAT(summary(selene_2021("530B"), options), HasSubstr("2520 used, 40 idle"));
}

TEST(Summary, SaysHowManyGpusShareASequenceWhereSomeDo) {
  const SearchOptions options{.gpus = 16, .pins = {.tp = IntegerRanges(2), .cp = IntegerRanges(4)}};
  const std::string text =
      summary(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024", 64), options);
  EXPECT_THAT(text, AllOf(HasSubstr(" cp=4 "), HasSubstr("\n  context parallel"),
                          HasSubstr("\n  data parallel")));
  EXPECT_THAT(summary(selene_2021("1T"), {.gpus = 3072}), Not(HasSubstr("context parallel")));
}

TEST(Summary, SaysWhatHostsHold) {
  const SearchOptions options{.gpus = 8,
                              .pins = {.tp = IntegerRanges(4),
                                       .pp = IntegerRanges(1),
                                       .recompute = {Recompute::kNone},
                                       .offload = {Offload::kActivations},
                                       .offload_num_layers = 12}};
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  EXPECT_THAT(summary(scenario, options),
              HasSubstr("in host memory         activations: first 12 layers\n"));
}

TEST(Summary, GivesDaysAndCostForABudget) {
  const std::string text =
      summary(selene_2021("1T"), {.gpus = 3072}, {.tokens = 450e9, .price_per_gpu_hour = 2.0});
  EXPECT_THAT(text, AllOf(HasSubstr("450 B tokens"), HasSubstr("days"), HasSubstr("GPU-hours"),
                          HasSubstr("at 2 per GPU-hour")));
}

TEST(Summary, CallsRunnersUpWithinTheIntervalTies) {
  EXPECT_THAT(summary(selene_2021("1T"), {.gpus = 3072}), HasSubstr("a tie within the interval"));
}

TEST(Summary, CallsNoRunnerUpBeyondTheIntervalATie) {
  const PlanningResult result =
      plan_training(selene_2021("1.7B"),
                    {.gpus = 64, .pins = {.recompute = {Recompute::kFull}}, .num_best = 400});
  const Estimate<Seconds>& best = result.plans.front().predicted.iteration_time;
  const auto num_ties = std::ranges::count_if(
      result.plans.begin() + 1, result.plans.end(),
      [&](const Plan& plan) { return plan.predicted.iteration_time.value <= best.high; });
  ASSERT_LT(num_ties + 1, std::ssize(result.plans)) << "all are ties";
  const std::string text = summarize(result, {}, {"an assumption"}, "a command");
  const std::string tie = ", a tie within";
  std::ptrdiff_t told = 0;
  for (std::size_t at = text.find(tie); at != std::string::npos; at = text.find(tie, at + 1)) {
    ++told;
  }
  EXPECT_EQ(told, num_ties);
}

TEST(Summary, SaysThatNothingIsPublishedWhereNothingIs) {
  EXPECT_THAT(summary(selene_2021("1T"), {.gpus = 1536}),
              HasSubstr("no run of this model, batch and number of GPUs"));
}

TEST(SummarizeFailure, NamesTheShortfallInBytes) {
  const PlanningResult result = plan_training(selene_2021("1T"), {.gpus = 8});
  EXPECT_THAT(summarize_failure(result),
              AllOf(StartsWith("nothing fits: 1T on 8 GPUs"), HasSubstr(" bytes ("),
                    HasSubstr("heads not divisible by tp")));
}

TEST(SummarizeExplanation, NamesTheTermsThatLose) {
  const Scenario scenario = selene_2021("1T");
  const SearchOptions options{.gpus = 3072};
  const Explanation lost =
      explain(scenario, options, parse_partial_config("tp=4,pp=128", "--explain"));
  EXPECT_THAT(summarize(lost, scenario, {}), AllOf(HasSubstr("Best that matches: tp=4 pp=128 dp=6"),
                                                   HasSubstr("It loses"), HasSubstr("bubble")));
  const Explanation best =
      explain(scenario, options, parse_partial_config("tp=8,pp=64", "--explain"));
  EXPECT_THAT(summarize(best, scenario, {}),
              HasSubstr("It is the best that the other flags allow."));
  const Explanation impossible =
      explain(scenario, options, parse_partial_config("tp=3", "--explain"));
  EXPECT_THAT(summarize(impossible, scenario, {}),
              AllOf(HasSubstr("No configuration that matches can run."),
                    HasSubstr("heads not divisible by tp"), Not(HasSubstr("Best without it"))));
  // What was asked for is better than what the flags allow, or they allow nothing.
  const SearchOptions pinned{.gpus = 3072, .pins = {.tp = IntegerRanges(4)}};
  const Explanation better = explain(scenario, pinned, parse_partial_config("tp=8", "--explain"));
  EXPECT_THAT(summarize(better, scenario, {}), HasSubstr("It gains"));
  const SearchOptions nothing{.gpus = 3072, .pins = {.tp = IntegerRanges(3)}};
  const Explanation only = explain(scenario, nothing, parse_partial_config("tp=8", "--explain"));
  EXPECT_THAT(summarize(only, scenario, {}), HasSubstr("Without it, nothing"));
}

TEST(Summary, ShowsHowExpertsAreSplit) {
  const Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  const SearchOptions options{.gpus = 64,
                              .pins = {.tp = IntegerRanges(2),
                                       .pp = IntegerRanges(2),
                                       .ep = IntegerRanges(8),
                                       .etp = IntegerRanges(2)}};
  EXPECT_THAT(summary(scenario, options),
              AllOf(HasSubstr("\n  expert parallel        8\n"),
                    HasSubstr("\n  of each expert         2\n"), HasSubstr("\nSent by each GPU")));
  EXPECT_THAT(summary(selene_2021("18B"), {.gpus = 64}),
              AllOf(Not(HasSubstr("expert parallel")), Not(HasSubstr("of each expert"))));
}

}  // namespace
}  // namespace ptdp
