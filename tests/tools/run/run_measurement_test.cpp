// Tests the reports of ranks whose records are made by hand.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "tests/cost_model/simulation/spans.h"
#include "tests/support/scenarios.h"
#include "tools/run/run_faults.h"
#include "tools/run/run_plan.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns two replicas of gpt-tiny on a host.
PreparedRun two_replicas() {
  RunRequest request;
  request.device = DeviceKind::kCpu;
  return prepare_run(make_plan({shipped_scenario("gpt-tiny", "host", "ptdp-cpu"), {.dp = 2}},
                               /*gpus=*/2, /*memory_headroom=*/0.0, Calibration{}),
                     request);
}

/// Returns a step from `start` to `end`, in which every action takes no time at `start` + 1.
StepRecord reported_step(const PreparedRun& run, double start, double end) {
  const std::size_t actions = run.settings.schedule.orders.front().size();
  return {.step = span(start, end), .actions = {actions, span(start + 1, start + 1)}};
}

/// Returns steps of 4, 2 and 5 seconds; the second rank knows the loss, and ends first.
RunRecord reported_record(const PreparedRun& run) {
  RunRecord record;
  record.hosts = {"b", "a"};
  record.ranks.resize(2);
  for (const auto& [start, end] : {std::pair(100.0, 104.0), {104.0, 106.0}, {106.0, 111.0}}) {
    record.ranks[0].steps.push_back(reported_step(run, start, end));
    StepRecord& other =
        record.ranks[1].steps.emplace_back(reported_step(run, start + 0.25, end - 0.25));
    other.loss = end - 100.0;
    other.gradient_norm = 0.5 * end;
    other.is_skipped = end == 106.0;
  }
  record.ranks[0].peak_bytes = 3'000;
  record.ranks[1].peak_bytes = 5'000;
  record.ranks[0].peak_activations = 2;
  record.ranks[1].peak_activations = 1;
  return record;
}

RunRequest request_of(std::int64_t steps, std::int64_t warm_up) {
  RunRequest request;
  request.steps = steps;
  request.warm_up = warm_up;
  request.seed = 77;
  return request;
}

