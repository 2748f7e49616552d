// Tests of whole runs in which a rank fails, hangs or is slow at some action.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/faults/fault_injection.h"
#include "runtime/run/training_run.h"
#include "tests/runtime/training_harness.h"
#include "tests/runtime/transport/processes/tcp/tcp_processes.h"

namespace ptdp::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Returns two layouts: one whose ranks have every kind of action except `COPY`, and one with
/// `COPY`.
const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {.tp = 2, .pp = 2, .dp = 2, .schedule = "zb-h1", .zero_stage = 1},
      {.pp = 2, .vpp = 2, .schedule = "zb-v"},
      {.pp = 2, .dp = 2, .schedule = "1f1b"}};
  return all;
}

/// Returns a fault at an action of each kind that the layout has, on a rank that has the action.
std::vector<InjectedFault> one_of_each_kind(const TrainingSettings& settings) {
  std::vector<InjectedFault> faults;
  std::set<ActionKind> kinds;
  for (std::size_t rank = 0; rank < settings.schedule.orders.size(); ++rank) {
    for (const Action& action : settings.schedule.orders[rank]) {
      if (kinds.insert(action.kind).second) {
        faults.push_back({.rank = static_cast<int>(rank) * settings.config.tp * settings.config.dp,
                          .action = action,
                          .step = 2});
      }
    }
  }
  return faults;
}

TrainingData data_for(const Job& job) {
  return TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7);
}

RunOptions options_for(const InjectedFault& fault) {
  return {.steps = 4,
          .make_backend = [] { return std::make_unique<CpuBackend>(); },
          .hooks =
              [fault](int rank) {
                return injected_faults({&fault, 1}, rank);
              }};
}

/// Returns how the run ended; fails the test if it did not end early.
EarlyEnd end_of(const TrainingSettings& settings, const Job& job, const RunOptions& options) {
  try {
    static_cast<void>(run_training(settings, data_for(job), options));
  } catch (const EndedEarly& early) {
    return early.end();
  }
  ADD_FAILURE() << "expected an early end";
  return {};
}

TEST(FaultyRun, CoversEveryKindOfAction) {
  std::set<ActionKind> kinds;
  for (const Layout& layout : layouts()) {
    for (const InjectedFault& fault : one_of_each_kind(settings_of(layout, small_job()))) {
      kinds.insert(fault.action->kind);
    }
  }
  EXPECT_EQ(kinds.size(), kNumActionKinds - 1U);  // all but R, which is part of B here
}

TEST(FaultyRun, EndsWithTheRankAndTheActionThatFailed) {
  const Job job = small_job();
  for (const Layout& layout : layouts()) {
    const TrainingSettings settings = settings_of(layout, job);
    for (InjectedFault fault : one_of_each_kind(settings)) {
      fault.what = FaultKind::kThrow;
      const EarlyEnd end = end_of(settings, job, options_for(fault));
      EXPECT_EQ(end.fault, "rank " + std::to_string(fault.rank) + ": " + to_string(*fault.action) +
                               " of step 3: a fault on purpose (--inject)");
      EXPECT_EQ(end.status, ExitStatus::kRuntimeFault);
      for (const RankRecord& rank : end.record.ranks) {
        // The third step was begun; the ranks may be in the optimizer of the second.
        EXPECT_EQ(rank.steps.size(), end.record.ranks.front().steps.size());
        EXPECT_GE(rank.steps.size(), 1U);
        EXPECT_LE(rank.steps.size(), 2U);
      }
      EXPECT_THAT(end.actions, HasSubstr("rank " + std::to_string(fault.rank) + " has worked in " +
                                         to_string(*fault.action) + " of step 3"));
    }
  }
}

TEST(FaultyRun, SaysWhoseMemoryDidNotSuffice) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.pp = 2}, job);
  const InjectedFault fault{.what = FaultKind::kAlloc, .rank = 1};
  const EarlyEnd end = end_of(settings, job, options_for(fault));
  EXPECT_EQ(end.out_of_memory_rank, 1);
  EXPECT_THAT(end.fault, StartsWith("rank 1: "));
  EXPECT_THAT(end.fault, HasSubstr(": out of memory, on purpose (--inject)"));
  // AdamW in f64 keeps two moments beside every weight and its gradient.
  const KeptMemory& kept = end.out_of_memory_kept;
  EXPECT_GT(kept.weights, 0);
  EXPECT_EQ(kept.gradients, kept.weights);
  EXPECT_EQ(kept.optimizer, 2 * kept.weights);
  EXPECT_GE(end.out_of_memory_peak, 4 * kept.weights);
  const EarlyEnd other = end_of(settings, job, options_for({.what = FaultKind::kThrow, .rank = 1}));
  EXPECT_EQ(other.out_of_memory_rank, -1);
}

/// A rank that hangs at one action until it is let go.
class HangingRank {
 public:
  explicit HangingRank(const InjectedFault& fault) : fault_(fault) {}

