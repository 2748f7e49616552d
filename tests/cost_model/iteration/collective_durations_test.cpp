// Tests of the time that collectives add to the passes of virtual stages.
#include "cost_model/iteration/collective_durations.h"

#include <gtest/gtest.h>

#include <limits>

#include "cost_model/iteration/step_builder.h"
#include "cost_model/iteration/virtual_stage_durations.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr std::array kPasses = {&StageDurations::forward, &StageDurations::backward,
                                &StageDurations::input_gradient, &StageDurations::weight_gradient};

/// Returns the 39B scenario with kernels launched ahead, so that only compute and collectives are
/// waited for.
Scenario scenario_39b() {
  Scenario scenario = selene_2021("39B", 64);
  scenario.stack.host_time_per_kernel = Seconds(0.0);
  return scenario;
}

Scenario with_free_links(Scenario scenario) {
  ClusterSpec& cluster = scenario.cluster;
  cluster.all_reduce_curves.clear();
  cluster.reduce_scatter_curves.clear();
  cluster.all_gather_curves.clear();
  cluster.nccl.reset();
  cluster.nccl_within_node.reset();
  cluster.collective_launch = Seconds(0.0);
  for (LinkSpec* link : {&cluster.nvlink, &cluster.nic}) {
    link->bandwidth = BytesPerSecond(1e30);
    link->hop_latency = Seconds(0.0);
  }
  return scenario;
}

ParallelConfig config_of(int tp, bool sequence_parallel, Recompute recompute) {
  return {.tp = tp,
          .pp = 4,
          .micro_batch_size = 1,
          .recompute = recompute,
          .sequence_parallel = sequence_parallel};
}

std::vector<StageDurations> durations_of(const Scenario& scenario, const ParallelConfig& config) {
  return virtual_stage_durations({scenario, config});
}

// With free links only the compute of a pass is left.
TEST(VirtualStageCollectives, AreWhatFreeLinksSave) {
  for (const ParallelConfig& config :
       {config_of(8, false, Recompute::kNone), config_of(8, true, Recompute::kNone),
        config_of(4, true, Recompute::kFull), config_of(4, false, Recompute::kFull),
        config_of(2, true, Recompute::kSelective)}) {
    const Scenario scenario = scenario_39b();
    const std::vector<StageDurations> whole = durations_of(scenario, config);
    const std::vector<StageDurations> compute = durations_of(with_free_links(scenario), config);
    const std::vector<StageDurations> collectives = virtual_stage_collectives({scenario, config});
    ASSERT_EQ(collectives.size(), whole.size());
    for (std::size_t stage = 0; stage < whole.size(); ++stage) {
      for (const auto pass : kPasses) {
        EXPECT_NEAR((collectives[stage].*pass).value(),
                    (whole[stage].*pass - compute[stage].*pass).value(),
                    1e-9 * whole[stage].backward.value())
            << to_string(config) << ", stage " << stage;
      }
    }
    EXPECT_GT(collectives[1].forward, Seconds(0.0));
  }
}

// All keys are gathered before attention, of which nothing is hidden.
TEST(VirtualStageCollectives, AreWhatFreeLinksSaveOfSharedSequences) {
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    Scenario scenario = scenario_39b();
    scenario.stack.context_parallel_kind = ContextParallel::kAllGather;
    ParallelConfig config = config_of(1, false, recompute);
    config.cp = 4;
    const std::vector<StageDurations> whole = durations_of(scenario, config);
    const std::vector<StageDurations> compute = durations_of(with_free_links(scenario), config);
    const std::vector<StageDurations> collectives = virtual_stage_collectives({scenario, config});
    for (std::size_t stage = 0; stage < whole.size(); ++stage) {
      for (const auto pass : kPasses) {
        EXPECT_NEAR((collectives[stage].*pass).value(),
                    (whole[stage].*pass - compute[stage].*pass).value(),
                    1e-9 * whole[stage].backward.value())
            << to_string(config) << ", stage " << stage;
      }
      EXPECT_GT(collectives[stage].forward, Seconds(0.0));
    }
  }
}

// With overlap, free links would save more than what is exposed, so nothing overlaps in this test.
TEST(VirtualStageCollectives, AreWhatFreeLinksSaveOfShardedUnits) {
  Scenario scenario = scenario_39b();
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  scenario.stack.gradient_staging_traffic = 0.0;
  ParallelConfig config = config_of(2, true, Recompute::kFull);
  config.pp = 1;
  config.dp = 8;
  for (const int zero : {2, 3}) {
    config.zero_stage = zero;
    const auto passes_of = [&](const Scenario& of) {
      return step_times({of, config}).stages.front();
    };
    const StageDurations whole = passes_of(scenario);
    const StageDurations compute = passes_of(with_free_links(scenario));
    const StageDurations collectives = virtual_stage_collectives({scenario, config}).front();
    for (const auto pass : kPasses) {
      EXPECT_NEAR((collectives.*pass).value(), (whole.*pass - compute.*pass).value(),
                  1e-9 * whole.backward.value())
          << zero;
    }
  }
}

TEST(VirtualStageCollectives, AreNoneWithoutTensorParallelism) {
  const ParallelConfig config = config_of(1, false, Recompute::kFull);
  for (const StageDurations& stage : virtual_stage_collectives({scenario_39b(), config})) {
    for (const auto pass : kPasses) {
      EXPECT_EQ(stage.*pass, Seconds(0.0));
    }
  }
}

}  // namespace
}  // namespace ptdp
