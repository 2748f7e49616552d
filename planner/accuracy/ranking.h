// Tests whether predictions put configurations of one job in the order in which they were measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// The relative difference of measured times below which a pair is ignored: a repetition could turn
/// it round.
inline constexpr double kMeasuredTie = 0.02;

/// How well a set of at least two rows is ordered.
struct RankingFigures {
  int rows = 0;
  std::int64_t pairs = 0;  ///< Pairs that differ by at least kMeasuredTie.
  /// Pairs among `pairs` predicted in the measured order; a predicted tie counts 1/2.
  double ordered = 0.0;
  /// Measured time of the row predicted fastest, over the shortest measured time, minus 1.
  double regret = 0.0;
  /// Measured time of the best of the three rows predicted fastest, over the shortest measured
  /// time, minus 1.
  double regret_of_three = 0.0;

  /// Returns the share of pairs predicted in the measured order; nullopt if there are no pairs.
  [[nodiscard]] std::optional<double> pair_accuracy() const {
    return pairs == 0 ? std::nullopt : std::optional(ordered / static_cast<double>(pairs));
  }
};

/// What rows must share to be choices for one job, from one source and on one cluster.
struct JobKey {
  std::string group;
  std::string cluster;
  int num_layers = 0;
  int hidden_size = 0;
  int seq_length = 0;
  std::int64_t global_batch_size = 0;
  std::int64_t gpus = 0;

  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
};

/// The rows of one job, and how well predictions order them.
struct RankedSet {
  JobKey job;
  RankingFigures all;  ///< Figures of all rows of the job.
  /// Figures without the rows that contradict themselves; nullopt if fewer than two are left.
  std::optional<RankingFigures> without_contradicted;
};

/// Ranks each job with at least two rows, in the order of jobs. `contradicted` says of each row
/// whether it contradicts itself.
[[nodiscard]] std::vector<RankedSet> rank_by_job(const std::vector<CostedRun>& rows,
                                                 const std::vector<bool>& contradicted);

/// Pairs of layouts of one job, by the probability with which they were said to be in this order.
struct OrderBin {
  double low = 0.5;  ///< The bin holds stated probabilities from here to `high`.
  double high = 0.55;
  std::int64_t pairs = 0;  ///< Pairs whose measured times differ by at least kMeasuredTie.
  double stated = 0.0;     ///< Mean stated probability.
  double observed = 0.0;   ///< Share of the pairs measured in the stated order.
};
inline constexpr int kNumOrderBins = 10;

/// Sorts all pairs of rows of one job and stack into kNumOrderBins bins from 0.5 to 1.
/// `layout_variances` say how layouts of each row's job scatter. Pairs predicted alike are left
/// out. A factor that calibrates all rows of a job moves no pair. Its time grows with the square of
/// the rows of a job.
[[nodiscard]] std::vector<OrderBin> order_bins(const std::vector<CostedRun>& rows,
                                               const std::vector<double>& layout_variances);

/// The figures of all sets of a group: pairs are pooled, regrets taken over the sets.
struct RankingTotals {
  int sets = 0;
  int rows = 0;
  std::int64_t pairs = 0;
  double ordered = 0.0;
  double mean_regret = 0.0;
  double max_regret = 0.0;
  double mean_regret_of_three = 0.0;
  double max_regret_of_three = 0.0;

  /// Returns the share of pairs predicted in the measured order; nullopt if there are no pairs.
  [[nodiscard]] std::optional<double> pair_accuracy() const {
    return pairs == 0 ? std::nullopt : std::optional(ordered / static_cast<double>(pairs));
  }
};

/// How well predictions order the jobs of one group.
struct GroupRanking {
  std::string group;
  RankingTotals all;                   ///< Totals over all rows.
  RankingTotals without_contradicted;  ///< Totals without rows that contradict themselves.
};

/// Adds up the sets of each group; `sets` must be sorted by group, as rank_by_job() returns them.
[[nodiscard]] std::vector<GroupRanking> ranking_by_group(const std::vector<RankedSet>& sets);

}  // namespace ptdp
