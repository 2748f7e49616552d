// Flips and gains that several threads search for.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "planner/explain/flips.h"
#include "planner/explain/gains.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr unsigned kWorkers = 4;

Scenario small_job() {
  return shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2021", 48);
}

/// Returns options of a search that looks at some hundred candidates.
SearchOptions options_on(unsigned workers) {
  return {.gpus = 48,
          .space = {.tp = IntegerRanges::parse("1,2,4", 1, 4, "tp"),
                    .vpp = IntegerRanges(1),
                    .recompute = {Recompute::kNone, Recompute::kFull}},
          .num_workers = workers};
}

TEST(ExplainedInThreads, HasTheFlipsOfOne) {
  const Scenario scenario = small_job();
  const Candidate chosen = search(scenario, options_on(1)).best.front();
  const Flips one = find_flips(scenario, options_on(1), chosen.config);
  const Flips several = find_flips(scenario, options_on(kWorkers), chosen.config);
  EXPECT_EQ(several.is_coarse, one.is_coarse);
  EXPECT_EQ(several.left_out, one.left_out);
  ASSERT_EQ(several.inputs.size(), one.inputs.size());
  EXPECT_EQ(one.inputs.size(), kChangedInputs.size());
  for (std::size_t i = 0; i < one.inputs.size(); ++i) {
    const std::vector<FlipPoint>& points = one.inputs[i].points;
    EXPECT_EQ(several.inputs[i].input, one.inputs[i].input);
    ASSERT_EQ(several.inputs[i].points.size(), points.size());
    for (std::size_t j = 0; j < points.size(); ++j) {
      const FlipPoint& other = several.inputs[i].points[j];
      EXPECT_EQ(other.change, points[j].change);
      EXPECT_EQ(other.same, points[j].same);
      EXPECT_EQ(other.is_same, points[j].is_same);
      ASSERT_TRUE(points[j].best && other.best);
      EXPECT_EQ(other.best->config, points[j].best->config);
      EXPECT_EQ(other.best->time, points[j].best->time);
    }
  }
}

TEST(ExplainedInThreads, HasTheGainsOfOne) {
  const Scenario scenario = small_job();
  const SearchOptions on_one = options_on(1);
  const SearchOptions on_several = options_on(kWorkers);
  const Candidate chosen = search(scenario, on_one).best.front();
  const Gains one = find_gains({scenario, on_one, chosen});
  const Gains several = find_gains({scenario, on_several, chosen});
  EXPECT_EQ(several.is_complete, one.is_complete);
  EXPECT_FALSE(one.found.empty());
  ASSERT_EQ(several.found.size(), one.found.size());
  for (std::size_t i = 0; i < one.found.size(); ++i) {
    EXPECT_EQ(several.found[i].change, one.found[i].change);
    EXPECT_EQ(several.found[i].config, one.found[i].config);
    EXPECT_EQ(several.found[i].saved, one.found[i].saved);
  }
}

}  // namespace
}  // namespace ptdp
