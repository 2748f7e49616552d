// Tests of plans that recompute some modules or layers, derived from a search's best.
#include "planner/search/derived_search.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/iteration/iteration.h"
#include "tests/planner/costed_alone.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns Llama 3 70B on 64 H100s, where what fits without recomputation is slow.
Scenario crowded(const std::string& model = "llama-3-70b") {
  return shipped_scenario(model, "dgx-h100", "megatron-core-2025", 256);
}

SearchOptions options_of(const SearchSpace& space) {
  return {.gpus = 64, .space = space, .num_best = 4};
}

/// Returns the best candidate that differs from `base` only in recomputed modules and layers, tried
/// one by one.
Candidate brute_force(const Scenario& scenario, ParallelConfig base) {
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  Candidate best{.config = base, .time = Seconds(1e9)};
  const auto look_at = [&](const ParallelConfig& config) {
    if (find_violation({scenario, config}, capacity).has_value()) {
      return;
    }
    const Seconds time = time_alone(scenario, config);
    if (time < best.time) {
      best = {config, time, peak_memory({scenario, config})};
    }
  };
  base.recompute = Recompute::kNone;
  look_at(base);
  base.recompute = Recompute::kSelective;
  for (unsigned bits = 1; bits < 128; ++bits) {
    base.recompute_modules = {};
    for (unsigned module = 0; module < 7; ++module) {
      if ((bits >> module & 1U) != 0) {
        base.recompute_modules.add(static_cast<RecomputeModule>(module));
      }
    }
    look_at(base);
  }
  base.recompute = Recompute::kFull;
  base.recompute_modules = kCoreAttentionAlone;
  look_at(base);
  for (base.recompute_num_layers = 1; base.recompute_num_layers < 80; ++base.recompute_num_layers) {
    look_at(base);
  }
  return best;
}

TEST(DerivedPlans, AreThoseThatBruteForceFinds) {
  for (const char* model : {"llama-3-70b", "mixtral-8x7b"}) {
    const Scenario scenario = crowded(model);
    int num_gains = 0;
    for (const int pp : {2, 4, 8}) {
      for (const int micro_batch_size : {1, 2, 4}) {
        const SearchSpace space{.tp = IntegerRanges(4),
                                .pp = IntegerRanges(pp),
                                .dp = IntegerRanges(16 / pp),
                                .cp = IntegerRanges(1),
                                .ep = IntegerRanges(model == std::string("mixtral-8x7b") ? 2 : 1),
                                .etp = IntegerRanges(1),
                                .vpp = IntegerRanges(1),
                                .micro_batch_size = IntegerRanges(micro_batch_size),
                                .zero_stage = IntegerRanges(1),
                                .sequence_parallel = true};
        SearchResult found = search(scenario, options_of(space));
        if (found.best.empty()) {
          continue;
        }
        const Candidate searched = found.best.front();
        add_derived_plans(scenario, options_of(space), found);
        const Candidate expected = brute_force(scenario, searched.config);
        EXPECT_NEAR(found.best.front().time / expected.time, 1.0, 1e-12)
            << model << ' ' << to_string(found.best.front().config) << " / "
            << to_string(expected.config);
        num_gains += found.best.front().time < searched.time ? 1 : 0;
      }
    }
    EXPECT_GT(num_gains, 0) << model;
  }
}

TEST(DerivedPlans, FitAndKeepTheOrderOfTheBest) {
  const Scenario scenario = crowded();
  SearchResult found = search(scenario, options_of({}));
  const SearchResult searched = found;
  add_derived_plans(scenario, options_of({}), found);
  EXPECT_EQ(found.best.size(), searched.best.size());
  EXPECT_EQ(found.enumerated, searched.enumerated);
  EXPECT_LE(found.best.front().time, searched.best.front().time);
  EXPECT_TRUE(
      std::is_sorted(found.best.begin(), found.best.end(),
                     [](const Candidate& a, const Candidate& b) { return a.time < b.time; }));
  for (const Candidate& candidate : found.best) {
    EXPECT_LE(candidate.memory, scenario.cluster.gpu.memory);
    EXPECT_EQ(find_violation({scenario, candidate.config}, scenario.cluster.gpu.memory),
              std::nullopt);
  }
}

