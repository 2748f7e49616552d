// Tests of sizes at which counts overflow and searches run away: F12 to F14 of the list of bad
// inputs.
#include <gtest/gtest.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Expects an answer in numbers by a command that does not run away.
testing::AssertionResult answers_in_bounded_time(const ProgramRun& run) {
  if (run.cpu_seconds > kRunawaySeconds) {
    return testing::AssertionFailure() << run.command << " took " << run.cpu_seconds << " s";
  }
  if (const testing::AssertionResult numbers = has_only_numbers(run.output + run.errors);
      !numbers) {
    return numbers;
  }
  return answers(run);
}

TEST(NumberOfGpus, OfOneGivesAPlanWithoutParallelism) {
  const ProgramRun run = run_plan(
      {"--gpus", "1", "--model", "gpt-tiny", "--cluster", "selene-a100", "--format", "json"});
  ASSERT_TRUE(succeeds(run));
  const json result = json::parse(run.output);
  for (const json& plan : result["plans"]) {
    EXPECT_EQ(plan["gpus_used"], 1);
    for (const char* degree : {"tp", "pp", "dp"}) {
      EXPECT_EQ(plan["config"][degree], 1) << degree;
    }
  }
}

TEST(NumberOfGpus, OfAnySizeIsAnsweredInBoundedTime) {
  for (const char* gpus : {"1", "2", "7", "127", "1009", "3079", "65536", "999983", "1000000",
                           "1048576", "10000000", "10000019", "99999989", "100000000"}) {
    for (const char* model : {"gpt-tiny", "1T"}) {
      EXPECT_TRUE(answers_in_bounded_time(run_plan({"--gpus", gpus, "--model", model})))
          << gpus << " " << model;
    }
  }
}

TEST(NumberOfGpus, IsNeverExceededByAPlan) {
  for (const int gpus : {1, 7, 127, 1009, 3079, 1'000'000, 1'048'576}) {
    const ProgramRun run =
        run_plan({"--gpus", std::to_string(gpus), "--model", "gpt-tiny", "--cluster", "selene-a100",
                  "--batch-per-gpu", "2", "--format", "json"});
    ASSERT_TRUE(answers(run)) << gpus;
    ASSERT_TRUE(is_finite_json(run.output)) << gpus;
    const json result = json::parse(run.output);
    EXPECT_EQ(result["inputs"]["global_batch_size"], 2 * gpus);
    for (const json& plan : result["plans"]) {
      EXPECT_LE(plan["gpus_used"], gpus);
    }
  }
}

// The FLOPs of an iteration exceed 2^64 by far: 72 B l h² s (1 + s/6h + V/12lh), SC21 eq. 3 without
// recomputation.
TEST(Flops, BeyondSixtyFourBitsAreExact) {
  const ProgramRun run = run_plan(
      {"--gpus", "1048576", "--model", "1T", "--global-batch-size", "1048576", "--format", "json"});
  ASSERT_TRUE(ends_with(run, kDone));
  const double batch = 1048576;
  const double l = 128;
  const double h = 25600;
  const double s = 2048;
  const double vocab = 51200;
  const double flops =
      72.0 * batch * l * h * h * s * (1.0 + s / (6.0 * h) + vocab / (12.0 * l * h));
  const json plan = json::parse(run.output)["plans"][0];
  EXPECT_NEAR(plan["predicted"]["model_flops"].get<double>() / flops, 1.0, 1e-9);
}

// 2·p·v·m = 2·4096·4·2^19 = 2^34 actions: they are counted, never made.
TEST(Schedule, OfMoreActionsThanThirtyTwoBitsHasTheRightNumberOfMicrobatches) {
  ordered_json model = ordered_json::parse(tiny_model());
  model["num_layers"] = 16384;
  const TemporaryDirectory directory;
  const auto file = directory.path() / "plan.json";
  const ProgramRun run = run_plan_with(
      {.model = model.dump(),
       .gpus = "512",
       .flags = {"--tp", "1", "--pp", "512", "--dp", "1", "--vpp", "1", "--micro-batch-size", "1",
                 "--global-batch-size", "8388608", "-o", file.string()}});
  ASSERT_TRUE(answers_in_bounded_time(run));
  ASSERT_EQ(run.status, kDone) << run.errors;
  const json plan = json::parse(content_of(file));
  EXPECT_EQ(plan["schedule"]["num_microbatches"], 8388608);
  EXPECT_EQ(plan["schedule"]["layers_per_stage"].size(), 512U);
}

