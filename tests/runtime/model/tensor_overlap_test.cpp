// Tests tensor-parallel collectives of backward passes behind products. The result must have the
// bits of the order without overlap, whenever a begun collective is done.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/runtime/begun_collectives.h"
#include "tests/runtime/lazy_backend.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

using testing::Laziness;
using testing::LazyBackend;
using testing::LazyDevice;

constexpr int kLayers = 4;  // of small_task()

/// Returns layouts with every difference that a pass with hidden collectives may have.
std::vector<Layout> hiding_layouts() {
  std::vector<Layout> all;
  for (const int tp : {2, 4}) {
    for (const bool is_scattered : {false, true}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        all.push_back({.tp = tp,
                       .sequence_parallel = is_scattered,
                       .recompute = recompute,
                       .num_stages = tp == 2 ? 1 : 3,
                       .micro_batch_size = tp == 2 ? 3 : 2,
                       .adds_gradients_apart = recompute == Recompute::kSelective});
      }
    }
  }
  return all;
}

void expect_same_bits(const Outcome& outcome, const Outcome& expected) {
  EXPECT_EQ(outcome.loss, expected.loss);
  EXPECT_TRUE(outcome.gradients == expected.gradients);
}

TEST(TensorOverlap, GivesTheBitsOfTheOrderWithout) {
  const Task task = small_task();
  for (Layout layout : hiding_layouts()) {
    for (const BackwardOrder order : {BackwardOrder::kWhole, BackwardOrder::kSplit}) {
      layout.order = order;
      layout.overlaps_tensor = false;
      const Outcome expected = run_step(task, layout);
      layout.overlaps_tensor = true;
      SCOPED_TRACE(to_string(layout));
      const Outcome outcome = run_step(task, layout);
      expect_same_bits(outcome, expected);
      for (std::size_t rank = 0; rank < expected.sent.size(); ++rank) {
        EXPECT_EQ(outcome.sent[rank].bytes, expected.sent[rank].bytes);
        EXPECT_EQ(outcome.sent[rank].messages, expected.sent[rank].messages);
      }
    }
  }
}

/// Expects equal bits from all layouts on `machine`, which counts begun collectives in `begun`.
/// Each microbatch, rank and layer begins two sums and, with sequence parallelism, two gathers.
void expect_same_bits_on(const Machine& machine, std::atomic<int>& begun) {
  const Task task = small_task();
  for (Layout layout : hiding_layouts()) {
    const Outcome expected = run_step(task, layout);
    layout.overlaps_tensor = true;
    SCOPED_TRACE(to_string(layout));
    begun = 0;
    expect_same_bits(run_step(task, layout, {}, machine), expected);
    const int of_a_layer = layout.sequence_parallel ? 4 : 2;
    EXPECT_EQ(begun, task.num_samples / layout.micro_batch_size * layout.tp * kLayers * of_a_layer);
  }
}

TEST(TensorOverlap, TouchesNoBufferUntilItIsWaitedFor) {
  std::atomic<int> begun = 0;
  expect_same_bits_on({.tensor_group =
                           [&](Backend& /*backend*/, Communicator& group) {
                             return std::make_unique<DelayedCommunicator>(group, begun);
                           }},
                      begun);
}

TEST(TensorOverlap, LetsCollectivesRunAtAnyTimeUntilThen) {
  std::atomic<int> begun = 0;
  expect_same_bits_on({.tensor_group =
                           [&](Backend& /*backend*/, Communicator& group) {
                             return std::make_unique<ThreadedCommunicator>(group, begun);
                           }},
                      begun);
}

TEST(TensorOverlap, LetsCollectivesRunOnAnotherLaneOfADevice) {
  for (const Laziness laziness : {Laziness::kLatest, Laziness::kRandom}) {
    const auto device = std::make_shared<LazyDevice>(laziness);
    std::atomic<int> begun = 0;
    expect_same_bits_on({.make_backend = [&] { return std::make_unique<LazyBackend>(device); },
                         .tensor_group =
                             [&](Backend& backend, Communicator& group) {
                               return std::make_unique<LaneCommunicator>(backend, group, begun);
                             }},
                        begun);
  }
}

// A schedule that splits backward passes has one of the two products in each action; one rank has
// no collectives.
TEST(TensorOverlap, HidesNothingWhereThereIsNothingToHideBehind) {
  const Task task = small_task();
  std::atomic<int> begun = 0;
  const Machine machine = {.tensor_group = [&](Backend& /*backend*/, Communicator& group) {
    return std::make_unique<DelayedCommunicator>(group, begun);
  }};
  for (const Layout& layout :
       {Layout{.tp = 2, .overlaps_tensor = true, .order = BackwardOrder::kSplit},
        Layout{.tp = 2,
        .sequence_parallel = true,
        .overlaps_tensor = true,
        .order = BackwardOrder::kWeightsLast},
        Layout{.tp = 1, .sequence_parallel = true, .overlaps_tensor = true}}) {
    static_cast<void>(run_step(task, layout, {}, machine));
    EXPECT_EQ(begun, 0) << to_string(layout);
  }
}

}  // namespace
}  // namespace ptdp
