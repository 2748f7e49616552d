// Which rank holds a stage, without a division per look-up.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// rank_of() of schedule.h as a table, for passes over millions of actions.
class StageRanks {
 public:
  explicit StageRanks(const Schedule& schedule) : num_stages_(ptdp::num_stages(schedule)) {
    const bool turns = schedule.placement == StagePlacement::kBidirectional;
    if (turns) {
      turned_from_ = (schedule.num_microbatches + 1) / 2;
    }
    const int num_rows = (turns ? 2 : 1) * num_stages_;
    ranks_.reserve(static_cast<std::size_t>(num_rows));
    for (int row = 0; row < num_rows; ++row) {
      const int microbatch = row < num_stages_ ? 0 : schedule.num_microbatches - 1;
      ranks_.push_back(rank_of(schedule, row % num_stages_, microbatch));
    }
  }

  [[nodiscard]] int num_stages() const { return num_stages_; }
  /// Returns the pipeline rank that holds `stage` for `microbatch`.
  [[nodiscard]] int of(int stage, int microbatch) const { return ranks_[row(stage, microbatch)]; }

  /// Returns the row of a stage for a microbatch, in a table with a row per stage and rank that may
  /// hold it.
  [[nodiscard]] std::size_t row(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage + (microbatch < turned_from_ ? 0 : num_stages_));
  }
  /// Pipeline ranks, indexed by row().
  [[nodiscard]] const std::vector<int>& rows() const { return ranks_; }

 private:
  int num_stages_;
  /// First microbatch that runs through the ranks the other way; none unless bidirectional.
  int turned_from_ = std::numeric_limits<int>::max();
  /// Pipeline ranks by stage; a bidirectional pipeline's second half stands behind them.
  std::vector<int> ranks_;
};

}  // namespace ptdp
