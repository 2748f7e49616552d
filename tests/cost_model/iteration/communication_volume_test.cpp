// Tests of the bytes that a job sends, counted by hand.
#include "cost_model/iteration/communication_volume.h"

#include <gtest/gtest.h>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a scenario with 8 layers, h = 8, s = 16, a vocabulary of 512 tokens and 24 sequences.
Scenario small(Precision precision = Precision::kFp32) {
  Scenario scenario = selene_2021("1T", 24);
  scenario.job.model = resolved({.num_layers = 8,
                                 .hidden_size = 8,
                                 .num_attention_heads = 4,
                                 .vocab_size = 512,
                                 .seq_length = 16},
                                "test");
  scenario.stack.precision = precision;
  scenario.stack.scatter_gather = true;
  return scenario;
}

// Parameters of one layer: 12h² = 768 weights, biases 3h, h, 4h and h, norms 4h, so 13h = 104.
// Table 512·8, positions 16·8, final norm 16.
constexpr std::int64_t kLayer = 768 + 104;
constexpr std::int64_t kTable = 4096;
constexpr std::int64_t kPositions = 128;
constexpr std::int64_t kFinalNorm = 16;

constexpr std::int64_t kActivations = 2 * 16 * 8;  // elements of a microbatch of two sequences

TEST(JobVolumes, AreNothingOnOneRank) {
  const auto volumes =
      job_volumes({small(), {.micro_batch_size = 2, .recompute = Recompute::kFull}});
  EXPECT_EQ(volumes, GroupVolumes<std::int64_t>{});
}

// By hand: 12 microbatches; 8 layers with two all-reduces each way, the embedding's and that of the
// logits' input gradient, each sent 2·(4−1) times over; and three values per token for the loss.
TEST(JobVolumes, OfTensorParallelismMatchTheHandCount) {
  const auto volumes = job_volumes({small(), {.tp = 4, .micro_batch_size = 2}});
  const std::int64_t large = (8 * 4 + 2) * 2 * 3 * kActivations * 4;
  const std::int64_t loss = 2 * 3 * (2 * 16) * 3 * 4;
  EXPECT_EQ(volumes.tensor.all_reduce, 12 * (large + loss));
  EXPECT_EQ(volumes.tensor.all_gather, 0);
  EXPECT_EQ(volumes.tensor.reduce_scatter, 0);
  EXPECT_EQ(volumes.data, KindVolumes<std::int64_t>{});
  EXPECT_EQ(volumes.model.all_reduce, 2 * 3 * 8);
}

TEST(JobVolumes, OfFullRecomputationHaveTwoMoreAllReducesPerLayer) {
  ParallelConfig config{.tp = 4, .micro_batch_size = 2};
  const auto before = job_volumes({small(), config}).tensor.all_reduce;
  config.recompute = Recompute::kSelective;
  EXPECT_EQ(job_volumes({small(), config}).tensor.all_reduce, before);
  config.recompute = Recompute::kFull;
  EXPECT_EQ(job_volumes({small(), config}).tensor.all_reduce,
            before + 12 * 8 * 2 * (2 * 3 * kActivations * 4));
}

// By hand: each layer sums two f32 of each of 2·16 tokens forward and backward, and once more where
// it is computed again. Weights of such norms are split, so that no gradient of theirs is summed.
// Norms of single heads sum nothing for tokens, but the gradients of two norms of 2 elements in 8
// layers.
TEST(JobVolumes, OfNormsOverTheHeadsOfAllRanksSumTwoNumbersOfAToken) {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    Scenario scenario = small(precision);
    scenario.stack.memory_model = MemoryModel::kPtdp;
    scenario.job.model.normalization = Normalization::kRmsNorm;
    ParallelConfig config{.tp = 4, .micro_batch_size = 2};
    const auto sent = [&] { return job_volumes({scenario, config}).tensor.all_reduce; };
    const std::int64_t without = sent();
    scenario.job.model.qk_layernorm = true;
    EXPECT_EQ(sent() - without, 2 * 3 * (8 * 2 * 2) * 4);
    scenario.job.model.qk_layernorm_width = QkNormWidth::kAllHeads;
    const std::int64_t pass = 12 * 8 * (2 * 3 * 2 * (2 * 16) * 4);
    EXPECT_EQ(sent() - without, 2 * pass);
    const std::int64_t again = 12 * 8 * 2 * (2 * 3 * kActivations * element_bytes(precision));
    config.recompute = Recompute::kFull;
    EXPECT_EQ(sent() - without, 3 * pass + again);
    scenario.stack.memory_model = MemoryModel::kMegatron;
    EXPECT_EQ(sent() - without, again);
  }
}

