// Tests of the waterfall of an iteration: what it begins with, and that it adds up.
#include "planner/report/sections/iteration_waterfall.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/term_intervals.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

BarsView bars_of(const Plan& plan) {
  return std::get<BarsView>(iteration_waterfall(plan).view);
}

/// Returns the bar of a name; one of no value where there is none.
Bar bar_named(const BarsView& view, const std::string& name) {
  const auto found = std::ranges::find(view.bars, name, &Bar::name);
  return found == view.bars.end() ? Bar{} : *found;
}

TEST(IterationWaterfall, AddsUpToTheIteration) {
  for (const Plan& plan : various_plans()) {
    const BarsView view = bars_of(plan);
    double sum = 0.0;
    for (const Bar& bar : view.bars) {
      sum += bar.value;
      EXPECT_GT(std::abs(bar.value), 1e-12 * view.total->value) << bar.name;  // more than rounding
    }
    const Estimate<Seconds>& time = plan.predicted.iteration_time;
    ASSERT_TRUE(view.total);
    EXPECT_NEAR(sum / time.value.value(), 1.0, 1e-12) << to_string(plan.config);
    EXPECT_EQ(view.total->value, time.value.value());
    EXPECT_EQ(view.total->low, time.low.value());
    EXPECT_EQ(view.total->high, time.high.value());
  }
}

// By hand: 72Bslh²(1 + s/12h + V/12lh), half of the scores left out, over 64 GPUs of 312 TFLOP/s.
TEST(IterationWaterfall, BeginsWithCausalModelFlopsAtThePeak) {
  const Plan plan = plan_of_39b();
  const double s = 2048.0;
  const double h = 8192.0;
  const double l = 48.0;
  const double flops =
      72.0 * 64.0 * s * l * h * h * (1.0 + s / (12.0 * h) + 51200.0 / (12.0 * l * h));
  const Bar ideal = bars_of(plan).bars.front();
  EXPECT_EQ(ideal.name, "ideal compute");
  EXPECT_NEAR(ideal.value / (flops / 64.0 / 312e12), 1.0, 1e-9);
}

// Where products run at the peak, the layers' and the logits' take what they take ideally: what one
// bar counts no other counts again.
TEST(IterationWaterfall, HasNoProductsBelowAPeakThatTheyReach) {
  const Plan plan = plan_of(plain_scenario(small_dense_model()), {.micro_batch_size = 4});
  const BarsView view = bars_of(plan);
  EXPECT_NEAR(bar_named(view, "matmul below peak").value / view.total->value, 0.0, 1e-12);
  EXPECT_GT(bar_named(view, "memory_bound").value, 0.0);
}

// Steps of one H200 bound products, attention and the optimizer by themselves; the interval of
// products is that of all they take, less what they would take ideally.
TEST(IterationWaterfall, HasIntervalsWhereStepsWereMeasured) {
  const Plan plan =
      plan_of(shipped_scenario("gpt2-124m", "hgx-h200", "ptdp-cuda", 8), {.micro_batch_size = 8});
  const BarsView view = bars_of(plan);
  const RelativeInterval products = kErrorsByDataSheet.matmul.interval();
  const Bar below = bar_named(view, "matmul below peak");
  ASSERT_TRUE(below.low && below.high);
  EXPECT_NEAR((*below.high - *below.low) / (products.high - products.low),
              (below.value - *below.low) / (1.0 - products.low), 1e-12 * view.total->value);
  const RelativeInterval optimizer = kErrorsByDataSheet.optimizer.interval();
  const Bar step = bar_named(view, "optimizer");
  ASSERT_TRUE(step.low && step.high);
  EXPECT_NEAR(*step.low / step.value, optimizer.low, 1e-12);
  EXPECT_NEAR(*step.high / step.value, optimizer.high, 1e-12);
  EXPECT_FALSE(bar_named(view, "memory_bound").low);
  EXPECT_FALSE(bar_named(bars_of(plan_of_39b()), "optimizer").low);
}

}  // namespace
}  // namespace ptdp
