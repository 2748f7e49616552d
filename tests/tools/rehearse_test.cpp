// Tests of ptdp-run --rehearse: what it measures, prints, writes and refuses.
#include <gmock/gmock.h>

#include <cmath>
#include <csignal>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

ProgramRun rehearse(const std::string& plan, const std::vector<std::string>& flags) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {directory.file("plan.json", plan).string(), "--rehearse"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  return run_run(arguments);
}

json report_of(const std::string& plan, std::vector<std::string> flags = {}) {
  flags.insert(flags.end(), {"--quiet", "--steps", "2", "--warm-up", "0", "--format", "json"});
  const ProgramRun run = rehearse(plan, flags);
  EXPECT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
  return json::parse(run.output);
}

std::vector<int> ranks_of(const json& report) {
  std::vector<int> ranks;
  for (const json& rank : report["ranks"]) {
    ranks.push_back(rank["pipeline_rank"]);
  }
  return ranks;
}

const std::string& plan_of_eight_stages() {
  static const std::string plan = [] {
    const TemporaryDirectory directory;
    const auto model = directory.file(
        "small.json", replaced(kSmallModel, R"("num_layers": 4)", R"("num_layers": 8)"));
    const auto file = directory.path() / "plan.json";
    EXPECT_TRUE(succeeds(run_plan({"--model",
                                   model.string(),
                                   "--gpus",
                                   "32",
                                   "--cluster",
                                   "host",
                                   "--tp",
                                   "2",
                                   "--pp",
                                   "8",
                                   "--dp",
                                   "2",
                                   "--schedule",
                                   "1f1b",
                                   "--sequence-parallel",
                                   "on",
                                   "--micro-batch-size",
                                   "1",
                                   "-o",
                                   file.string()})));
    return content_of(file);
  }();
  return plan;
}

