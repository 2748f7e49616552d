// Tests that every layout of a plan computes the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/communication_volume.h"
#include "cost_model/memory/memory.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/validator/validator.h"
#include "tests/runtime/layout_sets.h"
#include "tests/runtime/model_types.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

constexpr double kTolerance = 1e-12;

void expect_same(const Layout& layout, const Job& job, const Trained& expected, double tolerance) {
  const Trained found = train(layout, job);
  ASSERT_EQ(found.losses.size(), expected.losses.size()) << to_string(layout);
  for (std::size_t step = 0; step < found.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], tolerance * expected.losses[step])
        << to_string(layout) << ", step " << step;
  }
  EXPECT_LE(largest_difference(found.gradients, expected.gradients), tolerance)
      << to_string(layout);
}

TEST(Layouts, GiveTheSameLossAndGradientsInACoveringSet) {
  const Job job = small_job();
  const Trained alone = train({}, job);
  for (const Layout& layout : pairwise_covering(all_layouts(job))) {
    expect_same(layout, job, alone, kTolerance);
  }
}

/// Types of models whose layouts are all tried.
class LayoutsOfTodaysModels : public ::testing::TestWithParam<const char*> {};

TEST_P(LayoutsOfTodaysModels, GiveTheSameInACoveringSet) {
  Job job = small_job();
  job.model = as_type(GetParam(), job.model);
  job.dropout = 0.0;
  const Trained alone = train({}, job);
  for (const Layout& layout : pairwise_covering(all_layouts(job))) {
    expect_same(layout, job, alone, kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, LayoutsOfTodaysModels,
                         ::testing::Values("llama", "qwen3", "gemma2", "gpt_neox", "granite",
                                           "multi_query", "olmo2", "olmo2_few_keys"));

/// A sixth of the covering set at a time, because the whole takes minutes under the thread
/// sanitizer.
class LayoutsBesideCompute : public ::testing::TestWithParam<int> {};

// Three steps are run, so that parameters are gathered which an optimizer changed.
TEST_P(LayoutsBesideCompute, GiveTheSame) {
  Job job = small_job();
  job.steps = 3;
  const Trained alone = train({}, job);
  int turn = 0;
  for (Layout layout : pairwise_covering(all_layouts(job))) {
    layout.messages = MessageMode::kOverlapped;
    layout.data = turn % 3 == 0 ? DataMode::kBlockingGathers : DataMode::kOverlapped;
    layout.num_buckets = 1 + turn % 5;
    if (turn % 6 == GetParam()) {
      expect_same(layout, job, alone, kTolerance);
    }
    ++turn;
  }
}

INSTANTIATE_TEST_SUITE_P(Sixths, LayoutsBesideCompute, ::testing::Range(0, 6));

/// Returns layouts that shard gradients, some of them weights too, with every pair of values at
/// least once.
std::vector<Layout> sharded_layouts() {
  constexpr bool kept = false;
  return {
      {.dp = 2, .zero_stage = 2},
      {.dp = 2, .zero_stage = 3},
      {.dp = 2, .zero_stage = 3, .reshard_after_forward = kept, .recompute = Recompute::kFull},
      {.dp = 4, .zero_stage = 2, .recompute = Recompute::kFull},
      {.dp = 4, .micro_batch_size = 2, .zero_stage = 3, .recompute = Recompute::kSelective},
      {.dp = 4, .micro_batch_size = 4, .zero_stage = 3, .reshard_after_forward = kept},
      {.tp = 2, .dp = 2, .zero_stage = 3, .recompute = Recompute::kFull},
      {.tp = 2, .dp = 4, .sequence_parallel = true, .zero_stage = 3},
      {.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 2},
      {.tp = 4, .dp = 2, .sequence_parallel = true, .overlaps_tensor = true, .zero_stage = 3},
      {.dp = 2, .schedule = "gpipe", .zero_stage = 3, .reshard_after_forward = kept},
      {.dp = 2, .schedule = "gpipe", .zero_stage = 2},
      {.dp = 2, .schedule = "zb-h1", .zero_stage = 3},
      {.dp = 2, .schedule = "zb-h2", .zero_stage = 3, .reshard_after_forward = kept},
  };
}

// Three steps are run, so that an optimizer changed the weights. A layer of small_job has 7,224
// elements and the ends 6,384, no multiple of 128, so that every unit has padding.
TEST(Layouts, GiveTheSameWhereGradientsAndWeightsAreSharded) {
  for (const bool untied : {false, true}) {
    Job job = small_job();
    job.steps = 3;
    job.model.untied_embeddings = untied;
    job.dropout = untied ? 0.0 : 0.1;  // without it norms sum bias gradients
    const Trained alone = train({}, job);
    for (const Layout& layout : sharded_layouts()) {
      expect_same(layout, job, alone, kTolerance);
    }
  }
}

/// Returns the scenario that a plan for this host has for the job.
Scenario scenario_of(const Job& job) {
  return {.job = {.model = job.model, .global_batch_size = job.global_batch_size},
          .cluster = find_cluster("dgx-h100"),
          .stack = at_precision(find_stack("ptdp-cpu"), Precision::kFp64)};
}

TEST(Layouts, SendAndHoldWhatIsPredictedWhereGradientsAndWeightsAreSharded) {
  Job job = small_job();
  job.model = resolved({.num_layers = 4,
                        .hidden_size = 96,
                        .num_attention_heads = 4,
                        .vocab_size = 150,
                        .seq_length = 32},
                       "wide");
  for (const Layout& layout : sharded_layouts()) {
    const Trained trained = train(layout, job);
    GroupVolumes<std::int64_t> sent;
    for (const RankRecord& rank : trained.ranks) {
      sent.data.reduce_scatter += rank.data[CollectiveKind::kReduceScatter];
      sent.data.all_gather += rank.data[CollectiveKind::kAllGather];
      sent.tensor.all_reduce += rank.tensor[CollectiveKind::kAllReduce];
    }
    const auto predicted = job_volumes({scenario_of(job), layout.config()});
    EXPECT_EQ(sent.data, predicted.data) << to_string(layout);
    EXPECT_EQ(sent.tensor.all_reduce, predicted.tensor.all_reduce) << to_string(layout);

    const MemoryBreakdown memory = memory_by_rank({scenario_of(job), layout.config()}).front();
    const auto held = static_cast<double>(trained.ranks.front().peak_bytes);
    EXPECT_GE(memory.total().value(), 0.99 * held) << to_string(layout);
    // Weight gradients that may be put off are taken for put off.
    const bool splits = traits_of(layout.config().schedule).splits_backward;
    EXPECT_LE(memory.total().value(), (splits ? 1.3 : 1.01) * held) << to_string(layout);
  }
}

/// Returns layouts that send in every group, and hold what schedules and recomputation let them.
std::vector<Layout> measured_layouts() {
  return {
      {},
      {.recompute = Recompute::kSelective},
      {.recompute = Recompute::kFull},
      {.tp = 2, .micro_batch_size = 2},
      {.tp = 2, .sequence_parallel = true},
      {.tp = 4, .sequence_parallel = true, .overlaps_tensor = true},
      {.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1},
      {.tp = 2,
       .pp = 2,
       .vpp = 2,
       .schedule = "interleaved",
       .sequence_parallel = true,
       .recompute = Recompute::kFull},
      {.pp = 4, .dp = 2, .schedule = "zb-h1"},
      {.pp = 2, .schedule = "zb-h2", .recompute = Recompute::kSelective},
      {.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 3},
  };
}

void expect_sent_and_held_as_predicted(const Layout& layout, const Job& job) {
  const Trained trained = train(layout, job);
  GroupVolumes<std::int64_t> sent;
  Bytes most;
  for (const RankRecord& rank : trained.ranks) {
    for (const auto& [from, to] : {std::pair{&rank.tensor, &sent.tensor},
                                   {&rank.data, &sent.data},
                                   {&rank.tied, &sent.tied}}) {
      to->all_reduce += (*from)[CollectiveKind::kAllReduce];
      to->all_gather += (*from)[CollectiveKind::kAllGather];
      to->reduce_scatter += (*from)[CollectiveKind::kReduceScatter];
    }
    most = std::max(most, Bytes(static_cast<double>(rank.peak_bytes)));
  }
  Scenario scenario = scenario_of(job);
  scenario.stack.tensor_parallel_overlap = layout.overlaps_tensor;
  const ParallelConfig config = layout.config();
  const PlannedJob planned(scenario, config);
  const auto predicted = job_volumes(planned);
  EXPECT_EQ(sent.tensor, predicted.tensor);
  sent.data.all_reduce -= predicted.loss.all_reduce;  // sent over the same groups
  EXPECT_EQ(sent.data, predicted.data);
  EXPECT_EQ(sent.tied, predicted.tied);
  EXPECT_NEAR(peak_memory(planned) / most, 1.0, 0.03);
}

TEST_P(LayoutsOfTodaysModels, SendAndHoldWhatIsPredicted) {
  Job job = small_job();
  job.model.hidden_size = 96;
  job.model.seq_length = 32;
  job.model = as_type(GetParam(), job.model);
  job.dropout = 0.0;
  for (const Layout& layout : measured_layouts()) {
    SCOPED_TRACE(to_string(layout));
    expect_sent_and_held_as_predicted(layout, job);
  }
}

// Layouts in which the tied table, what else a stage has, or both have padding, and those of ranks
// that hold both ends. Five ranks pad the table of 6144 elements to a multiple of 320.
TEST(Layouts, SendWhatIsPredictedWhereStagesArePadded) {
  Job job = small_job();
  job.global_batch_size = 20;
  for (const bool untied : {false, true}) {
    job.model.untied_embeddings = untied;
    for (const Layout& layout :
         {Layout{.dp = 5}, Layout{.dp = 5, .zero_stage = 1}, Layout{.pp = 2, .dp = 5},
          Layout{.pp = 2, .dp = 5, .zero_stage = 1},
          Layout{.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1},
          Layout{.pp = 2, .vpp = 2, .dp = 2, .schedule = "interleaved", .zero_stage = 1},
          Layout{.pp = 2, .vpp = 2, .dp = 2, .schedule = "zb-v", .zero_stage = 1},
          Layout{.pp = 2, .dp = 5, .schedule = "dualpipe", .zero_stage = 1},
          Layout{.pp = 2, .dp = 2, .schedule = "dualpipe"}}) {
      ASSERT_TRUE(exists(layout, job)) << to_string(layout);
      GroupVolumes<std::int64_t> sent;
      for (const RankRecord& rank : train(layout, job).ranks) {
        sent.data.all_reduce += rank.data[CollectiveKind::kAllReduce];
        sent.data.reduce_scatter += rank.data[CollectiveKind::kReduceScatter];
        sent.data.all_gather += rank.data[CollectiveKind::kAllGather];
        sent.tied.all_reduce += rank.tied[CollectiveKind::kAllReduce];
      }
      auto predicted = job_volumes({scenario_of(job), layout.config()});
      predicted.data.all_reduce += predicted.loss.all_reduce;  // over the same ranks
      EXPECT_EQ(sent.data, predicted.data) << to_string(layout);
      EXPECT_EQ(sent.tied, predicted.tied) << to_string(layout);
    }
  }
}

// Units are padded to multiples of 192 and of 320.
TEST(Layouts, GiveTheSameWhereReplicasDoNotDivideUnits) {
  Job job = small_job();
  job.steps = 3;
  job.global_batch_size = 15;
  const Trained alone = train({}, job);
  for (const int dp : {3, 5}) {
    for (const int zero : {2, 3}) {
      expect_same({.dp = dp, .zero_stage = zero}, job, alone, kTolerance);
    }
  }
}

// The target `layouts` runs it; it takes minutes.
TEST(Layouts, DISABLED_GiveTheSameLossAndGradientsInTheFullMatrix) {
  const Job job = small_job();
  const Trained alone = train({}, job);
  for (const Layout& layout : all_layouts(job)) {
    expect_same(layout, job, alone, kTolerance);
  }
}

TEST(Layouts, GiveTheSameInSinglePrecision) {
  Job job = small_job();
  job.type = DataType::kFloat32;
  const Trained alone = train({}, job);
  for (const Layout& layout :
       {Layout{.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1},
        Layout{.tp = 4, .pp = 2, .vpp = 2, .schedule = "zb-v", .sequence_parallel = true},
        Layout{.pp = 4, .dp = 2, .schedule = "gpipe", .recompute = Recompute::kFull}}) {
    expect_same(layout, job, alone, 1e-5);
  }
}

/// Whether every stage forms its weight gradients in the order of microbatches, all on one rank.
bool weight_gradients_ascend(const Schedule& schedule) {
  if (schedule.placement == StagePlacement::kBidirectional) {
    return false;
  }
  std::map<int, int> last;
  for (const auto& order : schedule.orders) {
    for (const Action& action : order) {
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
        const auto [found, is_new] = last.try_emplace(action.stage, action.microbatch);
        if (!is_new && action.microbatch < found->second) {
          return false;
        }
        found->second = action.microbatch;
      }
    }
  }
  return true;
}

// The table's gradient is summed apart on the first and the last stage where it is tied.
TEST(Layouts, GiveTheSameBitsWhereOnlyTheOrderInTimeDiffers) {
  Job job = small_job();
  job.model.untied_embeddings = true;
  job.is_reproducible = true;
  const Trained alone = train({}, job);
  int compared = 0;
  for (const Layout& layout : all_layouts(job)) {
    const bool only_reorders = layout.tp == 1 && layout.dp == 1 && layout.zero_stage == 0 &&
                               (layout.recompute == Recompute::kNone || layout.schedule == "1f1b");
    if (only_reorders && weight_gradients_ascend(settings_of(layout, job).schedule)) {
      const Trained found = train(layout, job);
      EXPECT_EQ(found.losses, alone.losses) << to_string(layout);
      EXPECT_EQ(found.gradients, alone.gradients) << to_string(layout);
      ++compared;
    }
  }
  EXPECT_GE(compared, 15);
}

TEST(Layouts, GiveTheSameBitsWithReplicasAsWithAccumulation) {
  Job job = small_job();
  job.is_reproducible = true;
  job.global_batch_size = 4;
  job.steps = 3;
  const Trained accumulated = train({}, job);
  for (const int zero : {0, 1, 2, 3}) {
    const Trained replicated = train({.dp = 4, .zero_stage = zero}, job);
    EXPECT_EQ(replicated.gradients, accumulated.gradients) << "zero " << zero;
    EXPECT_EQ(replicated.losses[0], accumulated.losses[0]) << "zero " << zero;
    if (zero == 0) {  // shards sum the norm, which clips, in another order
      EXPECT_EQ(replicated.losses, accumulated.losses);
      EXPECT_EQ(replicated.weights, accumulated.weights);
    }
  }
}

TEST(Layouts, GiveTheSameBitsTwice) {
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16}) {
    Job job = small_job();
    job.type = type;
    job.steps = 5;
    const Layout layout{.tp = 2, .pp = 2, .dp = 2, .schedule = "zb-h1", .zero_stage = 1};
    const Trained first = train(layout, job);
    const Trained second = train(layout, job);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.weights, second.weights);
  }
}

