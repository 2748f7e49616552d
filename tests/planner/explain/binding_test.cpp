// Tests of what binds a plan.
#include "planner/explain/binding.h"

#include <gtest/gtest.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a breakdown of which no term decides: 1 ms each.
CostBreakdown small_cost() {
  CostBreakdown cost;
  for (const CostTerm& term : kCostTerms) {
    cost.*term.time = Seconds(1e-3);
  }
  return cost;
}

/// Returns the memory of `pp` ranks, of which the last holds most: 30 GiB, 20 of them activations.
std::vector<MemoryBreakdown> memory_of(int pp) {
  std::vector<MemoryBreakdown> stages(static_cast<std::size_t>(pp));
  stages.front().weights = gibibytes(25.0);
  stages.back().activations = gibibytes(20.0);
  stages.back().reserve = gibibytes(10.0);
  return stages;
}

/// SC21's largest model: 3072 sequences of 2048 tokens on 3072 GPUs of 312 TFLOP/s.
class BindingOf1T : public testing::Test {
 protected:
  const Scenario scenario = selene_2021("1T");
  const ParallelConfig config{.tp = 8, .pp = 64, .dp = 6};

  [[nodiscard]] Binding find(const CostBreakdown& cost, const ParallelConfig& of) const {
    return find_binding({scenario, of}, cost, memory_of(of.pp), gibibytes(40.0));
  }
};

TEST_F(BindingOf1T, IsTheLargestCategoryOfTheHeaviestStage) {
  const Binding binding = find(small_cost(), config);
  EXPECT_EQ(binding.rank, 63);
  EXPECT_EQ(binding.category, "activations");
  EXPECT_DOUBLE_EQ(binding.of_category.value() / kGibi, 20.0);
  EXPECT_DOUBLE_EQ(binding.free.value() / kGibi, 10.0);
}

// 72·3072·2048·128·25600²·(1 + 2048/(12·25600) + 51200/(12·128·25600)) FLOPs, half of the scores
// left out; padded vocabularies move that by less than a thousandth.
TEST_F(BindingOf1T, ComparesWithTheModelsFlopsAtThePeak) {
  const double flops = 72.0 * 3072 * 2048 * 128 * 25600.0 * 25600.0 *
                       (1.0 + 2048.0 / (12 * 25600) + 51200.0 / (12.0 * 128 * 25600));
  const double seconds = flops / 3072 / 312e12;
  CostBreakdown cost = small_cost();
  const Binding idle = find(cost, config);
  EXPECT_NEAR(idle.at_peak.value() / seconds, 1.0, 1e-3);
  cost.matmul = Seconds(seconds + 5.0);
  cost.recompute = Seconds(4.0);
  Binding binding = find(cost, config);
  EXPECT_EQ(binding.largest.term, kBelowPeak);
  EXPECT_NEAR(binding.largest.time.value(), 5.0, 0.1);
  cost.recompute = Seconds(6.0);
  binding = find(cost, config);
  EXPECT_EQ(binding.largest.term, "recompute");
  EXPECT_DOUBLE_EQ(binding.largest.time.value(), 6.0);
}

// Nodes of eight GPUs: eight tensor-parallel ranks stay within one, 16 don't, nor do stages of
// 48.
TEST_F(BindingOf1T, NamesTheLinkThatTheLargestCommunicationCrosses) {
  CostBreakdown cost = small_cost();
  cost.tensor_parallel = Seconds(2.0);
  EXPECT_EQ(find(cost, config).link->part.term, "tensor_parallel");
  EXPECT_EQ(find(cost, config).link->link, Link::kNode);
  EXPECT_EQ(find(cost, {.tp = 16, .pp = 32, .dp = 6}).link->link, Link::kNetwork);
  cost.pipeline_messages = Seconds(3.0);
  EXPECT_EQ(find(cost, config).link->link, Link::kNetwork);
  EXPECT_EQ(find(cost, {.tp = 2, .pp = 4}).link->link, Link::kNode);
  EXPECT_FALSE(find({}, config).link);
}

// 512 microbatches: 63/512 in one chunk a stage, 63/1024 in two.
TEST_F(BindingOf1T, HasTheClosedFormulaOfTheBubble) {
  EXPECT_DOUBLE_EQ(find(small_cost(), config).bubble_formula, 63.0 / 512.0);
  EXPECT_DOUBLE_EQ(find(small_cost(), {.tp = 8, .pp = 64, .dp = 6, .vpp = 2}).bubble_formula,
                   63.0 / 1024.0);
  EXPECT_DOUBLE_EQ(find(small_cost(), {.tp = 8, .dp = 6}).bubble_formula, 0.0);
}

}  // namespace
}  // namespace ptdp