TEST(RunReport, IsOfTheStepsBehindTheWarmUpAndOfAllRanks) {
  const PreparedRun run = two_replicas();
  const RunReport report = make_report(run, request_of(5, 1), reported_record(run));
  EXPECT_DOUBLE_EQ(report.measured_time.value(), 3.5);  // of 2 and 5
  EXPECT_DOUBLE_EQ(report.fastest.value(), 2.0);
  EXPECT_DOUBLE_EQ(report.slowest.value(), 5.0);
  EXPECT_THAT(report.losses, ElementsAre(4.0, 6.0, 11.0));
  EXPECT_THAT(report.gradient_norms, ElementsAre(52.0, 53.0, 55.5));
  EXPECT_EQ(report.skipped_steps, 1);
  ASSERT_EQ(report.memory.size(), 1U);
  EXPECT_EQ(report.memory[0].size.measured, Bytes(5'000));
  EXPECT_EQ(report.memory[0].activations.measured, 2);
  EXPECT_EQ(report.execution.ranks, 2);
  EXPECT_EQ(report.execution.steps, 3);
  EXPECT_EQ(report.execution.requested_steps, 5);
  EXPECT_EQ(report.execution.warm_up, 1);
  EXPECT_EQ(report.execution.seed, 77U);
  EXPECT_EQ(report.execution.data, "synthetic");
  EXPECT_EQ(report.execution.transport, "threads");
  EXPECT_EQ(report.execution.dp, 2);
  EXPECT_THAT(report.execution.hosts, ElementsAre("b", "a"));
}

// A run that ended within its warm-up has its last step measured.
TEST(RunReport, MeasuresOneStepAtLeast) {
  const PreparedRun run = two_replicas();
  const RunReport report = make_report(run, request_of(9, 8), reported_record(run));
  EXPECT_EQ(report.execution.warm_up, 2);
  EXPECT_DOUBLE_EQ(report.measured_time.value(), 5.0);
  RunRecord alike = reported_record(run);
  alike.hosts = {"a", "a"};
  EXPECT_THAT(make_report(run, request_of(9, 8), alike).execution.hosts, ElementsAre("a"));
}

// Three steps of P bytes, and a byte more: the surplus shows though it is no byte a step.
TEST(RunReport, ShowsBytesOfAStepAndASurplusOfOne) {
  const PreparedRun run = two_replicas();
  constexpr std::size_t data = 3;
  constexpr auto all_reduce = static_cast<std::size_t>(CollectiveKind::kAllReduce);
  const std::int64_t expected = expected_step(run).sent[data][all_reduce];
  ASSERT_GT(expected, 0);
  const auto measured_with = [&](std::int64_t surplus) {
    RunRecord record = reported_record(run);
    record.ranks[0].data.bytes[all_reduce] = 2 * expected;
    record.ranks[1].data.bytes[all_reduce] = expected + surplus;
    const RunReport report = make_report(run, request_of(3, 1), record);
    for (const TrafficComparison& traffic : report.traffic) {
      if (traffic.group == "data" && traffic.collective == "all-reduce") {
        EXPECT_EQ(traffic.bytes.predicted, expected);
        return traffic.bytes.measured;
      }
    }
    return std::int64_t{-1};
  };
  EXPECT_EQ(measured_with(0), expected);
  EXPECT_EQ(measured_with(1), expected + 1);
  EXPECT_EQ(measured_with(3), expected + 1);
  EXPECT_EQ(measured_with(6), expected + 2);
  EXPECT_EQ(measured_with(-3), expected - 1);
}

// After the warm-up there are steps of 2 and 5 seconds. The timeline is that of the later one in
// the middle, from its own start.
TEST(MeasuredTimeline, IsOfTheMedianStep) {
  const PreparedRun run = two_replicas();
  RunRecord record = reported_record(run);
  record.ranks[0].steps[2].actions.front() = span(107.5, 108.0);
  const Timeline timeline = measured_timeline(run, record, /*warm_up=*/1);
  ASSERT_EQ(timeline.spans.size(), 1U);
  EXPECT_DOUBLE_EQ(timeline.spans[0].front().start.value(), 1.5);
  EXPECT_DOUBLE_EQ(timeline.spans[0].front().end.value(), 2.0);
  EXPECT_DOUBLE_EQ(timeline.spans[0].back().start.value(), 1.0);
  EXPECT_EQ(timeline.times.ranks[0].peak_activations, 2);
}

// 4 GB at most, of which 2, 1 and 0.5 are kept.
TEST(MemoryAdvice, SaysWhatARankHadByWhatItWasFor) {
  PreparedRun run = two_replicas();
  run.is_predicted = false;
  EarlyEnd end;
  EXPECT_EQ(memory_advice(end, run), "");
  end.out_of_memory_rank = 1;
  end.out_of_memory_peak = 4'000'000'000;
  const std::string advice =
      "\nless is needed by a plan with --recompute full, a smaller --micro-batch-size or more "
      "stages; --memory-headroom keeps some free\n";
  EXPECT_EQ(memory_advice(end, run), "rank 1 had allocated 4 GB at most" + advice);
  end.out_of_memory_kept = {
      .weights = 2'000'000'000, .gradients = 1'000'000'000, .optimizer = 500'000'000};
  const std::string had =
      "rank 1 had allocated 4 GB at most: weights 2 GB, gradients 1 GB, optimizer 500 MB, the rest "
      "500 MB";
  EXPECT_EQ(memory_advice(end, run), had + advice);
  run.device = {
      .kind = DeviceKind::kCuda,
      .gpus = {{.name = "GPU A", .memory = Bytes(80e9)}, {.name = "GPU A", .memory = Bytes(80e9)}}};
  EXPECT_EQ(memory_advice(end, run), had + "; the ranks here share 160 GB of cuda: GPU A" + advice);
}

// Known to the rank that tells: of a stage what is predicted of that stage.
TEST(MemoryAdvice, SaysWhatWasPredictedOfItsStage) {
  RunRequest request;
  request.device = DeviceKind::kCpu;
  const PreparedRun run =
      prepare_run(make_plan({shipped_scenario("gpt-tiny", "host", "ptdp-cpu"), {.pp = 2, .dp = 2}},
                            /*gpus=*/4, /*memory_headroom=*/0.0, Calibration{}),
                  request);
  ASSERT_TRUE(run.is_predicted);
  const auto predicted = [&](int rank) {
    EarlyEnd end;
    end.out_of_memory_rank = rank;
    const std::string text = memory_advice(end, run);
    const std::size_t at = text.find("; predicted ");
    EXPECT_NE(at, std::string::npos) << text;
    return text.substr(at, text.find('\n') - at);
  };
  EXPECT_THAT(predicted(0),
              testing::MatchesRegex("; predicted .*: weights .*, gradients .*, optimizer .*, "
                                    "activations .*, working_set .*, buffers [^,]*"));
  EXPECT_EQ(predicted(1), predicted(0));
  EXPECT_EQ(predicted(3), predicted(2));
  EXPECT_NE(predicted(2), predicted(1)) << "of the second stage";
}

}  // namespace
}  // namespace ptdp
