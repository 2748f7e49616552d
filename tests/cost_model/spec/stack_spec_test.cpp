#include "cost_model/spec/stack_spec.h"

#include <gmock/gmock.h>

#include "tests/cost_model/spec/round_trip.h"
#include "tests/cost_model/spec/thrown.h"

namespace ptdp {
namespace {

/// Every field away from its default.
StackSpec unusual() {
  return {.name = "s",
          .source = "a test",
          .precision = Precision::kFp16,
          .attention = "flash-2",
          .tensor_parallel_overlap = true,
          .fused_gradient_accumulation = true,
          .weight_bytes = 1.0,
          .gradient_bytes = 2.0,
          .optimizer_bytes = 16.0,
          .reduced_gradient_bytes = 2.5,
          .gradient_bucket_bytes = 3.0,
          .gradient_staging_traffic = 12.0,
          .optimizer_traffic = 60.0,
          .data_parallel_overlap = DataParallelOverlap::kSingleStage,
          .scatter_gather = true,
          .pipeline_overlap = true,
          .pipeline_latency = microseconds(30.0),
          .host_time_per_kernel = microseconds(7.0),
          .overlap_slowdown = 0.15,
          .reserve_fraction = 0.121,
          .can_run = {.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved},
                      .recompute = {Recompute::kSelective},
                      .zero_stages = {0, 1},
                      .sequence_parallel = true,
                      .context_parallel = true,
                      .expert_parallel = true,
                      .interleaved_min_stages = 3,
                      .uneven_layers = true}};
}

std::string refusal(const std::string& from, const std::string& to) {
  return message_of([&] { return parse<StackSpec>(replaced(dump(unusual()), from, to)); });
}

TEST(StackSpecJson, ReadsBackAsItWas) {
  const std::string text = dump(unusual());
  EXPECT_EQ(parse<StackSpec>(text), unusual()) << text;
  EXPECT_EQ(dump(parse<StackSpec>(text)), text);
}

TEST(StackSpecJson, ReadsBackEveryOverlap) {
  for (const auto& [overlap, name] : kDataParallelOverlapNames) {
    StackSpec stack = unusual();
    stack.data_parallel_overlap = overlap;
    EXPECT_EQ(parse<StackSpec>(dump(stack)), stack) << name;
  }
}

TEST(StackSpecJson, RefusesSpellingsItDoesNotKnow) {
  EXPECT_EQ(refusal("\"single-stage\"", "\"sometimes\""),
            "test.json: data_parallel_overlap: expected one of never, single-stage, always, got "
            "\"sometimes\"");
  EXPECT_EQ(refusal("\"fp16\"", "\"fp32\""),
            "test.json: precision: expected one of fp16, bf16, got \"fp32\"");
  EXPECT_EQ(refusal("\"interleaved\"", "\"pipe\""),
            "test.json: can_run.schedules: expected one of 1f1b, interleaved, gpipe, looped-bfs, "
            "zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, dualpipev, pipedream, pipedream-2bw, "
            "zb-auto, got \"pipe\"");
  EXPECT_EQ(refusal("\"selective\"", "\"some\""),
            "test.json: can_run.recompute: expected one of none, selective, full, got \"some\"");
}

TEST(StackSpecJson, RefusesNumbersOutOfRange) {
  EXPECT_EQ(refusal("\"reserve_fraction\": 0.121", "\"reserve_fraction\": 12.1"),
            "test.json: reserve_fraction: expected a number from 0.0 to 0.9 (of device memory), "
            "got 12.1");
  EXPECT_EQ(refusal("\"overlap_slowdown\": 0.15", "\"overlap_slowdown\": 15"),
            "test.json: overlap_slowdown: expected a number from 0.0 to 1.0 (a fraction), got 15");
  EXPECT_EQ(
      refusal("\"weight_bytes\": 1.0", "\"weight_bytes\": -1"),
      "test.json: weight_bytes: expected a number from 0.25 to 10000.0 (bytes per parameter), "
      "got -1");
  EXPECT_EQ(refusal("\"pipeline_latency_us\": 30.0", "\"pipeline_latency_us\": 1e7"),
            "test.json: pipeline_latency_us: expected a number from 0.0 to 1000000.0 "
            "(microseconds), got 10000000.0");
  EXPECT_EQ(refusal("\"interleaved_min_stages\": 3", "\"interleaved_min_stages\": 1"),
            "test.json: can_run.interleaved_min_stages: expected a whole number from 2 to 1000, "
            "got 1");
  EXPECT_EQ(refusal("      1\n", "      4\n"),
            "test.json: can_run.zero_stages: expected a whole number from 0 to 3, got 4");
}

TEST(StackSpecJson, RefusesAMissingAndAMisspeltKey) {
  EXPECT_EQ(refusal("\"scatter_gather\": true,", ""), "test.json: scatter_gather: missing");
  EXPECT_EQ(refusal("\"context_parallel\"", "\"context_parallell\""),
            "test.json: can_run.context_parallel: missing; there is \"context_parallell\"");
  EXPECT_EQ(refusal("\"scatter_gather\"", "\"scatter-gather\": true, \"scatter_gather\""),
            "test.json: \"scatter-gather\": unknown key; did you mean \"scatter_gather\"?");
}

}  // namespace
}  // namespace ptdp
