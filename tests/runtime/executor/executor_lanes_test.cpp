// Tests what runs beside compute: when it begins, and what becomes of its failures.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/forwarding_communicator.h"
#include "tests/runtime/begun_collectives.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

const Layout kTwoReplicas = {
    .dp = 2, .zero_stage = 1, .data = DataMode::kOverlapped, .num_buckets = 4};
const Layout kTwoStages = {.pp = 2, .messages = MessageMode::kOverlapped};

/// Runs steps of a job with hooks that `hooks_of` makes for each rank.
void run_hooked(const Layout& layout, int steps, const std::function<ActionHooks(int)>& hooks_of) {
  const Job job = small_job();
  const TrainingSettings settings = settings_of(layout, job);
  const TrainingData data = TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7);
  run_ranks({.size = static_cast<int>(settings.config.world_size()),
             .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              Executor executor(backend, world, settings, data, hooks_of(world.rank()));
              for (int step = 0; step < steps; ++step) {
                static_cast<void>(executor.run_step());
              }
            });
}

// Whether a thread comes to run in time is the machine's business: once in twenty steps suffices.
TEST(ExecutorLanes, BeginToReduceWhileTheLastBackwardPassRuns) {
  const int last = 7;  // last of eight microbatches per replica
  std::atomic<int> compared = 0;
  std::array<std::atomic<bool>, 2> has_ended = {};
  std::array<std::atomic<bool>, 2> has_begun_early = {};
  run_hooked(kTwoReplicas, 20, [&](int rank) {
    return ActionHooks{
        .before =
            [&, rank](std::int64_t, const Action& action, Lane lane) {
              if (action.kind == ActionKind::kBackward && action.microbatch == last) {
                has_ended[rank] = false;
              }
              if (action.kind == ActionKind::kReduceGradients) {
                EXPECT_EQ(lane, Lane::kData);
                if (action.microbatch == 0) {
                  ++compared;
                  has_begun_early[rank] = has_begun_early[rank] || !has_ended[rank];
                }
              } else if (is_compute(action.kind)) {
                EXPECT_EQ(lane, Lane::kCompute);
              }
            },
        .after =
            [&, rank](Lane lane) {
              if (lane == Lane::kCompute) {
                has_ended[rank] = true;
              }
            }};
  });
  EXPECT_EQ(compared, 2 * 20);
  EXPECT_TRUE(has_begun_early[0]);
  EXPECT_TRUE(has_begun_early[1]);
}

/// A world whose groups begin collectives on threads.
class BegunWorld final : public ForwardingCommunicator {
 public:
  BegunWorld(Communicator& world, std::atomic<int>& begun)
      : ForwardingCommunicator(world), begun_(begun) {}
  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return std::make_unique<ThreadedCommunicator>(ForwardingCommunicator::group(ranks, tag),
                                                  begun_);
  }

 private:
  std::atomic<int>& begun_;
};

// Each layer has two sums in a backward pass. With the optimizer's step the numbers must be those
// of a run without overlap.
TEST(ExecutorTensor, TimesWhatRunsBehindProducts) {
  Layout layout = {.tp = 2};
  const Job job = small_job();
  const Trained expected = train(layout, job);
  layout.overlaps_tensor = true;
  const TrainingSettings settings = settings_of(layout, job);
  const TrainingData data = TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7);
  std::atomic<int> begun = 0;
  run_ranks({.size = 2, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              BegunWorld beside(world, begun);
              Executor executor(backend, beside, settings, data);
              const StepRecord record = executor.run_step();
              EXPECT_EQ(record.gradient_norm, expected.gradient_norms.front());
              int hidden = 0;
              for (const SubSpan& sub : record.sub_spans) {
                EXPECT_GE(sub.hidden, Seconds(0.0));
                EXPECT_GE(sub.exposed(), Seconds(0.0));
                EXPECT_LE(sub.span.end, record.actions[sub.action].end);
                if (sub.hidden > Seconds(0.0)) {
                  ++hidden;
                  EXPECT_EQ(settings.schedule.orders[0][sub.action].kind, ActionKind::kBackward);
                }
              }
              const int microbatches = 16;
              EXPECT_EQ(hidden, 2 * job.model.num_layers * microbatches);
            });
  EXPECT_EQ(begun, 2 * 2 * job.model.num_layers * 16);
}

// What a lane throws ends the run with its message, whichever lane it is and whoever waits.
TEST(ExecutorLanes, EndTheRunWithTheirOwnFailure) {
  struct Case {
    Layout layout;
    ActionKind kind = ActionKind::kForward;
  };
  for (const Case& each :
       {Case{kTwoReplicas, ActionKind::kReduceGradients},
        Case{kTwoReplicas, ActionKind::kGatherParameters},
        Case{kTwoStages, ActionKind::kSendForward}, Case{kTwoStages, ActionKind::kSendBackward},
        Case{kTwoStages, ActionKind::kBackward}, Case{kTwoReplicas, ActionKind::kForward}}) {
    const int failing = each.kind == ActionKind::kSendForward ? 0 : 1;
    try {
      run_hooked(each.layout, 3, [&](int rank) {
        return ActionHooks{.before = [&, rank](std::int64_t step, const Action& action, Lane) {
          if (rank == failing && step == 1 && action.kind == each.kind) {
            throw Error("the wire broke", ExitStatus::kRuntimeFault);
          }
        }};
      });
      ADD_FAILURE() << "expected a failure of " << spelling_of(each.kind);
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "rank " + std::to_string(failing) + ": the wire broke")
          << spelling_of(each.kind);
    }
  }
}

}  // namespace
}  // namespace ptdp::testing
