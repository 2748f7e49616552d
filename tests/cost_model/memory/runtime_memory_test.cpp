// Tests of the memory of this project's runtime, buffer by buffer.
#include "cost_model/memory/runtime_memory.h"

#include <gtest/gtest.h>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/memory/memory.h"
#include "cost_model/memory/unit_memory.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a model with h = 8, s = 16, 4 heads of 2, a vocabulary of 512 tokens and fp32. It is on
/// a GPU, whose operations need a workspace and no scratch.
Scenario small(int layers, std::int64_t batch = 1024) {
  Scenario scenario = selene_2021("1T", batch);
  scenario.job.model = resolved({.num_layers = layers,
                                 .hidden_size = 8,
                                 .num_attention_heads = 4,
                                 .vocab_size = 512,
                                 .seq_length = 16},
                                "test");
  scenario.stack.precision = Precision::kFp32;
  scenario.stack.memory_model = MemoryModel::kPtdp;
  scenario.stack.workspace = Bytes(1.0);
  return scenario;
}

// By hand, b = 128: n = 2048 tokens; rows n·8·4 bytes, Q, K, V three times that, attention's result
// once, its log-sums n·4·4, statistics of a norm 2·n·4, both sides of the GELU four times.
constexpr int kMicroBatch = 128;
constexpr double kRows = 65536.0;
constexpr double kStatistics = kRows / 4;
constexpr double kLogSums = kRows / 2;
constexpr double kMost = 4 * kRows + 2 * kStatistics + 3 * kRows + kRows + kLogSums + 8 * kRows;
constexpr double kDeferred = 4 * kRows + 3 * kRows + kRows + 8 * kRows;
// Tokens' ids; logits n·512·4; maximum, sum and target's logit 3·n·4.
constexpr double kIds = kRows / 8;
constexpr double kLogits = 64 * kRows;
constexpr double kLoss = 3 * kRows / 8;
constexpr double kEnd = kRows + kStatistics + kRows + kLogits + kLoss;

TEST(LayerMemory, IsTheBuffersOfTheRuntimesPage) {
  const Scenario scenario = small(4);
  ParallelConfig config{.micro_batch_size = kMicroBatch};
  EXPECT_EQ(layer_memory(scenario, config).most, Bytes(kMost));
  EXPECT_EQ(layer_memory(scenario, config).kept, Bytes(kMost));
  EXPECT_EQ(layer_memory(scenario, config).deferred, Bytes(kDeferred));
  config.recompute = Recompute::kSelective;
  EXPECT_EQ(layer_memory(scenario, config).kept, Bytes(kMost - kRows - kLogSums));
  config.recompute = Recompute::kFull;
  EXPECT_EQ(layer_memory(scenario, config).kept, Bytes(kRows));
  EXPECT_EQ(layer_memory(scenario, config).deferred, Bytes(kDeferred));
}

TEST(StageMemory, HasTheWorkspaceOfAGpusLibrary) {
  Scenario scenario = small(4);
  const ParallelConfig config{.micro_batch_size = kMicroBatch};
  const Bytes with_a_byte = rank_memory({scenario, config}, 0).total();
  scenario.stack.workspace = Bytes(1e9);
  EXPECT_EQ(rank_memory({scenario, config}, 0).total(), with_a_byte + Bytes(1e9 - 1.0));
}

// One sequence of 16: a host's attention takes tiles of 96 rows, a GPU's next to nothing.
TEST(VirtualStageMemory, HasNoScratchOfAHostsOnAGpu) {
  Scenario scenario = small(4);
  scenario.stack.workspace = Bytes(0.0);
  const Bytes on_host = virtual_stage_memory({scenario, {.pp = 4}}, 1).backward;
  scenario.stack.workspace = Bytes(1.0);
  const double rows = kRows / kMicroBatch;
  const double most = kMost / kMicroBatch;
  EXPECT_EQ(virtual_stage_memory({scenario, {.pp = 4}}, 1).backward, Bytes(most + 2.0 * rows));
  EXPECT_GT(on_host, Bytes(most + 2.0 * rows));
}