TEST(Rehearse, ComparesTimesAndMemory) {
  const ProgramRun run =
      rehearse(plan_of_four_ranks(), {"--quiet", "--steps", "3", "--warm-up", "1"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(has_only_numbers(run.output));
  for (const char* part :
       {"Rehearsal of small with tp=2 pp=2", "2 of 2 ranks of the pipeline", "3 steps each",
        "Rates of one core of this host, on which this ran; the plan is for host",
        "time per iteration", "per device", "MFU", "matmul", "bubble", "Rank 0 of the pipeline",
        "Rank 1 of the pipeline (rank 2 of 4)", "0F x8", "peak memory",
        "Modelled, not measured\n  collectives of 2 tensor-parallel ranks"}) {
    EXPECT_THAT(run.output, HasSubstr(part));
  }
}

TEST(Rehearse, WritesTheSameReportAsJson) {
  const TemporaryDirectory directory;
  const auto plan = directory.file("plan.json", plan_of_four_ranks());
  const auto file = directory.path() / "rehearsal.json";
  const ProgramRun run = run_run({plan.string(), "--rehearse", "--quiet", "--steps", "2",
                                  "--format", "json", "-o", file.string()});
  ASSERT_TRUE(succeeds(run));
  EXPECT_EQ(content_of(file), run.output);
  const json report = json::parse(run.output);
  EXPECT_EQ(report["schema"], "ptdp.rehearsal/1");
  EXPECT_EQ(report["plan"], json::parse(plan_of_four_ranks()));
  EXPECT_EQ(report["predicted"]["plan_s"], report["plan"]["predicted"]["iteration_time_s"]);
  EXPECT_TRUE(report["basis"]["like_for_like"]);
  EXPECT_EQ(report["sources"], json::parse("[0, 1]"));
  double terms = 0.0;
  for (const json& term : report["terms"]) {
    terms += term["composed_s"].get<double>();
  }
  EXPECT_NEAR(terms / report["composed"]["iteration_time_s"].get<double>(), 1.0, 1e-9);
  // Eight microbatches of two layers each way, and what the rank holds is what is predicted.
  for (const json& rank : report["ranks"]) {
    EXPECT_EQ(rank["predicted_activations"], rank["measured_activations"]);
    const json& peak = rank["memory"].back();
    EXPECT_EQ(peak["category"], "peak");
    EXPECT_GT(peak["predicted_bytes"], 0.0);
    for (const json& action : rank["actions"]) {
      EXPECT_GT(action["measured_s"], 0.0) << action;
      EXPECT_GE(action["composed_s"].get<double>(), action["collectives_s"].get<double>());
    }
  }
}

// Four ranks on one core: what the other three hold, as both stages hold it. Else nothing.
TEST(Rehearse, UsesTheMemoryOfRanksThatTakeTurns) {
  const TemporaryDirectory directory;
  const auto report_with_cores = [&](int cores) {
    const auto cluster = directory.file(
        "cores.json",
        replaced(content_of(PTDP_SOURCE_DIR "/profiles/clusters/host.json"), R"("gpus_per_node")",
                 R"("cores_per_node": )" + std::to_string(cores) + R"(, "gpus_per_node")"));
    const auto model = directory.file("small.json", kSmallModel);
    const auto file = directory.path() / "plan.json";
    EXPECT_TRUE(succeeds(
        run_plan({"--model", model.string(), "--cluster", cluster.string(), "--gpus", "4", "--tp",
                  "2", "--pp", "2", "--dp", "1", "--schedule", "1f1b", "-o", file.string()})));
    return report_of(content_of(file));
  };
  const auto others = [](const json& report) {
    return report["execution"]["memory_of_others_bytes"].get<double>();
  };
  const auto mean_peak = [](const json& report) {
    double peaks = 0.0;
    for (const json& rank : report["ranks"]) {
      peaks += rank["memory"].back()["predicted_bytes"].get<double>();
    }
    return peaks / static_cast<double>(report["ranks"].size());
  };
  EXPECT_EQ(others(report_with_cores(4)), 0.0);
  const json three = report_with_cores(3);  // 4/3 ranks on a core
  EXPECT_NEAR(others(three) / (mean_peak(three) / 3.0), 1.0, 1e-9);
  const json report = report_with_cores(1);
  EXPECT_NEAR(others(report) / (3.0 * mean_peak(report)), 1.0, 1e-9);
  EXPECT_GT(others(report), 0.0);
  EXPECT_GT(report["composed"]["core_sharing_s"], 0.0);
}

TEST(Rehearse, RunsTheStagesThatAreAskedFor) {
  const std::string& plan = plan_of_eight_stages();
  EXPECT_THAT(ranks_of(report_of(plan)), ElementsAre(0, 4, 7));
  EXPECT_THAT(ranks_of(report_of(plan, {"--stage", "first"})), ElementsAre(0));
  EXPECT_THAT(ranks_of(report_of(plan, {"--stage", "last"})), ElementsAre(7));
  EXPECT_THAT(ranks_of(report_of(plan, {"--stage", "2"})), ElementsAre(2));
  const json middle = report_of(plan, {"--stage", "middle"});
  EXPECT_THAT(ranks_of(middle), ElementsAre(4));
  EXPECT_EQ(middle["ranks"][0]["rank"], 16);  // behind four ranks of 2 by 2
  EXPECT_EQ(middle["sources"], json::parse("[4, 4, 4, 4, 4, 4, 4, 4]"));
  // p − 4 are in flight, but no more than there are: four of each replica.
  EXPECT_EQ(middle["ranks"][0]["measured_activations"], 4);
}

TEST(Rehearse, RunsEverySchedule) {
  for (const std::vector<std::string>& flags : {
           std::vector<std::string>{"--schedule", "gpipe"},
           {"--schedule", "zb-h1"},
           {"--schedule", "interleaved", "--vpp", "2"},
           {"--schedule", "zb-v", "--vpp", "2"},
           {"--schedule", "dualpipe"},
       }) {
    std::vector<std::string> all = {"--gpus", "2", "--pp", "2", "--tp", "1", "--dp", "1"};
    all.insert(all.end(), flags.begin(), flags.end());
    const json report = report_of(plan_of_small(all));
    EXPECT_GT(report["composed"]["iteration_time_s"], 0.0) << flags[1];
  }
}

TEST(Rehearse, SaysWhoseRatesTheseAre) {
  const TemporaryDirectory directory;
  const auto model = directory.file("small.json", std::string(kSmallModel));
  const auto file = directory.path() / "plan.json";
  ASSERT_TRUE(
      succeeds(run_plan({"--model", model.string(), "--gpus", "8", "--cluster", "selene-a100",
                         "--tp", "2", "--pp", "2", "--dp", "2", "-o", file.string()})));
  const json report = report_of(content_of(file), {"--device", "cpu"});
  EXPECT_THAT(report["basis"]["rates"],
              HasSubstr("Rates of one core of this host, on which this ran; the plan is for "
                        "selene-a100 (a100-80gb-sxm): differences are between the two, not errors "
                        "of the prediction"));
  EXPECT_FALSE(report["basis"]["like_for_like"]);
  // No rate of this runtime's attention is known of that GPU.
  EXPECT_EQ(report["basis"]["stack"], "megatron-lm-2021");
  EXPECT_THAT(report["basis"]["notes"][0],
              HasSubstr("Predictions and messages are of megatron-lm-2021, but what ran is this "
                        "runtime: differences are between the two"));
  EXPECT_TRUE(is_refused(rehearse(content_of(file), {"--device", "cpu", "--dtype", "f64"}),
                         {"--dtype: ", "does not say what it keeps in fp64"}));
}

TEST(Rehearse, PredictsWithThisRuntimeWhatIsPlannedForAnother) {
  const TemporaryDirectory directory;
  const auto model = directory.file("small.json", std::string(kSmallModel));
  const auto file = directory.path() / "plan.json";
  ASSERT_TRUE(succeeds(run_plan({"--model", model.string(), "--gpus", "8", "--cluster", "hgx-h200",
                                 "--tp", "2", "--pp", "2", "--dp", "2", "-o", file.string()})));
  const json report = report_of(content_of(file), {"--device", "cpu"});
  EXPECT_EQ(report["basis"]["stack"], "ptdp-cuda");
  EXPECT_THAT(report["basis"]["notes"][0],
              HasSubstr("The plan is for megatron-core-2025, but what ran is this runtime"));
  EXPECT_NE(report["predicted"]["plan_s"], report["predicted"]["iteration_time_s"]);
}

TEST(Rehearse, RefusesWhatItCannotDo) {
  const std::string& plan = plan_of_four_ranks();
  for (const auto& [flags, mention] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--stage", "2"},
            "--stage: expected first, middle, last, all or a rank of the "
            "pipeline, 0 to 1, got \"2\""},
           {{"--stage", "-1"}, "--stage: expected"},
           {{"--stage", "midle"}, "got \"midle\""},
           {{"--shrink"}, "--shrink: not used by --rehearse"},
           {{"--resume", "."}, "--resume: not used by --rehearse"},
           {{"--save", "there"}, "--save: not used by --rehearse"},
           {{"--data", "tokens.bin"}, "--data: not used by --rehearse"},
           {{"--transport", "threads"}, "--transport: not used by --rehearse"},
           {{"--tune"}, "--tune: not used by --rehearse"},
           {{"--orders", "a.csv"}, "--orders: not used by --rehearse"},

           {{"--format", "xml"}, "--format"},
           {{"--steps", "0"}, "--steps"}}) {
    EXPECT_TRUE(is_refused(rehearse(plan, flags), {mention}));
  }
  EXPECT_TRUE(is_refused(run_run({"--rehearse"}), {"--rehearse: expected a plan"}));
  const TemporaryDirectory directory;
  const std::string file = directory.file("plan.json", plan).string();
  EXPECT_TRUE(is_refused(run_run({file, "--stage", "first"}),
                         {"--stage: expected together with --rehearse"}));
  EXPECT_TRUE(is_refused(run_run({file, "--rehearse", "-o", file}),
                         {"--output: expected another file than the plan"}));
  EXPECT_TRUE(
      ends_with(run_run({file, "--rehearse", "-o", "nowhere/rehearsal.json"}), kOutputFailed));
}

