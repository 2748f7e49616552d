// Checks the accuracy that the README states against published measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/iteration.h"
#include "planner/accuracy/interval_fit.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/partial_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/accuracy/validation_report.h"
#include "planner/plan/prediction.h"
#include "planner/search/search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr double kDay = 86400.0;

/// Returns the shipped published runs of one group, costed; all of them for an empty name.
std::vector<CostedRun> published(const std::string& group) {
  const MeasuredRuns runs = read_published_runs();
  std::vector<CostedRun> selected;
  for (const CostedRun& run : cost_runs(runs).costed) {
    if (group.empty() || run.run.group == group) {
      selected.push_back(run);
    }
  }
  return selected;
}

ParallelConfig trillion() {
  return {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
}

/// Returns the relative errors of the runs under a calibration.
std::vector<double> errors_of(const std::vector<CostedRun>& runs, CalibrationKind kind) {
  std::vector<double> errors;
  for (const ValidatedRun& row : make_validation_report({.costed = runs}, kind).rows) {
    errors.push_back(row.error());
  }
  return errors;
}

Calibration without_the_trillion_row() {
  return calibrate_by_published(published_runs(), selene_2021("1T"), 3072)
      .at(run_point(selene_2021("1T"), trillion()));
}

Prediction predicted_trillion(const Calibration& calibration) {
  return predict({selene_2021("1T"), trillion()}, calibration);
}

TEST(Table1, IsPredictedWithoutCalibration) {
  const std::vector<CostedRun> runs = published("sc21-t1");
  ASSERT_EQ(runs.size(), 10U);
  const ErrorSummary errors = summarized(errors_of(runs, CalibrationKind::kNone));
  EXPECT_LE(errors.mean_absolute, 0.09);
  EXPECT_LE(errors.max_absolute, 0.13);
}

void expect_the_stated_accuracy(const std::vector<double>& errors) {
  ASSERT_EQ(errors.size(), 19U);
  EXPECT_LE(summarized(errors).mean_absolute, 0.03);
  EXPECT_LE(summarized(errors).max_absolute, 0.07);
}

TEST(Table1AndKorthikantiTable5, ArePredictedByTheFactorOfTheirOtherRows) {
  std::vector<CostedRun> runs = published("sc21-t1");
  const std::vector<CostedRun> korthikanti = published("korthikanti");
  runs.insert(runs.end(), korthikanti.begin(), korthikanti.end());
  expect_the_stated_accuracy(errors_of(runs, CalibrationKind::kLeaveOneOut));
}

TEST(Table1AndKorthikantiTable5, ArePredictedByTheFactorOfAllOtherRows) {
  const std::vector<CostedRun> runs = published("");
  const std::vector<double> errors = errors_of(runs, CalibrationKind::kLeaveOneOut);
  std::vector<double> selected;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].run.group == "sc21-t1" || runs[i].run.group == "korthikanti") {
      selected.push_back(errors[i]);
    }
  }
  expect_the_stated_accuracy(selected);
}

// The accuracy asked of fully specified rows where the factor of their cluster and stack rests on
// three or more others: half of a group's within 5 %, nine in ten within 15 %. Megatron-Bridge's
// dense models and Foundry's on H100 miss it (profiles/published/notes.md).
TEST(SpecifiedGroups, ArePredictedWithTheFactorOfTheirOtherRows) {
  for (const char* group : {"foundry-a100-80gb", "mlperf-gpt3-175b", "nemo-h100-fp8",
                            "simumax-b200-dense", "torchtitan"}) {
    std::vector<double> calibrated;
    for (const ValidatedRun& row :
         make_validation_report({.costed = published(group)}, CalibrationKind::kLeaveOneOut).rows) {
      if (row.calibration.support.num_runs >= 3) {
        calibrated.push_back(row.error());
      }
    }
    ASSERT_GE(calibrated.size(), 8U) << group;
    EXPECT_LE(summarized(calibrated).median_absolute, 0.05) << group;
    EXPECT_LE(summarized(calibrated).p90_absolute, 0.15) << group;
  }
}

// "Introducing Async Tensor Parallelism in PyTorch" (discuss.pytorch.org, September 2024): steps of
// Llama 3 70B take 8 % less, and of 8B too; torchtitan's benchmark of June 2025 has 9 and 10 % in
// bf16. With backward passes overlapped the model had 20 % of the first.
TEST(AsynchronousTensorParallelism, GainsWhatIsMeasured) {
  for (CostedRun run : published("torchtitan")) {
    if (run.run.id == "titan-70b-256-bf16-atp" || run.run.id == "titan-8b-64-bf16-tp") {
      const auto time = [&](bool overlaps) {
        run.run.tp_comm_overlap = overlaps;
        return iteration_cost({scenario_of(run), run.run.config}).total();
      };
      EXPECT_NEAR(time(false) / time(true), 1.09, 0.035) << run.run.id;
    }
  }
}

