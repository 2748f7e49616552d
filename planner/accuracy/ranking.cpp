// Counts ordered pairs and regrets of runs, by job and by group.
#include "planner/accuracy/ranking.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cost_model/measured/calibration.h"

namespace ptdp {
namespace {

constexpr std::size_t kFewestRows = 2;
constexpr std::size_t kChoices = 3;

JobKey job_of(const MeasuredRun& run) {
  return {.group = run.group,
          .cluster = run.cluster,
          .num_layers = run.model.num_layers,
          .hidden_size = run.model.hidden_size,
          .seq_length = run.model.seq_length,
          .global_batch_size = run.global_batch_size,
          .gpus = run.config.world_size()};
}

/// Holds whole numbers of a known range, and says how many of them lie below one (a Fenwick tree).
class CountsBelow {
 public:
  explicit CountsBelow(std::size_t range) : counts_(range + 1) {}

  void add(std::size_t number) {
    for (std::size_t i = number + 1; i < counts_.size(); i += lowest_bit(i)) {
      ++counts_[i];
    }
  }
  [[nodiscard]] std::int64_t below(std::size_t number) const {
    std::int64_t count = 0;
    for (std::size_t i = number; i > 0; i -= lowest_bit(i)) {
      count += counts_[i];
    }
    return count;
  }

 private:
  static std::size_t lowest_bit(std::size_t i) { return i & (~i + 1); }

  std::vector<std::int64_t> counts_;
};

bool is_predicted_faster(const CostedRun* a, const CostedRun* b) {
  return a->predicted < b->predicted;
}

bool is_measured_faster(const CostedRun* a, const CostedRun* b) {
  return a->run.iteration_time < b->run.iteration_time;
}

/// Counts the pairs of `rows` that differ by kMeasuredTie; `rows` are sorted by their prediction. A
/// file may hold 10^5 rows of one job: each, from the fastest measured on, meets all faster at
/// once.
void count_pairs(const std::vector<const CostedRun*>& rows, RankingFigures& figures) {
  std::vector<std::size_t> by_measured(rows.size());
  std::iota(by_measured.begin(), by_measured.end(), std::size_t{0});
  std::stable_sort(by_measured.begin(), by_measured.end(), [&](std::size_t a, std::size_t b) {
    return is_measured_faster(rows[a], rows[b]);
  });
  CountsBelow faster(rows.size());
  std::size_t num_faster = 0;
  for (const std::size_t slower : by_measured) {
    const auto differs = [&](std::size_t other) {
      return rows[slower]->run.iteration_time / rows[other]->run.iteration_time - 1.0 >=
             kMeasuredTie;
    };
    for (; differs(by_measured[num_faster]); ++num_faster) {
      faster.add(by_measured[num_faster]);
    }
    const auto [tie, after] =
        std::equal_range(rows.begin(), rows.end(), rows[slower], is_predicted_faster);
    figures.pairs += static_cast<std::int64_t>(num_faster);
    figures.ordered += static_cast<double>(faster.below(std::size_t(tie - rows.begin())) +
                                           faster.below(std::size_t(after - rows.begin()))) /
                       2.0;
  }
}

/// Computes the figures of a set of at least two rows.
RankingFigures figures_of(std::vector<const CostedRun*> rows) {
  RankingFigures figures{.rows = static_cast<int>(rows.size())};
  const Seconds fastest =
      (*std::min_element(rows.begin(), rows.end(), is_measured_faster))->run.iteration_time;
  std::stable_sort(rows.begin(), rows.end(), is_predicted_faster);
  count_pairs(rows, figures);
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(kChoices, rows.size()));
  figures.regret = rows.front()->run.iteration_time / fastest - 1.0;
  figures.regret_of_three =
      (*std::min_element(rows.begin(), end, is_measured_faster))->run.iteration_time / fastest -
      1.0;
  return figures;
}

void add(const RankingFigures& figures, RankingTotals& totals) {
  const double before = totals.sets;
  ++totals.sets;
  totals.rows += figures.rows;
  totals.pairs += figures.pairs;
  totals.ordered += figures.ordered;
  totals.mean_regret = (totals.mean_regret * before + figures.regret) / totals.sets;
  totals.max_regret = std::max(totals.max_regret, figures.regret);
  totals.mean_regret_of_three =
      (totals.mean_regret_of_three * before + figures.regret_of_three) / totals.sets;
  totals.max_regret_of_three = std::max(totals.max_regret_of_three, figures.regret_of_three);
}

}  // namespace

