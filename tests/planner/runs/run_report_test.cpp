// Tests of the report of a run.
#include "planner/runs/run_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "planner/runs/run_evidence.h"
#include "tests/planner/fake_machine.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Returns the report of a run with two stages and two replicas, 4 ranks in all. A step has 8
/// sequences of 32 tokens.
RunReport made_up() {
  ParallelConfig config = layout(1, 2, 2);
  RunReport report{
      .plan = make_plan({host_scenario(small_model(64, 32), 8), config}, 5, 0.0, Calibration{})};
  report.execution = {.transport = "tcp",
                      .hosts = {"alpha", "beta"},
                      .ranks = 4,
                      .first_step = 100,
                      .requested_steps = 20,
                      .steps = 12,
                      .warm_up = 2,
                      .seed = 7,
                      .data = "tokens.bin",
                      .basis = "Predicted for host",
                      .is_reproducible = true,
                      .straggler = {.rank = 3, .factor = 2.5, .lost = Seconds(0.75)},
                      .terms_rank = 1,
                      .model = small_model(64, 32),
                      .global_batch_size = 8,
                      .dp = 2};
  report.predicted_time = {.value = Seconds(1.5), .low = Seconds(1.25), .high = Seconds(1.75)};
  report.measured_time = Seconds(2.0);
  report.fastest = Seconds(1.9);
  report.slowest = Seconds(2.2);
  report.hardware_flops = Flops(48e9);
  report.terms = {{"matmul", Seconds(1.0), Seconds(1.25)},
                  {"attention", Seconds(0.0), Seconds(0.0)},
                  {"bubble", Seconds(0.0), Seconds(0.25)},
                  {"optimizer", Seconds(0.125), Seconds(0.0)}};
  report.actions = {{"F", 0, 8, Seconds(0.010), Seconds(0.020)},
                    {"F", 1, 24, Seconds(0.030), Seconds(0.040)},
                    {"B", 0, 8, Seconds(0.050), Seconds(0.025)}};
  report.memory = {{Bytes(3e9), Bytes(2e9), 2, 3}, {Bytes(0.0), Bytes(5e8), 1, 1}};
  report.traffic = {{"tensor", "all-reduce", 0, 0},
                    {"data", "all-reduce", 44165632, 44165632},
                    {"model", "all-reduce", 64, 32},
                    {"tied", "send", 0, 8}};
  report.calls = {
      {"tensor", "all-reduce", Bytes(4096.0), Seconds(2e-3), Seconds(3e-3), Seconds(4e-3)}};
  report.losses = {6.93, 6.5, 5.12345};
  report.gradient_norms = {1.5, 1.25};
  report.skipped_steps = 2;
  report.differences = {"3 bytes more", "another order"};
  report.warnings = {"a warning", "another"};
  return report;
}

/// Returns the lines of a text from the one that begins with `first`, up to an empty one.
std::string paragraph(const std::string& text, const std::string& first) {
  const std::size_t begin = text.find(first);
  return begin == std::string::npos ? "none: " + first
                                    : text.substr(begin, text.find("\n\n", begin) + 1 - begin);
}

// 48 GFLOP over 4 ranks in 1.5 and 2 s; 8 * 32 tokens; of 12 steps 2 warm up.
TEST(RunText, SetsTheIterationBesideItsPrediction) {
  const std::string text = to_text(made_up());
  EXPECT_EQ(paragraph(text, "                             "),
            "                                   predicted        measured  pred/meas\n"
            "  time per iteration                   1.5 s             2 s    -25.0 %\n"
            "  per rank                         8 GFLOP/s       6 GFLOP/s\n"
            "  tokens/s                               171             128\n"
            "  measured from 1.9 s to 2.2 s over 10 steps; predicted 1.25 s to 1.75 s\n");
  RunReport unpredicted = made_up();
  unpredicted.predicted_time = {};
  EXPECT_EQ(paragraph(to_text(unpredicted), "                             "),
            "                                   predicted        measured  pred/meas\n"
            "  time per iteration                       -             2 s\n"
            "  per rank                                 -       6 GFLOP/s\n"
            "  tokens/s                                 -             128\n"
            "  measured from 1.9 s to 2.2 s over 10 steps\n");
}

