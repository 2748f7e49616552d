// Tests of the search family by family, against costing each candidate.
#include "planner/search/family_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/least_step.h"
#include "cost_model/memory/memory.h"
#include "cost_model/partition/balance_equal_layers.h"
#include "cost_model/partition/partition.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"
#include "planner/search/family_memory.h"
#include "planner/search/memory_fit.h"
#include "planner/search/search.h"
#include "planner/search/split_lower_bound.h"
#include "tests/planner/costed_alone.h"
#include "tests/planner/same_candidates.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a few layers of a model. The layers of one with experts are divided as the stack likes.
Scenario few_layers(const char* model, const char* cluster, const char* stack, int layers,
                    std::int64_t batch) {
  Scenario scenario = shipped_scenario(model, cluster, stack, batch);
  scenario.job.model.num_layers = layers;
  return scenario;
}

struct Space {
  const char* name = nullptr;
  Scenario scenario;
  std::int64_t gpus = 0;
};

/// Returns search spaces small enough to look at every candidate; memory decides in each of them.
std::vector<Space> small_spaces() {
  std::vector<Space> spaces = {
      {"dense", few_layers("7.5B", "selene-a100", "megatron-lm-2022", 12, 24), 16},
      {"uneven", few_layers("18B", "selene-a100", "megatron-core-2025", 14, 12), 12},
      {"experts", few_layers("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 7, 12), 24},
      {"positions", few_layers("chinchilla-70b", "dgx-h100", "megatron-core-2025", 12, 24), 16},
      {"kinds", few_layers("deepseek-v3", "dgx-h100", "megatron-bridge-2025", 7, 16), 32}};
  spaces[2].scenario.job.model.first_dense_layers = 2;
  spaces.back().scenario.stack.expert_overlap = true;
  return spaces;
}

/// Calls `visit` with every candidate that a search looks at, with layers divided as the search
/// divides them.
template <class Visit>
void for_each_candidate(const Scenario& scenario, std::int64_t gpus, const Visit& visit) {
  const std::vector<Replicas> all_replicas = enumerate_replicas(scenario, gpus, {});
  for (const int tp : enumerate_tp(scenario, gpus, {})) {
    for (const Degrees& degrees : enumerate_degrees(scenario, gpus, {}, tp)) {
      const ParallelConfig split = config_of_degrees(scenario, {}, degrees);
      if (find_split_violation({scenario, split})) {
        continue;
      }
      for (ParallelConfig config : enumerate_variants(scenario, {}, split)) {
        if (find_variant_violation({scenario, config})) {
          continue;
        }
        for (const Replicas& replicas : all_replicas) {
          config.dp = replicas.dp;
          for (const int size : replicas.micro_batch_sizes) {
            config.micro_batch_size = size;
            if (is_candidate(scenario, config, gpus, {}) &&
                !find_batch_violation({scenario, config})) {
              if (!config.layers_per_stage.empty()) {
                config.layers_per_stage =
                    balanced_layers({scenario, config})
                        .value_or(
                            even_partition(scenario.job.model.num_layers, config.pp * config.vpp));
              }
              visit(config);
            }
          }
        }
      }
    }
  }
}

/// Returns every candidate that fits, costed.
std::vector<Candidate> cost_each(const Scenario& scenario, std::int64_t gpus) {
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  std::vector<Candidate> all;
  for_each_candidate(scenario, gpus, [&](const ParallelConfig& config) {
    if (!find_violation({scenario, config}, capacity)) {
      all.push_back({config, time_alone(scenario, config), peak_memory({scenario, config})});
    }
  });
  return all;
}

void sort_by_score(std::vector<Candidate>& all, Objective objective) {
  std::ranges::sort(all, [&](const Candidate& a, const Candidate& b) {
    const double score_a = score(a.time, a.config, objective);
    const double score_b = score(b.time, b.config, objective);
    return std::tie(score_a, a.config) < std::tie(score_b, b.config);
  });
}

std::vector<Candidate> undominated_of(std::vector<Candidate> all) {
  std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.memory, a.config) < std::tie(b.time, b.memory, b.config);
  });
  std::vector<Candidate> front;
  for (const Candidate& candidate : all) {
    const bool is_slow = !front.empty() && candidate.time > 2.0 * front.front().time;
    if (front.empty() || (candidate.memory < front.back().memory && !is_slow)) {
      front.push_back(candidate);
    }
  }
  return front;
}

