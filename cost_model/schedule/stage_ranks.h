// Which rank holds a stage, without a division per look-up.
#pragma once

#include <cstddef>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// rank_of as a table, for passes over millions of actions.
class StageRanks {
 public:
  explicit StageRanks(const Schedule& schedule)
      : num_stages_(ptdp::num_stages(schedule)),
        is_bidirectional_(schedule.placement == StagePlacement::kBidirectional),
        first_of_second_half_((schedule.num_microbatches + 1) / 2) {
    const int entries = (is_bidirectional_ ? 2 : 1) * num_stages_;
    for (int i = 0; i < entries; ++i) {
      const int microbatch = i < num_stages_ ? 0 : schedule.num_microbatches - 1;
      ranks_.push_back(rank_of(schedule, i % num_stages_, microbatch));
    }
  }

  [[nodiscard]] int num_stages() const { return num_stages_; }

  [[nodiscard]] int of(int stage, int microbatch) const {
    const bool is_second = is_bidirectional_ && microbatch >= first_of_second_half_;
    return ranks_[static_cast<std::size_t>(stage) + (is_second ? num_stages_ : 0)];
  }

 private:
  int num_stages_;
  bool is_bidirectional_;
  int first_of_second_half_;
  std::vector<int> ranks_;  ///< By stage; behind them, where bidirectional, of the second half.
};

}  // namespace ptdp
