// Tests good input for which there is no plan: status 3, what stands in the way, and what would be
// near.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "cost_model/units.h"
#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Expects status 3, nothing on standard output, and a message that begins well and holds every
/// mention.
testing::AssertionResult fits_nowhere(const ProgramRun& run,
                                      const std::vector<std::string>& mentions) {
  if (const testing::AssertionResult result = ends_with(run, kNothingFits); !result) {
    return result;
  }
  if (!run.output.empty() || !run.errors.starts_with("ptdp-plan: nothing fits")) {
    return testing::AssertionFailure() << run.output << run.errors;
  }
  for (const std::string& mention : mentions) {
    if (run.errors.find(mention) == std::string::npos) {
      return testing::AssertionFailure() << "expected \"" << mention << "\" in:\n" << run.errors;
    }
  }
  return testing::AssertionSuccess();
}

ProgramRun run_tiny_on(const std::vector<std::string>& flags, const std::string& gpus = "8") {
  return run_plan_with({.gpus = gpus, .flags = flags});
}

/// Returns the number after `before` in the text, as text.
std::string number_after(const std::string& text, const std::string& before) {
  std::smatch found;
  return std::regex_search(text, found, std::regex(before + "([0-9]+)")) ? found[1].str() : "";
}

/// Runs a search on Selene with this much device memory, and a stack that reserves none of it.
ProgramRun run_with_memory(double bytes, const std::string& model,
                           std::vector<std::string> flags = {}) {
  ordered_json cluster = selene_cluster();
  cluster["gpu"]["memory_GiB"] = bytes / kGibi;
  ordered_json stack = megatron_stack();
  stack["reserve_fraction"] = 0.0;
  // Without runs that say what lies beyond the formulas.
  flags.insert(flags.end(), {"--format", "json", "--calibration", "none"});
  return run_plan_with({.model = source_file("profiles/models/" + model + ".json"),
                        .cluster = cluster.dump(),
                        .stack = stack.dump(),
                        .flags = flags});
}

TEST(Model, ThatFitsNowhereNamesTheSmallestShortfall) {
  ordered_json cluster = selene_cluster();
  cluster["gpu"]["memory_GiB"] = 1.0 / 1024.0;
  const ProgramRun run = run_plan_with(
      {.model = source_file("profiles/models/gpt2-1.5b.json"), .cluster = cluster.dump()});
  EXPECT_TRUE(fits_nowhere(run, {"out of memory", " comes closest, ", " GiB short"}));
  EXPECT_EQ(run.errors.find(" bytes"), std::string::npos) << run.errors;
}

TEST(Shortfall, AddedToTheMemoryIsJustEnough) {
  const double memory = 1024.0 * 1024.0;
  for (const char* model : {"gpt-tiny", "gpt2-1.5b"}) {
    const ProgramRun misses = run_with_memory(memory, model);
    ASSERT_EQ(misses.status, kNothingFits) << misses.errors;
    const double missing =
        json::parse(misses.output)["candidates"]["smallest_shortfall_bytes"].get<double>();
    const double bytes = memory + std::ceil(missing);
    EXPECT_TRUE(ends_with(run_with_memory(bytes, model), kDone)) << model;
    EXPECT_TRUE(ends_with(run_with_memory(bytes - 1.0, model), kNothingFits)) << model;
  }
}

TEST(Headroom, TakesItsFractionOfTheMemory) {
  const double memory = 256.0 * 1024.0 * 1024.0;
  ASSERT_TRUE(ends_with(run_with_memory(memory, "gpt-tiny"), kDone));
  const ProgramRun half = run_with_memory(memory, "gpt-tiny", {"--memory-headroom", "50%"});
  const ProgramRun none = run_with_memory(memory / 2.0, "gpt-tiny");
  ASSERT_TRUE(ends_with(half, kDone));
  ASSERT_TRUE(ends_with(none, kDone));
  EXPECT_EQ(json::parse(half.output)["candidates"], json::parse(none.output)["candidates"]);
}

TEST(Headroom, OfNearlyEverythingLeavesNoPlan) {
  EXPECT_TRUE(
      fits_nowhere(run_tiny_on({"--memory-headroom", "99.9%"}), {"out of memory", " GiB short"}));
}

