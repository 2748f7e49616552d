// ptdp-run under launchers that are not here: their environments alone.
#include <gmock/gmock.h>

#include "tests/tools/commands.h"

namespace ptdp {
namespace {

std::map<std::string, std::string> torchrun(const std::string& rank, const std::string& size) {
  return {{"RANK", rank},
          {"WORLD_SIZE", size},
          {"LOCAL_RANK", rank},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

TEST(RunUnderTorchrun, SaysWhatIsSupportedOnRankZeroAlone) {
  const ProgramRun first = run_run({"plan.json"}, {.environment = torchrun("0", "4")});
  EXPECT_TRUE(is_refused(first, {"torchrun started 4 processes", "mpirun"}));
  const ProgramRun other = run_run({"plan.json"}, {.environment = torchrun("3", "4")});
  EXPECT_TRUE(ends_with(other, kBadInput));
  EXPECT_EQ(other.errors, "");
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

TEST(RunUnderALauncher, NamesAVariableThatMakesNoSense) {
  const ProgramRun run =
      run_run({"plan.json"}, {.environment = {{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}});
  EXPECT_TRUE(is_refused(run, {"PMI_RANK", "\"x\""}));
}

}  // namespace
}  // namespace ptdp
