// Tests what whole runs over NCCL do before their first step and behind it: they warm up, compare
// the memory that is taken of GPUs with their plan, and ask for no estimates unless they are told
// to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "runtime/run/training_run.h"
#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kMebibyte = 1 << 20;
constexpr std::int64_t kGibibyte = 1 << 30;

Bytes gibibytes(double count) {
  return Bytes(count * kGibibyte);
}

/// What a run said and did.
struct RunOnGpus {
  std::vector<std::string> notes;
  std::string fault;                  ///< What ended the run, or "".
  RunRecord record;                   ///< Of the steps that all ranks completed.
  std::int64_t done_steps = 0;        ///< Number of those steps.
  int communicators_of_each_gpu = 0;  ///< The most that there were in an action.
  /// Kernels of libraries that were loaded in steps while their GPU had to wait for another one.
  int loads_in_steps = 0;
};

class RunOverNccl : public ::testing::Test {
 protected:
  void SetUp() override {
    emulated_nccl::reset();
    emulated_gpu::set_devices(2);
    emulated_gpu::set_hardships({});
  }
  void TearDown() override {
    EXPECT_EQ(emulated_nccl::communicators(), 0);
    EXPECT_EQ(emulated_nccl::faults(), std::vector<std::string>());
    emulated_nccl::reset();
  }

  /// Runs two ranks, each on a GPU of its own, with these options besides the usual ones.
  static RunOnGpus run_two_ranks(const Layout& layout, RunOptions options) {
    const Job job{.model = resolved({.num_layers = 2,
                                     .hidden_size = 8,
                                     .num_attention_heads = 2,
                                     .vocab_size = 40,
                                     .seq_length = 4},
                                    "two_ranks"),
                  .global_batch_size = 4,
                  .type = DataType::kFloat32,
                  .uses_nccl = true};
    RunOnGpus run;
    std::atomic<int> communicators = 0;
    std::atomic<int> loads_before = -1;
    options.on_note = [&](const std::string& note) { run.notes.push_back(note); };
    options.make_backend = [](int rank) { return make_cuda_backend({.device = rank}); };
    options.uses_nccl = true;
    options.make_host_backend = [] { return std::make_unique<CpuBackend>(); };
    options.hooks = [&](int /*rank*/) -> ActionHooks {
      return {.before = [&](std::int64_t, const Action&, Lane) {
        // Before its last actions the other rank may have ended, and its communicators with it.
        const int now = emulated_nccl::communicators();
        int most = communicators;
        while (most < now && !communicators.compare_exchange_weak(most, now)) {
        }
        int none = -1;
        loads_before.compare_exchange_strong(none, emulated_gpu::loads_beside_meetings());
      }};
    };
    try {
      run.record = run_training(
          settings_of(layout, job),
          TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7), options);
      run.done_steps = std::ssize(run.record.ranks.front().steps);
    } catch (const EndedEarly& ended) {
      run.fault = ended.end().fault;
      run.done_steps = ended.end().done_steps;
    }
    run.communicators_of_each_gpu = communicators / 2;
    run.loads_in_steps = emulated_gpu::loads_beside_meetings() - loads_before;
    return run;
  }
};

// A library that is loaded in the middle of a step may wait for messages that are under way.
TEST_F(RunOverNccl, LoadsLibrariesBeforeItsFirstStep) {
  const RunOnGpus run = run_two_ranks({.pp = 2}, {});
  EXPECT_EQ(run.done_steps, 1);
  EXPECT_EQ(run.loads_in_steps, 0);
}

// Each estimate takes a communicator of its own, and tens of milliseconds of all its ranks.
TEST_F(RunOverNccl, AsksForEstimatesOnlyWhenItIsToldTo) {
  std::array<std::int64_t, 2> splits{};
  for (const bool asks : {false, true}) {
    emulated_nccl::reset();
    const RunOnGpus run = run_two_ranks({.tp = 2}, {.asks_estimates = asks});
    splits[asks ? 1 : 0] = emulated_nccl::calls("ncclCommSplit");
    for (const RankRecord& rank : run.record.ranks) {
      EXPECT_EQ(rank.estimates.empty(), !asks);
    }
  }
  EXPECT_LT(splits[0], splits[1]);
}

/// A GPU's driver takes 1 GiB, and of the second GPU 0.5 more; each communicator takes 256 MiB.
class StartMemoryOverNccl : public RunOverNccl {
 protected:
  void SetUp() override {
    RunOverNccl::SetUp();
    emulated_nccl::reset({.bytes_each = 256 * kMebibyte});
    take(1);
  }
  void TearDown() override {
    take(-1);
    RunOverNccl::TearDown();
  }

 private:
  static void take(int sign) {
    emulated_gpu::take_memory_beside(0, sign * kGibibyte);
    emulated_gpu::take_memory_beside(1, sign * (kGibibyte + kGibibyte / 2));
  }
};

TEST_F(StartMemoryOverNccl, IsComparedWithTheReserveBeforeTheFirstStep) {
  const RunOnGpus run = run_two_ranks(
      {.pp = 2}, {.planned_memory = PlannedMemory{.peaks = {gibibytes(1), gibibytes(1)},
                                                  .reserve = gibibytes(1.5),
                                                  .device = gibibytes(8)}});
  EXPECT_EQ(run.fault, "");
  EXPECT_EQ(run.done_steps, 1);
  ASSERT_EQ(run.notes.size(), 1U);
  ASSERT_GT(run.communicators_of_each_gpu, 1);
  const int hundredths = 150 + 25 * run.communicators_of_each_gpu;
  const std::string taken =
      std::to_string(hundredths / 100) + "." + std::to_string(hundredths % 100 + 100).substr(1);
  EXPECT_THAT(run.notes.front(),
              AllOf(HasSubstr(taken + " GiB of the GPU of rank 1 were taken at start-up"),
                    HasSubstr("expected at most the 1.50 GiB that the plan reserves"),
                    HasSubstr("2 ranks took more")));
}

TEST_F(StartMemoryOverNccl, IsNotTalkedOfWithinTheReserve) {
  const RunOnGpus run = run_two_ranks(
      {.pp = 2}, {.planned_memory = PlannedMemory{.peaks = {gibibytes(1), gibibytes(1)},
                                                  .reserve = gibibytes(6),
                                                  .device = gibibytes(8)}});
  EXPECT_THAT(run.notes, IsEmpty());
  EXPECT_EQ(run.fault, "");
}

// 1.5 GiB of the driver and two communicators or more leave less than 3 GiB of 4.5.
TEST_F(StartMemoryOverNccl, EndsTheRunWhereAPeakDoesNotFitAnyMore) {
  const RunOnGpus run = run_two_ranks(
      {.pp = 2}, {.planned_memory = PlannedMemory{.peaks = {gibibytes(0.5), gibibytes(3)},
                                                  .reserve = gibibytes(1),
                                                  .device = gibibytes(4.5)}});
  EXPECT_EQ(run.done_steps, 0);
  EXPECT_EQ(run.communicators_of_each_gpu, 0) << "an action began";
  EXPECT_THAT(
      run.fault,
      AllOf(HasSubstr("rank 1: "), HasSubstr("of its GPU's 4.50 GiB were taken at start-up"),
            HasSubstr("(the plan reserves 1.00 GiB): expected at most 1.50 GiB, since the "
                      "plan's peak is 3.00 GiB")));
}

}  // namespace
}  // namespace ptdp::testing
