// Tests the terms of steps whose records are made by hand.
#include "tools/run/measured_terms.h"

#include <gmock/gmock.h>

#include <array>
#include <thread>

#include "tests/cost_model/simulation/spans.h"
#include "tools/run/prediction_watch.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns a rank's step from `spans`, one for each action of its order.
StepRecord step_of(const std::vector<Span>& spans, double matmul, double attention) {
  StepRecord step{.step = {.start = spans.front().start, .end = spans.back().end},
                  .actions = spans};
  step.operations = std::array{matmul, attention};
  return step;
}

using enum ActionKind;

/// Returns a schedule of two stages and one microbatch.
Schedule two_stages() {
  Schedule schedule{.name = "1f1b", .pp = 2};
  schedule.orders = {{{kForward, 0, 0},
                      {kSendForward, 0, 0},
                      {kReceiveBackward, 0, 0},
                      {kBackward, 0, 0},
                      {kReduceNorm, 0, 0},
                      {kOptimizer, 0, 0}},
                     {{kReceiveForward, 1, 0},
                      {kForward, 1, 0},
                      {kBackward, 1, 0},
                      {kSendBackward, 1, 0},
                      {kReduceNorm, 1, 0},
                      {kOptimizer, 1, 0}}};
  return schedule;
}

/// Returns a record in which stage 0 computes for 5 s and stage 1 for 3 s. The first waits from 2.5
/// to 6 s for its gradient, the second from 6.5 to 9 s in the norm.
RunRecord two_stages_record() {
  RunRecord record;
  record.ranks.resize(2);
  record.ranks[0].steps = {step_of(
      {span(0, 2), span(2, 2.5), span(6, 6), span(6, 9), span(9, 9.5), span(9.5, 10)}, 3.0, 1.0)};
  record.ranks[1].steps = {step_of(
      {span(2.5, 2.5), span(2.5, 3.5), span(3.5, 5.5), span(5.5, 6), span(6, 9.5), span(9.5, 10)},
      2.0, 0.5)};
  return record;
}

TEST(MeasureTerms, AreOfTheStageThatComputesLongest) {
  const MeasuredTerms found =
      measure_terms(two_stages(), {.pp = 2}, two_stages_record(), /*first_step=*/0);
  EXPECT_EQ(found.stage, 0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kMatmul].value(), 3.0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kAttention].value(), 1.0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kMemoryBound].value(), 1.0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kPipelineMessages].value(), 0.5);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kOptimizer].value(), 1.0);  // norm of the last to come
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kBubble].value(), 3.5);
}

TEST(MeasureTerms, CountTheNormAsLongAsTheLastToComeTakesForIt) {
  RunRecord record = two_stages_record();
  record.ranks[1].steps[0].operations = std::array{20.0, 0.0};
  record.ranks[1].steps[0].actions[2] = span(3.5, 25.5);  // stage 1 computes longest by far
  const MeasuredTerms found = measure_terms(two_stages(), {.pp = 2}, record, 0);
  EXPECT_EQ(found.stage, 1);
  // Stage 1 waits 3.5 s in the norm, of which the norm itself is 0.5; then the optimizer's 0.5.
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kOptimizer].value(), 1.0);
}

TEST(MeasureTerms, TakeTheMedianOfTheSteps) {
  RunRecord record = two_stages_record();
  for (RankRecord& rank : record.ranks) {
    rank.steps.resize(3, rank.steps.front());
  }
  record.ranks[0].steps[1].operations = std::array{4.0, 0.5};
  record.ranks[0].steps[2].operations = std::array{4.5, 0.5};
  EXPECT_DOUBLE_EQ(
      measure_terms(two_stages(), {.pp = 2}, record, 0).terms[RunTerm::kMatmul].value(), 4.0);
  // The mean of the last two steps, without the first.
  EXPECT_DOUBLE_EQ(
      measure_terms(two_stages(), {.pp = 2}, record, 1).terms[RunTerm::kMatmul].value(), 4.25);
}