// Which threads race is seen in a few steps as in many, each of which takes the thread sanitizer
// seconds.
#ifdef __SANITIZE_THREAD__
constexpr int kManySteps = 6;
#else
constexpr int kManySteps = 20;
#endif

TEST(Layouts, TrainAlikeForManySteps) {
  Job job = small_job();
  job.steps = kManySteps;
  const Trained alone = train({}, job);
  EXPECT_LT(alone.losses.back(), alone.losses.front() - 0.005 * kManySteps);
  for (const Layout& layout :
       {Layout{.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1},
        Layout{.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 3},
        Layout{.tp = 2, .pp = 2, .vpp = 2, .schedule = "interleaved", .sequence_parallel = true},
        Layout{.pp = 4, .dp = 2, .schedule = "zb-h2"},
        Layout{.pp = 2, .vpp = 2, .schedule = "dualpipev", .recompute = Recompute::kFull},
        Layout{.pp = 4, .schedule = "dualpipe", .zero_stage = 1}}) {
    expect_same(layout, job, alone, 1e-10);
  }
}

/// Returns the cosine of the angle between all gradients together.
double cosine(const Tensors& a, const Tensors& b) {
  double product = 0.0;
  double aa = 0.0;
  double bb = 0.0;
  for (const auto& [name, values] : a) {
    const std::vector<double>& others = b.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      product += values[i] * others[i];
      aa += values[i] * values[i];
      bb += others[i] * others[i];
    }
  }
  return product / std::sqrt(aa * bb);
}