// The mean of F over both stages: (8 * 10 + 24 * 30) / 32 = 25 ms and (8 * 20 + 24 * 40) / 32 = 35
// ms.
TEST(RunText, AddsUpTermsActionsMemoryAndBytes) {
  const std::string text = to_text(made_up());
  EXPECT_EQ(paragraph(text, "Where the time goes"),
            "Where the time goes, on the rank that computes longest; collectives include waiting\n"
            "  matmul                                 1 s          1.25 s    -20.0 %\n"
            "  bubble                                   -          250 ms\n"
            "  optimizer                           125 ms               -\n");
  EXPECT_EQ(paragraph(text, "  F x32"),
            "  F x32                                25 ms           35 ms    -28.6 %\n"
            "  B x8                                 50 ms           25 ms   +100.0 %\n");
  EXPECT_EQ(paragraph(text, "Peak memory"),
            "Peak memory by rank of the pipeline, as the allocator counts it, and microbatches in "
            "flight\n"
            "  rank 0, 3 in flight                   3 GB            2 GB    +50.0 %\n"
            "  rank 1, 1 in flight                      -          500 MB\n");
  EXPECT_EQ(paragraph(text, "Sent per step"),
            "Sent per step by all ranks\n"
            "  data all-reduce                  42.12 MiB       42.12 MiB      equal\n"
            "  model all-reduce                      64 B            32 B    differs\n"
            "  tied send                              0 B             8 B    differs\n");
  EXPECT_THAT(text, testing::EndsWith("\nWarning: a warning\n\nWarning: another\n"
                                      "\nDiffers from what the plan says: 3 bytes more; another "
                                      "order\n"));
}

// If there are more than eight ranks the text shows the first and the last.
TEST(RunText, ShowsTheEndsOfLongPipelinesOnly) {
  RunReport report = made_up();
  const auto shown = [&](std::size_t ranks) {
    report.memory.assign(ranks, {Bytes(1e9), Bytes(1e9), 1, 1});
    const std::string text = to_text(report);
    int lines = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const bool is_shown = text.find("\n  rank " + std::to_string(rank) + ",") < text.size();
      EXPECT_TRUE(is_shown || (rank > 0 && rank + 1 < ranks)) << rank;
      lines += is_shown ? 1 : 0;
    }
    return lines;
  };
  EXPECT_EQ(shown(8), 8);
  EXPECT_EQ(shown(9), 2);
}

TEST(RunText, BeginsWithWhatRanAndHow) {
  RunReport report = made_up();
  EXPECT_THAT(
      to_text(report),
      StartsWith("small on 4 processes of alpha, beta over tcp with tp=1 pp=2 dp=2 b=1 1f1b "
                 "recompute=none: 12 steps of 8 sequences in fp32, data tokens.bin\n"
                 "Ended after 112 of 120 steps.\n"
                 "Straggler: rank 3 takes 2.5 times as long to compute as the others, which "
                 "loses up to 750 ms of 2 s per step; ptdp-sim --slow rank=R,factor=2.5 shows"));
  EXPECT_THAT(to_text(report), HasSubstr("\nPredicted for host\nLoss 6.9300 -> 5.1235; 2 steps "
                                         "skipped, as gradients overflowed\n\n"));
  report.execution.hosts.clear();
  report.execution.transport = "threads";
  report.execution.device = "cuda: GPU";
  report.execution.requested_steps = 12;
  report.execution.straggler = {};
  report.skipped_steps = 0;
  std::string text = to_text(report);
  EXPECT_THAT(text, StartsWith("small on 4 threads (cuda: GPU) with "));
  EXPECT_THAT(text, Not(HasSubstr("Ended after")));
  EXPECT_THAT(text, Not(HasSubstr("Straggler")));
  EXPECT_THAT(text, HasSubstr("-> 5.1235\n\n"));
  report.execution.straggler = {.rank = 0, .factor = 2.0};
  report.execution.is_shrunk = true;
  report.execution.global_batch_size = 3;
  report.losses.clear();
  report.differences.clear();
  text = to_text(report);
  EXPECT_THAT(text, HasSubstr("Straggler: rank 0 "));
  // 8 sequences over two replicas are 4 microbatches.
  EXPECT_THAT(text,
              HasSubstr("Shrunk to hidden size 64, 2 heads, sequences of 32 tokens, 4 layers, "
                        "dp 1, 3 of 4 microbatches: "));
  EXPECT_THAT(text, Not(HasSubstr("Loss")));
  EXPECT_THAT(text, Not(HasSubstr("Differs")));
}

