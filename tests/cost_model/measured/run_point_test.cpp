// Tests of the distance between runs.
#include "cost_model/measured/run_point.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

const CalibrationPoint kPoint = {.parameters = 1'000'000'000, .gpus = 64, .tp = 8, .pp = 2};

TEST(CalibrationPoint, HoldsTheSizeOfTheModelAndHowItIsSpread) {
  const TransformerConfig model = resolved({.num_layers = 128,
                                            .hidden_size = 25600,
                                            .num_attention_heads = 160,
                                            .vocab_size = 51200,
                                            .seq_length = 2048},
                                           "test");
  const CalibrationPoint point =
      run_point(model, "fp16",
                {.tp = 8, .pp = 64, .dp = 6, .cp = 2, .vpp = 2, .recompute = Recompute::kFull});
  // SC21 (arXiv:2104.04473) table 1: 1008.0 billion.
  EXPECT_NEAR(static_cast<double>(point.parameters) / 1e9, 1008.0, 0.05);
  EXPECT_EQ(point.gpus, 6144);
  EXPECT_EQ(point.tp, 8);
  EXPECT_EQ(point.pp, 64);
  EXPECT_EQ(point.recompute, Recompute::kFull);
  EXPECT_EQ(point.precision, "fp16");
  EXPECT_EQ(point.features, (std::vector{RunFeature::kContextParallel, RunFeature::kInterleaved}));
}

// One run has context parallelism in fp8, another one interleaved stages in bf16; no run has both.
TEST(NeverMeasured, NamesWhatNoOtherRunHas) {
  using enum RunFeature;
  const std::vector<CalibrationPoint> runs = {{.precision = "fp8", .features = {kContextParallel}},
                                              {.precision = "bf16", .features = {kInterleaved}}};
  const auto lines = [&](const CalibrationPoint& point, std::size_t left_out = 2) {
    return never_measured(point, runs, left_out);
  };
  EXPECT_THAT(lines({.precision = "bf16", .features = {kContextParallel}}), ElementsAre());
  EXPECT_THAT(lines({}), ElementsAre());
  // A file of an earlier version says neither precision nor features of its runs.
  EXPECT_THAT(never_measured({.precision = "bf16", .features = {kInterleaved, kZero3}}, {{}}, 1),
              ElementsAre());
  EXPECT_THAT(lines({.precision = "nvfp4", .features = {kZero3}}),
              ElementsAre("precision nvfp4, which no run of this cluster and stack has",
                          "ZeRO-3, which no run of this cluster and stack has"));
  EXPECT_THAT(
      lines({.precision = "fp8", .features = {kContextParallel, kInterleaved}}),
      ElementsAre("context parallelism with interleaved stages, which no run of this cluster and "
                  "stack has"));
  EXPECT_THAT(lines(runs[0], 0),
              ElementsAre("precision fp8, which no run of this cluster and stack has",
                          "context parallelism, which no run of this cluster and stack has"));
}

TEST(Distance, FromItselfIsNothing) {
  EXPECT_EQ(distance(kPoint, kPoint), 0.0);
}

// By hand: twice the parameters 1, a quarter of the GPUs 2, tp halved 1, pp times 8 3,
// recomputation 1.
TEST(Distance, AddsUpWhatDiffers) {
  const CalibrationPoint other = {
      .parameters = 2'000'000'000, .gpus = 16, .tp = 4, .pp = 16, .recompute = Recompute::kFull};
  EXPECT_DOUBLE_EQ(distance(kPoint, other), 8.0);
  EXPECT_DOUBLE_EQ(distance(other, kPoint), 8.0);
}

TEST(Distance, CountsEachKindOfRecomputationAsDifferent) {
  CalibrationPoint selective = kPoint;
  selective.recompute = Recompute::kSelective;
  CalibrationPoint full = kPoint;
  full.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(distance(kPoint, selective), 1.0);
  EXPECT_DOUBLE_EQ(distance(selective, full), 1.0);
}

TEST(RunPointJson, ReadsBackAsItWas) {
  const CalibrationPoint point = {.parameters = 7,
                                  .gpus = 64,
                                  .tp = 8,
                                  .pp = 2,
                                  .recompute = Recompute::kSelective,
                                  .precision = "fp8-mx",
                                  .features = {RunFeature::kExpertParallel, RunFeature::kOffload}};
  EXPECT_EQ(dump(point), R"({
  "parameters": 7,
  "seq_length": 1,
  "gpus": 64,
  "tp": 8,
  "pp": 2,
  "recompute": "selective",
  "precision": "fp8-mx",
  "features": [
    "expert parallelism",
    "offloading"
  ]
}
)");
  const auto again = parse<CalibrationPoint>(dump(point));
  EXPECT_EQ(distance(point, again), 0.0);
  EXPECT_EQ(dump(again), dump(point));
  EXPECT_EQ(
      message_of([&] { return parse<CalibrationPoint>(replaced(dump(point), "fp8-mx", "BF16")); }),
      "test.json: precision: expected a precision, such as bf16 or fp8-block, got BF16");
  for (const std::string key : {"\"parameters\": 7", "\"gpus\": 64", "\"tp\": 8", "\"pp\": 2"}) {
    const std::string name = key.substr(1, key.find(':') - 2);
    EXPECT_EQ(message_of([&] {
                return parse<CalibrationPoint>(replaced(dump(point), key, '"' + name + "\": 0"));
              }),
              "test.json: " + name +
                  ": expected a whole number from 1 to 1000000000000000000, got "
                  "0");
  }
}

}  // namespace
}  // namespace ptdp
