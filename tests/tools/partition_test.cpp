// Tests of ptdp-plan partition: lists and models, formats, bad input, and what does not fit.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// 1 + 6·2 + 3 = 16 s: 5, 6 and 5 on three ranks, 5, 4 and 7 when split by number.
constexpr const char* kList = R"({"schema": "ptdp.layers/1", "name": "small",
  "embedding": {"name": "in", "time_s": 1, "memory_GiB": 1},
  "layers": [{"name": "block", "forward_s": 0.5, "backward_s": 1.5, "count": 6, "memory_GiB": 3}],
  "logits": {"name": "out", "time_s": 3}})";

ProgramRun run_list(const std::string& text, const std::vector<std::string>& more) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"partition", directory.file("layers.json", text).string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_plan(arguments);
}

ProgramRun run_model(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"partition", "--model", "gpt3-175b"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_plan(arguments);
}

TEST(PartitionCommand, PrintsStagesAndTheGain) {
  const ProgramRun run = run_list(kList, {"--pp", "3", "--microbatches", "10"});
  EXPECT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("small: pp=3 vpp=1\n"));
  EXPECT_THAT(run.output, HasSubstr("     1      1       3         6000  3 x block\n"));
  EXPECT_THAT(run.output, HasSubstr("     1         6000            9  1  (slowest)\n"));
  // 7/6 is 16.67 % more; with the pipeline's fill 80.667 s against 70.667 s.
  EXPECT_THAT(run.output, HasSubstr("6000           7000    16.67%"));
  EXPECT_THAT(run.output, HasSubstr("70666.7        80666.7    14.15%"));
  EXPECT_THAT(run.output, HasSubstr("layers per stage: 2,3,1\n"));
}

TEST(PartitionCommand, WritesJson) {
  const ProgramRun run = run_list(kList, {"--pp", "3", "--format", "json"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
  const json document = json::parse(run.output);
  EXPECT_EQ(document["schema"], "ptdp.partition/1");
  EXPECT_EQ(document["layers_per_stage"], json({2, 3, 1}));
  EXPECT_EQ(document["num_microbatches"], 12);
  EXPECT_EQ(document["stages"][2]["holds"], "block, out");
  EXPECT_EQ(document["ranks"][1]["memory_GiB"], 9.0);
  EXPECT_EQ(document["slowest_rank"], 1);
  EXPECT_EQ(document["slowest_s"], 6.0);
  EXPECT_EQ(document["even"]["layers_per_stage"], json({2, 2, 2}));
  EXPECT_EQ(document["even"]["slowest_s"], 7.0);
  EXPECT_NEAR(document["slowest_gain_pct"].get<double>(), 100.0 / 6.0, 1e-9);
}

TEST(PartitionCommand, WritesALinePerStageAsCsv) {
  const ProgramRun run =
      run_list(kList, {"--pp", "2", "--vpp", "2", "--placement", "v", "--format", "csv"});
  ASSERT_TRUE(succeeds(run));
  EXPECT_THAT(run.output, StartsWith("stage,rank,num_layers,time_s,rank_time_s,rank_memory_GiB\n"));
  EXPECT_THAT(run.output, HasSubstr("\n2,1,"));
  EXPECT_THAT(run.output, HasSubstr("\n3,0,"));
}

TEST(PartitionCommand, KeepsToTheMemory) {
  const ProgramRun fitting = run_list(kList, {"--pp", "3", "--memory", "7"});
  EXPECT_TRUE(succeeds(fitting));
  EXPECT_THAT(fitting.output, HasSubstr("layers per stage: 2,2,2\n"));
  const ProgramRun tight = run_list(kList, {"--pp", "3", "--memory", "6.5"});
  EXPECT_TRUE(ends_with(tight, kNothingFits));
  EXPECT_THAT(tight.errors, HasSubstr("0.50 GiB more than "));
}

TEST(PartitionCommand, CutsAModelWhoseLayersDoNotDivide) {
  const ProgramRun run =
      run_model({"--pp", "7", "--tp", "8", "--recompute", "full", "--format", "json"});
  ASSERT_TRUE(succeeds(run));
  const json document = json::parse(run.output);
  int layers = 0;
  for (const json& number : document["layers_per_stage"]) {
    layers += number.get<int>();
  }
  EXPECT_EQ(layers, 96);
  EXPECT_GE(document["slowest_gain_pct"].get<double>(), 0.0);
  EXPECT_LE(document["ranks"][0]["memory_GiB"].get<double>(), 80.0);
}

TEST(PartitionCommand, EndsWithStatus3WhereNothingFits) {
  for (const ProgramRun& run :
       {run_list(kList, {"--pp", "9"}), run_model({"--pp", "99", "--tp", "8"}),
        run_model({"--pp", "8", "--tp", "7"}), run_model({"--pp", "8", "--memory", "10"}),
        run_model(
            {"--pp", "8", "--tp", "64", "--seq-length", "2050", "--sequence-parallel", "on"})}) {
    EXPECT_TRUE(ends_with(run, kNothingFits));
    EXPECT_THAT(run.errors, StartsWith("ptdp-plan: nothing fits"));
    EXPECT_EQ(run.output, "");
  }
}

// Without --tp every layer is on one GPU, which the answer says.
TEST(PartitionCommand, NamesWhatLayersAreCostedFor) {
  const ProgramRun refused = run_model({"--pp", "8"});
  EXPECT_TRUE(ends_with(refused, kNothingFits));
  EXPECT_THAT(refused.errors, HasSubstr(", costed with tp=1 pp=8 dp=1 b=1 1f1b recompute=none"));
  const std::vector<std::string> flags = {"--pp", "8", "--tp", "8", "--recompute", "full"};
  EXPECT_THAT(run_model(flags).output,
              HasSubstr("\ncosted with tp=8 pp=8 dp=1 b=1 1f1b recompute=full\n"));
  std::vector<std::string> as_json = flags;
  as_json.insert(as_json.end(), {"--format", "json"});
  EXPECT_EQ(json::parse(run_model(as_json).output)["config"]["tp"], 8);
  EXPECT_FALSE(
      json::parse(run_list(kList, {"--pp", "2", "--format", "json"}).output).contains("config"));
}

TEST(PartitionCommand, RefusesFlagsThatDoNotGoTogether) {
  EXPECT_TRUE(is_refused(run_list(kList, {}), {"--pp"}));
  EXPECT_TRUE(is_refused(run_plan({"partition", "--pp", "2"}), {"--model"}));
  EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--model", "1T"}), {"--model"}));
  EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--tp", "2"}), {"--tp", "list"}));
  EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--gpus", "8"}), {"--gpus", "partition"}));
  EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--placement", "v", "--vpp", "3"}),
                         {"--vpp", "expected 2"}));
  EXPECT_TRUE(is_refused(run_plan({"partition", "a.json", "b.json", "--pp", "2"}), {"b.json"}));
  EXPECT_TRUE(
      is_refused(run_plan({"partition", "/nowhere/l.json", "--pp", "2"}), {"/nowhere/l.json"}));
  EXPECT_TRUE(is_refused(run_model({"--pp", "2", "--microbatches", "1000000", "--dp", "1000"}),
                         {"--microbatches"}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                                   "--microbatches", "8"}),
                         {"--microbatches", "partition"}));
}

