// Compares the bytes that tensor-parallel ranks send with sums made by hand and with the cost
// model.
#include <gtest/gtest.h>

#include <cstdint>

#include "cost_model/network/collectives.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

/// Returns the bytes that all ranks together sent in collectives of this kind.
std::int64_t sent(const Outcome& outcome, CollectiveKind kind) {
  std::int64_t bytes = 0;
  for (const SentBytes& rank : outcome.sent) {
    bytes += rank[kind];
  }
  return bytes;
}

TEST(StageVolume, IsFourAllReducesPerLayerAndMicrobatch) {
  Task task = small_task();
  task.type = DataType::kBFloat16;
  for (const int tp : {1, 2, 4}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Layout layout = {.tp = tp, .recompute = recompute, .micro_batch_size = 2};
      SCOPED_TRACE(to_string(layout));
      const Outcome outcome = run_step(task, layout);
      // 3 microbatches of 16 tokens, h = 20, 4 layers; an all-reduce of S makes t ranks send
      // 2(t − 1)·S. Two all-reduces each forward and backward, two more where the layer is computed
      // again, one of the embedding, one of the logits' input gradient; three f32 per token.
      const int per_layer = recompute == Recompute::kFull ? 6 : 4;
      const int per_microbatch = (4 * per_layer + 2) * 16 * 20 * 2 + 3 * 16 * 4;
      EXPECT_EQ(sent(outcome, CollectiveKind::kAllReduce), 2 * (tp - 1) * 3 * per_microbatch);
      EXPECT_EQ(sent(outcome, CollectiveKind::kAllGather), 0);
      EXPECT_EQ(sent(outcome, CollectiveKind::kReduceScatter), 0);
    }
  }
}

TEST(StageVolume, GathersAndScattersRowsWithSequenceParallelism) {
  Task task = small_task();
  task.type = DataType::kBFloat16;
  for (const int tp : {2, 4}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      for (const BackwardOrder order : {BackwardOrder::kWhole, BackwardOrder::kWeightsLast}) {
        const Layout layout = {.tp = tp,
                               .sequence_parallel = true,
                               .recompute = recompute,
                               .order = order,
                               .micro_batch_size = 2};
        SCOPED_TRACE(to_string(layout));
        const Outcome outcome = run_step(task, layout);
        // An all-gather or reduce-scatter of S makes t ranks send (t − 1)·S. Per layer 2 of each
        // forward, 2 of each backward, 2 all-gathers for the weight gradients, 2 of each where the
        // layer is computed again; one of each for the embedding and for the logits.
        const int again = recompute == Recompute::kFull ? 2 : 0;
        const int rows = (tp - 1) * 3 * 16 * 20 * 2;
        EXPECT_EQ(sent(outcome, CollectiveKind::kAllGather), (4 * (6 + again) + 2) * rows);
        EXPECT_EQ(sent(outcome, CollectiveKind::kReduceScatter), (4 * (4 + again) + 2) * rows);
        // Three f32 per token, and once per step the gradients of 9 norms and 8 biases.
        EXPECT_EQ(sent(outcome, CollectiveKind::kAllReduce),
                  2 * (tp - 1) * (3 * 3 * 16 * 4 + (9 * 2 + 8) * 20 * 4));
      }
    }
  }
}

TEST(StageVolume, IsWhatTheCostModelPredicts) {
  Task task = small_task();
  task.type = DataType::kFloat64;
  Task deeper = task;
  deeper.model.num_layers = 7;
  for (const bool is_scattered : {false, true}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Layout layout = {.tp = 4,
                             .sequence_parallel = is_scattered,
                             .recompute = recompute,
                             .micro_batch_size = 3};
      SCOPED_TRACE(to_string(layout));
      std::int64_t bytes = 0;
      for (const auto& [config, sign] : {std::pair{&deeper, 1}, std::pair{&task, -1}}) {
        const Outcome outcome = run_step(*config, layout);
        for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                          CollectiveKind::kReduceScatter}) {
          bytes += sign * sent(outcome, kind);
        }
      }
      // The difference is that of three more layers, two microbatches and four ranks. The
      // gradients of two norms and two biases each are not the layer's own volume.
      const double gradients = is_scattered ? 2.0 * 3 * 3 * 6 * 20 * 8 : 0.0;
      EXPECT_EQ(
          static_cast<double>(bytes) - gradients,
          3 * 2 * 4 * 8 * tensor_parallel_elements(task.model, 3, 4, recompute, is_scattered));
    }
  }
}

}  // namespace
}  // namespace ptdp
