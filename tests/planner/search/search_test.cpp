// Tests of the search against brute force, and of its tally.
#include "planner/search/search.h"
#include "cost_model/inputs/stack_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "cost_model/partition/balance_equal_layers.h"
#include "tests/cost_model/partition/partitions.h"
#include "tests/planner/costed_alone.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns every configuration of small degrees, costed one by one, without the search's shortcuts.
std::vector<Candidate> brute_force(const Scenario& scenario, std::int64_t gpus,
                                   const std::vector<int>& context_sizes = {1}) {
  std::vector<Candidate> feasible;
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  const int num_experts = scenario.job.model.num_experts;
  const auto try_experts = [&](ParallelConfig config) {
    for (config.ep = 1; config.ep <= std::max(num_experts, 1); ++config.ep) {
      // Experts are on one GPU each, or shared by as many as the other layers.
      for (const int etp : {1, config.tp}) {
        config.etp = etp;
        const int ranks = config.tp * config.cp * config.dp;
        const bool is_alone =
            ranks == config.tp && (num_experts == 0 || ranks / (config.ep * etp) <= 1);
        if ((config.zero_stage == 0 || !is_alone) &&
            !find_violation({scenario, config}, capacity).has_value()) {
          feasible.push_back(
              {config, time_alone(scenario, config), peak_memory({scenario, config})});
        }
        if (config.tp == 1 || num_experts == 0) {
          break;
        }
      }
    }
  };
  const auto try_one = [&](ParallelConfig config) {
    for (const int cp : context_sizes) {
      config.cp = cp;
      if (config.world_size() <= gpus) {
        try_experts(config);
      }
    }
  };
  for (int tp = 1; tp <= gpus; ++tp) {
    for (int pp = 1; std::int64_t{tp} * pp <= gpus; ++pp) {
      for (int dp = 1; std::int64_t{tp} * pp * dp <= gpus; ++dp) {
        for (int b = 1; b <= scenario.job.global_batch_size; ++b) {
          for (int vpp = 1; vpp <= scenario.job.model.num_layers; ++vpp) {
            for (const Recompute recompute :
                 {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
              for (const bool is_sequence_parallel : {false, true}) {
                for (const int zero_stage : {0, 1, 2, 3}) {
                  // Names of one and the same thing: nothing to split, shard or interleave, and
                  // with a pipeline no more than stage 1.
                  if ((is_sequence_parallel && tp == 1) || (vpp > 1 && pp == 1) ||
                      (zero_stage > 1 && pp > 1)) {
                    continue;
                  }
                  try_one(
                      {.tp = tp,
                       .pp = pp,
                       .dp = dp,
                       .vpp = vpp,
                       .micro_batch_size = b,
                       .schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB,
                       .recompute = recompute,
                       .sequence_parallel = is_sequence_parallel,
                       .zero_stage = zero_stage});
                }
              }
            }
          }
        }
      }
    }
  }
  std::sort(feasible.begin(), feasible.end(), [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.config) < std::tie(b.time, b.config);
  });
  return feasible;
}

/// Returns seven layers, which no pp between 1 and 7 divides, on a stack that runs any division of
/// them.
Scenario seven_layers() {
  Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 16);
  scenario.job.model.num_layers = 7;
  scenario.stack.can_run.uneven_layers = true;
  scenario.stack.can_run.interleaved_min_stages = 2;
  return scenario;
}

TEST(Search, SplitsLayersThatDoNotDivideAsWellAsAnySplit) {
  const Scenario scenario = seven_layers();
  for (const auto& [pp, vpp] : {std::pair{2, 1}, std::pair{4, 1}, std::pair{2, 2}}) {
    SearchOptions options{.gpus = 8, .num_best = 1000};
    options.space.pp = IntegerRanges::parse(std::to_string(pp), 1, 8, "pp");
    options.space.vpp = IntegerRanges::parse(std::to_string(vpp), 1, 8, "vpp");
    const SearchResult found = search(scenario, options);
    ASSERT_FALSE(found.best.empty());
    for (const Candidate& candidate : found.best) {
      ParallelConfig config = candidate.config;
      ASSERT_FALSE(find_shape_violation({scenario, config}).has_value());
      // Embedding and logits, which may stand alone, count as layers here.
      for_each_composition(7 + 2, pp * vpp, [&](std::vector<int> sizes) {
        --sizes.front();
        --sizes.back();
        config.layers_per_stage = sizes;
        const MicrobatchCosts costs = microbatch_costs(scenario, config);
        EXPECT_LE(pipeline_costs({scenario, candidate.config, &costs}).slowest.total().value(),
                  pipeline_costs({scenario, config, &costs}).slowest.total().value() * (1 + 1e-12));
      });
    }
  }
}