TEST(Schedule, OfMoreActionsThanThirtyTwoBitsIsReadBack) {
  ordered_json model = ordered_json::parse(tiny_model());
  model["num_layers"] = 16384;
  const TemporaryDirectory directory;
  const auto file = directory.path() / "plan.json";
  const ProgramRun made =
      run_plan_with({.model = model.dump(),
                     .gpus = "512",
                     .flags = {"--pp", "512", "--vpp", "1", "--micro-batch-size", "1",
                               "--global-batch-size", "8388608", "-o", file.string()}});
  ASSERT_EQ(made.status, kDone) << made.errors;
  const ProgramRun shown = run_plan({"show", file.string(), "--format", "json"});
  EXPECT_TRUE(succeeds(shown));
  EXPECT_TRUE(shown.output == content_of(file));
}

TEST(TensorParallelSize, BeyondTheNodeIsPlannedOrTallied) {
  EXPECT_TRUE(
      answers_in_bounded_time(run_plan({"--gpus", "32", "--model", "gpt3-175b", "--tp", "16"})));
  EXPECT_TRUE(
      answers_in_bounded_time(run_plan({"--gpus", "96", "--model", "gpt3-175b", "--tp", "96"})));
}

TEST(Batch, OfManySequencesIsAnsweredInBoundedTime) {
  // 735134400 has 1344 divisors, more than any other number below a billion; 999999937 is prime.
  for (const char* batch : {"1", "735134400", "999999937", "1000000000"}) {
    for (const char* gpus : {"1", "1000000"}) {
      EXPECT_TRUE(
          answers_in_bounded_time(run_plan({"--gpus", gpus, "--model", "gpt-tiny", "--cluster",
                                            "selene-a100", "--global-batch-size", batch})))
          << batch << " " << gpus;
    }
  }
}

TEST(SearchSpace, OfWideRangesAreAnsweredInBoundedTime) {
  for (const char* flag : {"--tp", "--pp", "--dp", "--vpp", "--micro-batch-size"}) {
    EXPECT_TRUE(answers_in_bounded_time(
        run_plan({"--gpus", "100000", "--model", "1T", flag, "1:100000000"})))
        << flag;
  }
}

TEST(SearchSpace, OfAllReplicasOfTheLargestClusterAreAnsweredInBoundedMemory) {
  if (kIsSanitized) {
    GTEST_SKIP() << "a sanitizer needs more address space than the limit set here";
  }
  const ProgramRun run =
      run_program("/bin/sh", {"-c", R"(ulimit -v 2000000; exec "$0" "$@")", plan_program().string(),
                              "--gpus", "100000000", "--model", "gpt-tiny", "--cluster",
                              "selene-a100", "--dp", "1:100000000"});
  EXPECT_TRUE(run.status == kBadInput || answers_in_bounded_time(run)) << run.errors;
}

TEST(Model, OfManyLayersAndHeadsIsAnsweredInBoundedTime) {
  ordered_json model = ordered_json::parse(tiny_model());
  model["num_layers"] = 100'000;
  model["hidden_size"] = 100'000;
  model["num_attention_heads"] = 100'000;
  // Slow builds get as much more of the search's own limit.
  const std::string limit = std::to_string(10.0 * kSlowdown);
  const ProgramRun run =
      run_plan_with({.model = model.dump(), .gpus = "1000", .flags = {"--time-limit", limit}});
  EXPECT_TRUE(answers_in_bounded_time(run));
}

/// Returns the configurations of the plans that these flags give.
std::vector<json> configs_of(const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"--format", "json", "--top", "40"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const ProgramRun run = run_plan(arguments);
  EXPECT_TRUE(succeeds(run));
  const json result = json::parse(run.output);
  std::vector<json> configs;
  for (const json& plan : result["plans"]) {
    configs.push_back(plan["config"]);
  }
  return configs;
}

