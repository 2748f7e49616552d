// Tests of the report of a rehearsal.
#include "planner/runs/rehearsal_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

RehearsalReport report() {
  ParallelConfig config = layout(1, 4, 1);
  const Plan plan =
      make_plan({host_scenario(small_model(64, 32), 16), config}, 4, 0.0, Calibration{});
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
          .core_contention = Seconds(0.25),
          .model_flops = Flops(1e12),
          .hardware_flops = Flops(2e12),
          .peak = FlopsPerSecond(4e12),
          .terms_rank = 3,
          .terms = {{.name = "matmul", .predicted = Seconds(1.0), .composed = Seconds(1.25)}},
          .ranks = {{.pipeline_rank = 1,
                     .rank = 1,
                     .microbatches = 6,
                     .activations = {3, 3},
                     .compute = {Seconds(1.0), Seconds(1.1)},
                     .actions = {{.kind = "F",
                                  .stage = 1,
                                  .count = 16,
                                  .time = {Seconds(0.02), Seconds(0.025)},
                                  .collectives = Seconds(0.001),
                                  .composed = Seconds(0.026)}},
                     .memory = {{.category = "peak", .size = {Bytes(1e9), Bytes(1.01e9)}}}}},
          .sources = {1, 1, 1, 1},
          .modelled = {"messages between the 4 stages"}};
}

TEST(RehearsalReport, ReadsBackAsItWasWritten) {
  const std::string text = to_json(report());
  EXPECT_THAT(text, HasSubstr("\"ptdp.rehearsal/1\""));
  EXPECT_EQ(to_json(parse_rehearsal(text, "rehearsal.json")), text);
}

