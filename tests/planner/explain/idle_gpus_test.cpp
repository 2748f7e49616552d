// Tests of the batch that puts idle GPUs to work.
#include "planner/explain/idle_gpus.h"

#include <gtest/gtest.h>

#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

Candidate best_of(const Scenario& scenario, const SearchOptions& options) {
  return search(scenario, options).best.front();
}

// 512 sequences keep at most 512 replicas busy, and 1000 = 2^3 5^3 GPUs have no such divisor.
TEST(IdleGpus, WorkWithABatchThatTheirNumberDivides) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 512);
  const SearchOptions options{.gpus = 1000, .space = {.pp = IntegerRanges(1)}};
  const Candidate best = best_of(scenario, options);
  ASSERT_LT(best.config.world_size(), 900);
  const auto fuller = batch_that_uses_gpus(scenario, options, best);
  ASSERT_TRUE(fuller);
  EXPECT_EQ(fuller->global_batch_size, 500);
  EXPECT_GE(fuller->best.config.world_size(), 900);
  EXPECT_EQ(500 % (fuller->best.config.dp * fuller->best.config.micro_batch_size), 0);
}

// No batch nearer to 5 than the one found lets a search over everything use nine tenths.
TEST(IdleGpus, WorkWithTheNearestBatchOfASmallJob) {
  Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 5);
  const SearchOptions options{.gpus = 8, .space = {.tp = IntegerRanges(1), .pp = IntegerRanges(1)}};
  const auto fuller = batch_that_uses_gpus(scenario, options, best_of(scenario, options));
  ASSERT_TRUE(fuller);
  const std::int64_t distance = std::abs(fuller->global_batch_size - 5);
  for (std::int64_t batch = 5 - distance + 1; batch < 5 + distance; ++batch) {
    scenario.job.global_batch_size = batch;
    EXPECT_LT(exhaustive_search(scenario, options).front().config.world_size(), 7.2) << batch;
  }
}

TEST(IdleGpus, AreNotAskedAboutWhereFewAreOrNobodyPays) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 512);
  const SearchOptions all{.gpus = 64};
  EXPECT_FALSE(batch_that_uses_gpus(scenario, all, best_of(scenario, all)));
  const SearchOptions cheap{
      .gpus = 1000, .space = {.pp = IntegerRanges(1)}, .objective = Objective::kCost};
  EXPECT_FALSE(batch_that_uses_gpus(scenario, cheap, best_of(scenario, cheap)));
}

}  // namespace
}  // namespace ptdp
