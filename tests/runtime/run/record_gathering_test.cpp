// Tests of how ranks' records are sent, read and put on one clock.
#include "runtime/run/record_gathering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "tests/cost_model/simulation/spans.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

SentBytes sent(std::int64_t bytes) {
  SentBytes result;
  result.bytes = {bytes, bytes + 1, bytes + 2, bytes + 3};
  result.messages = {1, 2, 3, bytes};
  return result;
}

/// Returns a record with another value in every field.
RankRecord full_record() {
  RankRecord record;
  record.steps.push_back({.step = span(1.0, 2.0),
                          .actions = {span(1.0, 1.25), span(1.5, 2.0)},
                          .sub_spans = {{.action = 1,
                                         .group = CallGroup::kBackward,
                                         .kind = CollectiveKind::kAllGather,
                                         .span = span(1.5, 1.75),
                                         .bytes = 77,
                                         .hidden = Seconds(0.125)}},
                          .operations = std::array{0.25, 0.125},
                          .loss = 3.5,
                          .gradient_norm = 0.75,
                          .loss_scale = 1024.0,
                          .is_skipped = true,
                          .is_after_pause = true});
  record.steps.push_back({.step = span(2.0, 3.0)});
  record.peak_bytes = std::int64_t{5} << 40;
  record.peak_activations = 6;
  record.tensor = sent(10);
  record.pipeline_forward = sent(20);
  record.pipeline_backward = sent(30);
  record.data = sent(40);
  record.tied = sent(50);
  record.model = sent(60);
  record.bytes_beside = 17;
  record.estimates = {{.group = CallGroup::kData,
                       .kind = CollectiveKind::kReduceScatter,
                       .bytes = std::int64_t{7} << 33,
                       .seconds = 0.375,
                       .action = 12}};
  return record;
}

void expect_equal(const Span& a, const Span& b) {
  EXPECT_EQ(a.start, b.start);
  EXPECT_EQ(a.end, b.end);
}

void expect_equal(const StepRecord& a, const StepRecord& b) {
  expect_equal(a.step, b.step);
  ASSERT_EQ(a.actions.size(), b.actions.size());
  for (std::size_t i = 0; i < a.actions.size(); ++i) {
    expect_equal(a.actions[i], b.actions[i]);
  }
  ASSERT_EQ(a.sub_spans.size(), b.sub_spans.size());
  for (std::size_t i = 0; i < a.sub_spans.size(); ++i) {
    EXPECT_EQ(a.sub_spans[i].action, b.sub_spans[i].action);
    EXPECT_EQ(a.sub_spans[i].group, b.sub_spans[i].group);
    EXPECT_EQ(a.sub_spans[i].kind, b.sub_spans[i].kind);
    EXPECT_EQ(a.sub_spans[i].bytes, b.sub_spans[i].bytes);
    expect_equal(a.sub_spans[i].span, b.sub_spans[i].span);
    EXPECT_EQ(a.sub_spans[i].hidden, b.sub_spans[i].hidden);
  }
  EXPECT_EQ(a.operations, b.operations);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.gradient_norm, b.gradient_norm);
  EXPECT_EQ(a.loss_scale, b.loss_scale);
  EXPECT_EQ(a.is_skipped, b.is_skipped);
  EXPECT_EQ(a.is_after_pause, b.is_after_pause);
}