TEST(MeasureTerms, AreOfTheSlowestReplica) {
  Schedule schedule{.name = "1f1b"};
  schedule.orders = {{{kForward, 0, 0}, {kReduceGradients, 0, 0}}};
  RunRecord record;
  record.ranks.resize(2);
  record.ranks[0].steps = {step_of({span(0, 2), span(2, 6)}, 2.0, 0.0)};  // waits for the other
  record.ranks[1].steps = {step_of({span(0, 5), span(5, 6)}, 5.0, 0.0)};
  const MeasuredTerms found = measure_terms(schedule, {.dp = 2}, record, 0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kMatmul].value(), 5.0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kDataParallel].value(), 1.0);
  EXPECT_DOUBLE_EQ(found.terms[RunTerm::kBubble].value(), 0.0);
}

// One collective runs from 1 to 3 beside a pass that ends at 2; the other from 4 to 5 with nothing
// beside it.
TEST(RankTerms, CountCommunicationAsFarAsNothingIsComputed) {
  const std::vector<Action> order = {
      {kForward, 0, 0}, {kSendForward, 0, 0}, {kReduceGradients, 0, 0}};
  const RunTerms terms = rank_terms(order, step_of({span(0, 2), span(1, 3), span(4, 5)}, 0, 0));
  EXPECT_DOUBLE_EQ(terms[RunTerm::kPipelineMessages].value(), 1.0);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kDataParallel].value(), 1.0);
}

// A collective inside a pass is tensor parallelism and no compute; one before it gathers a message.
TEST(RankTerms, TellCollectivesOfPassesFromGatheredMessages) {
  StepRecord step = step_of({span(1, 5)}, 2.0, 0.5);
  step.sub_spans = {{.action = 0, .span = span(0.25, 1.0)}, {.action = 0, .span = span(2, 3)}};
  const RunTerms terms = rank_terms({{kForward, 0, 0}}, step);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kPipelineMessages].value(), 0.75);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kTensorParallel].value(), 1.0);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kMemoryBound].value(), 0.5);  // 4 - 1 - 2 - 0.5
}

// A collective that gathers weights or reduces gradients of a sharded unit is data parallelism.
TEST(RankTerms, TellShardsFromTensorParallelismWithinAPass) {
  StepRecord step = step_of({span(1, 5)}, 1.0, 0.5);
  step.sub_spans = {{.action = 0, .group = CallGroup::kData, .span = span(1, 2.25)},
                    {.action = 0, .span = span(3, 4)}};
  const RunTerms terms = rank_terms({{kForward, 0, 0}}, step);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kDataParallel].value(), 1.25);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kTensorParallel].value(), 1.0);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kMemoryBound].value(), 0.25);  // 4 - 1.25 - 1 - 1 - 0.5
}

// The collective runs from 2 to 4, and a product runs beside its first 1.5 s: half a second is
// waited.
TEST(RankTerms, CountWhatCollectivesRanBehindAsCompute) {
  StepRecord step = step_of({span(1, 5)}, 2.0, 0.5);
  step.sub_spans = {{.action = 0, .span = span(2, 4), .hidden = Seconds(1.5)}};
  const RunTerms terms = rank_terms({{kForward, 0, 0}}, step);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kTensorParallel].value(), 0.5);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kMemoryBound].value(), 1.0);  // 4 - 0.5 - 2 - 0.5
}

TEST(MeasuredStepTimes, RunFromOneEndToTheNext) {
  RunRecord record = two_stages_record();
  record.ranks[0].steps.push_back(step_of({span(10.5, 12)}, 0, 0));
  record.ranks[1].steps.push_back(step_of({span(11, 12.5)}, 0, 0));
  EXPECT_EQ(measured_step_times(record), (std::vector<double>{10.0, 2.5}));
}

TEST(MeasuredStepTimes, LeaveOutACheckpointBetweenSteps) {
  RunRecord record = two_stages_record();
  for (RankRecord& rank : record.ranks) {
    rank.steps.push_back(step_of({span(10.5, 12)}, 0, 0));
    rank.steps.back().is_after_pause = true;
  }
  EXPECT_EQ(measured_step_times(record), (std::vector<double>{10.0, 1.5}));
}

TEST(UndisturbedSteps, AreThoseThatTimedNothingIfThereAreAny) {
  RunRecord record = two_stages_record();
  for (RankRecord& rank : record.ranks) {
    rank.steps = {rank.steps[0], rank.steps[0], rank.steps[0], rank.steps[0]};
  }
  EXPECT_EQ(undisturbed_steps(record, 1), (std::vector<std::size_t>{1, 2, 3}));
  record.ranks[0].steps[0].operations = std::nullopt;
  record.ranks[0].steps[3].operations = std::nullopt;
  EXPECT_EQ(undisturbed_steps(record, 1), std::vector<std::size_t>{3});
  EXPECT_EQ(undisturbed_steps(record, 0), (std::vector<std::size_t>{0, 3}));
}

