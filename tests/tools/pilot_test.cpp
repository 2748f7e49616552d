// Tests of `ptdp-plan pilot` and of `ptdp-calibrate --pilot`, which reads the logs of its runs.
#include <gmock/gmock.h>

#include <array>
#include <iomanip>
#include <sstream>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json document_of(const fs::path& file) {
  return json::parse(content_of(file));
}

/// Returns a log of Megatron-LM whose iterations of `batch` sequences take `ms`.
std::string megatron_log(double ms, std::int64_t batch) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  for (int i = 1; i <= 15; ++i) {
    text << " iteration " << i << "/ 15 | consumed samples: " << i * batch
         << " | elapsed time per iteration (ms): " << ms
         << " | learning rate: 1.0E-04 | global batch size: " << batch
         << " | lm loss: 7.0E+00 | loss scale: 1.0 | number of skipped iterations:   0 |\n";
  }
  return text.str();
}

TEST(Pilot, WritesRunsAndLearnsFromTheirLogs) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments = {"pilot"};
  const std::array<std::vector<std::string>, 3> pins = {
      {{"--tp", "2", "--pp", "1"}, {"--tp", "4", "--pp", "1"}, {"--tp", "1", "--pp", "2"}}};
  for (const std::vector<std::string>& pin : pins) {
    const fs::path plan = directory.path() / ("p" + std::to_string(arguments.size()) + ".json");
    std::vector<std::string> search = {"--gpus",    "16",       "--model", "7.5B",
                                       "--cluster", "dgx-h100", "--stack", "megatron-core-2024",
                                       "--vpp",     "1",        "-o",      plan.string()};
    search.insert(search.end(), pin.begin(), pin.end());
    ASSERT_TRUE(succeeds(run_plan(search)));
    arguments.push_back(plan.string());
  }
  const fs::path pilot = directory.path() / "pilot";
  arguments.insert(arguments.end(),
                   {"--budget", "100gpu-hours", "--to", "megatron", "-o", pilot.string()});
  const ProgramRun written = run_plan(arguments);
  ASSERT_TRUE(succeeds(written)) << written.errors;
  const json document = document_of(pilot / "pilot.json");
  ASSERT_GE(document["runs"].size(), 2U);
  EXPECT_THAT(content_of(pilot / "probe.py"), HasSubstr("WORK = r'''{"));
  EXPECT_TRUE(fs::exists(pilot / "run-1" / "README.md"));

  // The plan that is predicted fastest turns out a third slower; the others as predicted.
  for (const json& run : document["runs"]) {
    const fs::path folder = pilot / run["folder"].get<std::string>();
    const json plan = document_of(folder / "plan.json");
    const double seconds = plan["predicted"]["iteration_time_s"].get<double>();
    const double factor = run["plan"] == 0 ? 1.33 : 1.0;
    (void)directory.file("pilot/" + run["folder"].get<std::string>() + "/train.log",
                         megatron_log(1000.0 * factor * seconds,
                                      plan["inputs"]["global_batch_size"].get<std::int64_t>()));
  }
  const std::string calibration = (directory.path() / "calibration").string();
  const ProgramRun learnt = run_calibrate({"--pilot", pilot.string(), "-o", calibration});
  ASSERT_TRUE(succeeds(learnt)) << learnt.errors;
  EXPECT_THAT(learnt.output, AllOf(HasSubstr("before:"), HasSubstr("now:"), HasSubstr("run-1: ")));
  EXPECT_TRUE(fs::exists(fs::path(calibration) / "dgx-h100+megatron-core-2024.json"));

  // A probe that found launches twice as long and memory at a half makes all runs longer.
  const fs::path probe = directory.file("probe.json",
                                        R"({"schema": "ptdp.probe/1", "source": "a test",
          "device": {"name": "NVIDIA H100 80GB HBM3", "memory_GiB": 79.2,
                     "num_multiprocessors": 132, "compute_capability": "9.0",
                     "power_limit_W": null, "backend": "cuda"},
          "host_time_per_kernel_us": 14.0, "memory_bandwidth_GBps": 1200.0})");
  const std::string probed = (directory.path() / "probed").string();
  const ProgramRun with =
      run_calibrate({"--pilot", pilot.string(), "--probe", probe.string(), "-o", probed});
  ASSERT_TRUE(succeeds(with)) << with.errors;
  EXPECT_THAT(with.output, AllOf(HasSubstr("before the probe"), HasSubstr("by " + probe.string())));
  EXPECT_TRUE(fs::exists(fs::path(probed) / "my-dgx-h100+megatron-core-2024.json"));
  const std::string cluster = (fs::path(probed) / "my-dgx-h100.json").string();
  const ProgramRun again = run_plan({"--gpus", "16", "--model", "7.5B", "--cluster", cluster,
                                     "--stack", "megatron-core-2024", "--calibration", probed});
  EXPECT_TRUE(succeeds(again)) << again.errors;
  EXPECT_TRUE(is_refused(run_calibrate({"--probe", probe.string(), "--runs", "x.csv"}),
                         {"--probe: expected --log or --pilot"}));
}

TEST(Pilot, RefusesPlansOfDifferentJobs) {
  const TemporaryDirectory directory;
  std::vector<std::string> files;
  for (const char* model : {"1.7B", "3.6B"}) {
    files.push_back((directory.path() / (std::string(model) + ".json")).string());
    ASSERT_TRUE(succeeds(run_plan({"--gpus", "8", "--model", model, "-o", files.back()})));
  }
  const std::string out = (directory.path() / "pilot").string();
  EXPECT_TRUE(
      is_refused(run_plan({"pilot", files[0], files[1], "-o", out}), {"3.6B.json", "another job"}));
  EXPECT_TRUE(is_refused(run_plan({"pilot", files[0], "-o", out}), {"2 to 12 plans, got 1"}));
  EXPECT_TRUE(
      is_refused(run_plan({"pilot", files[0], files[0], "-o", out}), {"has the configuration of"}));
  EXPECT_TRUE(is_refused(run_plan({"pilot", files[0], files[1], "-o", out, "--budget", "x"}),
                         {"--budget", "GPU-hours"}));
  EXPECT_FALSE(fs::exists(out));
}

TEST(Pilot, SaysWhyItHasNoRunAndKeepsAnotherPilot) {
  const TemporaryDirectory directory;
  std::vector<std::string> files;
  for (const char* tp : {"1", "2"}) {
    files.push_back((directory.path() / (std::string("tp") + tp + ".json")).string());
    ASSERT_TRUE(succeeds(run_plan({"--gpus", "8", "--model", "1.7B", "--cluster", "dgx-h100",
                                   "--tp", tp, "-o", files.back()})));
  }
  const std::string out = (directory.path() / "pilot").string();
  const ProgramRun run = run_plan({"pilot", files[0], files[1], "-o", out, "--budget", "0.001"});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  EXPECT_THAT(run.output,
              AllOf(HasSubstr("no run: two runs cost"), testing::Not(HasSubstr("ptdp-calibrate"))));
  EXPECT_TRUE(is_refused(run_plan({"pilot", files[0], files[1], "-o", out}),
                         {"--output", "holds a pilot"}));
}

}  // namespace
}  // namespace ptdp