// With all layers recomputed one stage is slower than two without any: of 48 layers 33 do.
TEST(DerivedPlans, AreOfDegreesThatNothingElseMakesTheBest) {
  const Scenario scenario =
      shipped_scenario("39B", "mosaicml-a100-40gb", "megatron-core-2024", 2440);
  const auto best_of = [&](const SearchSpace& space) {
    const SearchOptions options{.gpus = 2440, .space = space};
    SearchResult found = search(scenario, options);
    add_derived_plans(scenario, options, found);
    return found.best.front();
  };
  const Candidate best = best_of({.tp = IntegerRanges(8)});
  const Candidate of_one_stage = best_of({.tp = IntegerRanges(8), .pp = IntegerRanges(1)});
  EXPECT_EQ(to_string(best.config), to_string(of_one_stage.config));
  EXPECT_LT(best.time, best_of({.tp = IntegerRanges(8), .pp = IntegerRanges(2)}).time);
}

TEST(DerivedPlans, AreNoneWhereRecomputationIsPinnedOrTheStackHasNoModules) {
  const auto adds_none = [](const Scenario& scenario, const SearchSpace& space) {
    SearchResult found = search(scenario, options_of(space));
    const std::vector<Candidate> searched = found.best;
    add_derived_plans(scenario, options_of(space), found);
    return std::equal(found.best.begin(), found.best.end(), searched.begin(), searched.end(),
                      [](const Candidate& a, const Candidate& b) { return a.config == b.config; });
  };
  EXPECT_TRUE(adds_none(crowded(), {.recompute = {Recompute::kFull}}));
  EXPECT_TRUE(adds_none(shipped_scenario("18B", "selene-a100", "megatron-lm-2021", 256), {}));
}

// torchtitan recomputes every n-th layer, here one of the two of a stage or both, on GPUs that hold
// just what the one leaves: half as much is recomputed as where all are.
TEST(DerivedPlans, RecomputeOneOfTwoLayersWhereThatIsEnough) {
  Scenario scenario = shipped_scenario("llama-3-70b", "dgx-h100", "torchtitan-2024", 256);
  scenario.job.model.num_layers = 4;
  scenario.job.model.vocab_size = 1024;
  scenario.stack.reserve_fraction = 0.0;
  scenario.stack.can_run.recompute = {Recompute::kNone, Recompute::kFull};
  const SearchSpace space{.tp = IntegerRanges(8),
                          .pp = IntegerRanges(2),
                          .dp = IntegerRanges(4),
                          .cp = IntegerRanges(1),
                          .vpp = IntegerRanges(1),
                          .micro_batch_size = IntegerRanges(1),
                          .schedules = {ScheduleKind::kOneFOneB},
                          .sequence_parallel = true};
  ParallelConfig config{.tp = 8,
                        .pp = 2,
                        .dp = 4,
                        .recompute = Recompute::kFull,
                        .recompute_method = RecomputeMethod::kEvery,
                        .recompute_num_layers = 2,
                        .sequence_parallel = true,
                        .zero_stage = 3};
  scenario.cluster.gpu.memory = peak_memory({scenario, config});
  ParallelConfig none = config;
  none.recompute = Recompute::kNone;
  none.recompute_num_layers = 0;
  ASSERT_GT(peak_memory({scenario, none}), scenario.cluster.gpu.memory);
  SearchResult found = search(scenario, options_of(space));
  ASSERT_FALSE(found.best.empty());
  const Candidate all = found.best.front();
  add_derived_plans(scenario, options_of(space), found);
  EXPECT_LT(time_alone(scenario, config), time_alone(scenario, all.config));
  EXPECT_EQ(to_string(found.best.front().config), to_string(config));
}

}  // namespace
}  // namespace ptdp
