// Tests of exports to Slurm.
#include <gmock/gmock.h>

#include "planner/export/exporter.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

Plan job_plan(std::int64_t gpus, int dp, std::int64_t batch = 512) {
  return make_plan({selene_2021("7.5B", batch), {.tp = 4, .dp = dp, .recompute = Recompute::kFull}},
                   gpus, 0.0, Calibration{});
}

TEST(Slurm, StartsATaskForEachGpuInUse) {
  const Export exported = slurm_export(job_plan(72, 16));
  const std::string& job = exported.files[0].content;
  EXPECT_EQ(exported.files[0].name, "job.sbatch");
  EXPECT_THAT(job, HasSubstr("\n#SBATCH --nodes=8\n#SBATCH --ntasks-per-node=8\n"
                             "#SBATCH --gpus-per-node=8\n"));
  EXPECT_THAT(job, HasSubstr("step=(srun --nodes=8 --ntasks-per-node=8 --distribution=block "));
  EXPECT_THAT(job, HasSubstr("COMMAND=\"${COMMAND:-ptdp-run $PLAN --steps 20}\""));
  EXPECT_THAT(exported.differences, testing::Contains(HasSubstr("leaves 8 of the 72 GPUs idle")));
}

TEST(Slurm, AsksForTheGpusOfAPartOfANode) {
  EXPECT_THAT(slurm_export(job_plan(4, 1)).files[0].content,
              HasSubstr("\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n"
                        "#SBATCH --gpus-per-node=4\n"));
}

TEST(Slurm, AsksForCoresOnAHost) {
  const Plan plan = make_plan({shipped_scenario("gpt-tiny", "host", "ptdp-cpu", 16), {.dp = 2}}, 2,
                              0.0, Calibration{});
  const std::string job = slurm_export(plan).files[0].content;
  EXPECT_THAT(job, HasSubstr("#SBATCH --cpus-per-task=1\n"));
  EXPECT_THAT(job, Not(HasSubstr("gpus")));
}

TEST(Slurm, PutsThePlanBesideTheJob) {
  const Plan plan = job_plan(64, 16);
  const ExportedFile file = slurm_export(plan).files[1];
  EXPECT_EQ(file.name, "plan.json");
  EXPECT_EQ(file.content, to_json(plan));
}

TEST(Slurm, RefusesANodeThatIsNotFull) {
  const std::vector<ExportRefusal> refusals = slurm_refusals(job_plan(64, 3, 510));
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_EQ(refusals[0].field, "GPUs");
  EXPECT_EQ(refusals[0].found, "12");
}

}  // namespace
}  // namespace ptdp
