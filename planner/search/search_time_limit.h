// What ends a search before it has looked at everything.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "cost_model/iteration/simulated_step.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// Says what share of its limit a search has spent: of its time, or all once somebody interrupts.
/// Copies ask the same function; any thread may ask. A limit of work counts what searches did: a
/// search on one thread always does as much, however long that takes.
class SearchLimit {
 public:
  /// Makes a limit that is never over.
  SearchLimit() = default;
  /// Makes a limit of a function that returns the share that is spent. From 1 on the limit is over;
  /// the share must never fall.
  explicit SearchLimit(std::function<double()> spent) : spent_(std::move(spent)) {}

  [[nodiscard]] bool is_over() const {
    return (work_ != nullptr && *work_ >= most_work_.value()) || (spent_ && spent_() >= 1.0);
  }

  /// Returns a limit that is also over once its searches did this much work, as rough time.
  [[nodiscard]] SearchLimit of_work(Seconds most) const {
    SearchLimit limit = *this;
    limit.work_ = std::make_shared<std::atomic<double>>(0.0);
    limit.most_work_ = most;
    return limit;
  }
  /// Returns whether work is counted.
  [[nodiscard]] bool counts_work() const { return work_ != nullptr; }
  /// Counts work, as the time that it roughly takes on a usual processor.
  void count(Seconds work) const {
    if (work_ != nullptr) {
      *work_ += work.value();
    }
  }
  /// Returns the work that was counted; 0 where none is.
  [[nodiscard]] Seconds work() const { return Seconds(work_ == nullptr ? 0.0 : work_->load()); }

  /// Returns a limit that is over once this fraction of what is left of this one is spent.
  [[nodiscard]] SearchLimit share(double fraction) const {
    if (!spent_) {
      return *this;
    }
    const double from = std::min(spent_(), 1.0);
    const double part = fraction * (1.0 - from);
    SearchLimit shared = *this;
    shared.spent_ = [spent = spent_, from, part] {
      const double now = spent();
      return now >= 1.0 ? 1.0 : (now - from) / part;
    };
    return shared;
  }

 private:
  std::function<double()> spent_;
  std::shared_ptr<std::atomic<double>> work_;
  Seconds most_work_{std::numeric_limits<double>::infinity()};
};

/// Returns about how long a usual processor takes to find the time of an iteration: equal for equal
/// jobs, so that what is chosen by it is so, too.
[[nodiscard]] Seconds rough_simulation_time(const PlannedJob& job);
/// Counts what IterationTimes::bound() took as work, where the limit counts any.
void count_bound(const SearchLimit& limit, const PlannedJob& job, const StepBound& found);
/// Counts what a simulation takes beyond its bound in which transfers share links, where the limit
/// counts work.
void count_contended(const SearchLimit& limit, const PlannedJob& job);

}  // namespace ptdp