TEST(Search, CountsLayersThatDoNotDivideWhereTheStackRunsEqualStagesOnly) {
  Scenario scenario = seven_layers();
  SearchOptions options{.gpus = 8};
  options.space.pp = IntegerRanges::parse("3", 1, 8, "pp");
  EXPECT_EQ(search(scenario, options).violations.count(Constraint::kLayersByPp), 0U);
  EXPECT_GT(search(scenario, options).feasible, 0);
  scenario.stack.can_run.uneven_layers = false;
  EXPECT_GT(search(scenario, options).violations.at(Constraint::kLayersByPp), 0);
  EXPECT_EQ(search(scenario, options).feasible, 0);
}

// Each candidate's time and memory are those of its configuration, and memory holds it.
TEST(Search, CostsUnevenPipelinesAsConfigured) {
  const Scenario scenario = seven_layers();
  SearchOptions options{.gpus = 6, .num_best = 10'000};
  const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
  const SearchResult found = search(scenario, options);
  std::int64_t violations = 0;
  for (const auto& [constraint, count] : found.violations) {
    violations += count;
  }
  EXPECT_EQ(found.enumerated, found.feasible + violations);
  int num_uneven = 0;
  for (const Candidate& candidate : found.best) {
    num_uneven += candidate.config.layers_per_stage.empty() ? 0 : 1;
    EXPECT_FALSE(find_violation({scenario, candidate.config}, capacity).has_value());
    EXPECT_EQ(candidate.memory, peak_memory({scenario, candidate.config}));
    EXPECT_EQ(candidate.time, time_alone(scenario, candidate.config));
  }
  EXPECT_GT(num_uneven, 0);
}

TEST(Search, FindsWhatBruteForceFinds) {
  struct Row {
    const char* model;
    const char* stack;
    std::int64_t gpus;
    std::int64_t batch;
  };
  for (const Row& row :
       {Row{"gpt2-1.5b", "megatron-lm-2021", 16, 16}, Row{"gpt2-1.5b", "megatron-lm-2022", 12, 24},
        Row{"7.5B", "megatron-lm-2022", 8, 12}, Row{"3.6B", "megatron-lm-2021", 13, 12}}) {
    const Scenario scenario = shipped_scenario(row.model, "selene-a100", row.stack, row.batch);
    const std::vector<Candidate> expected = brute_force(scenario, row.gpus);
    ASSERT_FALSE(expected.empty()) << row.model;
    const SearchResult found = search(scenario, {.gpus = row.gpus, .num_best = 1'000'000});
    ASSERT_EQ(found.best.size(), expected.size()) << row.model << ' ' << row.stack;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.best[i].config, expected[i].config) << row.model << " place " << i;
      EXPECT_EQ(found.best[i].time, expected[i].time);
      EXPECT_EQ(found.best[i].memory, expected[i].memory);
    }
  }
}

// Sequences of 8192 tokens: by default parts of no less than 2048, else all sizes that divide.
TEST(Search, FindsWhatBruteForceFindsOfSharedSequences) {
  for (const auto& [kind, name] : kContextParallelNames) {
    Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 4);
    scenario.job.model.seq_length = 8192;
    scenario.job.model.num_layers = 4;
    scenario.job.model.num_attention_heads = scenario.job.model.num_query_groups = 20;
    scenario.job.model.kv_channels = 80;
    scenario.stack.can_run.context_parallel = true;
    scenario.stack.context_parallel_kind = kind;
    SearchOptions options{.gpus = 12, .num_best = 1'000'000};
    for (const std::vector<int>& sizes : {std::vector<int>{1, 2, 4}, {2, 3, 4, 5, 6, 7, 8}}) {
      options.space.cp =
          sizes.front() == 1 ? IntegerRanges() : IntegerRanges::parse("2:8", 1, 8, "");
      const std::vector<Candidate> expected = brute_force(scenario, options.gpus, sizes);
      const SearchResult found = search(scenario, options);
      ASSERT_EQ(found.best.size(), expected.size()) << name << ' ' << sizes.front();
      int num_shared = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        num_shared += expected[i].config.cp > 1 ? 1 : 0;
        ASSERT_EQ(found.best[i].config, expected[i].config) << name << " place " << i;
        EXPECT_EQ(found.best[i].time, expected[i].time);
        EXPECT_EQ(found.best[i].memory, expected[i].memory);
      }
      EXPECT_GT(num_shared, 0);
    }
  }
}