// Two ranks halve what heads and the MLP's width split, with sequence parallelism rows too; the
// gradients that weight gradients wait for are whole.
TEST(LayerMemory, IsSplitOverTensorRanks) {
  const Scenario scenario = small(4);
  ParallelConfig config{.tp = 2, .micro_batch_size = kMicroBatch};
  const double split = (3 * kRows + kRows + kLogSums + 8 * kRows) / 2;
  EXPECT_EQ(layer_memory(scenario, config).most, Bytes(4 * kRows + 2 * kStatistics + split));
  config.sequence_parallel = true;
  EXPECT_EQ(layer_memory(scenario, config).most, Bytes(2 * kRows + kStatistics + split));
  EXPECT_EQ(layer_memory(scenario, config).deferred, Bytes(kRows + 2 * kRows + 12 * kRows / 2));
}

// Behind norms over all heads a rank of two keeps half of queries and keys, and two statistics of
// each token. A rank of four that shares one of two key heads of 2 has a quarter of the queries;
// its keys are normed before they are shared.
TEST(LayerMemory, HasNormedPartsOfAllHeads) {
  Scenario scenario = small(4);
  TransformerConfig& model = scenario.job.model;
  model.normalization = Normalization::kRmsNorm;
  ParallelConfig config{.tp = 2, .micro_batch_size = kMicroBatch};
  const auto most = [&](bool has_norms) {
    model.qk_layernorm = has_norms;
    model.qk_layernorm_width = has_norms ? QkNormWidth::kAllHeads : QkNormWidth::kHead;
    return layer_memory(scenario, config).most;
  };
  const double statistics = kRows / 4;
  EXPECT_EQ(most(true) - most(false), Bytes(kRows / 2 + kRows / 2 + statistics));
  config.tp = 4;
  model.num_query_groups = 2;
  EXPECT_EQ(most(true) - most(false), Bytes(kRows / 4 + statistics));
}

TEST(LayerMemory, HasTwoByteElementsAndFourByteSumsInBf16) {
  Scenario scenario = small(4);
  scenario.stack.precision = Precision::kBf16;
  const ParallelConfig config{.micro_batch_size = kMicroBatch};
  EXPECT_EQ(layer_memory(scenario, config).most,
            Bytes(16 * kRows / 2 + kLogSums + 2 * kStatistics));
}

// 4 stages of 2 layers.
TEST(VirtualStageMemory, OfAMiddleStageIsItsLayers) {
  const Scenario scenario = small(8);
  ParallelConfig config{.pp = 4, .micro_batch_size = kMicroBatch};
  StageMemory stage = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(stage.kept, Bytes(2 * kMost));
  EXPECT_EQ(stage.deferred, Bytes(2 * kDeferred));
  EXPECT_EQ(stage.result, Bytes(kRows));
  EXPECT_EQ(stage.forward, Bytes(2 * kMost + kRows));       // the MLP's sum
  EXPECT_EQ(stage.backward, Bytes(2 * kMost + 2 * kRows));  // gradients in and out of it
  // One layer waits or keeps its activations, whichever is more; the other has gradients before and
  // after fc1.
  EXPECT_EQ(stage.input_gradient, Bytes(2 * kMost + kRows + kRows + 4 * kRows));
  EXPECT_EQ(stage.weight_gradient, Bytes(2 * kDeferred));

  config.recompute = Recompute::kFull;
  stage = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(stage.kept, Bytes(2 * kRows));
  EXPECT_EQ(stage.forward, Bytes(kRows + kMost + kRows));
  EXPECT_EQ(stage.backward, Bytes(kRows + kMost + 2 * kRows));
  EXPECT_EQ(stage.input_gradient, Bytes(kDeferred + kMost + kRows + kRows + 4 * kRows));
}

TEST(VirtualStageMemory, OfTheEndsOfTheModelHasTheirBuffers) {
  const Scenario scenario = small(8);
  const ParallelConfig config{.pp = 4, .micro_batch_size = kMicroBatch};
  const StageMemory first = virtual_stage_memory({scenario, config}, 0);
  EXPECT_EQ(first.kept, Bytes(2 * kMost + kIds));
  EXPECT_EQ(first.deferred, Bytes(2 * kDeferred + kRows + kIds));
  const StageMemory last = virtual_stage_memory({scenario, config}, 3);
  EXPECT_EQ(last.kept, Bytes(2 * kMost + kEnd + kIds));
  EXPECT_EQ(last.deferred, Bytes(2 * kDeferred + kRows + kLogits + kIds));
  EXPECT_EQ(last.forward, last.kept);
  EXPECT_EQ(last.backward, last.kept);
  // The last layer's gradients, while the logits' and the normed rows wait.
  EXPECT_EQ(last.input_gradient, Bytes(2 * kMost + 2 * kRows + 4 * kRows + kRows + kLogits + kIds));
}

