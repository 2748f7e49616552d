// Tests of exports to Kubernetes.
#include <gmock/gmock.h>

#include <sstream>

#include "planner/export/exporter.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Plan pods_plan(std::int64_t gpus, int dp) {
  return make_plan({selene_2021("7.5B", 512), {.tp = 4, .dp = dp, .recompute = Recompute::kFull}},
                   gpus, 0.0, Calibration{});
}

std::string manifest_of(const Plan& plan) {
  return kubernetes_export(plan).files[0].content;
}

/// Returns the block of text of the ConfigMap, as a reader of YAML gives it: what follows the key
/// up to the next document, without four blanks at the start of each line.
std::string config_map_text(const std::string& yaml) {
  const std::string key = "  plan.json: |\n";
  std::istringstream lines(yaml.substr(yaml.find(key) + key.size()));
  std::string text;
  for (std::string line; std::getline(lines, line) && line != "---";) {
    EXPECT_EQ(line.substr(0, 4), "    ");
    text += line.substr(4) + "\n";
  }
  return text;
}

TEST(Kubernetes, CarriesThePlanInAConfigMap) {
  const Plan plan = pods_plan(64, 16);
  EXPECT_EQ(config_map_text(manifest_of(plan)), to_json(plan));
}

TEST(Kubernetes, HasOnePodANode) {
  const std::string yaml = manifest_of(pods_plan(64, 16));
  EXPECT_THAT(yaml, HasSubstr("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n"
                              "  name: ptdp-7-5b-job\n"));
  EXPECT_THAT(yaml, HasSubstr("    Master:\n      replicas: 1\n"));
  EXPECT_THAT(yaml, HasSubstr("    Worker:\n      replicas: 7\n"));
  EXPECT_THAT(yaml, HasSubstr("limits: {nvidia.com/gpu: 8}\n"));
}

TEST(Kubernetes, NumbersTheRanksOfAPod) {
  // The operator counts pods only: RANK 3 of pods of eight starts ranks 24 to 31.
  const std::string yaml = manifest_of(pods_plan(64, 16));
  EXPECT_THAT(yaml, HasSubstr("node=$RANK\n"));
  EXPECT_THAT(yaml, HasSubstr("RANK=$((node * 8 + local)) WORLD_SIZE=64 LOCAL_RANK=$local"));
}

TEST(Kubernetes, HasNoWorkersOnOneNode) {
  EXPECT_THAT(manifest_of(pods_plan(4, 1)), Not(HasSubstr("Worker")));
}

TEST(Kubernetes, TakesCoresOfAHost) {
  const Plan plan = make_plan({shipped_scenario("gpt-tiny", "host", "ptdp-cpu", 16), {.dp = 2}}, 2,
                              0.0, Calibration{});
  EXPECT_THAT(manifest_of(plan), HasSubstr("limits: {cpu: 2}\n"));
}

TEST(Kubernetes, ShortensNames) {
  Plan plan = pods_plan(4, 1);
  plan.scenario.job.model_name = "Some_Model.v2-" + std::string(100, 'x');
  EXPECT_THAT(manifest_of(plan), HasSubstr("  name: ptdp-some-model-v2-xxxxxxxxxxxxxxxxxx-job\n"));
}

TEST(Kubernetes, RefusesWhatAConfigMapCannotHold) {
  Plan plan = pods_plan(4, 1);
  EXPECT_THAT(kubernetes_refusals(plan), IsEmpty());
  plan.scenario.job.model_name = std::string(std::size_t{1} << 20U, 'x');
  ASSERT_EQ(kubernetes_refusals(plan).size(), 1U);
  EXPECT_EQ(kubernetes_refusals(plan)[0].field, "the plan's file");
}

}  // namespace
}  // namespace ptdp