// Seven layers on stacks that split them at will: a split for each cp.
TEST(Search, BalancesLayersForEachContextSize) {
  Scenario scenario = seven_layers();
  scenario.job.model.seq_length = 8192;
  scenario.stack.can_run.context_parallel = true;
  const SearchOptions options{.gpus = 8, .num_best = 10'000};
  int num_uneven = 0;
  for (const Candidate& candidate : search(scenario, options).best) {
    EXPECT_EQ(candidate.memory, peak_memory({scenario, candidate.config}));
    EXPECT_EQ(candidate.time, time_alone(scenario, candidate.config));
    if (candidate.config.cp > 1 && !candidate.config.layers_per_stage.empty()) {
      ++num_uneven;
      EXPECT_EQ(candidate.config.layers_per_stage, balanced_layers({scenario, candidate.config}));
    }
  }
  EXPECT_GT(num_uneven, 0);
}

// The tally counts what find_violation finds, one candidate at a time.
TEST(Search, TalliesMemoryByTheStageThatIsOutOfIt) {
  const Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 64);
  const SearchOptions options{.gpus = 8,
                              .space = {.pp = IntegerRanges(2), .vpp = IntegerRanges(1)},
                              .memory_headroom = 0.6};
  const Bytes capacity = usable_memory(scenario.cluster.gpu, options.memory_headroom);
  std::map<Constraint, std::int64_t> expected;
  for (const int tp : enumerate_tp(scenario, options.gpus, options.space)) {
    for (const Replicas& replicas : enumerate_replicas(scenario, options.gpus, options.space)) {
      for (ParallelConfig config :
           enumerate_variants(scenario, options.space, {.tp = tp, .pp = 2})) {
        config.dp = replicas.dp;
        for (const int size : replicas.micro_batch_sizes) {
          config.micro_batch_size = size;
          const auto violation = find_violation({scenario, config}, capacity);
          if (is_candidate(scenario, config, options.gpus, options.space) &&
              (violation == Constraint::kMemoryFirstStage ||
               violation == Constraint::kMemoryLastStage)) {
            ++expected[*violation];
          }
        }
      }
    }
  }
  const SearchResult found = search(scenario, options);
  for (const Constraint stage : {Constraint::kMemoryFirstStage, Constraint::kMemoryLastStage}) {
    ASSERT_GT(expected[stage], 0);
    EXPECT_EQ(found.violations.at(stage), expected[stage]);
  }
}

TEST(Search, CountsEveryCandidateOnce) {
  for (const char* model : {"1T", "18B", "gpt2-124m"}) {
    const SearchResult result = search(selene_2021(model), {.gpus = 1024});
    std::int64_t rejected = 0;
    for (const auto& [constraint, count] : result.violations) {
      rejected += count;
    }
    EXPECT_EQ(result.enumerated, result.feasible + rejected) << model;
  }
}

TEST(Search, ParetoFrontIsWhatNoOtherBeatsInBoth) {
  const SearchResult result = search(selene_2021("76B"), {.gpus = 1024, .num_best = 1'000'000});
  ASSERT_FALSE(result.pareto.empty());
  EXPECT_EQ(result.pareto.front().config, result.best.front().config);
  for (const Candidate& on_front : result.pareto) {
    for (const Candidate& other : result.best) {
      const bool is_no_worse = other.time <= on_front.time && other.memory <= on_front.memory;
      const bool is_better = other.time < on_front.time || other.memory < on_front.memory;
      EXPECT_FALSE(is_no_worse && is_better)
          << to_string(other.config) << " beats " << to_string(on_front.config);
    }
  }
}

TEST(Search, HasAnAnswerForAPrimeNumberOfGpus) {
  const SearchResult result = search(selene_2021("1T"), {.gpus = 3079});
  ASSERT_FALSE(result.best.empty());
  EXPECT_EQ(result.best.front().config.world_size(), 3072);
}

