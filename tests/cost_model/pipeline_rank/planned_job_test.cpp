// Tests of a planned job's microbatches and groups.
#include "cost_model/pipeline_rank/planned_job.h"

#include <gtest/gtest.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

const ParallelConfig kConfig{
    .tp = 8, .pp = 4, .dp = 3, .micro_batch_size = 2, .sequence_parallel = true};

// 96 sequences over three replicas, two at a time.
TEST(PlannedJob, CountsMicrobatches) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 96);
  EXPECT_EQ(PlannedJob(scenario, kConfig).microbatches(), 16);
}

// Nodes of eight GPUs: a replica is four of them.
TEST(PlannedJob, PlacesItsGroups) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 96);
  const PlannedJob job(scenario, kConfig);
  EXPECT_TRUE(job.groups().tensor.is_within_node());
  EXPECT_EQ(job.groups().pipeline.nodes, 4);
  EXPECT_EQ(job.groups().data.size, 3);
  EXPECT_EQ(&job.groups(), &job.groups()) << "they are placed once";
}

TEST(PlannedJob, HasTheCostsThatAreKnownAndElseItsOwn) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 96);
  const MicrobatchCosts known{.embedding_forward = Seconds(7.0)};
  EXPECT_EQ(&PlannedJob(scenario, kConfig, &known).costs(), &known);
  const PlannedJob job(scenario, kConfig);
  EXPECT_EQ(job.costs().embedding.total(), microbatch_costs(scenario, kConfig).embedding.total());
  EXPECT_EQ(&job.costs(), &job.costs()) << "they are worked out once";
}

}  // namespace
}  // namespace ptdp