// By hand: a layer gathers twice forward, twice backward and twice for weight gradients, and
// scatters twice each way; the embedding scatters forward and gathers backward, the logits the
// reverse. Norms and two biases of 8 layers are 6·8 values each, the final norm 16, summed once.
TEST(JobVolumes, OfSequenceParallelismMatchTheHandCount) {
  ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  auto volumes = job_volumes({small(Precision::kBf16), config});
  const std::int64_t part = 3 * kActivations * 2;
  EXPECT_EQ(volumes.tensor.all_gather, 12 * (8 * 6 + 2) * part);
  EXPECT_EQ(volumes.tensor.reduce_scatter, 12 * (8 * 4 + 2) * part);
  const std::int64_t loss = 12 * 2 * 3 * (2 * 16) * 3 * 4;
  EXPECT_EQ(volumes.tensor.all_reduce, loss + 2 * 3 * (8 * 48 + 16) * 4);
  config.recompute = Recompute::kFull;
  volumes = job_volumes({small(Precision::kBf16), config});
  EXPECT_EQ(volumes.tensor.all_gather, 12 * (8 * 8 + 2) * part);
  EXPECT_EQ(volumes.tensor.reduce_scatter, 12 * (8 * 6 + 2) * part);
}

TEST(JobVolumes, WithoutBiasesSumFourHPerLayer) {
  Scenario scenario = small();
  scenario.job.model.add_bias_linear = false;
  const ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  const std::int64_t loss = 12 * 2 * 3 * (2 * 16) * 3 * 4;
  EXPECT_EQ(job_volumes({scenario, config}).tensor.all_reduce, loss + 2 * 3 * (8 * 32 + 16) * 4);
}

// By hand, two stages of two ranks each: one boundary, 12 messages each way, halves of which two
// ranks send and then gather: each gets the half that it lacks.
TEST(JobVolumes, OfMessagesAreScatteredAndGathered) {
  Scenario scenario = small();
  ParallelConfig config{.tp = 2, .pp = 2, .micro_batch_size = 2};
  auto volumes = job_volumes({scenario, config});
  EXPECT_EQ(volumes.pipeline_forward.send, 12 * kActivations * 4);
  EXPECT_EQ(volumes.pipeline_backward.send, 12 * kActivations * 4);
  EXPECT_EQ(volumes.tensor.all_gather, 2 * 12 * kActivations * 4);
  scenario.stack.scatter_gather = false;
  volumes = job_volumes({scenario, config});
  EXPECT_EQ(volumes.pipeline_forward.send, 2 * 12 * kActivations * 4);
  EXPECT_EQ(volumes.tensor.all_gather, 0);
  config.sequence_parallel = true;
  EXPECT_EQ(job_volumes({scenario, config}).pipeline_forward.send, 12 * kActivations * 4);
}

// Boundaries of 4 ranks: 3 of one stage each, 7 of two in loops; a V has one within the last rank.
// Two directions send as often as one.
TEST(JobVolumes, OfMessagesCountTheBoundariesBetweenRanks) {
  const auto messages = [](ScheduleKind schedule, int vpp) {
    ParallelConfig config{.pp = 4, .vpp = vpp, .micro_batch_size = 2, .schedule = schedule};
    const auto volumes = job_volumes({small(), config});
    EXPECT_EQ(volumes.pipeline_forward, volumes.pipeline_backward);
    return volumes.pipeline_forward.send / (12 * kActivations * 4);
  };
  EXPECT_EQ(messages(ScheduleKind::kOneFOneB, 1), 3);
  EXPECT_EQ(messages(ScheduleKind::kInterleaved, 2), 7);
  EXPECT_EQ(messages(ScheduleKind::kZbV, 2), 6);
  EXPECT_EQ(messages(ScheduleKind::kDualPipe, 1), 3);
}

// The 11,216 parameters are padded where three replicas share the work, to a multiple of 192.
TEST(JobVolumes, OfDataParallelismAreGradientsOrThemAndWeights) {
  ParallelConfig config{.dp = 3, .micro_batch_size = 2};
  ASSERT_EQ(8 * kLayer + kTable + kPositions + kFinalNorm, 11216);
  auto volumes = job_volumes({small(Precision::kBf16), config});
  EXPECT_EQ(volumes.data.all_reduce, 2 * 2 * 11216 * 4);
  EXPECT_EQ(volumes.loss.all_reduce, 2 * 2 * 8);
  EXPECT_EQ(volumes.model.all_reduce, 0);
  config.zero_stage = 1;
  constexpr std::int64_t parameters = 11328;
  volumes = job_volumes({small(Precision::kBf16), config});
  EXPECT_EQ(volumes.data.all_reduce, 0);
  EXPECT_EQ(volumes.data.reduce_scatter, 2 * parameters * 4);
  EXPECT_EQ(volumes.data.all_gather, 2 * parameters * 2);
  EXPECT_EQ(volumes.model.all_reduce, 2 * 2 * 8);
  EXPECT_EQ(job_volumes({small(Precision::kFp64), config}).data.all_gather, 2 * parameters * 8);
  EXPECT_EQ(job_volumes({small(Precision::kFp64), config}).data.reduce_scatter, 2 * parameters * 8);
}

