// What the ranks of this process measured so far; whole at every moment.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "runtime/executor/step_record.h"

namespace ptdp {

/// Each rank adds its steps; any thread may ask for those that all have, whatever a rank that hangs
/// is in.
class RunJournal {
 public:
  explicit RunJournal(int num_ranks) : ranks_(static_cast<std::size_t>(num_ranks)) {}

  /// `totals`: what this rank has used and sent by the end of the step, without steps.
  void add(int rank, StepRecord step, RankRecord totals);
  /// By rank: as many steps of each, and its totals at the end of the last of them. Ranks are a
  /// step apart at most.
  [[nodiscard]] std::vector<RankRecord> common_steps() const;
  /// The same once all ranks have ended: nothing is left here.
  [[nodiscard]] std::vector<RankRecord> take_common_steps();

 private:
  struct Rank {
    mutable std::mutex mutex;
    std::vector<StepRecord> steps;
    RankRecord totals;         ///< At the end of the last step,
    RankRecord totals_before;  ///< and of the one before it.
  };

  std::deque<Rank> ranks_;  ///< They do not move.
};

}  // namespace ptdp