// mlcommons/training_results_v3.0, _v3.1: the same configuration on 512 GPUs of the same machine
// took 12.08 and 11.05 s. The requirements.txt and the Dockerfile of the rounds have
// FlashAttention-1 and -2; on that attention alone FlashAttention-2 is twice as fast.
TEST(MlperfRounds, DifferByTheSoftwareOfTheRound) {
  const auto of = [](const std::string& id) {
    for (const CostedRun& run : published("mlperf-gpt3-175b")) {
      if (run.run.id == id) {
        return run;
      }
    }
    throw std::out_of_range(id);
  };
  const CostedRun before = of("mlperf-v3.0-gpt3-512");
  const CostedRun after = of("mlperf-v3.1-gpt3-512");
  EXPECT_EQ(before.run.config, after.run.config);
  EXPECT_EQ(before.run.cluster, after.run.cluster);
  EXPECT_NE(before.run.stack, after.run.stack);
  EXPECT_GT(before.predicted / after.predicted, 1.02);
  EXPECT_LT(before.predicted / after.predicted, 12.08 / 11.05);
}

// An interval of 90 % leaves out a tenth of what is measured, give or take what chance does to 80
// rows (the standard error is 3 %).
TEST(PublishedRuns, LieInTheIntervalsOfTheirPredictions) {
  const ValidationReport report =
      make_validation_report({.costed = published("")}, CalibrationKind::kShipped);
  EXPECT_GE(report.total.inside_interval, 0.84);
}

// The intervals must also hold if neither the levels nor their constants know the group, whatever
// runs are then left nearest. Each group counts once.
TEST(PublishedGroups, LieInTheIntervalsOfPredictionsThatKnowNothingOfThem) {
  const std::vector<HeldOutRun> held_out = hold_groups_out(published(""));
  const HeldOutCoverage all = coverage_of(held_out);
  EXPECT_GE(all.inside, 0.85);
  EXPECT_LE(all.inside, 0.95);
  EXPECT_NEAR(all.bias, 0.0, 0.04);
  EXPECT_LE(coverage_of(with_nearest(held_out, NearestRuns::kScope)).median_half_width, 0.10);
  for (const NearestRuns nearest :
       {NearestRuns::kScope, NearestRuns::kStack, NearestRuns::kProgram}) {
    EXPECT_GE(coverage_of(with_nearest(held_out, nearest)).inside, 0.80);
  }
}

// After a change of the cost model or of the rows: copy what `ptdp-calibrate --intervals` prints.
TEST(UncalibratedInterval, IsTheOneFittedToThePublishedRuns) {
  const RelativeInterval fitted = fit_uncalibrated_interval(published(""));
  EXPECT_NEAR(kUncalibratedInterval.low, fitted.low, 1e-9);
  EXPECT_NEAR(kUncalibratedInterval.high, fitted.high, 1e-9);
}

// Pairs of layouts: the share measured in the stated order is what was stated, within 5 points in
// each bin and over all.
TEST(PublishedPairs, AreInTheirOrderAsOftenAsStated) {
  const ValidationReport report =
      make_validation_report({.costed = published("")}, CalibrationKind::kLeaveOneOut);
  std::vector<CostedRun> rows;
  std::vector<double> layout_variances;
  for (const ValidatedRun& row : report.rows) {
    rows.push_back(row.costed);
    layout_variances.push_back(row.calibration.layout_variance);
  }
  double stated = 0.0;
  double observed = 0.0;
  double pairs = 0.0;
  for (const OrderBin& bin : order_bins(rows, layout_variances)) {
    EXPECT_NEAR(bin.observed, bin.stated, 0.05) << bin.low;
    const auto weight = static_cast<double>(bin.pairs);
    stated += bin.stated * weight;
    observed += bin.observed * weight;
    pairs += weight;
  }
  EXPECT_NEAR(observed / pairs, stated / pairs, 0.05);
}

TEST(TrillionParameterRun, IsPredictedWithinFivePercent) {
  for (const Calibration& calibration : {Calibration{}, without_the_trillion_row()}) {
    EXPECT_NEAR(predicted_trillion(calibration).iteration_time.value.value(), 102.6, 0.05 * 102.6);
  }
}

TEST(TrillionParameterRun, LiesInItsInterval) {
  const Prediction prediction = predicted_trillion(without_the_trillion_row());
  EXPECT_LT(prediction.iteration_time.low, Seconds(102.6));
  EXPECT_GT(prediction.iteration_time.high, Seconds(102.6));
}

// SC21 table 1 and section 5.1: 502 PFLOP/s in all, 84 days for 450 B tokens.
TEST(TrillionParameterRun, HasThePublishedAggregateAndDuration) {
  for (const Calibration& calibration : {Calibration{}, without_the_trillion_row()}) {
    const Prediction prediction = predicted_trillion(calibration);
    EXPECT_NEAR(prediction.per_gpu.value.value() * 3072.0 / kPeta, 502.0, 0.06 * 502.0);
    EXPECT_NEAR(training_run(prediction, 3072, 450e9).time.value.value() / kDay, 84.0, 5.0);
  }
}