// 24 sequences in microbatches of two: 6 on each of 2 replicas. ZeRO-2 gathers weights once, ZeRO-3
// for every pass of every microbatch; kept from the forward pass on, once for each.
TEST(JobVolumes, OfShardedUnitsAreReducedAndGatheredInEveryMicrobatch) {
  ParallelConfig config{.tp = 2, .dp = 2, .micro_batch_size = 2, .zero_stage = 2};
  // Two ranks have halves of all but norms, two biases and positions: 460 parameters of a layer and
  // 2192 of the ends. Each is padded to a multiple of 128.
  ASSERT_EQ((kLayer + 6 * 8) / 2, 460);
  ASSERT_EQ(kTable / 2 + kPositions + kFinalNorm, 2192);
  const std::int64_t of_rank = 8 * 512 + 2304;
  auto volumes = job_volumes({small(Precision::kBf16), config});
  EXPECT_EQ(volumes.data.all_reduce, 0);
  EXPECT_EQ(volumes.data.reduce_scatter, 2 * 6 * of_rank * 4);
  EXPECT_EQ(volumes.data.all_gather, 2 * of_rank * 2);
  EXPECT_EQ(volumes.model.all_reduce, 2 * 3 * 8);
  config.zero_stage = 3;
  volumes = job_volumes({small(Precision::kBf16), config});
  EXPECT_EQ(volumes.data.reduce_scatter, 2 * 6 * of_rank * 4);
  EXPECT_EQ(volumes.data.all_gather, 2 * 2 * 6 * of_rank * 2);
  config.reshard_after_forward = false;
  EXPECT_EQ(job_volumes({small(Precision::kBf16), config}).data.all_gather, 2 * 6 * of_rank * 2);
}