// The middle one of three steps times no operations, as on a GPU.
TEST(MeasureTerms, AreOfStepsThatTimedOperations) {
  RunRecord record = two_stages_record();
  for (RankRecord& rank : record.ranks) {
    rank.steps = {rank.steps[0], rank.steps[0], rank.steps[0]};
    rank.steps[1].operations = std::nullopt;
  }
  const RunTerms terms = measure_terms(two_stages(), {.pp = 2}, record, 0).terms;
  EXPECT_DOUBLE_EQ(terms[RunTerm::kMatmul].value(), 3.0);
  EXPECT_DOUBLE_EQ(terms[RunTerm::kAttention].value(), 1.0);
}

/// A run of one rank that was predicted to take `predicted` seconds an iteration.
class Watched {
 public:
  explicit Watched(double predicted) {
    run_.settings.schedule.orders = {{{kForward, 0, 0}}};
    run_.executed.predicted.iteration_time.value = Seconds(predicted);
    TransformerConfig& model = run_.executed.scenario.job.model;
    model = resolved({.num_layers = 1,
                      .hidden_size = 8,
                      .num_attention_heads = 1,
                      .vocab_size = 8,
                      .seq_length = 8},
                     "test");
    run_.executed.scenario.job.global_batch_size = 1;
    run_.executed.scenario.cluster.gpu = {.peak_fp16 = teraflops(1),
                                          .peak_bf16 = teraflops(1),
                                          .memory_bandwidth = gigabytes_per_second(1),
                                          .num_multiprocessors = 1,
                                          .matmul_efficiency = 1.0,
                                          .matmul_memory_efficiency = 1.0,
                                          .memory_efficiency = 1.0};
    run_.executed.scenario.cluster.gpus_per_node = 1;
  }

  PreparedRun& run() { return run_; }

  /// Returns the warnings after steps of one second, all in products.
  std::vector<std::string> warnings_of(std::int64_t steps, std::int64_t warm_up) {
    PredictionWatch watch(run_, warm_up, "my run.json");
    std::vector<std::string> said;
    const StepRecord record = step_of({span(0, 1)}, 1.0, 0.0);
    for (std::int64_t done = 1; done <= steps; ++done) {
      const auto warning =
          watch.observe({.done = done, .steps = steps, .time = Seconds(1.0), .record = &record});
      if (warning) {
        said.push_back(std::to_string(done) + ": " + *warning);
      }
    }
    if (const auto warning = watch.finish()) {
      said.push_back("end: " + *warning);
    }
    return said;
  }

 private:
  PreparedRun run_;
};

TEST(PredictionWatch, WarnsOnceAfterTenMeasuredSteps) {
  const std::vector<std::string> said = Watched(0.5).warnings_of(/*steps=*/30, /*warm_up=*/2);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], testing::StartsWith("12: the prediction is off by -50 %"));
  EXPECT_THAT(said[0], HasSubstr("matmul is off most"));
  EXPECT_THAT(said[0], HasSubstr("ptdp-calibrate 'my run.json' --profile"));
}

TEST(PredictionWatch, WarnsAtTheEndOfAShorterRun) {
  const std::vector<std::string> said = Watched(2.0).warnings_of(/*steps=*/4, /*warm_up=*/1);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0], testing::StartsWith("end: the prediction is off by +100 %"));
}

// As a report does that is written while a rank goes on.
TEST(PredictionWatch, IsAskedWhileAnotherThreadObserves) {
  Watched watched(0.5);
  PredictionWatch watch(watched.run(), /*warm_up=*/0, "run.json");
  const RunReport report{.measured_time = Seconds(1.0)};
  std::thread observer([&] {
    const StepRecord record = step_of({span(0, 1)}, 1.0, 0.0);
    for (std::int64_t done = 1; done <= 1000; ++done) {
      static_cast<void>(
          watch.observe({.done = done, .steps = 1000, .time = Seconds(1.0), .record = &record}));
    }
  });
  std::size_t said = 0;
  for (int asked = 0; asked < 1000; ++asked) {
    const std::size_t now = watch.warnings(report).size();
    EXPECT_GE(now, said);
    said = now;
  }
  observer.join();
  EXPECT_EQ(watch.warnings(report).size(), 1U);
}