// Each flag pins the key of its own name, and no other.
TEST(Pin, HoldsInEveryPlanAndLeavesTheRestFree) {
  struct Row {
    std::vector<std::string> flags;
    std::string key;
    json value;
  };
  const std::vector<std::string> dense = {"--gpus",    "16",       "--model", "gpt-tiny",
                                          "--cluster", "dgx-h100", "--stack", "megatron-core-2024"};
  const std::vector<std::string> experts = {"--gpus",       "32",        "--model",
                                            "mixtral-8x7b", "--cluster", "dgx-h100"};
  for (const auto& [scenario, rows] :
       std::vector<std::pair<std::vector<std::string>, std::vector<Row>>>{
           {dense,
            {{{"--tp", "2"}, "tp", 2},
             {{"--pp", "2"}, "pp", 2},
             {{"--dp", "4"}, "dp", 4},
             {{"--vpp", "2"}, "vpp", 2},
             {{"--micro-batch-size", "2"}, "micro_batch_size", 2},
             {{"--zero-stage", "1"}, "zero_stage", 1},
             {{"--schedule", "gpipe"}, "schedule", "gpipe"},
             {{"--recompute", "full"}, "recompute", "full"},
             {{"--sequence-parallel", "on"}, "sequence_parallel", true}}},
           {experts, {{{"--cp", "2"}, "cp", 2}, {{"--ep", "4"}, "ep", 4}}}}) {
    for (const Row& row : rows) {
      std::vector<std::string> flags = scenario;
      flags.insert(flags.end(), row.flags.begin(), row.flags.end());
      const std::vector<json> configs = configs_of(flags);
      EXPECT_FALSE(configs.empty()) << row.key;
      for (const json& config : configs) {
        EXPECT_EQ(config[row.key], row.value) << row.key << ' ' << config;
      }
    }
  }
}

// 125,000,000 sequences on each of eight GPUs are the largest batch there may be.
TEST(BatchPerGpu, IsOfAllGpusTogetherUpToTheLargestBatch) {
  const auto plan_for = [](const std::string& each) {
    return run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                     "--batch-per-gpu", each, "--format", "json", "--pp", "1", "--tp", "1"});
  };
  EXPECT_EQ(json::parse(plan_for("3").output)["inputs"]["global_batch_size"], 24);
  const ProgramRun largest = plan_for("125000000");
  EXPECT_TRUE(answers(largest));
  EXPECT_TRUE(is_refused(plan_for("125000001"),
                         {"--batch-per-gpu: 125000001 on 8 GPUs exceeds a batch of 1000000000"}));
}

TEST(Top, OfMorePlansThanThereAreShowsThemAll) {
  const ProgramRun run = run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100",
                                   "--top", "10000", "--format", "json"});
  ASSERT_TRUE(succeeds(run));
  const json result = json::parse(run.output);
  EXPECT_EQ(result["plans"].size(), result["candidates"]["feasible"]);
}

TEST(Output, OfEveryFormatIsInNumbers) {
  for (const char* model : {"gpt-tiny", "1T", "gpt3-175b"}) {
    for (const char* format : {"table", "json", "csv"}) {
      const ProgramRun run = run_plan({"--gpus", "1024", "--model", model, "--tokens", "450B",
                                       "--price", "0", "--format", format});
      EXPECT_TRUE(answers_in_bounded_time(run)) << model << " " << format;
    }
  }
}

TEST(Latency, OfNothingAnywhereGivesNumbers) {
  ordered_json cluster = selene_cluster();
  cluster["nvlink"]["hop_latency_us"] = 0;
  cluster["nic"]["hop_latency_us"] = 0;
  cluster["collective_launch_us"] = 0;
  cluster.erase("all_reduce_curves");
  const ProgramRun run =
      run_plan_with({.cluster = cluster.dump(), .gpus = "64", .flags = {"--format", "json"}});
  EXPECT_TRUE(succeeds(run));
  EXPECT_TRUE(is_finite_json(run.output));
}

}  // namespace
}  // namespace ptdp