TEST(Layouts, GiveTheSameInHalfPrecisionWithinItsRounding) {
  const Trained exact = train({}, small_job());
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    for (const Layout& layout :
         {Layout{}, Layout{.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 1},
          Layout{.dp = 2, .zero_stage = 2}, Layout{.tp = 2, .dp = 2, .zero_stage = 3},
          Layout{.pp = 4, .schedule = "zb-h1", .recompute = Recompute::kFull}}) {
      Job job = small_job();
      job.type = type;
      const Trained found = train(layout, job);
      EXPECT_NEAR(found.losses[0], exact.losses[0], 1e-2) << to_string(layout);
      EXPECT_GT(cosine(found.gradients, exact.gradients), 0.999) << to_string(layout);
    }
  }
}

// An overflow on one rank must be an overflow on all, or replicas would part.
TEST(Layouts, SkipTheSameStepsInHalfPrecision) {
  Job job = small_job();
  job.type = DataType::kFloat16;
  job.steps = 4;
  job.model.num_layers = 8;
  const auto skipped = [&](const Layout& layout) {
    std::vector<std::vector<bool>> steps;
    for (const RankRecord& rank : train(layout, job).ranks) {
      std::vector<bool>& of_rank = steps.emplace_back();
      for (const StepRecord& step : rank.steps) {
        of_rank.push_back(step.is_skipped);
      }
    }
    for (const auto& of_rank : steps) {
      EXPECT_EQ(of_rank, steps.front()) << to_string(layout);
    }
    return steps.front();
  };
  const std::vector<bool> alone = skipped({});
  EXPECT_EQ(skipped({.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1}), alone);
  EXPECT_EQ(skipped({.pp = 4, .schedule = "gpipe"}), alone);
  EXPECT_EQ(skipped({.dp = 2, .zero_stage = 2}), alone);
  EXPECT_EQ(skipped({.dp = 4, .zero_stage = 3}), alone);
}