// The gradients of norms and biases are summed over tensor ranks once, shard by shard.
TEST(JobVolumes, OfShardedUnitsSumWhatSequenceParallelismSplitsOnce) {
  ParallelConfig config{.tp = 2, .dp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  const std::int64_t whole = job_volumes({small(), config}).tensor.all_reduce;
  config.zero_stage = 3;
  EXPECT_EQ(job_volumes({small(), config}).tensor.all_reduce,
            whole - 2 * 1 * (8 * 48 + kFinalNorm) * 4);
}

// With a pipeline the volumes are those of ZeRO-1, whatever the stage is called.
TEST(JobVolumes, OfAPipelineShardOptimizerStatesAlone) {
  ParallelConfig config{.pp = 2, .dp = 2, .micro_batch_size = 2, .zero_stage = 1};
  const auto volumes = job_volumes({small(), config});
  for (const int zero : {2, 3}) {
    config.zero_stage = zero;
    EXPECT_EQ(job_volumes({small(), config}), volumes);
  }
}

// Two copies of every layer and of both ends are reduced over twice as many ranks.
TEST(JobVolumes, OfABidirectionalPipelineReduceOverBothCopies) {
  const ParallelConfig config{
      .pp = 2, .dp = 3, .micro_batch_size = 2, .schedule = ScheduleKind::kDualPipe};
  const auto volumes = job_volumes({small(), config});
  // Each copy has a stage with the table and positions, 7712 parameters, and one with the norm,
  // 3504.
  ASSERT_EQ(4 * kLayer + kTable + kPositions, 7712);
  ASSERT_EQ(4 * kLayer + kFinalNorm, 3504);
  EXPECT_EQ(volumes.data.all_reduce, 2 * 5 * (7712 + 3504) * 4);
  EXPECT_EQ(volumes.loss.all_reduce, 2 * 5 * 8);
  EXPECT_EQ(volumes.tied.all_reduce, 0);
  // A replica's two ranks; three replicas.
  EXPECT_EQ(volumes.model.all_reduce, 3 * 2 * 8);
}

TEST(JobVolumes, OfATiedEmbeddingAreItsTableInEveryReplicaOrOnceWithZero) {
  ParallelConfig config{.tp = 2, .pp = 4, .dp = 3, .micro_batch_size = 2};
  // Two ranks of each pair send the table once each; the halves of two tensor ranks make it up.
  EXPECT_EQ(job_volumes({small(), config}).tied.all_reduce, 3 * 2 * kTable * 4);
  config.zero_stage = 1;
  // Three replicas share a half of 2048 elements, which is padded to a multiple of 192.
  EXPECT_EQ(job_volumes({small(), config}).tied.all_reduce, 2 * 2 * 2112 * 4);
  Scenario untied = small();
  untied.job.model.untied_embeddings = true;
  EXPECT_EQ(job_volumes({untied, config}).tied.all_reduce, 0);
  config = {.pp = 4, .vpp = 2, .micro_batch_size = 2, .schedule = ScheduleKind::kZbV};
  EXPECT_EQ(job_volumes({small(), config}).tied.all_reduce, 0);
}

/// Returns what all ranks send within a group, over all kinds of collective.
template <class Size>
double total(const KindVolumes<Size>& volumes) {
  return static_cast<double>(volumes.all_reduce) + static_cast<double>(volumes.reduce_scatter) +
         static_cast<double>(volumes.all_gather) + static_cast<double>(volumes.send);
}
template <>
double total(const KindVolumes<Bytes>& volumes) {
  return (volumes.all_reduce + volumes.reduce_scatter + volumes.all_gather + volumes.send).value();
}

TEST(MeanRankVolumes, AddUpToTheJob) {
  for (const ScheduleKind schedule : {ScheduleKind::kOneFOneB, ScheduleKind::kInterleaved,
                                      ScheduleKind::kZbV, ScheduleKind::kDualPipe}) {
    for (const int zero : {0, 1}) {
      const bool has_two = schedule == ScheduleKind::kInterleaved || schedule == ScheduleKind::kZbV;
      const ParallelConfig config{.tp = 2,
                                  .pp = 4,
                                  .dp = 2,
                                  .vpp = has_two ? 2 : 1,
                                  .schedule = schedule,
                                  .sequence_parallel = zero == 1,
                                  .zero_stage = zero};
      const auto job = job_volumes({small(), config});
      for (std::size_t group = 0; group < kVolumeGroups<Bytes>.size(); ++group) {
        double sum = 0.0;
        for (int rank = 0; rank < config.pp; ++rank) {
          const auto of_rank = mean_rank_volumes({small(), config}, rank);
          sum += 4 * total(of_rank.*kVolumeGroups<Bytes>[group].volumes);
        }
        EXPECT_NEAR(sum, total(job.*kVolumeGroups<std::int64_t>[group].volumes), 1e-6)
            << name_of(schedule) << ' ' << kVolumeGroups<Bytes>[group].name;
      }
    }
  }
}

// The closed form's traffic leaves out the ends of the model, loss, norm and gathering of messages:
// a middle stage has the first two not, without pipelining there are no messages. It leaves out
// padding, too: of the first stage's 3096 parameters the table's 2048 and the other 1048 are padded
// apart, to multiples of 192, where three replicas share the work.
TEST(MeanRankVolumes, OfAMiddleStageAreTheClosedFormsTraffic) {
  Scenario scenario = small();
  scenario.stack.scatter_gather = false;
  scenario.stack.reduced_gradient_bytes = 4.0;
  ParallelConfig config{.tp = 2, .pp = 4, .dp = 3, .micro_batch_size = 2};
  const auto volumes = mean_rank_volumes({scenario, config}, 1);
  const Traffic traffic = iteration_traffic({scenario, config}, Seconds(1.0));
  EXPECT_EQ(volumes.tensor.all_reduce, traffic.tensor_parallel);
  EXPECT_EQ(volumes.pipeline_forward.send + volumes.pipeline_backward.send, traffic.pipeline);
  EXPECT_EQ(volumes.tensor.all_reduce,
            Bytes(4.0 * 4 * 2 *
                  tensor_parallel_elements(scenario.job.model, 2, 2, Recompute::kNone, false)));
  EXPECT_NEAR(mean_rank_volumes({scenario, config}, 0).data.all_reduce.value(),
              traffic.data_parallel.value(), 1e-9);
  config.zero_stage = 1;
  const auto sharded = mean_rank_volumes({scenario, config}, 0).data;
  EXPECT_NEAR((sharded.reduce_scatter + sharded.all_gather).value(),
              iteration_traffic({scenario, config}, Seconds(1.0)).data_parallel.value() *
                  (2112 + 1152) / 3096,
              1e-9);
}

}  // namespace
}  // namespace ptdp
