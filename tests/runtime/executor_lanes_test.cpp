// What runs beside compute: when it begins, and what becomes of its failures.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/executor.h"
#include "runtime/transport/launch.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

const Layout kTwoReplicas = {
    .dp = 2, .zero_stage = 1, .data = DataMode::kOverlapped, .num_buckets = 4};
const Layout kTwoStages = {.pp = 2, .messages = MessageMode::kOverlapped};

/// Runs steps of a job with hooks that are made for each rank.
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
  const int last = 7;  // of eight microbatches per replica
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
