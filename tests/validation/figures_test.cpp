// Compares predictions with the figures of SC21 (arXiv:2104.04473): what rises, what falls, and
// where curves cross.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/constraints/constraint.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// A point of a curve: its place on the axis, and TFLOP/s per GPU.
struct Point {
  double axis = 0.0;
  double measured = 0.0;
  double predicted = 0.0;
};

/// The curves of a figure, by what the points of a curve have in common.
using Curves = std::map<std::string, std::vector<Point>>;

Curves curves_of(const std::string& group,
                 const std::function<std::string(const MeasuredRun&)>& key,
                 const std::function<double(const MeasuredRun&)>& axis) {
  Curves curves;
  for (const CostedRun& run : cost_runs(read_published_runs()).costed) {
    if (run.run.group == group) {
      curves[key(run.run)].push_back({axis(run.run),
                                      tflops_per_gpu(run.run, run.run.iteration_time),
                                      tflops_per_gpu(run.run, run.predicted)});
    }
  }
  for (auto& [name, points] : curves) {
    std::sort(points.begin(), points.end(),
              [](const Point& a, const Point& b) { return a.axis < b.axis; });
  }
  return curves;
}

std::string batch_of(const MeasuredRun& run) {
  return "batch " + std::to_string(run.global_batch_size);
}
std::string variant_of(const MeasuredRun& run) {
  return "vpp " + std::to_string(run.config.vpp) + ' ' + std::string(name_of(run.config.recompute));
}
double axis_of_batch(const MeasuredRun& run) {
  return static_cast<double>(run.global_batch_size);
}

/// Returns the steps along the curves on which prediction and measurement go different ways.
std::vector<std::string> wrong_trends(const Curves& curves) {
  std::vector<std::string> wrong;
  for (const auto& [name, points] : curves) {
    for (std::size_t i = 1; i < points.size(); ++i) {
      const double measured = points[i].measured - points[i - 1].measured;
      const double predicted = points[i].predicted - points[i - 1].predicted;
      if (measured * predicted < 0.0) {
        wrong.push_back(name + " to " + std::to_string(std::lround(points[i].axis)));
      }
    }
  }
  return wrong;
}

/// Returns the place of the best point of a curve, counted along the axis.
std::ptrdiff_t best_of(const std::vector<Point>& points, double Point::*rate) {
  return std::max_element(points.begin(), points.end(),
                          [rate](const Point& a, const Point& b) { return a.*rate < b.*rate; }) -
         points.begin();
}

void expect_optima_within_one_step(const Curves& curves) {
  for (const auto& [name, points] : curves) {
    EXPECT_LE(std::abs(best_of(points, &Point::measured) - best_of(points, &Point::predicted)), 1)
        << name;
  }
}

TEST(Figure11, FallsWithTheStagesForEitherBatch) {
  const Curves curves =
      curves_of("sc21-f11", batch_of, [](const MeasuredRun& run) { return run.config.pp; });
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_TRUE(wrong_trends(curves).empty()) << wrong_trends(curves).front();
}

// Interleaving gains 45 % at a batch of 12 and 8 % at 60.
TEST(Figure12, GainsFromInterleavingWhatIsMeasured) {
  const Curves curves = curves_of("sc21-f12", variant_of, axis_of_batch);
  EXPECT_TRUE(wrong_trends(curves).empty()) << wrong_trends(curves).front();
  const std::vector<Point>& plain = curves.at("vpp 1 full");
  const std::vector<Point>& interleaved = curves.at("vpp 4 full");
  ASSERT_EQ(plain.size(), interleaved.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double measured = interleaved[i].measured / plain[i].measured - 1.0;
    const double predicted = interleaved[i].predicted / plain[i].predicted - 1.0;
    EXPECT_NEAR(predicted, measured, 0.03) << plain[i].axis;
  }
}

TEST(Figure13, HasItsOptimumWithinOneStep) {
  const Curves curves =
      curves_of("sc21-f13", batch_of, [](const MeasuredRun& run) { return run.config.pp; });
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_TRUE(wrong_trends(curves).empty()) << wrong_trends(curves).front();
  expect_optima_within_one_step(curves);
}

// Measured, b = 4 is 6 % slower than b = 2 at a batch of 512; predicted, 0.6 % faster. No term of
// the model makes a sequence slower in a larger microbatch: the one trend that comes out wrong.
TEST(Figure16, HasItsOptimumWithinOneStep) {
  const Curves curves = curves_of(
      "sc21-f16", batch_of, [](const MeasuredRun& run) { return run.config.micro_batch_size; });
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(wrong_trends(curves), std::vector<std::string>{"batch 512 to 4"});
  expect_optima_within_one_step(curves);
}

TEST(Figure17, RisesWithTheBatchWithAndWithoutRecomputation) {
  const Curves curves = curves_of("sc21-f17", variant_of, axis_of_batch);
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_TRUE(wrong_trends(curves).empty()) << wrong_trends(curves).front();
}

// Without recomputation the figure's curve ends at a batch of 8: beyond it the 145B model on (8,
// 16) runs out of memory.
TEST(Figure17, FitsWithoutRecomputationUpToABatchOfEight) {
  for (const std::int64_t batch : {1, 2, 4, 8, 16, 32}) {
    const Scenario scenario = selene_2021("145B", batch);
    const ParallelConfig config{.tp = 8, .pp = 16};
    const Bytes capacity = usable_memory(scenario.cluster.gpu, 0.0);
    EXPECT_EQ(peak_memory({scenario, config}) <= capacity, batch <= 8) << batch;
  }
}

// SC21 section 5.8: fusing element-wise kernels lifts the 175B model from 113 to 135 TFLOP/s per
// GPU and the 530B model from 133 to 148. Its configurations are not printed; these are those of
// figure 12 and of table 1.
TEST(Section58, GainsFromFusionWhatIsMeasured) {
  const auto gain = [](const std::string& model, std::int64_t batch, const ParallelConfig& config) {
    Scenario scenario = selene_2021(model, batch);
    const Seconds fused = iteration_cost({scenario, config}).total();
    scenario.stack.fused_element_wise = false;
    return iteration_cost({scenario, config}).total() / fused - 1.0;
  };
  EXPECT_NEAR(gain("gpt3-175b", 60, {.tp = 8, .pp = 12, .recompute = Recompute::kFull}),
              135.0 / 113.0 - 1.0, 0.03);
  EXPECT_NEAR(gain("530B", 2520,
                   {.tp = 8,
                    .pp = 35,
                    .dp = 9,
                    .vpp = 3,
                    .schedule = ScheduleKind::kInterleaved,
                    .recompute = Recompute::kFull}),
              148.0 / 133.0 - 1.0, 0.03);
}

}  // namespace
}  // namespace ptdp
