#include "runtime/run/run_journal.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/run/training_run.h"

namespace ptdp {
namespace {

/// Forgets when the actions of the step before the last `kept` ones ran. The times of all steps and
/// ranks would fill the memory.
void forget_details(std::vector<StepRecord>& steps, std::int64_t kept) {
  if (std::ssize(steps) > kept) {
    StepRecord& old = steps[steps.size() - 1 - static_cast<std::size_t>(kept)];
    old.actions = {};
    old.sub_spans = {};
  }
}

}  // namespace

void RunJournal::add(int rank, StepRecord step, RankRecord totals) {
  Rank& here = ranks_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(here.mutex);
  here.steps.push_back(std::move(step));
  // The last step may be one that others do not have.
  forget_details(here.steps, kDetailedSteps + 1);
  here.totals_before = std::exchange(here.totals, std::move(totals));
}

std::vector<RankRecord> RunJournal::common_steps() const {
  std::size_t common = SIZE_MAX;
  for (const Rank& rank : ranks_) {
    const std::lock_guard lock(rank.mutex);
    common = std::min(common, rank.steps.size());
  }
  std::vector<RankRecord> records;
  for (const Rank& rank : ranks_) {
    const std::lock_guard lock(rank.mutex);
    records.push_back(rank.steps.size() > common ? rank.totals_before : rank.totals);
    std::vector<StepRecord>& steps = records.back().steps;
    steps.assign(rank.steps.begin(), rank.steps.begin() + static_cast<std::ptrdiff_t>(common));
    forget_details(steps, kDetailedSteps);
  }
  return records;
}

std::vector<RankRecord> RunJournal::take_common_steps() {
  std::vector<RankRecord> records;
  for (Rank& rank : ranks_) {
    forget_details(rank.steps, kDetailedSteps);
    records.push_back(std::move(rank.totals));
    records.back().steps = std::move(rank.steps);
  }
  return records;
}

}  // namespace ptdp
