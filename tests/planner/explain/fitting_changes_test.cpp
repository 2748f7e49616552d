// Tests of the smallest changes that make a configuration fit, against all changes there are.
#include "planner/explain/fitting_changes.h"

#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <set>

#include "cost_model/contains.h"
#include "tests/planner/costed_alone.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using Fields = std::vector<std::string_view>;

/// Every value of a field, as a change of a configuration.
struct EveryValue {
  std::string_view key;
  std::vector<std::function<void(ParallelConfig&)>> values;
};

template <class Value>
EveryValue every(std::string_view key, Value ParallelConfig::*member,
                 const std::vector<Value>& values) {
  EveryValue all{.key = key};
  for (const Value value : values) {
    all.values.emplace_back([member, value](ParallelConfig& config) { config.*member = value; });
  }
  return all;
}

template <class Value, std::size_t size>
std::vector<Value> values_of(const std::array<NamedValue<Value>, size>& names) {
  std::vector<Value> values;
  for (const NamedValue<Value>& name : names) {
    values.push_back(name.value);
  }
  return values;
}

/// Returns all values of the fields that mean something by themselves. Sizes go to `most`; parts of
/// a sequence have 2048 tokens and more, as in searches.
std::vector<EveryValue> all_changes(const Scenario& scenario, int most) {
  std::vector<int> sizes;
  std::vector<int> parts;
  for (int size = 1; size <= most; ++size) {
    sizes.push_back(size);
    if ((size & (size - 1)) == 0 && scenario.job.model.seq_length / size >= 2048) {
      parts.push_back(size);
    }
  }
  return {every("tp", &ParallelConfig::tp, sizes),
          every("pp", &ParallelConfig::pp, sizes),
          every("dp", &ParallelConfig::dp, sizes),
          every("cp", &ParallelConfig::cp, parts),
          every("ep", &ParallelConfig::ep, sizes),
          every("vpp", &ParallelConfig::vpp, sizes),
          every("micro_batch_size", &ParallelConfig::micro_batch_size, sizes),
          every("schedule", &ParallelConfig::schedule, values_of(kScheduleNames)),
          every("recompute", &ParallelConfig::recompute, values_of(kRecomputeNames)),
          every("sequence_parallel", &ParallelConfig::sequence_parallel, {false, true}),
          every("zero_stage", &ParallelConfig::zero_stage, {0, 1, 2, 3}),
          every("rank_order", &ParallelConfig::rank_order, values_of(kRankOrderNames)),
          every("offload", &ParallelConfig::offload, values_of(kOffloadNames))};
}

/// Keeps, for each set of changed fields, the time of the fastest configuration that can run.
class Fastest {
 public:
  Fastest(const Scenario& scenario, std::int64_t gpus) : scenario_(scenario), gpus_(gpus) {}

  void look_at(const Fields& fields, const ParallelConfig& config) {
    const bool is_searched = has_chunks(config.schedule, config.vpp) &&
                             (config.pp > 1 || config.schedule == ScheduleKind::kOneFOneB);
    if (!is_searched || config.world_size() > gpus_ ||
        find_violation({scenario_, config}, usable_memory(scenario_.cluster.gpu, 0.0))) {
      return;
    }
    const Seconds time = time_alone(scenario_, config);
    const auto [place, is_new] = times_.emplace(fields, time);
    place->second = std::min(place->second, time);
  }

  /// Returns the sets of fields with their times, fastest first.
  [[nodiscard]] std::vector<std::pair<Seconds, Fields>> sorted() const {
    std::vector<std::pair<Seconds, Fields>> all;
    for (const auto& [fields, time] : times_) {
      all.emplace_back(time, fields);
    }
    std::ranges::sort(all);
    return all;
  }

 private:
  const Scenario& scenario_;
  std::int64_t gpus_;
  std::map<Fields, Seconds> times_;
};

/// Expects a change of these fields that takes this long.
void expect_change(const FittingChange& change, const std::pair<Seconds, Fields>& expected) {
  EXPECT_EQ(change.fields, expected.second) << to_string(change.candidate.config);
  EXPECT_NEAR(change.candidate.time / expected.first, 1.0, 1e-9)
      << to_string(change.candidate.config);
}

struct Case {
  const char* model;
  const char* cluster;
  const char* stack;
  std::int64_t batch;
  std::int64_t gpus;
  ParallelConfig config;
};

