// Tests of ptdp-profile, and of plans made with what it writes.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "runtime/profiling/processor.h"
#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;

/// Runs ptdp-profile. Sanitized and beside other tests it measures for nearly a minute.
ProgramRun run_profile(const std::vector<std::string>& arguments) {
  return run_program(PTDP_PROFILE_PROGRAM, arguments, {.deadline = std::chrono::seconds(110)});
}

TEST(Profile, AnswersHelpAndVersion) {
  const ProgramRun help = run_profile({"--help"});
  EXPECT_TRUE(succeeds(help));
  for (const char* flag : {"--output", "--types", "--quick", "--ranks", "--format"}) {
    EXPECT_THAT(help.output, testing::HasSubstr(flag));
  }
  EXPECT_THAT(run_profile({"--version"}).output, testing::StartsWith("ptdp-profile "));
}

TEST(Profile, RefusesBadFlagsBeforeItMeasures) {
  EXPECT_TRUE(is_refused(run_profile({}), {"--output"}));
  EXPECT_TRUE(is_refused(run_profile({"host.json"}), {"host.json"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--types", "f31"}), {"--types", "f31"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--ranks", "1"}), {"--ranks"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--ranks", "3"}),
                         {"--ranks", "a power of two from 2 to 1024", "3"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--cores", "100000"}),
                         {"--cores", std::to_string(available_cores()), "100000"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--quick", "--seconds", "3"}), {"--quick"}));
  EXPECT_TRUE(ends_with(run_profile({"-o", "/no/such/place/x.json"}), kOutputFailed));
}

TEST(Profile, RefusesToWriteOverTheClusterOfLinks) {
  const TemporaryDirectory directory;
  const std::string text = selene_cluster().dump();
  const std::string cluster = directory.file("cluster.json", text).string();
  EXPECT_TRUE(is_refused(run_profile({"-o", cluster, "--device", "cuda", "--links", cluster}),
                         {"--output: expected another file than --links"}));
  EXPECT_EQ(content_of(cluster), text);
}

TEST(Profile, RefusesFlagsOfAnotherDevice) {
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--device", "tpu"}), {"--device", "tpu"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--gpu", "0"}), {"--gpu", "--device cpu"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--links", "hgx-h200"}), {"--links"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--device", "cuda", "--ranks", "2"}),
                         {"--ranks", "--device cuda"}));
  EXPECT_TRUE(is_refused(run_profile({"-o", "x.json", "--device", "cuda", "--cores", "1"}),
                         {"--cores", "--device cuda"}));
}

TEST(Profile, WritesAClusterThatPlansAndRunsAreMadeWith) {
  const TemporaryDirectory directory;
  const std::string file = (directory.path() / "mine.json").string();
  const int cores = std::min(available_cores(), 2);
  const ProgramRun run =
      run_profile({"-o", file, "--seconds", "0.1", "--types", "f32,f64", "--ranks", "2", "--cores",
                   std::to_string(cores), "--name", "mine"});
  ASSERT_TRUE(ends_with(run, kDone));
  EXPECT_THAT(run.output, testing::HasSubstr("products"));
  const json cluster = json::parse(content_of(file));
  EXPECT_EQ(cluster.at("schema"), "ptdp.cluster/1");
  EXPECT_EQ(cluster.at("cores_per_node"), cores);
  EXPECT_EQ(cluster.contains("busy_cores"), cores == 2);
  std::set<std::string> precisions;
  for (const json& measured : cluster.at("gpu").at("measured_operations")) {
    precisions.insert(measured.at("precision"));
  }
  EXPECT_THAT(precisions, testing::ElementsAre("fp32", "fp64"));

  const std::string plan = (directory.path() / "plan.json").string();
  for (const char* gpus : {"1", "4"}) {  // more ranks than cores, too
    ASSERT_TRUE(succeeds(run_plan(
        {"--cluster", file, "--model", "gpt-tiny", "--gpus", gpus, "--dp", gpus, "-o", plan})));
    const json terms = json::parse(content_of(plan)).at("predicted").at("breakdown_s");
    EXPECT_EQ(terms.contains("core_sharing"), std::string(gpus) == "4");
  }
  EXPECT_TRUE(succeeds(run_plan({"show", plan})));
}

TEST(Profile, PrintsTheClusterItself) {
  const ProgramRun run = run_profile({"--seconds", "0.1", "--types", "f32", "--ranks", "2",
                                      "--cores", "1", "--format", "json", "--quiet"});
  ASSERT_TRUE(ends_with(run, kDone));
  EXPECT_EQ(json::parse(run.output).at("name"), "host");
}

}  // namespace
}  // namespace ptdp
