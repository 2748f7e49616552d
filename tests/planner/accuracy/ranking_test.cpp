// Tests of whether configurations of one job are predicted in their measured order.
#include "planner/accuracy/ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

namespace ptdp {
namespace {

/// Returns rows of one job from measured and predicted seconds.
std::vector<CostedRun> rows_of(const std::vector<std::pair<double, double>>& times) {
  std::vector<CostedRun> rows;
  rows.reserve(times.size());
  for (const auto& [measured, predicted] : times) {
    CostedRun row{.predicted = Seconds(predicted)};
    row.run.group = "group";
    row.run.model.num_layers = 4;
    row.run.iteration_time = Seconds(measured);
    rows.push_back(row);
  }
  return rows;
}

std::vector<RankedSet> rank(const std::vector<CostedRun>& rows) {
  return rank_by_job(rows, std::vector<bool>(rows.size()));
}

// By hand: measured 10 < 12 < 15, predicted 11, 10, 20: of the three pairs (10, 12) is turned
// round. Chosen is the row of 12, 20 % slower than the fastest, which is among the three.
TEST(RankByJob, MatchesTheHandComputedFigures) {
  const std::vector<RankedSet> sets = rank(rows_of({{10.0, 11.0}, {12.0, 10.0}, {15.0, 20.0}}));
  ASSERT_EQ(sets.size(), 1U);
  const RankingFigures& figures = sets.front().all;
  EXPECT_EQ(figures.rows, 3);
  EXPECT_EQ(figures.pairs, 3);
  EXPECT_NEAR(figures.pair_accuracy().value(), 2.0 / 3.0, 1e-12);
  EXPECT_NEAR(figures.regret, 0.2, 1e-12);
  EXPECT_NEAR(figures.regret_of_three, 0.0, 1e-12);
}

// Predicted order: 16, 14, 12, 10; of the first three the best took 12.
TEST(RankByJob, LooksNoFurtherThanThreePredictions) {
  const RankingFigures figures =
      rank(rows_of({{10.0, 4.0}, {12.0, 3.0}, {14.0, 2.0}, {16.0, 1.0}})).front().all;
  EXPECT_NEAR(figures.regret, 0.6, 1e-12);
  EXPECT_NEAR(figures.regret_of_three, 0.2, 1e-12);
  EXPECT_EQ(figures.pair_accuracy(), 0.0);
}

TEST(RankByJob, IgnoresPairsThatAreMeasuredAlike) {
  const RankingFigures figures = rank(rows_of({{100.0, 2.0}, {101.9, 1.0}})).front().all;
  EXPECT_EQ(figures.pairs, 0);
  EXPECT_FALSE(figures.pair_accuracy().has_value());
  EXPECT_EQ(rank(rows_of({{100.0, 2.0}, {102.1, 1.0}})).front().all.pairs, 1);
}

TEST(RankByJob, CountsAPredictedTieHalf) {
  EXPECT_EQ(rank(rows_of({{1.0, 1.0}, {2.0, 1.0}})).front().all.pair_accuracy(), 0.5);
}

// Few distinct times, so that ties and near ties are common.
TEST(RankByJob, CountsThePairsThatComparingEachWithEachFinds) {
  std::mt19937_64 random(5);
  std::uniform_int_distribution<int> steps(0, 9);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::pair<double, double>> times(static_cast<std::size_t>(2 + i / 4));
    for (auto& [measured, predicted] : times) {
      measured = 1.0 + 0.013 * steps(random);
      predicted = 1.0 + steps(random);
    }
    int pairs = 0;
    double ordered = 0.0;
    for (const auto& [slower, slower_predicted] : times) {
      for (const auto& [faster, faster_predicted] : times) {
        if (slower / faster >= 1.0 + kMeasuredTie) {
          ++pairs;
          ordered += faster_predicted < slower_predicted    ? 1.0
                     : faster_predicted == slower_predicted ? 0.5
                                                            : 0.0;
        }
      }
    }
    const RankingFigures figures = rank(rows_of(times)).front().all;
    EXPECT_EQ(figures.pairs, pairs);
    EXPECT_EQ(figures.ordered, ordered);
  }
}

// More than an int counts: by hand, half of the rows against the other half.
TEST(RankByJob, CountsBillionsOfPairs) {
  constexpr std::int64_t half = 50'000;
  std::vector<std::pair<double, double>> times(half, {1.0, 1.0});
  times.resize(2 * half, {2.0, 3.0});
  const RankingFigures figures = rank(rows_of(times)).front().all;
  EXPECT_EQ(figures.pairs, half * half);
  EXPECT_EQ(figures.pair_accuracy(), 1.0);
}

TEST(RankByJob, ComparesRowsOfOneJobOnly) {
  const auto num_sets = [](auto change) {
    std::vector<CostedRun> rows = rows_of({{1.0, 1.0}, {2.0, 2.0}});
    change(rows.back().run);
    return rank(rows).size();
  };
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.config.tp = 1; }), 1U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.stack = "other"; }), 1U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.group = "other"; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.cluster = "other"; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.model.num_layers = 1; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.model.hidden_size = 1; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.model.seq_length = 1; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.global_batch_size = 1; }), 0U);
  EXPECT_EQ(num_sets([](MeasuredRun& run) { run.config.dp = 2; }), 0U);
}

