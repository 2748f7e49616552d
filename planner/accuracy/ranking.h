// Whether predictions put configurations of one job in the order in which they were measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Pairs whose measured times are closer than this are ignored: a repetition could turn them round.
inline constexpr double kMeasuredTie = 0.02;

/// How well a set of at least two rows is ordered.
struct RankingFigures {
  int rows = 0;
  int pairs = 0;  ///< That count.
  double ordered =
      0.0;  ///< Of them, those predicted in the measured order; a predicted tie is 1/2.
  /// Measured time of the row predicted fastest over the fastest measured, minus 1.
  double regret = 0.0;
  double regret_of_three = 0.0;  ///< The same for the best of the three predicted fastest.

  [[nodiscard]] std::optional<double> pair_accuracy() const {
    return pairs == 0 ? std::nullopt : std::optional(ordered / pairs);
  }
};

/// What rows must share to be choices for one job: of one source, on one cluster.
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

struct RankedSet {
  JobKey job;
  RankingFigures all;
  /// Without the rows that contradict themselves; none where fewer than two are left.
  std::optional<RankingFigures> without_contradicted;
};

/// The sets of at least two rows, by job. `contradicted`: of each row, in order.
[[nodiscard]] std::vector<RankedSet> rank_by_job(const std::vector<CostedRun>& rows,
                                                 const std::vector<bool>& contradicted);

/// The sets of a group together: pairs pooled, regrets over the sets.
struct RankingTotals {
  int sets = 0;
  int rows = 0;
  int pairs = 0;
  double ordered = 0.0;
  double mean_regret = 0.0;
  double max_regret = 0.0;
  double mean_regret_of_three = 0.0;
  double max_regret_of_three = 0.0;

  [[nodiscard]] std::optional<double> pair_accuracy() const {
    return pairs == 0 ? std::nullopt : std::optional(ordered / pairs);
  }
};

struct GroupRanking {
  std::string group;
  RankingTotals all;
  RankingTotals without_contradicted;
};

/// By group, in the order of `sets`.
[[nodiscard]] std::vector<GroupRanking> ranking_by_group(const std::vector<RankedSet>& sets);

}  // namespace ptdp
