// Tests of ptdp-plan --model LAYERS.json: degrees for a list of layers, formats, and bad input.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

json small_layers() {
  return json::parse(R"({"schema": "ptdp.layers/1", "name": "small", "output_MiB": 16,
    "embedding": {"name": "in", "time_s": 0.003, "parameters": 1e8, "activation_GiB": 0.1},
    "layers": [{"name": "block", "forward_s": 0.01, "backward_s": 0.02, "count": 24,
                "parameters": 3e8, "activation_GiB": 0.5}],
    "logits": {"name": "out", "time_s": 0.02, "parameters": 1e8, "activation_GiB": 1}})");
}

ProgramRun run_layers(const std::string& text, const std::vector<std::string>& more) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"--model", directory.file("layers.json", text).string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_plan(arguments);
}

ProgramRun run_layers(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "--gpus", "64", "--cluster", "dgx-h100", "--global-batch-size", "512"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_layers(small_layers().dump(), arguments);
}

TEST(LayersCommand, FindsDegrees) {
  const ProgramRun run = run_layers({});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("small on 64 GPUs of dgx-h100 with megatron-core-2025, batch "
                                     "512\npp="));
  EXPECT_THAT(run.output, HasSubstr("\nlayers per stage: "));
  EXPECT_THAT(run.output, HasSubstr("\nrunners-up: time, loss, memory\n  2. "));
  EXPECT_THAT(run.output, HasSubstr("forward passes: a third of time_s"));
}

TEST(LayersCommand, KeepsToPinsAndToMemory) {
  const ProgramRun run = run_layers({"--pp", "4", "--vpp", "1", "--zero-stage", "1", "--format",
                                     "json", "--memory-headroom", "30%", "--top", "3"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
  const json document = json::parse(run.output);
  EXPECT_EQ(document["schema"], "ptdp.layer_plans/1");
  ASSERT_LE(document["plans"].size(), 3U);
  for (const json& plan : document["plans"]) {
    EXPECT_EQ(plan["config"]["pp"], 4);
    EXPECT_EQ(plan["config"]["vpp"], 1);
    int layers = 0;
    for (const json& stage : plan["stages"]) {
      layers += stage["num_layers"].get<int>();
    }
    EXPECT_EQ(layers, 24);
    for (const json& rank : plan["ranks"]) {
      EXPECT_LE(rank["memory_GiB"].get<double>(), 56.0 + 1e-6);
    }
    double sum = 0.0;
    for (const json& term : plan["breakdown_s"]) {
      sum += term.get<double>();
    }
    EXPECT_NEAR(sum, plan["iteration_time_s"].get<double>(), 1e-9);
  }
}

TEST(LayersCommand, WritesALinePerPlanAsCsv) {
  const ProgramRun run = run_layers({"--format", "csv", "--top", "2"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("tp,pp,dp,vpp,mbs,zero,iteration_time_s,loss,memory_GiB,"
                                     "layers_per_stage\n"));
  EXPECT_EQ(std::ranges::count(run.output, '\n'), 3);
}

TEST(LayersCommand, SaysWhatDoesNotFit) {
  json list = small_layers();
  list["layers"][0]["activation_GiB"] = 200;
  const ProgramRun run = run_layers(list.dump(), {"--gpus", "8", "--global-batch-size", "8"});
  EXPECT_TRUE(ends_with(run, kNothingFits));
  EXPECT_THAT(run.errors, HasSubstr("lacks least: about "));
  EXPECT_TRUE(ends_with(run_layers({"--pp", "63"}), kNothingFits));
}

TEST(LayersCommand, RefusesFlagsThatMeanNothingToAList) {
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--recompute", "full"},
                                             {"--seq-length", "2048"},
                                             {"--tp", "8"},
                                             {"--micro-batch-size", "2"},
                                             {"--explain", "pp=2"},
                                             {"--compare-strategies"},
                                             {"--schedule", "gpipe"},
                                             {"--global-batch-tokens", "4M"},
                                             {"--calibration", "none"}}) {
    std::vector<std::string> arguments = {"--gpus", "64"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    EXPECT_TRUE(is_refused(run_layers(small_layers().dump(), arguments),
                           {flags.front(), "a list of layers"}))
        << flags.front();
  }
  EXPECT_TRUE(is_refused(run_layers({"-o", "plan.json"}), {"--output", "--format json"}));
  EXPECT_TRUE(is_refused(run_layers({"--stack", "all"}), {"--stack", "all"}));
  EXPECT_TRUE(is_refused(run_layers({"--zero-stage", "3"}), {"--zero-stage", "0 or 1", "3"}));
}

TEST(LayersCommand, SaysWhichFlagIsMissing) {
  EXPECT_TRUE(
      is_refused(run_layers(small_layers().dump(), {"--global-batch-size", "8"}), {"--gpus"}));
  EXPECT_TRUE(
      is_refused(run_layers(small_layers().dump(), {"--gpus", "8"}), {"--global-batch-size"}));
}

TEST(LayersCommand, SaysWhichKeyIsMissing) {
  const std::vector<std::string> flags = {"--gpus", "8", "--global-batch-size", "8"};
  for (const char* key : {"parameters", "activation_GiB"}) {
    json list = small_layers();
    list["layers"][0].erase(key);
    EXPECT_TRUE(is_refused(run_layers(list.dump(), flags),
                           {"layers.json", std::string("layers[0].") + key, "missing"}));
    list = small_layers();
    list["logits"].erase(key);
    EXPECT_TRUE(is_refused(run_layers(list.dump(), flags), {std::string("logits.") + key}));
  }
  json list = small_layers();
  list.erase("output_MiB");
  EXPECT_TRUE(is_refused(run_layers(list.dump(), flags),
                         {"embedding.output_MiB, layers[0].output_MiB: missing"}));
}

TEST(LayersCommand, RefusesValuesThatCannotBe) {
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, json>>{{"tp", 0},
                                                 {"tp", 1.5},
                                                 {"micro_batch_size", -1},
                                                 {"weight_bytes", -2},
                                                 {"gradient_bytes", "4"},
                                                 {"optimizer_bytes", 1e9},
                                                 {"output_MiB", -1},
                                                 {"layers/0/parameters", -1},
                                                 {"layers/0/parameters", "7B"},
                                                 {"layers/0/activation_GiB", -0.5},
                                                 {"layers/0/output_MiB", 1e30}}) {
    json list = small_layers();
    list[json::json_pointer("/" + key)] = value;
    EXPECT_TRUE(is_refused(run_layers(list.dump(), {"--gpus", "8", "--global-batch-size", "8"}),
                           {"layers.json", key.substr(key.rfind('/') + 1)}))
        << key << " " << value;
  }
}

}  // namespace
}  // namespace ptdp