TEST(FittingChanges, OfOneFieldAreTheFastestOfAllThereAre) {
  for (const Case& row : {Case{"llama-3-8b",
                               "dgx-h100",
                               "megatron-core-2025",
                               64,
                               64,
                               {.tp = 2, .dp = 16, .micro_batch_size = 2}},
                          Case{"llama-3-8b",
                               "dgx-h100",
                               "megatron-core-2025",
                               64,
                               16,
                               {.tp = 4, .pp = 2, .dp = 2, .micro_batch_size = 8}},
                          Case{"7.5B",
                               "selene-a100",
                               "megatron-lm-2021",
                               512,
                               64,
                               {.tp = 4, .dp = 16, .micro_batch_size = 8}},
                          Case{"mixtral-8x7b",
                               "dgx-h100",
                               "megatron-core-2025",
                               64,
                               64,
                               {.tp = 1, .dp = 64, .ep = 8}}}) {
    const Scenario scenario = shipped_scenario(row.model, row.cluster, row.stack, row.batch);
    ASSERT_TRUE(
        find_memory_violation({scenario, row.config}, usable_memory(scenario.cluster.gpu, 0.0)));
    Fastest fastest(scenario, row.gpus);
    for (const EveryValue& field : all_changes(scenario, 64)) {
      for (const auto& change : field.values) {
        ParallelConfig config = row.config;
        change(config);
        if (config != row.config) {
          fastest.look_at({field.key}, config);
        }
      }
    }
    const auto expected = fastest.sorted();
    ASSERT_FALSE(expected.empty()) << row.model;
    const FittingChanges changes =
        smallest_fitting_changes(scenario, {.gpus = row.gpus}, row.config);
    EXPECT_TRUE(changes.is_complete);
    const std::size_t num = std::min(expected.size(), kMostFittingChanges);
    ASSERT_GE(changes.found.size(), num);
    for (std::size_t i = 0; i < num; ++i) {
      expect_change(changes.found[i], expected[i]);
    }
    for (std::size_t i = num; i < changes.found.size(); ++i) {
      EXPECT_GT(changes.found[i].fields.size(), 1U);
    }
  }
}

// No single field helps here: the first are the fastest of all changes of two fields.
TEST(FittingChanges, OfTwoFieldsAreTheFastestOfAllThereAre) {
  const Scenario scenario = selene_2021("7.5B", 512);
  const ParallelConfig from{.dp = 64, .micro_batch_size = 8};
  Fastest one(scenario, 64);
  Fastest two(scenario, 64);
  const std::vector<EveryValue> fields = all_changes(scenario, 64);
  for (std::size_t a = 0; a < fields.size(); ++a) {
    for (const auto& change : fields[a].values) {
      ParallelConfig config = from;
      change(config);
      if (config == from) {
        continue;
      }
      one.look_at({fields[a].key}, config);
      const ParallelConfig once = config;
      for (std::size_t b = a + 1; b < fields.size(); ++b) {
        for (const auto& other : fields[b].values) {
          config = once;
          other(config);
          if (config != once) {
            two.look_at({fields[a].key, fields[b].key}, config);
          }
        }
      }
    }
  }
  EXPECT_TRUE(one.sorted().empty());
  const auto expected = two.sorted();
  ASSERT_FALSE(expected.empty());
  const FittingChanges changes = smallest_fitting_changes(scenario, {.gpus = 64}, from);
  ASSERT_EQ(changes.found.size(), kMostFittingChanges);
  const std::size_t num = std::min(expected.size(), kMostFittingChanges);
  for (std::size_t i = 0; i < num; ++i) {
    expect_change(changes.found[i], expected[i]);
  }
  for (std::size_t i = num; i < changes.found.size(); ++i) {
    EXPECT_EQ(changes.found[i].fields.size(), 3U);
  }
}

// ZeRO-1 shards the 12 bytes per parameter of optimizer states over 8 replicas: of 8,030,261,248
// parameters (Llama 3's) 12 * 7/8 * 8030261248 bytes are saved.
TEST(FittingChanges, SaveWhatZeroShards) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const ParallelConfig from{.dp = 8, .recompute = Recompute::kFull};
  const FittingChanges changes = smallest_fitting_changes(scenario, {.gpus = 8}, from);
  ASSERT_FALSE(changes.found.empty());
  const FittingChange& first = changes.found.front();
  EXPECT_THAT(first.fields, ElementsAre("zero_stage"));
  EXPECT_EQ(first.candidate.config.zero_stage, 1);
  EXPECT_NEAR((peak_memory({scenario, from}) - first.candidate.memory).value(), 10.5 * 8030261248.0,
              1e6);
}

TEST(FittingChanges, FitDifferAndKeepTheirOrder) {
  for (const Case& row :
       {Case{"llama-3-70b", "dgx-h100", "megatron-core-2025", 512, 64, {.tp = 8, .pp = 2, .dp = 4}},
        Case{"llama-3-8b",
             "dgx-h100",
             "torchtitan-2024",
             64,
             8,
             {.tp = 2, .dp = 4, .micro_batch_size = 8, .zero_stage = 3}},
        Case{"llama-3-8b", "dgx-h100", "megatron-core-2025", 512, 64, {.tp = 3, .dp = 21}},
        Case{"7.5B",
             "selene-a100",
             "megatron-lm-2021",
             512,
             64,
             {.tp = 1,
             .pp = 4,
             .dp = 16,
             .vpp = 9,
             .micro_batch_size = 8,
             .schedule = ScheduleKind::kInterleaved}}}) {
    const Scenario scenario = shipped_scenario(row.model, row.cluster, row.stack, row.batch);
    const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.1);
    const FittingChanges changes =
        smallest_fitting_changes(scenario, {.gpus = row.gpus, .memory_headroom = 0.1}, row.config);
    EXPECT_EQ(changes.found.size(), kMostFittingChanges) << to_string(row.config);
    std::set<Fields> seen;
    std::pair<std::size_t, Seconds> last;
    for (const FittingChange& change : changes.found) {
      const ParallelConfig& config = change.candidate.config;
      EXPECT_EQ(find_violation({scenario, config}, capacity), std::nullopt) << to_string(config);
      EXPECT_EQ(change.candidate.memory, peak_memory({scenario, config}));
      EXPECT_LE(config.world_size(), row.gpus);
      EXPECT_TRUE(seen.insert(change.fields).second) << to_string(config);
      const std::pair<std::size_t, Seconds> now{change.fields.size(), change.candidate.time};
      EXPECT_LE(last, now);
      last = now;
    }
  }
}