TEST(Layouts, HoldAsManyActivationsAsTheValidatorCounts) {
  const Job job = small_job();
  std::vector<Layout> layouts = all_layouts(job);
  std::erase_if(layouts, [](const Layout& layout) {
    return layout.tp > 1 || layout.dp > 1 || layout.zero_stage > 0 ||
           layout.recompute != Recompute::kNone;
  });
  ASSERT_GE(layouts.size(), 12U);
  for (const Layout& layout : layouts) {
    const Trained trained = train(layout, job);
    const std::vector<int> expected = peak_activations(trained.schedule);
    for (int rank = 0; rank < layout.pp; ++rank) {
      EXPECT_EQ(trained.ranks[rank].peak_activations, expected[rank])
          << to_string(layout) << ", rank " << rank;
    }
  }
}

TEST(Layouts, LearnTheSyntheticLanguage) {
  Job job = small_job();
  job.type = DataType::kFloat32;
  job.dropout = 0.0;
  job.model.vocab_size = 16;
  job.model.num_layers = 2;
  job.steps = 150;
  const Layout layout{.pp = 2, .dp = 2};
  const double entropy =
      *TrainingData::synthetic(job.model.vocab_size, job.model.seq_length, 7).entropy();
  const Trained trained = train(layout, job);
  EXPECT_GT(trained.losses.front(), std::log(16.0) - 0.3);
  EXPECT_LT(trained.losses.back(), entropy + 0.35);
}

}  // namespace
}  // namespace ptdp::testing