TEST(RecordBytes, ComeBackAsTheyWere) {
  const RankRecord record = full_record();
  const RankRecord again = parse_record(to_bytes(record));
  ASSERT_EQ(again.steps.size(), 2U);
  expect_equal(again.steps[0], record.steps[0]);
  EXPECT_EQ(again.steps[0].sub_spans[0].group, CallGroup::kBackward);
  EXPECT_EQ(again.steps[0].loss, 3.5);
  EXPECT_EQ(again.steps[1].loss, std::nullopt);
  expect_equal(again.steps[1], record.steps[1]);
  EXPECT_EQ(again.peak_bytes, record.peak_bytes);
  EXPECT_EQ(again.peak_activations, record.peak_activations);
  for (const auto group :
       {&RankRecord::tensor, &RankRecord::pipeline_forward, &RankRecord::pipeline_backward,
        &RankRecord::data, &RankRecord::tied, &RankRecord::model}) {
    EXPECT_EQ((again.*group).bytes, (record.*group).bytes);
    EXPECT_EQ((again.*group).messages, (record.*group).messages);
  }
  EXPECT_EQ(again.bytes_beside, 17);
  ASSERT_EQ(again.estimates.size(), 1U);
  const CallEstimate& estimate = again.estimates.front();
  EXPECT_EQ(estimate.group, CallGroup::kData);
  EXPECT_EQ(estimate.kind, CollectiveKind::kReduceScatter);
  EXPECT_EQ(estimate.bytes, std::int64_t{7} << 33);
  EXPECT_EQ(estimate.seconds, 0.375);
  EXPECT_EQ(estimate.action, 12U);
}

TEST(RecordBytes, AreRefusedWhereTheyAreNotWhole) {
  const std::string bytes = to_bytes(full_record());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW((void)parse_record(std::string_view(bytes).substr(0, size)), Error) << size;
  }
  EXPECT_THROW((void)parse_record(bytes + "x"), Error);
  // A count that would need more memory than there is.
  std::string huge = bytes;
  std::fill_n(huge.begin() + 8, 8, '\xFF');
  EXPECT_THROW((void)parse_record(huge), Error);
}

/// Returns a clock for rank r that is r·`step` ahead of rank 0's.
ReadClock clock_of(int rank, double step) {
  return [=] { return read_steady_clock() + rank * step; };
}

TEST(ClockOffset, IsNothingWhereTheClocksAreOne) {
  on_ranks(4, CollectiveAlgorithm::kRing,
           [](const TestRank& rank) { EXPECT_EQ(clock_offset(rank.all, rank.backend), 0.0); });
}

// Within half the fastest round trip, of which one of fifty is below 10 ms on any machine.
TEST(ClockOffset, FindsHowFarClocksAreApart) {
  for (const double step : {1.0, -3600.0, 5e6}) {
    on_ranks(4, CollectiveAlgorithm::kRing, [&](const TestRank& rank) {
      const int number = rank.all.rank();
      EXPECT_NEAR(clock_offset(rank.all, rank.backend, clock_of(number, step)), -number * step,
                  0.01);
    });
  }
}

TEST(GatherRecords, ShiftsTheTimesOfAllRanksToTheFirstOnesClock) {
  const double step = 1000.0;
  on_ranks(3, CollectiveAlgorithm::kRing, [&](const TestRank& rank) {
    const double offset = rank.all.rank() * step;
    RankRecord own;
    own.peak_activations = rank.all.rank();
    own.steps.push_back({.step = span(offset + 1.0, offset + 2.0),
                         .actions = {span(offset + 1.5, offset + 1.75)},
                         .sub_spans = {{.span = span(offset + 1.6, offset + 1.7)}}});
    const std::vector<RankRecord> all =
        gather_records(rank.all, rank.backend, own, clock_of(rank.all.rank(), step));
    if (rank.all.rank() != 0) {
      EXPECT_TRUE(all.empty());
      return;
    }
    ASSERT_EQ(all.size(), 3U);
    for (int i = 0; i < 3; ++i) {
      const RankRecord& record = all[static_cast<std::size_t>(i)];
      EXPECT_EQ(record.peak_activations, i);
      EXPECT_NEAR(record.steps[0].step.start.value(), 1.0, 0.01);
      EXPECT_NEAR(record.steps[0].step.end.value(), 2.0, 0.01);
      EXPECT_NEAR(record.steps[0].actions[0].start.value(), 1.5, 0.01);
      EXPECT_NEAR(record.steps[0].actions[0].end.value(), 1.75, 0.01);
      EXPECT_NEAR(record.steps[0].sub_spans[0].span.end.value(), 1.7, 0.01);
    }
  });
}

}  // namespace
}  // namespace ptdp
