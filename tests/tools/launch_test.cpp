// Tests ptdp-run in the environments of launchers that are not installed here.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

std::map<std::string, std::string> torchrun(const std::string& rank, const std::string& size) {
  return {{"RANK", rank},
          {"WORLD_SIZE", size},
          {"LOCAL_RANK", rank},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

TEST(RunUnderTorchrun, RunsThreadsInASingleProcess) {
  const ProgramRun run = run_run({"/nowhere.json"}, {.environment = torchrun("0", "1")});
  EXPECT_TRUE(is_refused(run, {"/nowhere.json"}));
}

// The rest of an allocation's tasks is not there to wait for.
TEST(RunInASlurmBatchScript, RunsAlone) {
  const ProgramRun run = run_run(
      {"/nowhere.json"},
      {.environment = {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}});
  EXPECT_TRUE(is_refused(run, {"/nowhere.json"}));
}

TEST(RunUnderALauncher, RefusesThreadsInEveryProcess) {
  const ProgramRun run = run_run({"plan.json", "--transport", "threads"},
                                 {.environment = {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}});
  EXPECT_TRUE(is_refused(run, {"--transport threads", "mpiexec started 2"}));
}

// As on Alibaba PAI-DLC.
TEST(RunUnderALauncher, RefusesRanksOfNodes) {
  std::map<std::string, std::string> node = torchrun("0", "2");
  node.erase("LOCAL_RANK");
  node["NPROC_PER_NODE"] = "8";
  const ProgramRun run = run_run({"plan.json"}, {.environment = node});
  EXPECT_TRUE(is_refused(run, {"NPROC_PER_NODE is 8 without a LOCAL_RANK", "torchrun"}));
}

TEST(RunUnderTorchrun, NamesAPortThatMakesNoSense) {
  std::map<std::string, std::string> environment = torchrun("0", "2");
  environment["MASTER_PORT"] = "http";
  const ProgramRun run = run_run({"plan.json"}, {.environment = environment});
  EXPECT_TRUE(is_refused(run, {"MASTER_PORT: expected a port, got \"http\""}));
}

TEST(RunUnderALauncher, NamesAVariableThatMakesNoSense) {
  const ProgramRun run =
      run_run({"plan.json"}, {.environment = {{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}});
  EXPECT_TRUE(is_refused(run, {"PMI_RANK", "\"x\""}));
}

}  // namespace
}  // namespace ptdp
