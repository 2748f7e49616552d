// Tests of what single changes would gain.
#include "planner/explain/gains.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/memory/memory.h"
#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// SC21's largest model, and the best configuration for it.
class GainsOf1T : public testing::Test {
 public:
  const Scenario scenario = selene_2021("1T");
  const SearchOptions options{.gpus = 3072};
  const Candidate chosen = search(scenario, options).best.front();

  [[nodiscard]] std::vector<Gain> find() const {
    return find_gains({scenario, options, chosen}).found;
  }
  /// Returns options with the degrees and the microbatch of the answer.
  [[nodiscard]] SearchOptions with_degrees() const {
    SearchOptions pinned = options;
    pinned.space.tp = IntegerRanges(chosen.config.tp);
    pinned.space.pp = IntegerRanges(chosen.config.pp);
    pinned.space.dp = IntegerRanges(chosen.config.dp);
    return pinned;
  }
  static const Gain* of(const std::vector<Gain>& gains, std::string_view part) {
    const auto found = std::ranges::find_if(
        gains, [&](const Gain& gain) { return gain.change.find(part) != std::string::npos; });
    return found == gains.end() ? nullptr : &*found;
  }
};

// The published configuration recomputes all layers for want of memory: by costing everything on
// its degrees with a hundred times the memory, one configuration that recomputes nothing is faster.
TEST_F(GainsOf1T, OfMemoryAreThoseOfCostingEverythingWithoutALimit) {
  ASSERT_EQ(chosen.config.recompute, Recompute::kFull);
  const std::vector<Gain> gains = find();
  const Gain* gain = of(gains, "recompute=none");
  ASSERT_NE(gain, nullptr);
  Scenario roomy = scenario;
  roomy.cluster.gpu.memory = roomy.cluster.gpu.memory * 100.0;
  SearchOptions pinned = with_degrees();
  pinned.space.vpp = IntegerRanges(1);
  pinned.space.micro_batch_size = IntegerRanges(chosen.config.micro_batch_size);
  const Candidate best = exhaustive_search(roomy, pinned).front();
  EXPECT_EQ(gain->config, best.config);
  EXPECT_EQ(gain->kind, GainKind::kMemory);
  EXPECT_NEAR(gain->saved, 1.0 - best.time / chosen.time, 1e-9);
  const double missing = best.memory.value() / kGibi - 80.0;
  EXPECT_GT(missing, 50.0);
  EXPECT_EQ(std::stod(gain->change), std::round(100.0 * missing) / 100.0);
}

TEST_F(GainsOf1T, OfSoftwareAreThoseOfCostingEverythingWithThatStack) {
  const std::vector<Gain> gains = find();
  const Gain* gain = of(gains, "sequence parallelism");
  ASSERT_NE(gain, nullptr);
  Scenario other = scenario;
  other.stack.can_run.sequence_parallel = true;
  const Candidate best = exhaustive_search(other, with_degrees()).front();
  EXPECT_EQ(gain->config, best.config);
  EXPECT_TRUE(gain->config.sequence_parallel);
  EXPECT_NEAR(gain->saved, 1.0 - best.time / chosen.time, 1e-9);
}

TEST_F(GainsOf1T, LackWhatTheStackDoesAlready) {
  ASSERT_TRUE(scenario.stack.fused_element_wise);
  ASSERT_TRUE(scenario.stack.scatter_gather);
  EXPECT_EQ(of(find(), "fused element-wise kernels"), nullptr);
  EXPECT_EQ(of(find(), "split over tensor-parallel"), nullptr);
}

// Twice the batch in 1.8 times the time saves a tenth of the time of a sequence; a tenth more in
// the same time saves a share of 1/11, three times as many in 2.8 times the time a fifteenth.
TEST_F(GainsOf1T, OfInputsCountTheTimeOfASequenceAndTheIncreaseThatGainsMost) {
  const auto point = [&](double change, double times) {
    Candidate best = chosen;
    best.time = chosen.time * times;
    return FlipPoint{.change = change, .best = best};
  };
  Flips flips{.inputs = {{ChangedInput::kPeak, {point(-0.2, 1.2), point(0.1, 0.95)}},
                         {ChangedInput::kBatch,
                          {point(-0.5, 0.1), point(0.1, 1.0), point(1.0, 1.8), point(2.0, 2.8)}},
                         {ChangedInput::kNetwork, {point(-0.2, 0.5)}}}};
  flips.inputs[1].points[2].value = 6144;
  const Gain other{.change = "other", .saved = 0.07};
  const std::vector<Gain> gains = with_inputs({{other}}, {scenario, options, chosen}, flips).found;
  EXPECT_NEAR(of(gains, "10 % more peak FLOP/s")->saved, 0.05, 1e-9);
  EXPECT_NEAR(of(gains, "6144 sequences")->saved, 0.1, 1e-9);
  EXPECT_EQ(of(gains, "network bandwidth"), nullptr);
  EXPECT_TRUE(std::ranges::is_sorted(gains, std::ranges::greater{}, &Gain::saved));
}

TEST_F(GainsOf1T, AreIncompleteWhereTheLimitIsOver) {
  SearchOptions limited = options;
  limited.limit = SearchLimit([] { return 1.0; });
  const Gains gains = find_gains({scenario, limited, chosen});
  EXPECT_FALSE(gains.is_complete);
  EXPECT_TRUE(gains.found.empty());
}

// What a user pins is no change to offer.
TEST_F(GainsOf1T, KeepToThePins) {
  SearchOptions pinned = options;
  pinned.space.recompute = {Recompute::kFull};
  EXPECT_EQ(of(find_gains({scenario, pinned, chosen}).found, "recompute="), nullptr);
}

}  // namespace
}  // namespace ptdp