// One replica of the 7.5B model with 4 sequences keeps few GPUs busy: by cost, most of 64 stay
// idle.
TEST(Search, PaysOnlyForGpusInUseUnderTheCostObjective) {
  const Scenario scenario = selene_2021("7.5B", 4);
  const auto best = [&](Objective objective) {
    return search(scenario, {.gpus = 64, .objective = objective, .num_best = 1}).best.front();
  };
  const Candidate by_time = best(Objective::kTime);
  const Candidate by_cost = best(Objective::kCost);
  EXPECT_LT(by_cost.config.world_size(), by_time.config.world_size());
  EXPECT_LT(by_cost.time.value() * static_cast<double>(by_cost.config.world_size()),
            0.8 * by_time.time.value() * static_cast<double>(by_time.config.world_size()));
  EXPECT_LT(by_time.time, by_cost.time);
}

// More GPUs can only help: what fewer can run, more can.
TEST(Search, IsNeverSlowerOnMoreGpus) {
  for (const char* model : {"18B", "39B", "1T"}) {
    const Scenario scenario = selene_2021(model);
    Seconds before(1e30);
    for (std::int64_t gpus = 400; gpus <= 4000; gpus += 117) {
      const SearchResult result = search(scenario, {.gpus = gpus, .num_best = 1});
      if (!result.best.empty()) {
        EXPECT_LE(result.best.front().time, before) << model << " on " << gpus;
        before = result.best.front().time;
      }
    }
  }
}

// SearchSpace only take candidates away.
TEST(Search, IsNeverFasterUnderPins) {
  const Scenario scenario = selene_2021("39B");
  for (const std::int64_t gpus : {472, 509, 1008}) {
    const Seconds free = search(scenario, {.gpus = gpus, .num_best = 1}).best.front().time;
    for (const char* range : {"1:1008", "2:64", "16", "32"}) {
      const SearchSpace space{.dp = IntegerRanges::parse(range, 1, 2000, "dp")};
      const SearchResult pinned = search(scenario, {.gpus = gpus, .space = space, .num_best = 1});
      if (!pinned.best.empty()) {
        EXPECT_LE(free, pinned.best.front().time) << gpus << " GPUs, dp " << range;
      }
    }
  }
}

TEST(Search, KeepsTheHeadroomFree) {
  const Scenario scenario = selene_2021("1T");
  const SearchResult result =
      search(scenario, {.gpus = 3072, .memory_headroom = 0.1, .num_best = 1000});
  for (const Candidate& candidate : result.best) {
    EXPECT_LE(candidate.memory, 0.9 * scenario.cluster.gpu.memory);
  }
}

TEST(Search, ReportsTheSmallestShortfallWhereNothingFits) {
  Scenario scenario = selene_2021("1.7B", 8);
  scenario.cluster.gpu.memory = Bytes(1024.0 * 1024.0);
  const SearchResult result = search(scenario, {.gpus = 8});
  EXPECT_TRUE(result.best.empty());
  ASSERT_TRUE(result.shortfall.has_value());
  const ParallelConfig& config = result.shortfall->config;
  EXPECT_EQ(result.shortfall->missing,
            peak_memory({scenario, config}) - scenario.cluster.gpu.memory);
}

/// Returns a small model with experts in three of its four layers, or in all of them, on one node.
Scenario small_experts(int dense_layers) {
  Scenario scenario = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 16);
  TransformerConfig& model = scenario.job.model;
  model.num_layers = 4;
  model.num_experts = 4;
  model.first_dense_layers = dense_layers;
  scenario.stack.can_run.uneven_layers = false;
  return scenario;
}

TEST(Search, FindsWhatBruteForceFindsOfExperts) {
  for (const int dense_layers : {0, 1}) {
    const Scenario scenario = small_experts(dense_layers);
    const std::vector<Candidate> expected = brute_force(scenario, 8, {1, 2});
    ASSERT_FALSE(expected.empty());
    const SearchResult found = search(scenario, {.gpus = 8, .num_best = 1'000'000});
    ASSERT_EQ(found.best.size(), expected.size());
    bool has_ep = false;
    bool has_etp = false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.best[i].config, expected[i].config) << "place " << i;
      EXPECT_EQ(found.best[i].time, expected[i].time);
      EXPECT_EQ(found.best[i].memory, expected[i].memory);
      has_ep = has_ep || expected[i].config.ep > 1;
      has_etp = has_etp || expected[i].config.etp > 1;
    }
    EXPECT_TRUE(has_ep);
    EXPECT_TRUE(has_etp);
  }
}