// By hand: a layer has 12·8² + 13·8 = 872 parameters, the ends 512·8 + 16·8 + 16 = 4240. Two ranks
// that share them pad each to a multiple of 128, in 4 bytes as are gradients; sums over 2 replicas
// take one place for half of a unit. Unsharded they are 7728.
constexpr double kUnit = 896.0 * 4;
constexpr double kEndUnit = 4352.0 * 4;
constexpr double kUnitsByWhole = (4 * 896.0 + 4352.0) / 7728.0;

TEST(StageMemory, HasShardsAndWholeUnitsWhereGradientsAndWeightsAreSharded) {
  const Scenario scenario = small(4);
  ParallelConfig config{.dp = 2, .micro_batch_size = kMicroBatch};
  const MemoryBreakdown whole = rank_memory({scenario, config}, 0);
  const Bytes passes = whole.activations + whole.working_set;
  const auto beside = [&](const MemoryBreakdown& memory) {
    return (memory.activations + memory.working_set - passes).value();
  };
  // The end of the model is the most of a step: logits and their gradient.
  config.zero_stage = 2;
  MemoryBreakdown memory = rank_memory({scenario, config}, 0);
  const auto expect_share = [](Bytes found, Bytes of_whole, double ranks) {
    EXPECT_DOUBLE_EQ(found.value(), of_whole.value() * kUnitsByWhole / ranks);
  };
  expect_share(memory.weights, whole.weights, 1.0);
  expect_share(memory.gradients, whole.gradients, 2.0);
  expect_share(memory.optimizer, whole.optimizer, 2.0);
  EXPECT_EQ(beside(memory), kEndUnit);

  config.zero_stage = 3;
  memory = rank_memory({scenario, config}, 0);
  expect_share(memory.weights, whole.weights, 2.0);
  EXPECT_EQ(beside(memory), 2 * kEndUnit);
  config.reshard_after_forward = false;
  EXPECT_EQ(beside(rank_memory({scenario, config}, 0)), 2 * kEndUnit + 4 * kUnit);
}

TEST(UnitMemory, IsThatOfTheRuntimesPage) {
  ParallelConfig config{.dp = 2, .micro_batch_size = kMicroBatch, .zero_stage = 3};
  Scenario host = small(4);
  host.stack.workspace = Bytes(0.0);
  UnitMemory units = unit_memory({host, config});
  EXPECT_EQ(units.forward, Bytes(kEndUnit + kUnit));
  EXPECT_EQ(units.logits, Bytes(kEndUnit));
  EXPECT_EQ(units.end, Bytes(2 * kEndUnit));
  EXPECT_EQ(units.backward, Bytes(2 * kUnit + kEndUnit));
  EXPECT_EQ(units.reducing_layer, Bytes(kUnit + kEndUnit + kUnit / 2));
  EXPECT_EQ(units.reducing_ends, Bytes(kEndUnit + kEndUnit / 2));
  config.reshard_after_forward = false;
  units = unit_memory({host, config});
  EXPECT_EQ(units.forward, Bytes(kEndUnit + 4 * kUnit));
  EXPECT_EQ(units.backward, Bytes(5 * kUnit + kEndUnit));
  EXPECT_EQ(units.reducing_layer, Bytes(4 * kUnit + kEndUnit + kUnit / 2));
  config = {.dp = 2, .micro_batch_size = kMicroBatch, .zero_stage = 2};
  units = unit_memory({host, config});
  EXPECT_EQ(units.forward, Bytes(0.0));
  EXPECT_EQ(units.backward, Bytes(kUnit + kEndUnit));
  config.dp = 1;
  EXPECT_EQ(unit_memory({host, config}).backward, Bytes(0.0));
  config = {.pp = 2, .dp = 2, .micro_batch_size = kMicroBatch, .zero_stage = 3};
  EXPECT_EQ(unit_memory({host, config}).backward, Bytes(0.0));
}

// On two tensor ranks the sum of all rows, 64 KiB, takes a place for half of them.
TEST(VirtualStageMemory, WithoutLayersIsTheEndOfTheModel) {
  const Scenario scenario = small(3);
  const ParallelConfig config{.pp = 2, .micro_batch_size = kMicroBatch, .layers_per_stage = {3, 0}};
  const StageMemory last = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(last.kept, Bytes(kEnd + kIds));
  EXPECT_EQ(last.forward, last.kept);
  EXPECT_EQ(last.deferred, Bytes(kRows + kLogits + kIds));
  EXPECT_EQ(last.input_gradient, Bytes(kEnd - kLoss + 2 * kRows + kIds));
  EXPECT_EQ(last.weight_gradient, last.deferred);
}

