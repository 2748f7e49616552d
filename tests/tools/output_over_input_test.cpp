// Tests that no command writes over what it reads, by whatever name or link an output reaches it.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns names by which an output may reach the file: its own, another spelling, a link, a hard
/// link.
std::vector<std::string> names_of(const fs::path& file) {
  const fs::path link = file.parent_path() / "link.json";
  const fs::path hard_link = file.parent_path() / "hard_link.json";
  fs::remove(link);
  fs::remove(hard_link);
  fs::create_symlink(file, link);
  fs::create_hard_link(file, hard_link);
  return {file.string(), (file.parent_path() / "." / file.filename()).string(), link.string(),
          hard_link.string()};
}

/// Expects a refusal for every name of `file` after the arguments, and an unchanged file.
template <class Run>
void expect_refused(const Run& run, std::vector<std::string> arguments, const std::string& flag,
                    const fs::path& file, const std::string& input) {
  const std::string before = content_of(file);
  arguments.push_back(flag);
  for (const std::string& name : names_of(file)) {
    arguments.push_back(name);
    EXPECT_TRUE(is_refused(run(arguments, RunOptions{}), {"expected another file than " + input}));
    EXPECT_EQ(content_of(file), before);
    arguments.pop_back();
  }
}

TEST(OutputOverInput, IsRefusedByPtdpPlan) {
  const TemporaryDirectory directory;
  const fs::path model = directory.file("model.json", tiny_model());
  const fs::path cluster = directory.file("cluster.json", selene_cluster().dump());
  const fs::path stack = directory.file("stack.json", megatron_stack().dump());
  const std::vector<std::string> search = {"--gpus",       "8",           "--model",
                                           model.string(), "--cluster",   cluster.string(),
                                           "--stack",      stack.string()};
  expect_refused(run_plan, search, "-o", model, "--model");
  expect_refused(run_plan, search, "-o", cluster, "--cluster");
  expect_refused(run_plan, search, "-o", stack, "--stack");
  expect_refused(run_plan, search, "--report", model, "--model");
  EXPECT_TRUE(is_refused(
      run_plan({"--gpus", "8", "--model", "gpt-tiny", "--report", "page.html", "-o", "./page.html"},
               {.directory = directory.path()}),
      {"--report: expected another file than --output"}));
  const fs::path plan = directory.file("plan.json", tiny_plan());
  expect_refused(run_plan, {"show", plan.string()}, "--report", plan, "the plan");
  expect_refused(
      run_plan,
      {"--gpus", "8", "--model", model.string(), "--cluster", cluster.string(), "--stack", "all"},
      "--report", cluster, "--cluster");
}

TEST(OutputOverInput, IsRefusedByPtdpPlanForALogAndAListOfLayers) {
  const TemporaryDirectory directory;
  const fs::path log = directory.file("train.log", "iteration 1");
  expect_refused(run_plan,
                 {"--gpus", "8", "--model", "gpt-tiny", "--config", "tp=2", "--log", log.string()},
                 "--report", log, "--log");
  const fs::path layers = directory.file(
      "layers.json", R"({"schema": "ptdp.layers/1", "name": "one", "layers": [{"name": "a",
                         "time_s": 1, "parameters": 1, "activation_GiB": 1}]})");
  expect_refused(run_plan, {"--gpus", "1", "--model", layers.string(), "--global-batch-size", "1"},
                 "--report", layers, "--model");
}

TEST(OutputOverInput, IsRefusedByPtdpPlanForAShippedProfile) {
  const TemporaryDirectory directory;
  fs::copy(fs::path(PTDP_SOURCE_DIR) / "profiles", directory.path(), fs::copy_options::recursive);
  const fs::path model = directory.path() / "models/gpt-tiny.json";
  const RunOptions options{.environment = {{"PTDP_PROFILES", directory.path().string()}}};
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                                   "-o", model.string()},
                                  options),
                         {"expected another file than --model"}));
  EXPECT_EQ(content_of(model), tiny_model());
}

