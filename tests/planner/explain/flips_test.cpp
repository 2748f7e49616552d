// Tests of what would flip the choice.
#include "planner/explain/flips.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <vector>

#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a job whose search looks at some hundred candidates: without a tie or derived plans.
SearchOptions small_options(std::int64_t gpus) {
  return {.gpus = gpus,
          .space = {.tp = IntegerRanges::parse("1,2,4", 1, 4, "tp"),
                    .vpp = IntegerRanges(1),
                    .recompute = {Recompute::kNone, Recompute::kFull}}};
}

Scenario small_scenario() {
  return shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2021", 48);
}

/// Returns the scenario with an input changed by hand. The cluster must have no measured curve.
Scenario changed_by_hand(Scenario scenario, ChangedInput input, const FlipPoint& point) {
  const double factor = 1.0 + point.change;
  ClusterSpec& cluster = scenario.cluster;
  GpuSpec& gpu = cluster.gpu;
  switch (input) {
    case ChangedInput::kPeak:
      gpu.peak_fp16 = gpu.peak_fp16 * factor;
      gpu.peak_fp32 = gpu.peak_fp32 * factor;
      gpu.peak_fp64 = gpu.peak_fp64 * factor;
      break;
    case ChangedInput::kNodeLinks:
      cluster.nvlink.bandwidth = cluster.nvlink.bandwidth * factor;
      break;
    case ChangedInput::kNetwork:
      cluster.nic.bandwidth = cluster.nic.bandwidth * factor;
      break;
    case ChangedInput::kMemory:  // 32 GiB, of which the reserve stays as it is
      gpu.memory = gpu.memory * factor;
      scenario.stack.reserve_fraction /= factor;
      break;
    case ChangedInput::kBatch:
      scenario.job.global_batch_size = point.value;
      break;
    case ChangedInput::kGpus:
      break;
  }
  return scenario;
}

// Everything is costed, and the fastest is taken.
TEST(Flips, AreWhatCostingEveryCandidateFinds) {
  Scenario scenario = shipped_scenario("gpt2-1.5b", "dgx2-v100", "megatron-lm-2021", 48);
  ASSERT_TRUE(scenario.cluster.all_reduce_curves.empty());
  scenario.stack.reserve_fraction = 0.1;
  const SearchOptions options = small_options(48);
  const ParallelConfig answer = exhaustive_search(scenario, options).front().config;
  const Flips flips = find_flips(scenario, options, answer);
  EXPECT_FALSE(flips.is_coarse);
  EXPECT_TRUE(flips.left_out.empty());
  ASSERT_EQ(flips.inputs.size(), kChangedInputs.size());
  for (const InputFlips& input : flips.inputs) {
    for (const FlipPoint& point : input.points) {
      SCOPED_TRACE(std::string(text_of(input.input).key) + " " + std::to_string(point.change));
      SearchOptions searched = options;
      searched.gpus = input.input == ChangedInput::kGpus ? point.value : options.gpus;
      const std::vector<Candidate> all =
          exhaustive_search(changed_by_hand(scenario, input.input, point), searched);
      ASSERT_TRUE(point.best && !all.empty());
      EXPECT_EQ(point.best->config, all.front().config);
      EXPECT_DOUBLE_EQ(point.best->time.value(), all.front().time.value());
      EXPECT_EQ(point.is_same, all.front().config == answer);
      const auto same = std::ranges::find(all, answer, &Candidate::config);
      ASSERT_EQ(point.same.has_value(), same != all.end());
      if (point.same) {
        EXPECT_DOUBLE_EQ(point.same->value(), same->time.value());
      }
    }
  }
}