TEST(VirtualStageMemory, HasAPlaceForWhatIsSummed) {
  const Scenario scenario = small(8);
  ParallelConfig config{.tp = 2, .pp = 4, .micro_batch_size = kMicroBatch};
  const Bytes kept = virtual_stage_memory({scenario, config}, 1).kept;
  EXPECT_EQ(virtual_stage_memory({scenario, config}, 1).forward, kept + Bytes(kRows + kRows / 2));
  config.sequence_parallel = true;
  const StageMemory scattered = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(scattered.forward, scattered.kept + Bytes(kRows + kRows / 2));
  EXPECT_EQ(scattered.result, Bytes(kRows / 2));
}

ActivationPeak peak_of(const std::string& order, int rank_of_two) {
  Scenario scenario = small(4);
  const ParallelConfig config{.pp = 2, .micro_batch_size = kMicroBatch};
  Schedule schedule{.pp = 2, .num_microbatches = 4, .orders = {{}, {}}};
  schedule.orders[static_cast<std::size_t>(rank_of_two)] = parse_order(order, "test");
  return activation_peak({scenario, config}, schedule, rank_of_two);
}

// The last pass of what is held is the worst: two microbatches, and the gradients of one. The MLP
// is as wide as h on four tensor ranks, so rows and both sides of the GELU are a quarter of all
// rows each. With overlap the most is with the rows gathered for fc1's weight gradient beside the
// input gradient, in place of this rank's and of the GELU's result. In turn it is with the input
// gradient, in place of fc1's input and of the GELU's result. A sum on four ranks takes two of its
// four parts. Rows that are not gathered stay beside the input gradient, too.
TEST(VirtualStageMemory, HasTheRowsThatAreGatheredBehindAProduct) {
  Scenario scenario = small(8);
  scenario.job.model.ffn_hidden_size = 8;
  ParallelConfig config{
      .tp = 4, .pp = 4, .micro_batch_size = kMicroBatch, .sequence_parallel = true};
  const Bytes most = layer_memory(scenario, config).most;
  const Bytes quarter(kRows / 4);
  const StageMemory in_turn = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(in_turn.backward, 2.0 * most + Bytes(kRows + kRows / 2) - quarter);
  scenario.stack.tensor_parallel_overlap = true;
  const StageMemory beside = virtual_stage_memory({scenario, config}, 1);
  EXPECT_EQ(beside.backward, 2.0 * most - quarter + Bytes(2.0 * kRows + kRows / 2));
  EXPECT_EQ(beside.forward, in_turn.forward);
  EXPECT_EQ(beside.input_gradient, in_turn.input_gradient);
  EXPECT_EQ(beside.weight_gradient, in_turn.weight_gradient);
  config.sequence_parallel = false;
  const Bytes all = layer_memory(scenario, config).most;
  EXPECT_EQ(virtual_stage_memory({scenario, config}, 1).backward,
            2.0 * all - quarter + Bytes(2.0 * kRows + kRows / 2));
  scenario.stack.tensor_parallel_overlap = false;
  EXPECT_EQ(virtual_stage_memory({scenario, config}, 1).backward, 2.0 * all + Bytes(2.0 * kRows));
}

TEST(ActivationPeak, IsThatOfTheWorstAction) {
  const ActivationPeak peak = peak_of("0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1", 0);
  EXPECT_EQ(peak.kept, Bytes(2 * (2 * kMost + kIds)));
  EXPECT_EQ(peak.working, Bytes(2 * kRows));
  EXPECT_EQ(peak.waiting, Bytes(0.0));
}

TEST(ActivationPeak, CountsMessagesThatWait) {
  // The second result is not sent, and the first gradient is there, when the third pass runs.
  const ActivationPeak peak =
      peak_of("0F0 0SEND_F0 0F1 0RECV_B0 0F2 0SEND_F1 0SEND_F2 0B0 0RECV_B1 0B1 0RECV_B2 0B2", 0);
  EXPECT_EQ(peak.kept, Bytes(3 * (2 * kMost + kIds)));
  EXPECT_EQ(peak.total(), peak.kept + Bytes(3 * kRows));
}

