#include "planner/runs/rehearsal_report.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

RehearsalReport report() {
  ParallelConfig config = layout(1, 4, 1);
  const Plan plan =
      make_plan(host_scenario(small_model(64, 32), 16), 4, 0.0, config, Calibration{});
  return {.plan = plan,
          .execution = {.device = "cuda: NVIDIA H200",
                        .precision = Precision::kBf16,
                        .steps = 10,
                        .warm_up = 2,
                        .seed = 3,
                        .dropout = 0.1,
                        .uses_graphs = true,
                        .memory_of_others = Bytes(3e6)},
          .basis = {.stack = "ptdp-cuda",
                    .predicted = "Predicted for host",
                    .rates = "Rates of NVIDIA H200, on which this ran; the plan is for host",
                    .is_like_for_like = false,
                    .notes = {"a note"}},
          .planned_time = Seconds(3.0),
          .predicted_time = {.value = Seconds(2.0), .low = Seconds(1.0), .high = Seconds(2.5)},
          .simulated_time = Seconds(2.1),
          .composed_time = Seconds(2.5),
          .core_sharing = Seconds(0.25),
          .model_flops = Flops(1e12),
          .hardware_flops = Flops(2e12),
          .peak = FlopsPerSecond(4e12),
          .terms_stage = 3,
          .terms = {{.name = "matmul", .predicted = Seconds(1.0), .composed = Seconds(1.25)}},
          .ranks = {{.pipeline_rank = 1,
                     .rank = 1,
                     .microbatches = 6,
                     .predicted_activations = 3,
                     .measured_activations = 3,
                     .predicted_compute = Seconds(1.0),
                     .measured_compute = Seconds(1.1),
                     .actions = {{.kind = "F",
                                  .stage = 1,
                                  .count = 16,
                                  .predicted = Seconds(0.02),
                                  .measured = Seconds(0.025),
                                  .collectives = Seconds(0.001),
                                  .composed = Seconds(0.026)}},
                     .memory = {{.category = "peak",
                                 .predicted = Bytes(1e9),
                                 .measured = Bytes(1.01e9)}}}},
          .sources = {1, 1, 1, 1},
          .modelled = {"messages between the 4 stages"}};
}

TEST(RehearsalReport, ReadsBackAsItWasWritten) {
  const std::string text = to_json(report());
  EXPECT_THAT(text, HasSubstr("\"ptdp.rehearsal/1\""));
  EXPECT_EQ(to_json(parse_rehearsal(text, "rehearsal.json")), text);
}

TEST(RehearsalReport, RefusesAnotherSchemaAndValuesThatCannotBe) {
  const auto refuse = [](const std::string& from, const std::string& to) {
    std::string text = to_json(report());
    text.replace(text.find(from), from.size(), to);
    try {
      static_cast<void>(parse_rehearsal(text, "rehearsal.json"));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refuse("ptdp.rehearsal/1", "ptdp.run/1"),
              HasSubstr("rehearsal.json: schema: expected \"ptdp.rehearsal/1\""));
  EXPECT_THAT(refuse("\"warm_up\": 2", "\"warm_up\": -2"), HasSubstr("execution.warm_up"));
  EXPECT_THAT(refuse("\"like_for_like\"", "\"like\""), HasSubstr("like"));
}

TEST(RehearsalReport, SaysWhatWasPredictedAndWhatFollows) {
  const std::string text = rehearsal_text(report());
  for (const char* part :
       {"1 of 4 ranks of the pipeline", "Rates of NVIDIA H200, on which this ran", "a note",
        "time per iteration", "2 s", "2.5 s", "-20.0 %",  // 2 / 2.5 − 1
        "the plan says 3 s", "10.0 %",                    // 1e12 / 2.5 / 4e12
        "200 GFLOP/s",                                    // 2e12 / 4 / 2.5
        "Rank 1 of the pipeline (rank 1 of 4)", "stands for 0, 2 to 3", "1F x16",
        "Modelled, not measured\n  messages between the 4 stages"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(RehearsalReport, HasNoMfuWhereTheRatesAreAnotherDevices) {
  RehearsalReport other = report();
  other.peak = FlopsPerSecond(0.0);
  EXPECT_THAT(rehearsal_text(other), Not(HasSubstr("10.0 %")));
}

}  // namespace
}  // namespace ptdp