TEST(FittingChanges, LeavePinnedFieldsAndWhatIsLeftOutAlone) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const ParallelConfig from{.tp = 2, .dp = 16, .micro_batch_size = 4};
  SearchOptions options{.gpus = 64};
  options.space.recompute = {Recompute::kNone};
  options.space.zero_stage = IntegerRanges(0);
  options.is_left_out = [](const ParallelConfig& config) { return config.micro_batch_size == 2; };
  for (const FittingChange& change : smallest_fitting_changes(scenario, options, from).found) {
    EXPECT_FALSE(contains(change.fields, std::string_view("recompute")));
    EXPECT_FALSE(contains(change.fields, std::string_view("zero_stage")));
    EXPECT_NE(change.candidate.config.micro_batch_size, 2);
  }
  options.limit = SearchLimit([] { return 1.0; });
  const FittingChanges none = smallest_fitting_changes(scenario, options, from);
  EXPECT_FALSE(none.is_complete);
  EXPECT_TRUE(none.found.empty());
}

// 7.5 B parameters of 20 bytes do not fit into 80 GiB, whatever is recomputed; a half does.
TEST(FittingChanges, TakeMoreGpusWhereThoseThereAreAreTooFew) {
  Scenario scenario = selene_2021("7.5B", 512);
  const auto found = [&](std::int64_t gpus) {
    return smallest_fitting_changes(scenario, {.gpus = gpus}, ParallelConfig{}).found;
  };
  const std::vector<FittingChange> changes = found(1);
  ASSERT_FALSE(changes.empty());
  std::set<Fields> seen;
  for (const FittingChange& change : changes) {
    EXPECT_GT(change.candidate.config.world_size(), 1);
    EXPECT_LE(change.candidate.config.world_size(), 8);
    EXPECT_EQ(change.fields.size(), 1U);
    EXPECT_TRUE(seen.insert(change.fields).second);
  }
  scenario.cluster.network_tiers = {{.gpus = 1, .oversubscription = 1.0}};
  EXPECT_TRUE(found(1).empty());
}

// 61 layers on 16 stages: 13 stages of 4 and 3 of 3.
TEST(FittingChanges, SplitLayersUnevenlyWhereTheStackDoes) {
  const Scenario scenario =
      shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 15360);
  const ParallelConfig from{
      .pp = 16, .dp = 128, .ep = 64, .recompute = Recompute::kFull, .zero_stage = 1};
  const auto changes = smallest_fitting_changes(scenario, {.gpus = 2048}, from).found;
  ASSERT_FALSE(changes.empty());
  EXPECT_THAT(changes.front().fields, ElementsAre("layers_per_stage"));
  std::vector<int> layers(13, 4);
  layers.insert(layers.end(), 3, 3);
  EXPECT_EQ(changes.front().candidate.config.layers_per_stage, layers);
  Scenario equal = scenario;
  equal.stack.can_run.uneven_layers = false;
  for (const FittingChange& change : smallest_fitting_changes(equal, {.gpus = 2048}, from).found) {
    EXPECT_TRUE(change.candidate.config.layers_per_stage.empty());
  }
}

TEST(ChangedFields, CountWhatHasToBeTyped) {
  const StackCapabilities& op = find_stack("torchtitan-2024").can_run;
  const ParallelConfig from{.tp = 2, .dp = 4};
  ParallelConfig to = from;
  to.recompute = Recompute::kSelective;
  to.recompute_modules = usual_modules(op);
  EXPECT_THAT(changed_fields(from, to, op), ElementsAre("recompute"));
  EXPECT_THAT(changed_fields(from, to, find_stack("megatron-core-2025").can_run),
              ElementsAre("recompute", "recompute_modules"));
  to = from;
  to.recompute = Recompute::kFull;
  to.recompute_num_layers = 4;
  to.recompute_method = RecomputeMethod::kEvery;
  to.dp = 2;
  EXPECT_THAT(changed_fields(from, to, op), ElementsAre("dp", "recompute", "recompute_num_layers"));
  EXPECT_THAT(changed_fields(from, from, op), ElementsAre());
}

}  // namespace
}  // namespace ptdp