TEST(ActivationPeak, CountsWhatWeightGradientsWaitFor) {
  const double kept = 2 * kMost + kEnd + kIds;
  const double deferred = 2 * kDeferred + kRows + kLogits + kIds;
  const ActivationPeak peak =
      peak_of("1RECV_F0 1F0 1I0 1SEND_B0 1RECV_F1 1F1 1I1 1SEND_B1 1W0 1W1", 1);
  EXPECT_EQ(peak.kept, Bytes(kept + deferred));
  EXPECT_EQ(peak.working, Bytes(3 * kRows + 4 * kRows + kLogits - kEnd));
}

struct Shape {
  int pp;
  int vpp;
  int microbatches;
};

/// Calls visit(scenario, config) for every schedule and many shapes.
template <class Visit>
void for_each_schedule(const Visit& visit) {
  for (const auto& [kind, name] : kScheduleNames) {
    for (const Shape& shape : {Shape{1, 1, 3}, Shape{2, 1, 2}, Shape{4, 1, 8}, Shape{6, 1, 16},
                               Shape{2, 2, 4}, Shape{3, 3, 16}, Shape{4, 2, 12}, Shape{8, 2, 32}}) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        const Scenario scenario =
            small(2 * shape.pp * shape.vpp, std::int64_t{kMicroBatch} * shape.microbatches);
        const ParallelConfig config{.tp = 2,
                                    .pp = shape.pp,
                                    .vpp = shape.vpp,
                                    .micro_batch_size = kMicroBatch,
                                    .schedule = kind,
                                    .recompute = recompute};
        const ScheduleTraits* generator = find_schedule(name);
        if (!generator->find_conflict(schedule_sizes(config, shape.microbatches))) {
          visit(scenario, config);
        }
      }
    }
  }
}

TEST(ActivationBound, IsNoLessThanThePeakOfAnySchedule) {
  int shapes = 0;
  for_each_schedule([&](const Scenario& scenario, const ParallelConfig& config) {
    const std::vector<MemoryBreakdown> stages = memory_by_rank({scenario, config});
    for (int stage = 0; stage < config.pp; ++stage) {
      const Bytes exact = stages[static_cast<std::size_t>(stage)].total();
      EXPECT_GE(rank_memory({scenario, config}, stage).total(), exact)
          << to_string(config) << ' ' << stage;
    }
    EXPECT_EQ(peak_memory({scenario, config}),
              stages[static_cast<std::size_t>(heaviest_rank({scenario, config}))].total());
    ++shapes;
  });
  EXPECT_GT(shapes, 80);
}

// Nothing is left when a step is over: what is taken is given back.
TEST(ActivationPeak, OfAStepTwiceInARowIsThatOfOne) {
  for_each_schedule([&](const Scenario& scenario, const ParallelConfig& config) {
    const Schedule once = schedule_with_messages({scenario, config});
    Schedule twice = once;
    for (std::vector<Action>& order : twice.orders) {
      order.insert(order.end(), once.orders[&order - twice.orders.data()].begin(),
                   once.orders[&order - twice.orders.data()].end());
    }
    for (int rank = 0; rank < config.pp; ++rank) {
      EXPECT_NEAR(activation_peak({scenario, config}, twice, rank).total().value(),
                  activation_peak({scenario, config}, once, rank).total().value(), 1e-3)
          << to_string(config) << ' ' << rank;
    }
  });
}

TEST(StageMemoryByPtdp, HasStatesAndNoReserve) {
  Scenario scenario = small(4);
  scenario.stack.weight_bytes = 4.0;
  scenario.stack.gradient_bytes = 4.0;
  scenario.stack.optimizer_bytes = 8.0;
  scenario.stack.reserve_fraction = 0.0;
  const ParallelConfig config{.dp = 2, .micro_batch_size = kMicroBatch, .zero_stage = 1};
  // 4 layers of 12·64 + 13·8 parameters, the table, positions and the final norm, 7728 in all. Two
  // ranks that share them pad them to a multiple of 128.
  const double parameters = 7808.0;
  const MemoryBreakdown memory = memory_by_rank({scenario, config}).front();
  EXPECT_EQ(memory.weights, Bytes(4 * parameters));
  EXPECT_EQ(memory.gradients, Bytes(4 * parameters));
  EXPECT_EQ(memory.optimizer, Bytes(4 * parameters));
  EXPECT_EQ(memory.activations + memory.working_set,
            Bytes(4 * kMost + kEnd + 2 * kIds) + scenario.stack.workspace);
  EXPECT_EQ(memory.buffers + memory.reserve, Bytes(0.0));
  EXPECT_EQ(virtual_stage_activations({scenario, config}, 0), memory.activations);
}

}  // namespace
}  // namespace ptdp