TEST(RehearsalReport, NeedNotSayWhetherPassesWereGraphs) {
  RehearsalReport without = report();
  without.execution.uses_graphs = false;
  const std::string text = to_json(without);
  EXPECT_THAT(text, Not(HasSubstr("graphs")));
  EXPECT_FALSE(parse_rehearsal(text, "rehearsal.json").execution.uses_graphs);
  EXPECT_TRUE(parse_rehearsal(to_json(report()), "rehearsal.json").execution.uses_graphs);
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
  const std::string text = to_text(report());
  for (const char* part :
       {"1 of 4 ranks of the pipeline", "Rates of NVIDIA H200, on which this ran", "a note",
        "time per iteration", "2 s", "2.5 s", "-20.0 %",  // 2 / 2.5 − 1
        "the plan says 3 s", "10.0 %",                    // 1e12 / 2.5 / 4e12
        "200 GFLOP/s",                                    // 2e12 / 4 / 2.5
        "Rank 1 of the pipeline (rank 1 of 4)", "also stands for 0, 2 to 3", "1F x16",
        "Modelled, not measured\n  messages between the 4 stages"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(RehearsalReport, HasNoMfuWhereTheRatesAreAnotherDevices) {
  RehearsalReport other = report();
  other.peak = FlopsPerSecond(0.0);
  EXPECT_THAT(to_text(other), Not(HasSubstr("10.0 %")));
}

// 2e12 FLOP on four devices take 2 and 2.5 s; of the model's 1e12 the peak would take 0.25 s.
TEST(RehearsalText, SetsWhatIsComposedBesideThePrediction) {
  RehearsalReport made = report();
  const std::string text = to_text(made);
  EXPECT_THAT(text, HasSubstr("\n\n"
                              "                                   predicted        composed"
                              "  pred/comp\n"
                              "  time per iteration                     2 s           2.5 s"
                              "    -20.0 %\n"
                              "    by simulation                      2.1 s           2.5 s"
                              "    -16.0 %\n"
                              "  per device                     250 GFLOP/s     200 GFLOP/s\n"
                              "  MFU                                 12.5 %          10.0 %\n"
                              "  of that sharing cores                               250 ms\n"
                              "  predicted 1 s to 2.5 s; the plan says 3 s\n\n"));
  EXPECT_THAT(text,
              HasSubstr("Rehearsal of small with tp=1 pp=4 dp=1 b=1 1f1b recompute=none: 1 of "
                        "4 ranks of the pipeline, one after the other, 10 steps each in bf16 "
                        "on cuda: NVIDIA H200\n"));
  EXPECT_THAT(text,
              HasSubstr("\na note\nRanks take turns on cores: while one waited for a message, "
                        "3 MB of other memory were used"));
  made.core_contention = Seconds(0.0);
  made.planned_time = Seconds(2.0);
  made.execution.memory_of_others = Bytes(0.0);
  const std::string shorter = to_text(made);
  EXPECT_THAT(shorter, Not(HasSubstr("of that sharing cores")));
  EXPECT_THAT(shorter, HasSubstr("predicted 1 s to 2.5 s\n"));
  EXPECT_THAT(shorter, Not(HasSubstr("Ranks take turns")));
}

TEST(RehearsalText, ListsTermsActionsAndMemoryOfEachRank) {
  RehearsalReport made = report();
  made.terms.push_back({.name = "attention"});
  made.terms.push_back({.name = "bubble", .composed = Seconds(0.5)});
  RehearsedRank& rank = made.ranks.front();
  rank.activations.predicted = 4;
  rank.actions.push_back(
      {.kind = "OPTIMIZER", .stage = 1, .count = 1, .time = {.measured = Seconds(0.002)}});
  rank.memory.insert(rank.memory.begin(),
                     {.category = "weights", .size = {Bytes(0.0), Bytes(5e8)}});
  const std::string text = to_text(made);
  EXPECT_THAT(text, HasSubstr("Where the time goes, on rank 3 of the pipeline, which computes "
                              "longest\n"
                              "  matmul                                 1 s          1.25 s"
                              "    -20.0 %\n"
                              "  bubble                                   -          500 ms\n\n"));
  EXPECT_THAT(
      text, HasSubstr("Rank 1 of the pipeline (rank 1 of 4), 6 microbatches a step, 3 in flight; "
                      "also stands for 0, 2 to 3\n"
                      "  alone, no collectives            predicted        measured  pred/meas\n"
                      "  compute of an iteration                1 s           1.1 s     -9.1 %\n"
                      "  1F x16                               20 ms           25 ms    -20.0 %\n"
                      "  OPTIMIZER x1                             -            2 ms\n"
                      "  weights                                  -          500 MB\n"
                      "  peak memory                           1 GB         1.01 GB     -1.0 %\n"));
}

TEST(RehearsalText, SaysWhichRanksHaveTheTimesOfAnother) {
  const auto stands_for = [](int rank, const std::vector<int>& sources) {
    RehearsalReport made = report();
    made.ranks.front().pipeline_rank = rank;
    made.sources = sources;
    const std::string text = to_text(made);
    const std::size_t begin = text.find(" in flight") + 10;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(stands_for(1, {1, 1, 2, 2, 1, 1, 1, 7}), "; also stands for 0, 4 to 6");
  EXPECT_EQ(stands_for(2, {1, 1, 2, 2, 1, 1, 1, 7}), "; also stands for 3");
  EXPECT_EQ(stands_for(7, {1, 1, 2, 2, 1, 1, 1, 7}), "");
  EXPECT_EQ(stands_for(2, {2, 2, 2, 2}), "; also stands for 0 to 1, 3");
}

// A value for each key, none of them twice in an object.
TEST(RehearsalReport, WritesEachValueUnderItsName) {
  const nlohmann::json json = nlohmann::json::parse(to_json(report()));
  using Json = nlohmann::json;
  EXPECT_EQ(json["predicted"], (Json{{"iteration_time_s", 2.0},
                                     {"low_s", 1.0},
                                     {"high_s", 2.5},
                                     {"simulated_s", 2.1},
                                     {"plan_s", 3.0}}));
  EXPECT_EQ(json["composed"], (Json{{"iteration_time_s", 2.5}, {"core_sharing_s", 0.25}}));
  EXPECT_EQ(json["model_flops"], 1e12);
  EXPECT_EQ(json["hardware_flops"], 2e12);
  EXPECT_EQ(json["peak_flops_per_s"], 4e12);
  EXPECT_EQ(json["terms_stage"], 3);
  EXPECT_EQ(json["terms"][0],
            (Json{{"term", "matmul"}, {"predicted_s", 1.0}, {"composed_s", 1.25}}));
  EXPECT_EQ(json["sources"], (Json{1, 1, 1, 1}));
  EXPECT_EQ(json["execution"]["steps"], 10);
  EXPECT_EQ(json["execution"]["warm_up"], 2);
  EXPECT_EQ(json["execution"]["seed"], 3);
  EXPECT_EQ(json["execution"]["graphs"], true) << "as an older report says";
  EXPECT_EQ(json["execution"]["memory_of_others_bytes"], 3e6);
  const Json& rank = json["ranks"][0];
  EXPECT_EQ(rank["microbatches"], 6);
  EXPECT_EQ(rank["predicted_compute_s"], 1.0);
  EXPECT_EQ(rank["measured_compute_s"], 1.1);
  EXPECT_EQ(rank["actions"][0], (Json{{"kind", "F"},
                                      {"stage", 1},
                                      {"count", 16},
                                      {"predicted_s", 0.02},
                                      {"measured_s", 0.025},
                                      {"collectives_s", 0.001},
                                      {"composed_s", 0.026}}));
  EXPECT_EQ(rank["memory"][0],
            (Json{{"category", "peak"}, {"predicted_bytes", 1e9}, {"measured_bytes", 1.01e9}}));
}

}  // namespace
}  // namespace ptdp