std::vector<RankedSet> rank_by_job(const std::vector<CostedRun>& rows,
                                   const std::vector<bool>& contradicted) {
  struct Members {
    std::vector<const CostedRun*> all;
    std::vector<const CostedRun*> without_contradicted;
  };
  std::map<JobKey, Members> by_job;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Members& members = by_job[job_of(rows[i].run)];
    members.all.push_back(&rows[i]);
    if (!contradicted[i]) {
      members.without_contradicted.push_back(&rows[i]);
    }
  }
  std::vector<RankedSet> sets;
  for (const auto& [job, members] : by_job) {
    if (members.all.size() < kFewestRows) {
      continue;
    }
    sets.push_back({.job = job, .all = figures_of(members.all)});
    if (members.without_contradicted.size() >= kFewestRows) {
      sets.back().without_contradicted = figures_of(members.without_contradicted);
    }
  }
  return sets;
}

std::vector<OrderBin> order_bins(const std::vector<CostedRun>& rows,
                                 const std::vector<double>& layout_variances) {
  std::vector<OrderBin> bins(kNumOrderBins);
  const double width = 0.5 / kNumOrderBins;
  for (int i = 0; i < kNumOrderBins; ++i) {
    bins[static_cast<std::size_t>(i)].low = 0.5 + i * width;
    bins[static_cast<std::size_t>(i)].high = 0.5 + (i + 1) * width;
  }
  std::map<JobKey, std::vector<std::size_t>> by_job;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    by_job[job_of(rows[i].run)].push_back(i);
  }
  const auto add_pair = [&](std::size_t i, std::size_t other) {
    const auto [first, second] =
        rows[i].predicted < rows[other].predicted ? std::pair(i, other) : std::pair(other, i);
    const double measured = rows[second].run.iteration_time / rows[first].run.iteration_time;
    const double variance = (layout_variances[first] + layout_variances[second]) / 2.0;
    if (std::max(measured, 1.0 / measured) - 1.0 < kMeasuredTie || variance <= 0.0 ||
        rows[first].predicted == rows[second].predicted ||
        rows[first].run.stack != rows[second].run.stack) {
      return;
    }
    const double stated =
        probability_of_order(rows[first].predicted, rows[second].predicted, variance);
    const int place = std::min(kNumOrderBins - 1, static_cast<int>((stated - 0.5) / width));
    OrderBin& bin = bins[static_cast<std::size_t>(place)];
    ++bin.pairs;
    bin.stated += stated;
    bin.observed += measured > 1.0 ? 1.0 : 0.0;
  };
  for (const auto& [job, indices] : by_job) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t other = i + 1; other < indices.size(); ++other) {
        add_pair(indices[i], indices[other]);
      }
    }
  }
  for (OrderBin& bin : bins) {
    if (bin.pairs > 0) {
      bin.stated /= static_cast<double>(bin.pairs);
      bin.observed /= static_cast<double>(bin.pairs);
    }
  }
  return bins;
}

std::vector<GroupRanking> ranking_by_group(const std::vector<RankedSet>& sets) {
  std::vector<GroupRanking> groups;
  for (const RankedSet& set : sets) {
    if (groups.empty() || groups.back().group != set.job.group) {
      groups.push_back({.group = set.job.group});
    }
    add(set.all, groups.back().all);
    if (set.without_contradicted.has_value()) {
      add(*set.without_contradicted, groups.back().without_contradicted);
    }
  }
  return groups;
}

}  // namespace ptdp