// Weights take less than the stack's precision says, so that more fits.
TEST(Search, FindsWhatBruteForceFindsInEveryPrecision) {
  for (const char* precision : {"fp8", "nvfp4", "tf32"}) {
    Scenario scenario = small_experts(1);
    scenario.cluster.gpu = find_cluster("dgx-b200").gpu;
    scenario.cluster.gpu.memory = Bytes(24.0 * kGibi);
    scenario.stack = with_precision(find_stack("megatron-bridge-2025"), precision);
    scenario.stack.can_run.uneven_layers = false;
    scenario.stack.can_run.zero_stages = {0, 1, 3};
    const std::vector<Candidate> expected = brute_force(scenario, 8, {1, 2});
    ASSERT_FALSE(expected.empty());
    const SearchResult found = search(scenario, {.gpus = 8, .num_best = 1'000'000});
    ASSERT_EQ(found.best.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.best[i].config, expected[i].config) << precision << ", place " << i;
      EXPECT_EQ(found.best[i].time, expected[i].time);
      EXPECT_EQ(found.best[i].memory, expected[i].memory);
    }
  }
}

// Candidates share parts of their costs; each must have the time that it has alone.
TEST(Search, CostsEachCandidateAsItIsCostedAlone) {
  for (const auto& [stack, precision] :
       {std::pair("megatron-core-2025", "fp8-delayed"),
        std::pair("megatron-core-2025", "fp8-block"), std::pair("megatron-core-2025", "tf32"),
        std::pair("megatron-bridge-2025", "nvfp4"), std::pair("torchtitan-2024", "fp8-current"),
        std::pair("torchtitan-2024", "fp8-rowwise")}) {
    const bool is_of_4_bits = std::string_view(precision) == "nvfp4";
    Scenario scenario =
        shipped_scenario("llama-3-8b", is_of_4_bits ? "dgx-gb300" : "dgx-h100", stack, 32);
    scenario.stack = with_precision(scenario.stack, precision);
    for (const Candidate& candidate : search(scenario, {.gpus = 32, .num_best = 2'000}).best) {
      EXPECT_EQ(candidate.time, time_alone(scenario, candidate.config))
          << stack << ' ' << to_string(candidate.config);
    }
  }
}

// The tally counts one candidate at a time, by the first constraint that it violates.
TEST(Search, TalliesExpertsAsTheyAreFoundOneByOne) {
  for (const int dense_layers : {0, 1}) {
    const Scenario scenario = small_experts(dense_layers);
    const SearchOptions options{.gpus = 12};
    const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
    std::map<Constraint, std::int64_t> expected;
    std::int64_t feasible = 0;
    const auto count = [&](const std::optional<Constraint>& violation) {
      violation ? ++expected[*violation] : ++feasible;
    };
    for (const int tp : enumerate_tp(scenario, options.gpus, {})) {
      for (const Degrees& degrees : enumerate_degrees(scenario, options.gpus, {}, tp)) {
        const ParallelConfig split = config_of_degrees(scenario, {}, degrees);
        if (const auto violation = find_split_violation({scenario, split})) {
          count(violation);
          continue;
        }
        for (ParallelConfig config : enumerate_variants(scenario, {}, split)) {
          if (const auto violation = find_variant_violation({scenario, config})) {
            count(violation);
            continue;
          }
          for (const Replicas& replicas : enumerate_replicas(scenario, options.gpus, {})) {
            config.dp = replicas.dp;
            if (is_candidate(scenario, config, options.gpus, {})) {
              for (const int size : replicas.micro_batch_sizes) {
                config.micro_batch_size = size;
                count(find_violation({scenario, config}, capacity));
              }
            }
          }
        }
      }
    }
    const SearchResult found = search(scenario, options);
    EXPECT_EQ(found.violations, expected);
    EXPECT_EQ(found.feasible, feasible);
    EXPECT_GT(expected[Constraint::kRanksByExperts], 0);
    EXPECT_GT(expected[Constraint::kExpertsWholeSequences], 0);
  }
}

// Three GPUs that share each expert lie on one node of eight or on two, as replicas have it.
TEST(Search, CostsExpertsWhereverTheirGroupsLie) {
  Scenario scenario = small_experts(/*dense_layers=*/0);
  scenario.job.global_batch_size = 24;
  scenario.job.model.moe_ffn_hidden_size = 3 * 4096;
  const SearchOptions options{.gpus = 24,
                              .space = {.tp = IntegerRanges(1), .etp = IntegerRanges(3)},
                              .num_best = 1'000'000};
  const SearchResult found = search(scenario, options);
  ASSERT_FALSE(found.best.empty());
  for (const Candidate& candidate : found.best) {
    EXPECT_EQ(candidate.time, time_alone(scenario, candidate.config))
        << to_string(candidate.config);
  }
}

}  // namespace
}  // namespace ptdp