TEST(TensorParallelSize, ThatDoesNotDivideTheHeadsNamesThoseThatDo) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--tp", "3"}), {"heads", "tp", "1, 2, 4"}));
}

TEST(PipelineParallelSize, ThatDoesNotDivideTheLayersNamesThoseThatDo) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--pp", "3"}), {"layers", "pp", "1, 2, 4"}));
}

TEST(PipelineParallelSize, BeyondTheLayersNamesThoseThatDivideThem) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--pp", "8"}), {"layers", "pp", "1, 2, 4"}));
}

TEST(VirtualStages, BeyondTheLayersNameWhatDividesThem) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--pp", "4", "--vpp", "2"}), {"layers", "vpp", "1, 2, 4"}));
}

TEST(Interleaving, OfFewerMicrobatchesThanStagesIsNamed) {
  const std::string model = replaced(tiny_model(), "\"num_layers\": 4", "\"num_layers\": 8");
  const ProgramRun run =
      run_plan_with({.model = model,
                     .flags = {"--tp", "1", "--pp", "4", "--dp", "1", "--vpp", "2",
                               "--micro-batch-size", "1", "--global-batch-size", "6"}});
  EXPECT_TRUE(fits_nowhere(run, {"microbatches", "pp"}));
}

TEST(BatchSize, ThatPinnedReplicasDoNotDivideNamesTheNearestOne) {
  const ProgramRun run = run_tiny_on({"--dp", "7"}, "7");
  EXPECT_TRUE(fits_nowhere(run, {"batch"}));
  // 16 sequences on 7 replicas: 14 is nearer than 21.
  EXPECT_EQ(number_after(run.errors, "would do is "), "14") << run.errors;
  EXPECT_TRUE(ends_with(run_tiny_on({"--dp", "7", "--global-batch-size", "14"}, "7"), kDone));
}

TEST(Replicas, BeyondTheBatchAreNamed) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--dp", "32"}, "32"), {"replicas", "batch", "16"}));
}

TEST(SearchSpace, ThatMatchNothingFitNowhere) {
  for (const std::vector<std::string>& space :
       std::vector<std::vector<std::string>>{{"--tp", "16"},
                                             {"--tp", "4", "--pp", "4"},
                                             {"--dp", "9"},
                                             {"--pp", "5:7"},
                                             {"--micro-batch-size", "100:200"},
                                             {"--schedule", "1f1b", "--vpp", "2"}}) {
    EXPECT_TRUE(fits_nowhere(run_tiny_on(space), {})) << testing::PrintToString(space);
  }
}

// "Nothing fits" names what stands in the way, here the pins themselves.
TEST(SearchSpace, ThatMatchNothingAreNamed) {
  struct Row {
    std::vector<std::string> space;
    const char* named;
  };
  for (const Row& row :
       {Row{{"--tp", "16"}, "tp"}, Row{{"--tp", "4", "--pp", "4"}, "pp"}, Row{{"--dp", "9"}, "dp"},
        Row{{"--schedule", "1f1b", "--vpp", "2"}, "vpp"}}) {
    const std::string errors = run_tiny_on(row.space).errors;
    const std::string after_first_line = errors.substr(std::min(errors.find('\n'), errors.size()));
    EXPECT_NE(after_first_line.find(row.named), std::string::npos) << errors;
  }
}

TEST(Stack, ThatCannotRunWhatIsAskedSaysSo) {
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--zero-stage", "1"}), {"stack"}));
}

TEST(Stack, WithoutPipelinesIsPlannedWithOneStage) {
  ordered_json stack = megatron_stack();
  stack["can_run"]["schedules"] = ordered_json::array();
  const ProgramRun run = run_plan_with({.stack = stack.dump(), .flags = {"--format", "json"}});
  ASSERT_EQ(run.status, 0) << run.errors;
  const json plans = json::parse(run.output)["plans"];
  for (const json& plan : plans) {
    EXPECT_EQ(plan["config"]["pp"], 1);
  }
}

TEST(Stack, ThatOnlyShardsWeightsIsPlannedFor) {
  ordered_json stack = megatron_stack();
  stack["can_run"]["zero_stages"] = {3};
  const ProgramRun run = run_plan_with({.stack = stack.dump()});
  ASSERT_TRUE(succeeds(run));
  EXPECT_NE(run.output.find(" zero=3"), std::string::npos);
}