  ActionHooks hooks_of(int rank) {
    if (rank != fault_.rank) {
      return {};
    }
    return {.before = [this](std::int64_t step, const Action& action, Lane /*lane*/) {
      while (step == fault_.step && action == fault_.action && !is_let_go_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }};
  }
  void let_go() { is_let_go_ = true; }

 private:
  InjectedFault fault_;
  std::atomic<bool> is_let_go_ = false;
};

TEST(FaultyRun, NamesTheRankThatHangsAndGivesUpOnIt) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of(layouts().front(), job);
  for (const InjectedFault& fault : one_of_each_kind(settings)) {
    const ActionKind kind = fault.action->kind;
    if (kind != ActionKind::kInputGradient && kind != ActionKind::kReduceNorm) {
      continue;  // the others: campaign.py
    }
    HangingRank hanging(fault);
    EarlyEnd given_up;
    RunOptions options = options_for(fault);
    options.hooks = [&](int rank) { return hanging.hooks_of(rank); };
    options.deadlines.fixed = Seconds(0.5);
    options.give_up = [&](const EarlyEnd& end) {
      given_up = end;
      hanging.let_go();
    };
    const EarlyEnd end = end_of(settings, job, options);
    const std::string place =
        "rank " + std::to_string(fault.rank) + ": " + to_string(*fault.action) + " of step 3: ";
    EXPECT_THAT(end.fault, StartsWith(place));
    EXPECT_THAT(given_up.fault, StartsWith(place + "has not ended for "));
    EXPECT_GE(given_up.record.ranks.front().steps.size(), 1U);
    EXPECT_THAT(given_up.few_actions,
                StartsWith("rank " + std::to_string(fault.rank) + " has worked in "));
    EXPECT_THAT(given_up.few_actions, HasSubstr(" has waited in "));
  }
}

// Rank 0, which only sees others through the control channel, waits itself: not it is to blame.
TEST(FaultyRun, NamesTheProcessThatHangsWhileTheOthersWait) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of({.pp = 2}, job);
  const InjectedFault fault{
      .rank = 1, .action = Action{.kind = ActionKind::kForward, .stage = 1}, .step = 2};
  HangingRank hanging(fault);
  const std::vector<std::unique_ptr<JobProcess>> processes = join_all(2);
  std::vector<EarlyEnd> ends(processes.size());
  const auto on_all = [&](const std::function<void(std::size_t)>& body) {
    std::vector<std::jthread> threads;
    threads.reserve(processes.size());
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      threads.emplace_back([&body, rank] { body(rank); });
    }
  };
  on_all([&](std::size_t rank) {
    RunOptions options = options_for(fault);
    options.process = &*processes[rank];
    options.hooks = [&](int of) { return hanging.hooks_of(of); };
    options.deadlines.least = Seconds(2.0);  // or twenty times what actions took here
    options.give_up = [&](const EarlyEnd& /*end*/) { hanging.let_go(); };
    ends[rank] = end_of(settings, job, options);
  });
  for (const EarlyEnd& end : ends) {
    EXPECT_THAT(end.fault, StartsWith("rank 1: 1F0 of step 3: has not ended for "));
    EXPECT_EQ(end.status, ExitStatus::kRuntimeFault);
  }
  EXPECT_FALSE(ends[0].is_told_elsewhere);
  EXPECT_TRUE(ends[1].is_told_elsewhere);
  on_all([&](std::size_t rank) { EXPECT_NE(processes[rank]->finish(4), 0); });
}

TEST(FaultyRun, GoesOnWhereARankIsSlow) {
  const Job job = small_job();
  for (const Layout& layout : layouts()) {
    const TrainingSettings settings = settings_of(layout, job);
    RunOptions options = options_for({.what = FaultKind::kSlow, .rank = 1, .factor = 10.0});
    options.deadlines.fixed = Seconds(5.0);
    const RunRecord record = run_training(settings, data_for(job), options);
    EXPECT_EQ(record.ranks.front().steps.size(), 4U);
  }
}

TEST(FaultyRun, EndsAtASignalWithTheStepsThatAreDone) {
  const Job job = small_job();
  std::atomic<int> signal = 0;
  RunOptions options = options_for({});
  options.hooks = {};
  options.steps = 1'000'000;
  options.interrupt = &signal;
  options.on_step = [&](const StepProgress& step) {
    if (step.done == 3) {
      signal = 15;
    }
  };
  const EarlyEnd end = end_of(settings_of({.tp = 2, .pp = 2}, job), job, options);
  EXPECT_EQ(end.signal, 15);
  EXPECT_EQ(end.asked_steps, 1'000'000);
  const std::size_t steps = end.record.ranks.front().steps.size();
  EXPECT_GE(steps, 2U);
  for (const RankRecord& rank : end.record.ranks) {
    EXPECT_EQ(rank.steps.size(), steps);
  }
}

TEST(FaultyRun, SaysWhereItsStartFails) {
  const Job job = small_job();
  RunOptions options = options_for({});
  std::atomic<int> count = 0;
  options.make_backend = [&]() -> std::unique_ptr<Backend> {
    if (++count == 2) {
      throw Error("no such device", ExitStatus::kRuntimeFault);
    }
    return std::make_unique<CpuBackend>();
  };
  const EarlyEnd end = end_of(settings_of({.pp = 4}, job), job, options);
  EXPECT_THAT(end.fault, HasSubstr("no such device"));
  EXPECT_THAT(end.fault, StartsWith("rank "));
}

}  // namespace
}  // namespace ptdp::testing