// What the stack keeps in two bytes the runtime keeps in four.
TEST(RunText, SaysWhereTheStackKeepsSmallerGradients) {
  RunReport report = made_up();
  report.plan.scenario.stack.gradient_bytes = 2.0;
  EXPECT_THAT(to_text(report),
              HasSubstr("kept and reduced in 4 bytes a parameter here, but in 2 and 4 "
                        "by ptdp-cpu, which the plan counts; "));
  report.execution.precision = Precision::kBf16;  // nobody expects the plan's bytes of another
  EXPECT_THAT(to_text(report), Not(HasSubstr("Gradients")));
  report = made_up();
  report.plan.scenario.stack.reduced_gradient_bytes = 2.0;
  EXPECT_THAT(to_text(report), HasSubstr("in 4 and 2 by ptdp-cpu"));
  EXPECT_THAT(to_text(made_up()), Not(HasSubstr("Gradients")));
}

// Every value but the plan, which has its own test.
TEST(RunReport, ReadsBackEveryValue) {
  const RunReport report = made_up();
  const std::string text = to_json(report);
  const RunReport again = parse_run(text, "run.json");
  EXPECT_EQ(to_json(again), text);
  const nlohmann::json json = nlohmann::json::parse(text);
  const nlohmann::json& run = json["execution"];
  EXPECT_EQ(run["hosts"], (nlohmann::json{"alpha", "beta"}));
  EXPECT_EQ(run["first_step"], 100);
  EXPECT_EQ(run["steps"], 12);
  EXPECT_EQ(run["requested_steps"], 20);
  EXPECT_EQ(run["warm_up"], 2);
  EXPECT_EQ(run["seed"], 7);
  EXPECT_EQ(run["straggler"]["rank"], 3);
  EXPECT_EQ(run["straggler"]["factor"], 2.5);
  EXPECT_EQ(run["straggler"]["lost_s"], 0.75);
  EXPECT_EQ(run["reproducible"], true);
  EXPECT_EQ(run["shrunk"], false);
  EXPECT_EQ(run["terms_stage"], 1);
  EXPECT_EQ(run["dp"], 2);
  EXPECT_EQ(json["predicted"],
            (nlohmann::json{{"iteration_time_s", 1.5}, {"low_s", 1.25}, {"high_s", 1.75}}));
  EXPECT_EQ(json["measured"],
            (nlohmann::json{{"iteration_time_s", 2.0}, {"fastest_s", 1.9}, {"slowest_s", 2.2}}));
  EXPECT_EQ(json["terms"][0],
            (nlohmann::json{{"term", "matmul"}, {"predicted_s", 1.0}, {"measured_s", 1.25}}));
  EXPECT_EQ(json["actions"][1], (nlohmann::json{{"kind", "F"},
                                                {"stage", 1},
                                                {"count", 24},
                                                {"predicted_s", 0.03},
                                                {"measured_s", 0.04}}));
  EXPECT_EQ(json["memory"][0], (nlohmann::json{{"predicted_bytes", 3e9},
                                               {"measured_bytes", 2e9},
                                               {"predicted_activations", 2},
                                               {"measured_activations", 3}}));
  EXPECT_EQ(json["traffic"][2], (nlohmann::json{{"group", "model"},
                                                {"collective", "all-reduce"},
                                                {"predicted_bytes", 64},
                                                {"measured_bytes", 32}}));
  EXPECT_EQ(json["losses"], (nlohmann::json{6.93, 6.5, 5.12345}));
  EXPECT_EQ(json["gradient_norms"], (nlohmann::json{1.5, 1.25}));
  EXPECT_EQ(json["skipped_steps"], 2);
  EXPECT_EQ(json["differences"].size(), 2U);
  EXPECT_EQ(json["warnings"].size(), 2U);
}

// A plain run has no more keys than it needs, and without them is what it was.
TEST(RunReport, LeavesOutWhatIsAsUsual) {
  RunReport report = made_up();
  report.execution.hosts.clear();
  report.execution.requested_steps = 12;
  report.execution.straggler = {};
  report.differences.clear();
  const nlohmann::json json = nlohmann::json::parse(to_json(report));
  for (const char* key : {"hosts", "requested_steps", "straggler"}) {
    EXPECT_FALSE(json["execution"].contains(key)) << key;
  }
  EXPECT_FALSE(json.contains("differences"));
  const RunReport again = parse_run(to_json(report), "run.json");
  EXPECT_EQ(again.execution.requested_steps, 12);
  EXPECT_EQ(again.execution.straggler.rank, -1);
  EXPECT_EQ(to_json(again), to_json(report));
  nlohmann::json before = json;
  before["execution"].erase("device");
  EXPECT_EQ(parse_run(before.dump(), "run.json").execution.device, "cpu");
}

