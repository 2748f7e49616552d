// Tests of replicas of shards and of weights kept after forward passes: enumerated, refused,
// searched and written.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/answer/planning_output.h"
#include "planner/explain/explain.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "tests/planner/costed_alone.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns FSDP2 on nodes of 8 GPUs, which runs both hybrid sharding and kept weights.
Scenario torch_fsdp(std::int64_t batch) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", batch);
  scenario.stack.can_run.hybrid_sharding = scenario.stack.can_run.kept_weights = true;
  return scenario;
}

// 32 GPUs: 1, 2 and 4 replicas leave each a node.
TEST(HybridSharding, HasEveryReplicaThatLeavesItANode) {
  const Scenario scenario = torch_fsdp(96);
  const auto replicas_on = [&](const Scenario& of, int pp) {
    const SearchSpace space;
    std::set<int> replicas;
    for (ParallelConfig config : enumerate_variants(of, space, {.pp = pp})) {
      config.dp = 32;
      if (is_candidate(of, config, std::int64_t{32} * pp, space)) {
        replicas.insert(config.dp_replicate);
        EXPECT_TRUE(config.reshard_after_forward || config.zero_stage == 3);
      }
    }
    return replicas;
  };
  EXPECT_THAT(replicas_on(scenario, 1), ElementsAre(1, 2, 4));
  EXPECT_THAT(replicas_on(scenario, 2), ElementsAre(1));  // ZeRO-1 with a pipeline
  EXPECT_THAT(replicas_on(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024", 96), 1),
              ElementsAre(1));
}

// A pinned value stays in every candidate, also in those that gather no weights, so that the user
// is told why they are refused.
TEST(HybridSharding, KeepsWeightsWhereverThatIsPinned) {
  const SearchSpace space{.reshard_after_forward = false};
  const std::vector<ParallelConfig> variants = enumerate_variants(torch_fsdp(64), space, {.pp = 2});
  ASSERT_FALSE(variants.empty());
  for (const ParallelConfig& config : variants) {
    EXPECT_FALSE(config.reshard_after_forward) << to_string(config);
  }
}

TEST(HybridSharding, IsRefusedWhereItMeansNothing) {
  Scenario scenario = torch_fsdp(64);
  scenario.stack.can_run.zero_stages = {0, 1, 3};
  const auto of = [&](const ParallelConfig& config) {
    return find_shape_violation({scenario, config});
  };
  EXPECT_EQ(of({.dp = 16, .zero_stage = 3, .dp_replicate = 2}), std::nullopt);
  EXPECT_EQ(of({.dp = 16, .zero_stage = 3, .dp_replicate = 3}), Constraint::kDpByReplicas);
  EXPECT_EQ(of({.dp = 16, .dp_replicate = 2}), Constraint::kReplicasOfShards);
  EXPECT_EQ(of({.dp = 16, .zero_stage = 1, .reshard_after_forward = false}),
            Constraint::kReplicasOfShards);
  EXPECT_EQ(of({.pp = 2, .dp = 16, .zero_stage = 3, .reshard_after_forward = false}),
            Constraint::kReplicasOfShards);
  scenario.stack.can_run.hybrid_sharding = scenario.stack.can_run.kept_weights = false;
  EXPECT_EQ(of({.dp = 16, .zero_stage = 3, .dp_replicate = 2}), Constraint::kNotRunByStack);
  EXPECT_EQ(of({.dp = 16, .zero_stage = 3, .reshard_after_forward = false}),
            Constraint::kNotRunByStack);
}

// Megatron-Core's instances of its distributed optimizer are looked at where they are asked for.
TEST(HybridSharding, OfOptimizersAloneIsSearchedWhereItIsPinned) {
  const Scenario scenario = shipped_scenario("llama-2-7b", "dgx-h100", "megatron-core-2025", 512);
  const auto found = [&](const IntegerRanges& replicas) {
    return search(scenario, {.gpus = 64,
                             .space = {.tp = IntegerRanges(1),
                                       .pp = IntegerRanges::parse("1,2", 1, 2, ""),
                                       .cp = IntegerRanges(1),
                                       .zero_stage = IntegerRanges(1),
                                       .dp_replicate = replicas},
                             .num_best = 1000});
  };
  for (const Candidate& candidate : found({}).best) {
    EXPECT_EQ(candidate.config.dp_replicate, 1);
  }
  const SearchResult pinned = found(IntegerRanges::parse("1,2,4", 1, 4, ""));
  std::set<std::pair<int, int>> seen;
  for (const Candidate& candidate : pinned.best) {
    seen.insert({candidate.config.pp > 1 ? 2 : 1, candidate.config.dp_replicate});
  }
  const std::set<std::pair<int, int>> all = {{1, 1}, {1, 2}, {1, 4}, {2, 1}, {2, 2}, {2, 4}};
  EXPECT_EQ(seen, all);
}

// By hand, 64 replicas of 7 B parameters, whose states take 12 bytes each: 4 instances hold 4/64 of
// them on each GPU, one holds 1/64.
TEST(HybridSharding, OfOptimizersTakesTheMemoryOfItsInstances) {
  const Scenario scenario = shipped_scenario("llama-2-7b", "dgx-h100", "megatron-core-2025", 512);
  const auto memory = [&](int replicas) {
    return peak_memory({scenario, {.dp = 64, .zero_stage = 1, .dp_replicate = replicas}}).value();
  };
  constexpr double parameters = 6'738'415'616.0;
  EXPECT_NEAR(memory(4) - memory(1), 12.0 * parameters * 3.0 / 64.0,
              1e-3 * 12.0 * parameters / 64.0);
}

// Each replica has to have room for the experts: 16 GPUs hold 32 of 4 replicas of 8 no more.
TEST(HybridSharding, LeavesEachReplicaItsExperts) {
  Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  scenario.stack.can_run.hybrid_sharding = true;
  const ParallelConfig config = {.dp = 32, .ep = 8, .zero_stage = 3, .dp_replicate = 4};
  EXPECT_EQ(find_shape_violation({scenario, config}), std::nullopt);
  // 8 experts over 8 GPUs, each of them on one GPU of every replica: nothing is left to shard.
  EXPECT_EQ(expert_data_size(config), 1);
  ParallelConfig halves = config;
  halves.dp_replicate = 8;
  EXPECT_EQ(find_shape_violation({scenario, halves}), Constraint::kRanksByExperts);
}

// All of 32 GPUs on one stage, one by one.
TEST(HybridSharding, IsSearchedAsByBruteForce) {
  const Scenario scenario = torch_fsdp(64);
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  std::vector<Candidate> expected;
  for (const int tp : {1, 2, 4, 8}) {
    for (const int dp : {1, 2, 4, 8, 16, 32}) {
      for (const int replicate : {1, 2, 4, 8, 16, 32}) {
        for (const int b : {1, 2, 4, 8, 16, 32, 64}) {
          for (const Recompute recompute :
               {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
            for (const bool is_sequence_parallel : {false, true}) {
              for (const bool reshards : {true, false}) {
                const ParallelConfig config = {
                    .tp = tp,
                    .dp = dp,
                    .micro_batch_size = b,
                    .recompute = recompute,
                    .recompute_modules = recompute == Recompute::kSelective
                                             ? usual_modules(scenario.stack.can_run)
                                             : kCoreAttentionAlone,
                    .sequence_parallel = is_sequence_parallel,
                    .zero_stage = 3,
                    .dp_replicate = replicate,
                    .reshard_after_forward = reshards};
                if (tp * dp > 32 || (is_sequence_parallel && tp == 1) || dp % replicate != 0 ||
                    (replicate > 1 && tp * dp / replicate < 8) ||
                    find_violation({scenario, config}, capacity).has_value()) {
                  continue;
                }
                expected.push_back(
                    {config, time_alone(scenario, config), peak_memory({scenario, config})});
              }
            }
          }
        }
      }
    }
  }
  std::sort(expected.begin(), expected.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.config) < std::tie(b.time, b.config);
  });
  const IntegerRanges one(1);
  const SearchResult found = search(
      scenario, {.gpus = 32,
                 .space = {.tp = IntegerRanges::parse("1:8", 1, 8, ""), .pp = one, .cp = one},
                 .num_best = 100'000});
  ASSERT_EQ(found.best.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(found.best[i].config, expected[i].config) << i;
    ASSERT_EQ(found.best[i].time, expected[i].time) << i;
    ASSERT_EQ(found.best[i].memory, expected[i].memory) << i;
  }
}

// What a node sends to others in a microbatch, in parameters of 2 bytes each: shards over all GPUs
// three times 63/64 of them, two gathers and a reduce-scatter; a replica on each of 8 nodes twice
// 7/8, its part of an all-reduce. Of 4 bytes the latter would be no less.
TEST(HybridSharding, WinsWhereNodesAreFarApart) {
  Scenario scenario = torch_fsdp(256);
  scenario.stack.can_run.kept_weights = false;
  scenario.stack.reduced_gradient_bytes = 2.0;
  scenario.cluster.nic.bandwidth = scenario.cluster.nic.bandwidth * 0.01;
  const IntegerRanges one(1);
  const SearchResult found = search(
      scenario,
      {.gpus = 64,
       .space = {
           .tp = one, .pp = one, .dp = IntegerRanges(64), .cp = one, .micro_batch_size = one}});
  EXPECT_EQ(found.best.front().config.dp_replicate, 8);
}

TEST(HybridSharding, IsKeptByPlansAndReadFromText) {
  const Scenario scenario = torch_fsdp(64);
  const ParallelConfig config = {.dp = 32,
                                 .recompute = Recompute::kFull,
                                 .zero_stage = 3,
                                 .dp_replicate = 4,
                                 .reshard_after_forward = false};
  const Plan plan = make_plan({scenario, config}, 32, 0.0, Calibration{});
  const std::string text = to_json(plan);
  EXPECT_THAT(text, HasSubstr("\"dp_replicate\": 4"));
  EXPECT_THAT(text, HasSubstr("\"reshard_after_forward\": false"));
  EXPECT_EQ(parse_plan(text, "plan.json").config, config);
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
  EXPECT_EQ(to_string(config),
            "tp=1 pp=1 dp=32 b=1 1f1b recompute=full zero=3 dp_replicate=4 "
            "reshard_after_forward=off");
  EXPECT_THAT(to_text(plan, {}), HasSubstr("replicas of shards"));
  const SearchSpace space = parse_partial_config(to_string(config), "--explain");
  EXPECT_EQ(space.dp_replicate, IntegerRanges(4));
  EXPECT_EQ(space.reshard_after_forward, false);
}

}  // namespace
}  // namespace ptdp