TEST(FamilySearch, FindsWhatCostingEachCandidateFinds) {
  for (const Space& space : small_spaces()) {
    SCOPED_TRACE(space.name);
    std::vector<Candidate> all = cost_each(space.scenario, space.gpus);
    ASSERT_GT(all.size(), 100U);
    for (const Objective objective : {Objective::kTime, Objective::kCost}) {
      sort_by_score(all, objective);
      const SearchResult found =
          search(space.scenario, {.gpus = space.gpus, .objective = objective, .num_best = 7});
      EXPECT_EQ(found.feasible, std::ssize(all));
      expect_same_candidates(found.best, {all.begin(), all.begin() + 7});
      expect_same_candidates(found.pareto, undominated_of(all));
    }
  }
}

// The search meets the larger of two microbatch sizes last, and it is faster by a per mille. On one
// GPU a bound is nearly the step itself: one that is hardly too high passes over it.
TEST(FamilySearch, PassesOverNothingThatIsHardlyFaster) {
  const Scenario scenario = few_layers("1.7B", "selene-a100", "megatron-lm-2022", 6, 96);
  std::vector<Candidate> all = cost_each(scenario, 1);
  std::erase_if(all, [](const Candidate& candidate) {
    return candidate.config.recompute != Recompute::kFull;
  });
  sort_by_score(all, Objective::kTime);
  int hardly_faster = 0;
  for (auto fast = all.begin(); fast != all.end(); ++fast) {
    for (auto slow = fast + 1; slow != all.end(); ++slow) {
      const auto size_of = [](const Candidate& candidate) {
        return std::to_string(candidate.config.micro_batch_size);
      };
      const SearchSpace space{.micro_batch_size = IntegerRanges::parse(
                                  size_of(*fast) + ',' + size_of(*slow), 1, 96, "sizes"),
                              .recompute = {Recompute::kFull}};
      const SearchResult found =
          search(scenario, {.gpus = 1, .space = space, .num_best = 1, .wants_front = false});
      expect_same_candidates(found.best, {*fast});
      hardly_faster += fast->config.micro_batch_size > slow->config.micro_batch_size &&
                               slow->time < 1.005 * fast->time
                           ? 1
                           : 0;
    }
  }
  EXPECT_GT(hardly_faster, 1);
}

// What a candidate is passed over by: each bound of it, the cheapest first.
TEST(FamilySearch, HasBoundsThatAreNeverAboveAStep) {
  constexpr double rounding = 1.0 + 1e-9;
  for (const Space& space : small_spaces()) {
    SCOPED_TRACE(space.name);
    for (const Candidate& candidate : cost_each(space.scenario, space.gpus)) {
      const ParallelConfig& config = candidate.config;
      const MicrobatchCosts costs = microbatch_costs(space.scenario, config);
      const auto microbatches =
          static_cast<double>(num_microbatches(space.scenario.job.global_batch_size, config));
      const LeastPasses passes({space.scenario, config, &costs});
      const Seconds step = rounding * candidate.time;
      EXPECT_LE(microbatches * mean_rank_time({space.scenario, config, &costs}), step)
          << to_string(config);
      EXPECT_LE(passes.time(microbatches), step) << to_string(config);
      EXPECT_LE(least_iteration_time({space.scenario, config, &costs}, passes), step)
          << to_string(config);
    }
  }
}