TEST(RunReport, RefusesWhatNoRunWrites) {
  const nlohmann::json whole = nlohmann::json::parse(to_json(made_up()));
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json edited = whole;
    edited[nlohmann::json::json_pointer(pointer)] = value;
    return message_of([&] { return parse_run(edited.dump(), "run.json"); });
  };
  EXPECT_THAT(with("/schema", "ptdp.run/2"), HasSubstr("run.json: schema: expected"));
  EXPECT_THAT(with("/terms", nlohmann::json::array()), HasSubstr("terms: expected the terms"));
  EXPECT_THAT(with("/execution/requested_steps", 11), HasSubstr("requested_steps"));
  EXPECT_THAT(with("/execution/straggler/factor", 0.5), HasSubstr("factor"));
  EXPECT_THAT(with("/measured/iteration_time_s", 0.0), HasSubstr("measured.iteration_time_s"));
  EXPECT_THAT(with("/actions/0/count", 0), HasSubstr("count"));
  EXPECT_THAT(with("/traffic/0/measured_bytes", -1), HasSubstr("measured_bytes"));
  EXPECT_THAT(with("/extra", 1), HasSubstr("extra"));
}

TEST(Evidence, IsARunToItsEndOfAWholePredictedPlanOfThisVersion) {
  const auto refusal = [](const auto& change) {
    NamedReport run{.name = "a.json", .report = made_up()};
    run.report.execution.requested_steps = run.report.execution.steps;
    change(run.report);
    return message_of([&] {
      check_evidence(run);
      return 0;
    });
  };
  EXPECT_EQ(refusal([](RunReport&) {}), "nothing was thrown");
  EXPECT_THAT(refusal([](RunReport& run) { run.execution.is_shrunk = true; }),
              HasSubstr("a.json: a shrunk run"));
  EXPECT_THAT(refusal([](RunReport& run) { ++run.execution.requested_steps; }),
              HasSubstr("an interrupted run"));
  EXPECT_THAT(refusal([](RunReport& run) { run.predicted_time = {}; }),
              HasSubstr("nothing was predicted (Predicted for host)"));
  EXPECT_THAT(refusal([](RunReport& run) { run.tool_version = "0.0.1"; }),
              HasSubstr("predictions of 0.0.1 are not"));
  EXPECT_THAT(refusal([](RunReport& run) { run.plan.tool_version = "0.0.2"; }),
              HasSubstr("predictions of 0.0.2 are not"));
}

TEST(Evidence, IsOfOneClusterStackAndPrecision) {
  const auto refusal = [](const auto& change) {
    std::vector<NamedReport> runs = {{.name = "a.json", .report = made_up()},
                                     {.name = "b.json", .report = made_up()}};
    for (NamedReport& run : runs) {
      run.report.execution.requested_steps = run.report.execution.steps;
    }
    change(runs[1].report.plan.scenario);
    return message_of([&] {
      check_evidence_of_one_machine(runs);
      return 0;
    });
  };
  EXPECT_EQ(refusal([](Scenario& scenario) { scenario.cluster.name = "renamed"; }),
            "nothing was thrown");
  EXPECT_EQ(refusal([](Scenario& scenario) { scenario.stack.precision = Precision::kBf16; }),
            "b.json: planned for another cluster, stack or precision (host, ptdp-cpu, bf16) than "
            "a.json (host, ptdp-cpu, fp32); expected runs of one");
  EXPECT_THAT(refusal([](Scenario& scenario) { scenario.stack.optimizer_traffic *= 2.0; }),
              StartsWith("b.json: planned for another cluster, stack"));
  EXPECT_THAT(refusal([](Scenario& scenario) { scenario.cluster.nvlink.efficiency *= 0.5; }),
              StartsWith("b.json: planned for another cluster, stack"));
}

// What a calibration multiplied with 1.25 was 1.2 s before.
TEST(CostedRunOfAReport, HasTheTimeBeforeCalibrationAndTheNameOfTheFile) {
  NamedReport run{.name = "some/where/run7.json", .report = made_up()};
  run.report.plan.predicted.calibration_factor = 1.25;
  const CostedRun costed = costed_run(run);
  EXPECT_DOUBLE_EQ(costed.predicted.value(), 1.2);
  EXPECT_EQ(costed.run.iteration_time, Seconds(2.0));
  EXPECT_EQ(costed.run.id, "run7.json");
  EXPECT_EQ(costed.run.source, "some/where/run7.json");
  EXPECT_EQ(costed.run.group, "ptdp-run");
  EXPECT_EQ(costed.run.cluster, "host");
  EXPECT_EQ(costed.run.stack, "ptdp-cpu");
  EXPECT_EQ(costed.run.global_batch_size, 8);
  EXPECT_EQ(costed.run.config, layout(1, 2, 2));
}

}  // namespace
}  // namespace ptdp