// SC21 table 1: 163 and 137 TFLOP/s per GPU, the superlinear scaling of the paper's title figure.
TEST(Scaling, FromTheSmallestToTheLargestModelIsThePublishedOne) {
  const Prediction small = predict(
      {selene_2021("1.7B"), {.dp = 32, .micro_batch_size = 16, .recompute = Recompute::kFull}}, {});
  EXPECT_NEAR(predicted_trillion({}).per_gpu.value / small.per_gpu.value, 1.19, 0.05);
}

// SC21 figure 16: the 91B model with (t, p) = (8, 8) is fastest at b = 2 for both batches. We agree
// at 128; at 512 we find b = 4 half a percent faster. Measured, a sequence takes 4 % longer at b =
// 4 than at b = 2, which no term of the model does.
TEST(Figure16, HasItsOptimumAtAMicrobatchOfTwo) {
  const auto time = [](std::int64_t batch, int micro_batch_size) {
    return iteration_cost({selene_2021("91B", batch),
                           {.tp = 8,
                            .pp = 8,
                            .micro_batch_size = micro_batch_size,
                            .recompute = Recompute::kFull}})
        .total();
  };
  for (const int other : {1, 4, 8}) {
    EXPECT_LT(time(128, 2), time(128, other)) << other;
    EXPECT_LT(time(512, 2), 1.01 * time(512, other)) << other;
  }
}

/// Where a published (t, p, d, b) stands in our order, and how much slower it is than our best.
struct Standing {
  int place = 0;
  double loss = 0.0;
};

Standing standing_of(const CostedRun& run, const SearchSpace& space) {
  const ParallelConfig& published_config = run.run.config;
  const SearchResult result =
      search(scenario_of(run.run),
             {.gpus = published_config.world_size(), .space = space, .num_best = 100'000});
  const auto found =
      std::find_if(result.best.begin(), result.best.end(), [&](const Candidate& candidate) {
        const ParallelConfig& config = candidate.config;
        return config.tp == published_config.tp && config.pp == published_config.pp &&
               config.dp == published_config.dp &&
               config.micro_batch_size == published_config.micro_batch_size;
      });
  if (found == result.best.end()) {
    return {.place = 1'000'000, .loss = 1e9};
  }
  return {.place = static_cast<int>(found - result.best.begin()) + 1,
          .loss = found->time / result.best.front().time - 1.0};
}

// With recomputation as published, seven of the ten published choices are among our best three or
// within 5 % of our best. Of the other three (18B, 39B, 145B) we prefer less tensor and more
// (interleaved) pipeline parallelism; the README says by how much. Over all kinds of recomputation,
// models that fit without it are planned without it: SC21 figure 17 measured that as 23 % less
// time.
TEST(PublishedChoices, AreAmongOurBest) {
  for (const CostedRun& run : published("sc21-t1")) {
    const std::string& id = run.run.id;
    const bool is_exception = id == "sc21-t1-18B" || id == "sc21-t1-39B" || id == "sc21-t1-145B";
    const Standing standing = standing_of(run, {.recompute = {Recompute::kFull}});
    const bool is_among_best = standing.place <= 3 || standing.loss <= 0.05;
    EXPECT_EQ(is_among_best, !is_exception)
        << id << ": place " << standing.place << ", " << 100.0 * standing.loss << " % slower";
  }
}

// What kNearTheFastest rests on: rows that tell how they recomputed, and their microbatches and
// virtual stages, take little longer than the fastest way to fill these in. Sweeps over them, which
// ran slow ways on purpose, are left out.
TEST(PublishedRuns, AreNearTheFastestWayToFillThemIn) {
  std::vector<double> slower;
  for (const char* name : {"sc21-t1", "korthikanti", "nemo-h100-fp8", "mbridge-dense-b200",
                           "mbridge-dense-h100", "torchtitan", "simumax-b200-dense"}) {
    const CsvTable table =
        CsvTable::from_file(std::string(PTDP_SOURCE_DIR "/profiles/published/") + name + ".csv");
    for (const CostedRun& told : cost_runs(read_measured_runs(table)).costed) {
      std::size_t line = 0;
      while (table.text(line, "id") != told.run.id) {
        ++line;
      }
      CostedRuns runs =
          cost_runs(read_measured_runs(table.variations(line, {{{"vpp", "?"},
                                                                {"mbs", "?"},
                                                                {"recompute", "?"},
                                                                {"schedule", ""},
                                                                {"recompute_modules", ""},
                                                                {"n_microbatches", ""},
                                                                {"layers_per_stage", ""}}})));
      complete_partial_runs(runs);
      ASSERT_EQ(runs.partial.size(), 1U) << told.run.id;
      const Seconds fastest = validate_partial_runs(runs, CalibrationKind::kNone).front().fastest;
      slower.push_back(told.predicted / fastest);
    }
  }
  EXPECT_GE(slower.size(), 60U);
  const auto near = std::count_if(slower.begin(), slower.end(),
                                  [](double factor) { return factor <= kNearTheFastest; });
  EXPECT_GE(static_cast<double>(near), 0.95 * static_cast<double>(slower.size()));
  EXPECT_GT(*std::max_element(slower.begin(), slower.end()), 1.15);  // it does not hold by itself
}

}  // namespace
}  // namespace ptdp