// Each candidate that does not fit is counted once, under the stage that find_violation names. It
// may be counted under the first stage if layers can be divided otherwise, and if larger
// microbatches or other divisions fit no better.
TEST(FamilySearch, CountsWhatDoesNotFit) {
  for (const Space& space : small_spaces()) {
    SCOPED_TRACE(space.name);
    const Bytes capacity = usable_memory(space.scenario.cluster.gpu, 0.0);
    std::int64_t misfits = 0;
    std::int64_t at_first = 0;  // at the most
    std::optional<Bytes> nearest;
    for_each_candidate(space.scenario, space.gpus, [&](const ParallelConfig& config) {
      if (const auto violation = find_violation({space.scenario, config}, capacity)) {
        ++misfits;
        const SplitLowerBound any({space.scenario, config});
        const bool has_no_split =
            any.least_memory(config) > capacity ||
            (!config.layers_per_stage.empty() && any.fits_none(config, capacity));
        at_first += *violation == Constraint::kMemoryFirstStage || has_no_split ? 1 : 0;
        const Bytes missing = peak_memory({space.scenario, config}) - capacity;
        nearest = std::min(nearest.value_or(missing), missing);
      }
    });
    const SearchResult found = search(space.scenario, {.gpus = space.gpus});
    std::int64_t counted = 0;
    for (const Constraint stage : {Constraint::kMemoryFirstStage, Constraint::kMemoryLastStage,
                                   Constraint::kMemoryMiddleStage}) {
      const auto of_rank = found.violations.find(stage);
      counted += of_rank == found.violations.end() ? 0 : of_rank->second;
    }
    EXPECT_GT(misfits, 50);
    EXPECT_EQ(counted, misfits);
    EXPECT_LE(found.violations.at(Constraint::kMemoryFirstStage), at_first);
    ASSERT_TRUE(found.shortfall.has_value());
    EXPECT_LE(found.shortfall->missing, *nearest);
    EXPECT_TRUE(find_violation({space.scenario, found.shortfall->config}, capacity).has_value());
  }
}

// Whichever of a family it is asked about first.
TEST(FamilyMemory, JudgesAsIfEachConfigurationWereTheOnlyOne) {
  for (const Space& space : small_spaces()) {
    SCOPED_TRACE(space.name);
    MemoryFit fit(space.scenario, usable_memory(space.scenario.cluster.gpu, 0.0));
    FamilyMemory memory(space.scenario, fit);
    ParallelConfig family;
    for_each_candidate(space.scenario, space.gpus, [&](const ParallelConfig& config) {
      ParallelConfig key = config;
      key.dp = key.micro_batch_size = 1;
      key.zero_stage = 0;
      key.layers_per_stage.clear();
      if (key != family) {
        family = key;
        memory.begin_family(config);
      }
      const MemoryVerdict exact = fit.judge(config);
      const MemoryVerdict judged = memory.judge(config, memory.number_of(config.layers_per_stage),
                                                has_replicas(space.scenario.job.model, config));
      EXPECT_EQ(judged.violation, exact.violation) << to_string(config);
      if (!exact.violation) {
        EXPECT_NEAR(judged.largest / exact.largest, 1.0, 1e-12) << to_string(config);
      }
    });
  }
}

// No split that the search makes fits where none may: in particular not the balanced one.
TEST(SplitLowerBound, SaysOfNoSplitThatFitsThatNoneDoes) {
  for (const Space& space : small_spaces()) {
    SCOPED_TRACE(space.name);
    const Bytes capacity = usable_memory(space.scenario.cluster.gpu, 0.0);
    std::int64_t excluded = 0;
    for_each_candidate(space.scenario, space.gpus, [&](const ParallelConfig& config) {
      if (!config.layers_per_stage.empty()) {
        const Bytes held = peak_memory({space.scenario, config});
        const SplitLowerBound any({space.scenario, config});
        EXPECT_FALSE(any.fits_none(config, held)) << to_string(config);
        EXPECT_LE(any.least_memory(config), held * (1.0 + 1e-12)) << to_string(config);
        excluded += any.fits_none(config, capacity) ? 1 : 0;
      }
    });
    EXPECT_TRUE(excluded > 0 || !space.scenario.stack.can_run.uneven_layers);
  }
}

}  // namespace
}  // namespace ptdp