TEST(NothingFits, TalliesEveryCandidate) {
  const ProgramRun run =
      run_plan({"--gpus", "127", "--model", "1T", "--cluster", "selene-a100", "--format", "json"});
  ASSERT_TRUE(ends_with(run, kNothingFits));
  ASSERT_TRUE(is_finite_json(run.output));
  const json candidates = json::parse(run.output)["candidates"];
  std::int64_t violations = 0;
  for (const auto& item : candidates["violations"].items()) {
    violations += item.value().get<std::int64_t>();
  }
  EXPECT_EQ(candidates["feasible"], 0);
  EXPECT_EQ(candidates["enumerated"], violations);
}

TEST(NothingFits, LeavesTheOutputFileAsItWas) {
  const TemporaryDirectory directory;
  const auto old = directory.file("old.json", "old");
  EXPECT_TRUE(fits_nowhere(run_tiny_on({"--tp", "3", "-o", old.string()}), {}));
  EXPECT_TRUE(
      fits_nowhere(run_tiny_on({"--tp", "3", "-o", (directory.path() / "new.json").string()}), {}));
  EXPECT_EQ(entries_of(directory.path()), std::vector<std::string>{"old.json"});
  EXPECT_EQ(content_of(old), "old");
}

TEST(Explain, OfWhatCannotRunNamesTheConstraintAndWhatCan) {
  const ProgramRun run = run_tiny_on({"--explain", "tp=3"});
  EXPECT_TRUE(ends_with(run, kNothingFits));
  EXPECT_EQ(run.errors, "");
  EXPECT_NE(run.output.find("heads"), std::string::npos) << run.output;
  EXPECT_NE(run.output.find("1, 2, 4"), std::string::npos) << run.output;
}

TEST(Explain, OfWhatMatchesNothingSaysSo) {
  for (const char* config : {"tp=16", "dp=9", "tp=100000000", "tp=8,pp=8", "vpp=2,schedule=1f1b"}) {
    EXPECT_TRUE(ends_with(run_tiny_on({"--explain", config}), kNothingFits)) << config;
  }
}

TEST(Explain, EndsAsWhatIsAskedForCanRun) {
  // Nothing else that the flags allow can run: the answer is what X would do.
  const ProgramRun alone = run_tiny_on({"--tp", "3", "--explain", "tp=2"});
  EXPECT_TRUE(ends_with(alone, kDone));
  EXPECT_NE(alone.output.find("Without it, nothing"), std::string::npos) << alone.output;
  for (const char* format : {"table", "json"}) {
    EXPECT_TRUE(ends_with(run_tiny_on({"--explain", "tp=2", "--format", format}), kDone)) << format;
    const ProgramRun run = run_tiny_on({"--explain", "tp=3", "--format", format});
    EXPECT_TRUE(ends_with(run, kNothingFits)) << format;
    EXPECT_FALSE(run.output.empty()) << format;
  }
}

// The answer is a table of what is missing, and the status that of an answer without a plan.
TEST(CompareStrategies, EndsAsAnyOfThemCanRun) {
  const auto compare = [](const char* gpus, const char* model, const char* format) {
    return run_plan({"--gpus", gpus, "--model", model, "--compare-strategies", "--format", format});
  };
  for (const char* format : {"table", "json", "csv"}) {
    EXPECT_TRUE(ends_with(compare("8", "gpt-tiny", format), kDone)) << format;
    const ProgramRun run = compare("1", "1T", format);
    EXPECT_TRUE(ends_with(run, kNothingFits)) << format;
    EXPECT_EQ(run.errors, "ptdp-plan: nothing fits: none of the strategies can run\n");
    EXPECT_NE(run.output.find("out of memory"), std::string::npos) << run.output;
  }
}

// GPT's learned positions are what torchtitan does not have; nothing is short of memory.
TEST(NothingFits, SaysWhatTheFrameworkOfExportableDoesNotRun) {
  EXPECT_TRUE(fits_nowhere(
      run_plan({"--gpus", "3072", "--model", "1T", "--exportable", "torchtitan"}),
      {"not run by the framework of --exportable: ",
       "\n  without --exportable the best is tp=8 pp=64 dp=6 b=1 1f1b recompute=full; --to "
       "torchtitan: the plan has ",
       "; position_embedding learned: expected rope; "}));
}

}  // namespace
}  // namespace ptdp
