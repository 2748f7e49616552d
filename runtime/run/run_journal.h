// What the ranks of this process measured so far, consistent at every moment.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "runtime/executor/step_record.h"

namespace ptdp {

/// A journal of steps. Each rank adds its own; any thread may ask for the steps that all ranks
/// have, even while a rank hangs.
class RunJournal {
 public:
  explicit RunJournal(int num_ranks) : ranks_(static_cast<std::size_t>(num_ranks)) {}

  /// Adds a step of a rank. `totals` is what the rank has used and sent by the end of the step,
  /// without steps.
  void add(int rank, StepRecord step, RankRecord totals);
  /// Returns records by rank with equally many steps, and the totals at the end of the last of
  /// them. Ranks are a step apart at most.
  [[nodiscard]] std::vector<RankRecord> common_steps() const;
  /// Returns common_steps() and leaves the journal empty. Call it once all ranks have ended.
  [[nodiscard]] std::vector<RankRecord> take_common_steps();

 private:
  struct Rank {
    mutable std::mutex mutex;
    std::vector<StepRecord> steps;
    RankRecord totals;         ///< Totals at the end of the last step.
    RankRecord totals_before;  ///< Totals at the end of the step before the last.
  };

  std::deque<Rank> ranks_;  ///< Records of ranks. They never move.
};

}  // namespace ptdp