// Without the first row, which contradicts itself, the order is right and the fastest takes 12.
TEST(RankByJob, TellsTheFiguresWithoutRowsThatContradictThemselves) {
  const std::vector<CostedRun> rows = rows_of({{10.0, 14.0}, {12.0, 12.0}, {13.0, 13.0}});
  const RankedSet set = rank_by_job(rows, {true, false, false}).front();
  EXPECT_NEAR(set.all.regret, 0.2, 1e-12);
  ASSERT_TRUE(set.without_contradicted.has_value());
  EXPECT_EQ(set.without_contradicted->rows, 2);
  EXPECT_EQ(set.without_contradicted->regret, 0.0);
  EXPECT_EQ(set.without_contradicted->pair_accuracy(), 1.0);
  EXPECT_FALSE(rank_by_job(rows, {true, true, false}).front().without_contradicted.has_value());
}

// Sets of 1 of 3 and 1 of 1 pairs, with regrets of 20 and 0 %.
TEST(RankingByGroup, PoolsPairsAndKeepsTheWorstRegret) {
  std::vector<RankedSet> sets(3);
  for (RankedSet& set : sets) {
    set.job.group = "a";
    set.all = {.rows = 2, .pairs = 1, .ordered = 1.0};
  }
  sets[0].all = {.rows = 3, .pairs = 3, .ordered = 1.0, .regret = 0.2, .regret_of_three = 0.1};
  sets[2].job.group = "b";
  const std::vector<GroupRanking> groups = ranking_by_group(sets);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].all.sets, 2);
  EXPECT_EQ(groups[0].all.rows, 5);
  EXPECT_NEAR(groups[0].all.pair_accuracy().value(), 0.5, 1e-12);
  EXPECT_NEAR(groups[0].all.mean_regret, 0.1, 1e-12);
  EXPECT_NEAR(groups[0].all.max_regret, 0.2, 1e-12);
  EXPECT_NEAR(groups[0].all.mean_regret_of_three, 0.05, 1e-12);
  EXPECT_EQ(groups[0].without_contradicted.sets, 0);
}

// By hand: with a variance of 0.005 each, a difference of 0.1 is one deviation of the difference,
// of which 0.865 count; 80.65 % of a normal distribution lie below that.
TEST(OrderBins, StateTheProbabilityOfTheOrder) {
  const double slower = std::exp(0.1);
  for (const bool is_ordered : {true, false}) {
    const std::vector<OrderBin> bins = order_bins(
        rows_of({{is_ordered ? 2.0 : 1.0, slower}, {is_ordered ? 1.0 : 2.0, 1.0}}), {0.005, 0.005});
    ASSERT_EQ(bins.size(), 10U);
    EXPECT_EQ(bins[6].pairs, 1);  // 80 to 85 %
    EXPECT_NEAR(bins[6].stated, 0.8065, 1e-4);
    EXPECT_EQ(bins[6].observed, is_ordered ? 1.0 : 0.0);
  }
}

TEST(OrderBins, LeaveOutTiesAndRowsOfOtherJobs) {
  const auto pairs = [](const std::vector<CostedRun>& rows) {
    std::int64_t sum = 0;
    for (const OrderBin& bin : order_bins(rows, {0.005, 0.005})) {
      sum += bin.pairs;
    }
    return sum;
  };
  EXPECT_EQ(pairs(rows_of({{1.0, 1.0}, {1.019, 1.1}})), 0);
  EXPECT_EQ(pairs(rows_of({{1.0, 1.0}, {2.0, 1.0}})), 0);
  std::vector<CostedRun> others = rows_of({{1.0, 1.0}, {2.0, 1.1}});
  EXPECT_EQ(pairs(others), 1);
  others[1].run.global_batch_size = 2;
  EXPECT_EQ(pairs(others), 0);
}

}  // namespace
}  // namespace ptdp