// A prediction of a one-second step that is off by exactly 20 % is near enough.
TEST(PredictionWatch, IsSilentWithinAFifth) {
  for (const double predicted : {0.8, 0.85, 1.19, 1.2}) {
    EXPECT_TRUE(Watched(predicted).warnings_of(30, 2).empty()) << predicted;
  }
  for (const double predicted : {0.79, 1.21}) {
    EXPECT_EQ(Watched(predicted).warnings_of(30, 2).size(), 1U) << predicted;
  }
}

TEST(PredictionWatch, JudgesAtTheTenthMeasuredStepAndNothingWithoutOne) {
  EXPECT_THAT(Watched(0.5).warnings_of(/*steps=*/10, /*warm_up=*/0),
              testing::ElementsAre(testing::StartsWith("10: ")));
  EXPECT_THAT(Watched(0.5).warnings_of(/*steps=*/9, /*warm_up=*/0),
              testing::ElementsAre(testing::AllOf(testing::StartsWith("end: "),
                                                  HasSubstr("measured over 9 steps"))));
  EXPECT_THAT(Watched(0.5).warnings_of(/*steps=*/3, /*warm_up=*/3), testing::ElementsAre());
}

// A step of three seconds in which a rank does one second of products waits for two.
TEST(PredictionWatch, CountsWhatIsNotOfTheRankAsItsBubble) {
  Watched watched(0.5);
  PredictionWatch watch(watched.run(), /*warm_up=*/0, "run.json");
  const StepRecord record = step_of({span(0, 1)}, 1.0, 0.0);
  EXPECT_FALSE(
      watch.observe({.done = 1, .steps = 1, .time = Seconds(3.0), .record = &record}).has_value());
  const std::optional<std::string> warning = watch.finish();
  ASSERT_TRUE(warning);
  EXPECT_THAT(*warning, HasSubstr("500 ms per iteration predicted, 3 s measured over 1 step; "
                                  "bubble is off most: "));
  EXPECT_THAT(*warning, HasSubstr(" predicted, 2 s measured; "));
  EXPECT_THAT(watch.warnings({}), testing::ElementsAre(*warning));
  EXPECT_FALSE(watch.finish().has_value()) << "it was said";
}

// On a process that does not observe the steps, the report gives the warning.
TEST(PredictionWatch, WarnsByTheReportWhereItObservedNothing) {
  Watched watched(2.0);
  PredictionWatch watch(watched.run(), /*warm_up=*/2, "run.json");
  RunReport report{.measured_time = Seconds(1.0)};
  report.execution.steps = 5;
  report.execution.warm_up = 2;
  report.predicted_time.value = Seconds(2.0);
  report.terms = {{.name = "matmul", .time = {Seconds(0.5), Seconds(0.25)}},
                  {.name = "data_parallel", .time = {Seconds(0.2), Seconds(0.7)}},
                  {.name = "bubble", .time = {Seconds(1.3), Seconds(0.9)}}};
  EXPECT_THAT(watch.warnings(report),
              testing::ElementsAre(
                  "the prediction is off by +100 %: 2 s per iteration predicted, 1 s measured over "
                  "3 steps; data_parallel is off most: 200 ms predicted, 700 ms measured; "
                  "ptdp-calibrate run.json --profile profile.json refits the profile"));
  const PredictionWatch without_file(watched.run(), /*warm_up=*/2, "");
  EXPECT_THAT(without_file.warnings(report).front(),
              testing::HasSubstr("; with -o run.json ptdp-calibrate run.json --profile"));
  report.predicted_time.value = Seconds(1.1);
  EXPECT_THAT(watch.warnings(report), testing::ElementsAre());
  report.predicted_time.value = Seconds(2.0);
  watched.run().is_predicted = false;
  EXPECT_THAT(watch.warnings(report), testing::ElementsAre());
}

TEST(PredictionWatch, IsSilentWhereNothingIsPredicted) {
  Watched watched(0.1);
  watched.run().is_predicted = false;
  EXPECT_TRUE(watched.warnings_of(30, 2).empty());
}

}  // namespace
}  // namespace ptdp