TEST(OutputOverInput, IsRefusedByPtdpPlanForTheFolderOfAModelAndACalibration) {
  const TemporaryDirectory directory;
  const fs::path model = directory.file("folder/config.json", tiny_model());
  expect_refused(run_plan, {"--gpus", "8", "--model", model.parent_path().string() + "/"}, "-o",
                 model, "--model");
  const std::string published = std::string(PTDP_SOURCE_DIR) + "/profiles/published/sc21-t1.csv";
  ASSERT_TRUE(
      succeeds(run_calibrate({"--runs", published, "-o", (directory.path() / "made").string()})));
  const fs::path made = directory.path() / "made/selene-a100+megatron-lm-2021.json";
  for (const fs::path& calibration : {made, made.parent_path()}) {
    expect_refused(run_plan,
                   {"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                    "--calibration", calibration.string()},
                   "-o", made, "--calibration");
  }
}

TEST(OutputOverInput, IsRefusedByPtdpSim) {
  const TemporaryDirectory directory;
  const fs::path plan = directory.file("plan.json", tiny_plan());
  expect_refused(run_sim, {plan.string()}, "--trace", plan, "the plan");
  expect_refused(run_sim, {plan.string()}, "--report", plan, "the plan");
}

TEST(OutputOverInput, IsRefusedByPtdpValidate) {
  const TemporaryDirectory directory;
  const fs::path runs = directory.file("runs.csv", source_file("profiles/published/sc21-t1.csv"));
  expect_refused(run_validate, {"--runs", runs.string()}, "--report", runs, "--runs");
  const fs::path log = directory.file("train.log", "iteration 1");
  const fs::path plan = directory.file("plan.json", tiny_plan());
  expect_refused(run_validate, {"--log", log.string()}, "--report", log, "--log");
  expect_refused(run_validate, {"--log", log.string(), "--plan", plan.string()}, "--report", plan,
                 "--plan");
}

TEST(OutputOverInput, IsRefusedByPtdpRun) {
  const TemporaryDirectory directory;
  const fs::path plan = directory.file("plan.json", plan_of_four_ranks());
  const fs::path data = directory.file("tokens.bin", std::string(10'000, '\0'));
  const std::vector<std::string> run = {plan.string(), "--data", data.string()};
  for (const char* flag : {"-o", "--trace", "--report", "--dump-actions"}) {
    expect_refused(run_run, run, flag, plan, "the plan");
    expect_refused(run_run, run, flag, data, "--data");
  }
  EXPECT_TRUE(is_refused(run_run({plan.string(), "-o", "new.json", "--trace", "./new.json"},
                                 {.directory = directory.path()}),
                         {"--trace: expected another file than --output"}));
}

TEST(OutputOverInput, IsRefusedByPtdpRunForACheckpoint) {
  const TemporaryDirectory directory;
  const fs::path plan = directory.file("plan.json", plan_of_four_ranks());
  const fs::path manifest = directory.file("saved/step-00000001/manifest.json", "{}");
  EXPECT_TRUE(is_refused(run_run({plan.string(), "--resume", (directory.path() / "saved").string(),
                                  "-o", manifest.string()}),
                         {"--output: expected a file outside the checkpoints of --resume"}));
  EXPECT_EQ(content_of(manifest), "{}");
}

TEST(OutputOverInput, IsRefusedByPtdpRunTune) {
  const TemporaryDirectory directory;
  const fs::path plan = directory.file("plan.json", plan_of_four_ranks());
  expect_refused(run_run, {"--tune", plan.string()}, "--profile-out", plan, "the plans");
  const fs::path stack = directory.file("x.stack.json", plan_of_four_ranks());
  EXPECT_TRUE(is_refused(
      run_run({"--tune", stack.string(), "--profile-out", (directory.path() / "x.json").string()}),
      {"the stack of --profile-out", "another file"}));
}

TEST(OutputOverInput, IsRefusedByPtdpCalibrate) {
  const TemporaryDirectory directory;
  const std::string published = std::string(PTDP_SOURCE_DIR) + "/profiles/published/sc21-t1.csv";
  const fs::path runs = directory.file("selene-a100+megatron-lm-2021.json", content_of(published));
  EXPECT_TRUE(is_refused(run_calibrate({"--runs", runs.string(), "-o", directory.path().string()}),
                         {"--output: expected another file than --runs"}));
  EXPECT_EQ(content_of(runs), content_of(published));
  expect_refused(run_calibrate, {runs.string()}, "--profile", runs, "the run");
  const fs::path stack = directory.file("x.stack.json", "{}");
  EXPECT_TRUE(is_refused(
      run_calibrate({stack.string(), "--profile", (directory.path() / "x.json").string()}),
      {"the stack of --profile", "another file"}));
}

}  // namespace
}  // namespace ptdp
