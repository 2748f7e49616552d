// Tests comparisons of calls from records made by hand, on a cluster whose links are plain numbers.
#include "tools/run/call_comparison.h"

#include <gtest/gtest.h>

#include "tests/cost_model/simulation/spans.h"

namespace ptdp {
namespace {

/// Returns two stages of two replicas and two tensor-parallel ranks, in a node whose GPUs have 100
/// GB/s.
Plan small_plan() {
  Plan plan;
  plan.config = {.tp = 2, .pp = 2, .dp = 2};
  plan.scenario.cluster.gpus_per_node = 8;
  plan.scenario.cluster.nvlink.bandwidth = BytesPerSecond(100e9);
  plan.scenario.stack.pipeline_latency = Seconds(5e-6);
  return plan;
}

/// Returns a record in which only ranks 0 and 4, the first of their stages, have steps; no others
/// are looked at.
RunRecord small_record() {
  RunRecord record;
  record.ranks.resize(8);
  RankRecord& first = record.ranks[0];
  for (const double late : {100.0, 0.0, 1.0, 3.0}) {  // the first step is no measured one
    StepRecord step{.actions = {span(0, 1), span(1, 2 + late), span(3, 7 + late)}};
    step.sub_spans = {
        {.kind = CollectiveKind::kAllReduce, .span = span(0, 0.25 + late), .bytes = 4000},
        {.kind = CollectiveKind::kAllReduce, .span = span(0, 50), .bytes = 8}};
    first.steps.push_back(step);
  }
  first.estimates = {{.group = CallGroup::kTensor,
                      .kind = CollectiveKind::kAllReduce,
                      .bytes = 4000,
                      .seconds = 0.5},
                     {.group = CallGroup::kData,
                      .kind = CollectiveKind::kReduceScatter,
                      .bytes = 2'000'000,
                      .seconds = 0.75,
                      .action = 2}};
  RankRecord& second = record.ranks[4];
  second.steps = {StepRecord{}, StepRecord{.actions = {span(4, 4.5)}}};
  second.estimates = {{.group = CallGroup::kBackward,
                       .kind = CollectiveKind::kSend,
                       .bytes = 1'000'000,
                       .seconds = 0.125},
                      {.group = CallGroup::kTensor,
                       .kind = CollectiveKind::kAllReduce,
                       .bytes = 4000,
                       .seconds = 9.0}};
  return record;
}

// If passes reduce units, actions say nothing of it.
TEST(CompareCalls, TakesTheCallsOfPassesWhereTheyMakeThem) {
  const Plan plan = small_plan();
  RunRecord record = small_record();
  for (StepRecord& step : record.ranks[0].steps) {
    step.sub_spans.push_back({.action = 2,
                              .group = CallGroup::kData,
                              .kind = CollectiveKind::kReduceScatter,
                              .span = span(3, 3.5),
                              .bytes = 2'000'000});
  }
  EXPECT_DOUBLE_EQ(compare_calls(record, plan.config, 1, &plan)[1].measured.value(), 0.5);
}

TEST(CompareCalls, HoldsModelAndTransportBesideTheMedianOfEachGroup) {
  const Plan plan = small_plan();
  const std::vector<CallComparison> calls = compare_calls(small_record(), plan.config, 1, &plan);
  ASSERT_EQ(calls.size(), 3U);

  EXPECT_EQ(calls[0].group, "tensor");
  EXPECT_EQ(calls[0].collective, "all-reduce");
  EXPECT_EQ(calls[0].size, Bytes(4000.0));
  EXPECT_EQ(calls[0].estimated, Seconds(0.5));  // of the first rank that makes it
  EXPECT_DOUBLE_EQ(calls[0].measured.value(), 1.25);
  EXPECT_DOUBLE_EQ(calls[0].predicted.value(), 4000 / 100e9);  // 2(n-1)/n of it, n = 2

  EXPECT_EQ(calls[1].group, "data");
  EXPECT_EQ(calls[1].collective, "reduce-scatter");
  EXPECT_DOUBLE_EQ(calls[1].measured.value(), 5.0);
  EXPECT_DOUBLE_EQ(calls[1].predicted.value(), 0.5 * 2e6 / 100e9);

  EXPECT_EQ(calls[2].group, "pipeline_backward");
  EXPECT_EQ(calls[2].collective, "send");
  EXPECT_DOUBLE_EQ(calls[2].measured.value(), 0.5);
  EXPECT_DOUBLE_EQ(calls[2].predicted.value(), 5e-6 + 1e6 / 100e9);
}

TEST(CompareCalls, PredictsNothingWithoutAPlanAndHasNoneWithoutEstimates) {
  const ParallelConfig config = small_plan().config;
  for (const CallComparison& call : compare_calls(small_record(), config, 1, nullptr)) {
    EXPECT_EQ(call.predicted, Seconds());
  }
  RunRecord record = small_record();
  for (RankRecord& rank : record.ranks) {
    rank.estimates.clear();
  }
  EXPECT_TRUE(compare_calls(record, config, 1, nullptr).empty());
}

}  // namespace
}  // namespace ptdp