// 1T parameters on a pipeline of two: more than any host has, found before anything is allocated.
TEST(Rehearse, RefusesARankThatDoesNotFit) {
  const TemporaryDirectory directory;
  const auto file = directory.path() / "plan.json";
  nlohmann::ordered_json cluster = selene_cluster();
  cluster["gpu"]["memory_GiB"] = 100000;
  const auto cluster_path = directory.file("large.json", cluster.dump());
  ASSERT_TRUE(succeeds(
      run_plan({"--model", "1T", "--gpus", "16", "--cluster", cluster_path.string(), "--tp", "8",
                "--pp", "2", "--dp", "1", "--calibration", "none", "-o", file.string()})));
  const ProgramRun run = run_run({file.string(), "--rehearse", "--device", "cpu"});
  EXPECT_TRUE(ends_with(run, kNothingFits));
  EXPECT_THAT(run.errors, HasSubstr("config: rank 0 of the pipeline needs "));
  EXPECT_THAT(run.errors, HasSubstr("weights "));
  EXPECT_THAT(run.errors, HasSubstr("--recompute full"));
}

TEST(Rehearse, EndsAtOnceOnASignal) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("plan.json", plan_of_four_ranks()).string();
  for (const int signal : {SIGINT, SIGTERM}) {
    const ProgramRun run =
        run_run({file, "--rehearse", "--steps", "1000000"},
                {.signals = {{.text = "rehearsing rank 0 of 2: step 1/", .signal = signal}}});
    EXPECT_EQ(run.status, 128 + signal);
    EXPECT_LT(run.seconds_after_signal, kRunawaySeconds);
    EXPECT_THAT(run.errors, HasSubstr("ptdp-run: interrupted; nothing was composed"));
    EXPECT_EQ(run.output, "");
  }
}

TEST(Rehearse, TellsOfItsSteps) {
  const ProgramRun run = rehearse(plan_of_four_ranks(), {"--steps", "2", "--stage", "1"});
  ASSERT_TRUE(ends_with(run, kDone));
  EXPECT_THAT(run.errors, HasSubstr("rehearsing rank 1 of 2: step 1/2  "));
  EXPECT_THAT(run.errors, HasSubstr("rehearsing rank 1 of 2: step 2/2  "));
}

}  // namespace
}  // namespace ptdp
