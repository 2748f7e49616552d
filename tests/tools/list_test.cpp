// Tests what `ptdp-plan list` tells of a profile.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;

/// Returns the entry of this name in `list <kind>`.
json listed(const std::string& kind, const std::string& name) {
  const ProgramRun run = run_plan({"list", kind, "--format", "json"});
  EXPECT_TRUE(succeeds(run));
  const json document = json::parse(run.output);
  EXPECT_EQ(document["schema"], "ptdp.list/1");
  const json& entries = document[kind];
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const json& entry) { return entry["name"] == name; });
  EXPECT_NE(found, entries.end()) << name;
  return found == entries.end() ? json() : *found;
}

// SC21 table 1: 163 TFLOP/s per GPU on 3072 GPUs. Korthikanti et al. table 5: the same shape on 512
// GPUs in 94.42 and 71.49 s.
TEST(ListModels, HoldsThePublishedRunsOfAModel) {
  const json model = listed("models", "1T");
  ASSERT_EQ(model["published"].size(), 3U);
  const auto on_3072 =
      std::find_if(model["published"].begin(), model["published"].end(),
                   [](const json& run) { return run["global_batch_size"] == 3072; });
  ASSERT_NE(on_3072, model["published"].end());
  EXPECT_EQ((*on_3072)["config"]["pp"], 64);
  EXPECT_NEAR((*on_3072)["tflops_per_gpu"].get<double>(), 163.0, 0.05);
}

TEST(ListModels, SaysWhereNothingIsPublished) {
  EXPECT_TRUE(listed("models", "gpt-tiny")["published"].empty());
}

TEST(ListModels, ShowsTheBestThroughput) {
  const ProgramRun run = run_plan({"list", "models"});
  EXPECT_TRUE(succeeds(run));
  // 1.7B, SC21 table 1: 137 TFLOP/s in fp16 on 32 A100 of 80 GB.
  EXPECT_NE(run.output.find("137 fp16 on 32 a100-80gb-sxm"), std::string::npos);
  EXPECT_NE(run.output.find("  175 B "), std::string::npos);  // gpt3-175b: 174.6 B
  EXPECT_NE(run.output.find(" 1.01 T "), std::string::npos);  // 1T: 1008 B, SC21 table 1
}

// The best run comes first also for a model with several published runs, in the table and in the
// JSON.
TEST(ListModels, PutsTheBestThroughputFirst) {
  const std::string table = run_plan({"list", "models"}).output;
  const json models =
      json::parse(run_plan({"list", "models", "--format", "json"}).output)["models"];
  int num_several = 0;
  for (const json& model : models) {
    std::vector<double> rates;
    for (const json& run : model["published"]) {
      rates.push_back(run["tflops_per_gpu"]);
    }
    EXPECT_TRUE(std::is_sorted(rates.rbegin(), rates.rend())) << model["name"];
    num_several += rates.size() > 1 && rates.front() > rates.back() ? 1 : 0;
    const std::size_t line = table.find('\n' + model["name"].get<std::string>() + ' ');
    ASSERT_NE(line, std::string::npos) << model["name"];
    const std::string shown = table.substr(line + 1, table.find('\n', line + 1) - line - 1);
    // "... 137 fp16 on 32 a100-80gb-sxm  ...", in four digits.
    const std::regex best(R"( ([0-9.e+]+) [a-z0-9()-]+ on [0-9]+ [a-z0-9-]+  )");
    std::smatch found;
    ASSERT_EQ(!std::regex_search(shown, found, best), rates.empty()) << shown;
    if (!rates.empty()) {
      EXPECT_NEAR(std::stod(found[1]) / rates.front(), 1.0, 1e-3) << shown;
    }
  }
  EXPECT_GE(num_several, 5);
}

// The smallest first, where their names would put 145B before 18B; the table in the order of the
// JSON.
TEST(ListModels, GrowInSize) {
  const json models =
      json::parse(run_plan({"list", "models", "--format", "json"}).output)["models"];
  ASSERT_GT(models.size(), 1U);
  const std::string table = run_plan({"list", "models"}).output;
  std::int64_t before = 0;
  std::size_t line = 0;
  for (const json& model : models) {
    const std::string name = model["name"];
    EXPECT_GE(model["parameters"], before) << name;
    before = model["parameters"];
    line = table.find('\n', line) + 1;
    EXPECT_EQ(table.substr(line, name.size() + 1), name + ' ');
  }
}

TEST(ListStacks, SaysWhatAStackCanRun) {
  EXPECT_EQ(listed("stacks", "megatron-lm-2021")["can_run"]["zero_stages"], json({0}));
  EXPECT_EQ(listed("stacks", "megatron-core-2024")["can_run"]["sequence_parallel"], true);
}

TEST(ListClusters, NamesTheDefaultStack) {
  EXPECT_EQ(listed("clusters", "selene-a100")["default_stack"], "megatron-lm-2021");
}

}  // namespace
}  // namespace ptdp