TEST(PartitionCommand, RefusesValuesThatAreNone) {
  for (const char* flag : {"--pp", "--vpp", "--microbatches"}) {
    for (const char* value : {"0", "-1", "1.5", "x", "99999999999"}) {
      std::vector<std::string> flags = {flag, value};
      if (std::string(flag) != "--pp") {
        flags.insert(flags.end(), {"--pp", "2"});
      }
      EXPECT_TRUE(is_refused(run_list(kList, flags), {flag})) << flag << ' ' << value;
    }
  }
  for (const char* value : {"-1", "nan", "inf", "1e9", ""}) {
    EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--memory", value}), {"--memory"}));
  }
  EXPECT_TRUE(is_refused(run_list(kList, {"--pp", "2", "--format", "xml"}), {"--format", "csv"}));
}

TEST(PartitionCommand, RefusesBadListsNamingTheFile) {
  for (const std::string& text :
       {std::string(), std::string("[]"), replaced(kList, "0.5", "-0.5"),
        replaced(kList, "0.5", "NaN"), replaced(kList, "0.5", "1e999"),
        replaced(kList, "count", "cuont"), replaced(kList, "\"count\": 6", "\"count\": 1e6")}) {
    EXPECT_TRUE(is_refused(run_list(text, {"--pp", "2"}), {"layers.json"})) << text;
  }
}

TEST(PartitionCommand, RefusesWhatItCannotSearchInBoundedTime) {
  if (kIsSanitized) {
    GTEST_SKIP() << "half a minute for a bound of optimised code";
  }
  std::string layers;
  for (int i = 0; i < 200; ++i) {
    layers += (i == 0 ? "" : ",") + std::string(R"({"name": "a", "time_s": )") +
              std::to_string(1000 + i * i * 7919 % 997) + "}";
  }
  const std::string text =
      R"({"schema": "ptdp.layers/1", "name": "unlike", "layers": [)" + layers + "]}";
  const ProgramRun run = run_list(text, {"--pp", "16", "--vpp", "6"});
  EXPECT_TRUE(run.status == kDone || is_refused(run, {"--vpp"}));
  EXPECT_LT(run.cpu_seconds, kRunawaySeconds);
}

}  // namespace
}  // namespace ptdp