TEST(Flips, HaveTheChangesOfTheGridInOrder) {
  const Flips flips = find_flips(small_scenario(), small_options(40), ParallelConfig{.dp = 24});
  ASSERT_EQ(flips.inputs.size(), kChangedInputs.size());
  std::vector<double> changes;
  for (const FlipPoint& point : flips.inputs.front().points) {
    changes.push_back(point.change);
  }
  EXPECT_THAT(changes, testing::ElementsAre(-0.2, -0.1, -0.05, 0.05, 0.1, 0.2));
  // Nodes of eight: 44 GPUs round to 48 as 48 do, 36 and the rest to 40, which change nothing.
  std::vector<std::int64_t> gpus;
  for (const FlipPoint& point : flips.inputs.back().points) {
    gpus.push_back(point.value);
  }
  EXPECT_THAT(gpus, testing::ElementsAre(32, 48));
}

/// Returns how many points there are.
std::size_t num_points(const Flips& flips) {
  std::size_t num = 0;
  for (const InputFlips& input : flips.inputs) {
    num += input.points.size();
  }
  return num;
}

// Whatever work is left, what is found is a part of what all of it finds, and says what is missing.
TEST(Flips, AreFewerWithLessWorkAndSayWhatIsLeftOut) {
  SearchOptions options = small_options(16);
  const ParallelConfig answer{.dp = 16};
  const Flips fine = find_flips(small_scenario(), options, answer);
  EXPECT_FALSE(fine.is_coarse);
  ASSERT_EQ(fine.inputs.size(), 5U);  // two nodes stay two within 20 %
  std::set<std::size_t> sizes;
  for (; options.flip_work > Seconds(1e-6); options.flip_work = 0.5 * options.flip_work) {
    const Flips flips = find_flips(small_scenario(), options, answer);
    sizes.insert(num_points(flips));
    EXPECT_EQ(num_points(find_flips(small_scenario(), options, answer)), num_points(flips));
    EXPECT_EQ(flips.inputs.size() + flips.left_out.size(), fine.inputs.size());
    EXPECT_EQ(flips.is_coarse, num_points(flips) < num_points(fine));
    for (std::size_t i = 0; i < flips.inputs.size(); ++i) {
      for (const FlipPoint& point : flips.inputs[i].points) {
        const auto same =
            std::ranges::find(fine.inputs[i].points, point.change, &FlipPoint::change);
        ASSERT_NE(same, fine.inputs[i].points.end());
        EXPECT_EQ(point.best->config, same->best->config);
      }
    }
  }
  EXPECT_GT(sizes.size(), 3U);
  EXPECT_TRUE(sizes.contains(0));
}

TEST(Flips, AreLeftOutOnceTheLimitIsOver) {
  SearchOptions options = small_options(16);
  options.limit = SearchLimit([] { return 1.0; });
  const Flips none = find_flips(small_scenario(), options, ParallelConfig{.dp = 16});
  EXPECT_TRUE(none.inputs.empty());
  EXPECT_TRUE(none.is_coarse);
  EXPECT_EQ(none.left_out.size(), 5U);
}

// Other jobs come after changes that make another plan win at the same one.
TEST(Flips, AreSmallestWhereTheSmallestChangeMakesAnotherWin) {
  const FlipPoint same{.change = 0.05, .is_same = true};
  const FlipPoint far{.change = -0.2, .same = Seconds(2.0)};
  const FlipPoint near{.change = 0.1, .same = Seconds(2.0)};
  const FlipPoint cannot_run{.change = 0.05};
  Flips flips{.inputs = {{ChangedInput::kBatch, {cannot_run}}, {ChangedInput::kGpus, {near}}}};
  const auto smallest = [&] { return smallest_flip(flips)->input; };
  EXPECT_EQ(smallest(), ChangedInput::kBatch);
  flips.inputs.push_back({ChangedInput::kPeak, {far, same}});
  EXPECT_EQ(smallest(), ChangedInput::kPeak);
  flips.inputs.push_back({ChangedInput::kMemory, {near}});
  EXPECT_EQ(smallest(), ChangedInput::kMemory);
  EXPECT_FALSE(smallest_flip({}));
}

}  // namespace
}  // namespace ptdp
