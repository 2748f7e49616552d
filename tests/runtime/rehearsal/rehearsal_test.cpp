// Tests that one rank alone does what it does among the others.
#include "runtime/rehearsal/rehearsal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cost_model/schedule/lane.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/executor/process_groups.h"
#include "runtime/launch/launch.h"
#include "runtime/rehearsal/rehearsal_communicator.h"
#include "tests/runtime/layout_sets.h"
#include "tests/runtime/training_harness.h"

namespace ptdp::testing {
namespace {

RehearsalRecord rehearse_rank(const TrainingSettings& settings, int pipeline_rank,
                              std::int64_t measured = 1, std::int64_t warm_up = 0) {
  CpuBackend backend;
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, settings.seed);
  return rehearse(settings, data, backend,
                  {.pipeline_rank = pipeline_rank,
                   .warm_up = warm_up,
                   .measured = measured,
                   .memory_of_others = 1'000'000});  // the rank's own memory does not include it
}

/// Returns what the ranks of a real run of `steps` steps recorded.
std::vector<RehearsalRecord> run_all(const TrainingSettings& settings, std::int64_t steps) {
  const auto size = static_cast<int>(settings.config.world_size());
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, settings.seed);
  std::vector<RehearsalRecord> records(static_cast<std::size_t>(size));
  run_ranks({.size = size, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              RehearsalRecord& record = records[static_cast<std::size_t>(world.rank())];
              Executor executor(backend, world, settings, data);
              for (std::int64_t step = 0; step < steps; ++step) {
                record.rank.steps.push_back(executor.run_step());
              }
              record.kept = kept_by(executor.optimizer());
              record.rank.peak_bytes = backend.peak_bytes();
              record.rank.peak_activations = executor.peak_activations();
              executor.add_sent(record.rank);
            });
  return records;
}

/// Returns the world's rank that a rehearsal of a pipeline rank stands for.
std::size_t world_rank(const TrainingSettings& settings, int pipeline_rank) {
  return static_cast<std::size_t>(pipeline_rank) * settings.config.tp * settings.config.dp;
}

Job job_of(DataType type) {
  Job job = small_job();
  job.type = type;
  return job;
}

void expect_finite(const RehearsalRecord& record, const TrainingSettings& settings,
                   int pipeline_rank, const Layout& layout) {
  const auto& order = settings.schedule.orders[static_cast<std::size_t>(pipeline_rank)];
  for (const StepRecord& step : record.rank.steps) {
    // An infinite one would have ended it.
    EXPECT_TRUE(std::isfinite(step.gradient_norm)) << to_string(layout);
    EXPECT_GT(step.gradient_norm, 0.0) << to_string(layout);
    EXPECT_FALSE(step.is_skipped) << to_string(layout);
    if (step.loss) {
      EXPECT_GT(*step.loss, 0.0) << to_string(layout);
      EXPECT_TRUE(std::isfinite(*step.loss)) << to_string(layout);
    }
    ASSERT_EQ(step.actions.size(), order.size()) << to_string(layout);
    Seconds before;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (is_compute(order[i].kind)) {
        EXPECT_GT(step.actions[i].length(), Seconds(0.0)) << to_string(order[i]);
        EXPECT_GE(step.actions[i].start, before) << to_string(order[i]);
        before = step.actions[i].end;
      }
    }
  }
}

TEST(Rehearsal, IsFiniteOnEveryRankOfACoveringSet) {
  constexpr std::array types = {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16};
  std::size_t turn = 0;
  std::vector<Layout> layouts = pairwise_covering(all_layouts(small_job()));
  for (const int zero : {2, 3}) {
    layouts.insert(layouts.end(),
                   {{.dp = 4, .zero_stage = zero},
                    {.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = zero},
                    {.dp = 2, .zero_stage = zero, .recompute = Recompute::kFull}});
  }
  for (Layout layout : layouts) {
    layout.messages = turn % 2 == 0 ? MessageMode::kBlocking : MessageMode::kOverlapped;
    layout.data = turn % 3 == 0 ? DataMode::kBlocking : DataMode::kOverlapped;
    const TrainingSettings settings = settings_of(layout, job_of(types.at(turn++ % types.size())));
    for (const int rank : std::set{0, layout.pp / 2, layout.pp - 1}) {
      expect_finite(rehearse_rank(settings, rank), settings, rank, layout);
    }
  }
}

// Blocking: where messages have lanes of their own, when one is freed is a race.
TEST(Rehearsal, HoldsAndSendsWhatTheRankDoesAmongOthers) {
  const Job job = job_of(DataType::kFloat32);
  for (const Layout& layout :
       {Layout{.pp = 4}, Layout{.pp = 4, .schedule = "gpipe"}, Layout{.pp = 4, .schedule = "zb-h1"},
        Layout{.pp = 2, .vpp = 2, .schedule = "interleaved"},
        Layout{.pp = 2, .vpp = 2, .schedule = "zb-v"}, Layout{.pp = 2, .schedule = "dualpipe"},
        Layout{.pp = 2, .dp = 2, .zero_stage = 1}, Layout{.dp = 4, .zero_stage = 1},
        Layout{.dp = 4, .zero_stage = 2}, Layout{.dp = 4, .zero_stage = 3},
        Layout{.dp = 2, .zero_stage = 3, .reshard_after_forward = false},
        Layout{.tp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 3},
        Layout{.tp = 2, .pp = 2}, Layout{.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true},
        Layout{.tp = 4, .pp = 2, .sequence_parallel = true, .recompute = Recompute::kFull}}) {
    const TrainingSettings settings = settings_of(layout, job);
    const std::int64_t steps = layout.zero_stage > 0 ? 2 : 1;  // parameters are gathered behind one
    const std::vector<RehearsalRecord> real = run_all(settings, steps);
    for (int rank = 0; rank < layout.pp; ++rank) {
      const RehearsalRecord alone = rehearse_rank(settings, rank, steps);
      const RehearsalRecord& among = real[world_rank(settings, rank)];
      const std::string where = to_string(layout) + ", rank " + std::to_string(rank);
      EXPECT_EQ(alone.kept.weights, among.kept.weights) << where;
      EXPECT_EQ(alone.kept.gradients, among.kept.gradients) << where;
      EXPECT_EQ(alone.kept.optimizer, among.kept.optimizer) << where;
      EXPECT_EQ(alone.rank.peak_bytes, among.rank.peak_bytes) << where;
      EXPECT_EQ(alone.rank.peak_activations, among.rank.peak_activations) << where;
      EXPECT_EQ(alone.rank.tensor.bytes, among.rank.tensor.bytes) << where;
      EXPECT_EQ(alone.rank.pipeline_forward.bytes, among.rank.pipeline_forward.bytes) << where;
      EXPECT_EQ(alone.rank.pipeline_backward.bytes, among.rank.pipeline_backward.bytes) << where;
      EXPECT_EQ(alone.rank.data.bytes, among.rank.data.bytes) << where;
    }
  }
}

TEST(Rehearsal, RecordsTheMeasuredStepsAlone) {
  const TrainingSettings settings = settings_of({.pp = 2}, job_of(DataType::kFloat32));
  EXPECT_EQ(rehearse_rank(settings, 1, 3, 2).rank.steps.size(), 3U);
}

// The rehearsal tells of all steps, and keeps the last of the measured ones.
TEST(Rehearsal, TellsOfEveryStepAndKeepsTheLastOnes) {
  const TrainingSettings settings = settings_of({.pp = 2}, job_of(DataType::kFloat32));
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, settings.seed);
  for (const std::int64_t measured : {kDetailedSteps, kDetailedSteps + 3}) {
    CpuBackend backend;
    std::vector<std::int64_t> told;
    std::vector<Seconds> starts;
    const RehearsalRecord record =
        rehearse(settings, data, backend,
                 {.pipeline_rank = 0,
                  .warm_up = 2,
                  .measured = measured,
                  .on_step = [&](std::int64_t done, const StepRecord& step) {
                    told.push_back(done);
                    starts.push_back(step.step.start);
                  }});
    ASSERT_EQ(std::ssize(told), 2 + measured);
    for (std::int64_t i = 0; i < std::ssize(told); ++i) {
      EXPECT_EQ(told[static_cast<std::size_t>(i)], i + 1);
    }
    ASSERT_EQ(std::ssize(record.rank.steps), kDetailedSteps);
    EXPECT_EQ(record.rank.steps.back().step.start, starts.back());
    EXPECT_EQ(record.rank.steps.front().step.start,
              starts[starts.size() - static_cast<std::size_t>(kDetailedSteps)]);
  }
}

TEST(Rehearsal, EndsBeforeItsNextActionWhenItIsInterrupted) {
  const TrainingSettings settings = settings_of({.pp = 2}, job_of(DataType::kFloat32));
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, settings.seed);
  for (const MessageMode messages : {MessageMode::kBlocking, MessageMode::kOverlapped}) {
    TrainingSettings with = settings;
    with.messages = messages;
    CpuBackend backend;
    std::atomic<int> interrupt = 0;
    std::int64_t done = 0;
    const RehearsalOptions options{.measured = 100,
                                   .interrupt = &interrupt,
                                   .on_step = [&](std::int64_t steps, const StepRecord&) {
                                     done = steps;
                                     interrupt = steps == 3 ? 2 : 0;
                                   }};
    EXPECT_THROW(static_cast<void>(rehearse(with, data, backend, options)), RehearsalInterrupted);
    EXPECT_EQ(done, 3);
  }
}

std::vector<float> values_of(Backend& backend, const Tensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.buffer().size));
  backend.copy_out(tensor, values.data());
  return values;
}

double deviation_of(const std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(RehearsalCommunicator, ReceivesActivationsAndGradients) {
  CpuBackend backend;
  CacheEvictor others(0);
  RehearsalCommunicator world(backend, others, 1, 4);
  const std::array ranks = {0, 1, 2, 3};
  // Longer than what is drawn, and no multiple of it.
  Tensor received(backend, DataType::kFloat32, (std::int64_t{1} << 20) + 77);
  for (const auto& [tag, deviation] :
       {std::pair(kForwardTag, 1.0), std::pair(kBackwardTag, 1e-3)}) {
    const std::unique_ptr<Communicator> group = world.group(ranks, tag);
    backend.fill(received, std::numeric_limits<double>::quiet_NaN());
    group->wait(group->receive(received, 0));
    // The deviation of a million numbers is checked to a hundredth; its standard error is under a
    // thousandth.
    EXPECT_NEAR(deviation_of(values_of(backend, received)) / deviation, 1.0, 0.01);
  }
  EXPECT_EQ(others.times_used(), 2);
}

// What is sent is on its way at once; others compute where a message is waited for.
TEST(RehearsalCommunicator, LetsOthersComputeWhereAMessageIsAwaitedAlone) {
  CpuBackend backend;
  CacheEvictor others(1000);
  RehearsalCommunicator world(backend, others, 1, 2);
  const std::array ranks = {0, 1};
  const std::unique_ptr<Communicator> group = world.group(ranks, kForwardTag);
  Tensor first(backend, DataType::kFloat32, 50);
  Tensor second(backend, DataType::kFloat32, 50);
  backend.fill(first, 0.0);
  group->wait(group->send(first, 0));
  EXPECT_EQ(others.times_used(), 0);
  const Request to_first = group->receive(first, 0);
  const Request to_second = group->receive(second, 0);
  EXPECT_EQ(others.times_used(), 0);
  group->wait(to_second);
  EXPECT_EQ(others.times_used(), 1);
  EXPECT_EQ(values_of(backend, first), std::vector<float>(50, 0.0F)) << "not awaited yet";
  group->wait(to_first);
  EXPECT_EQ(others.times_used(), 2);
  EXPECT_NE(values_of(backend, first), values_of(backend, second));
  EXPECT_EQ(group->sent().bytes[static_cast<std::size_t>(CollectiveKind::kSend)], 50 * 4);
}

TEST(RehearsalCommunicator, GathersItsOwnPartInThePlaceOfTheOthers) {
  CpuBackend backend;
  CacheEvictor others(0);
  RehearsalCommunicator world(backend, others, 2, 3);
  const std::array ranks = {0, 1, 2};
  Tensor whole(backend, DataType::kFloat32, 8);  // parts of 2, 3 and 3
  const std::vector<float> before = {-1, -1, -1, -1, -1, 1, 2, 3};
  backend.copy_in(before.data(), whole);
  world.group(ranks, kStageDataTag)->all_gather(whole);  // parameters stay
  EXPECT_EQ(values_of(backend, whole), before);
  world.group(ranks, kTensorTag)->all_gather(whole);
  EXPECT_EQ(values_of(backend, whole), (std::vector<float>{1, 2, 1, 2, 3, 1, 2, 3}));
  backend.copy_in(before.data(), whole);
  world.group(ranks, kShardTag)->all_gather(whole);  // memory without values before
  EXPECT_EQ(values_of(backend, whole), (std::vector<float>{1, 2, 1, 2, 3, 1, 2, 3}));
}

TEST(RehearsalCommunicator, FillsALongerPartWithZeros) {
  CpuBackend backend;
  CacheEvictor others(0);
  RehearsalCommunicator world(backend, others, 0, 3);
  const std::array ranks = {0, 1, 2};
  Tensor whole(backend, DataType::kFloat32, 8);
  const std::vector<float> before = {1, 2, -1, -1, -1, -1, -1, -1};
  backend.copy_in(before.data(), whole);
  const std::unique_ptr<Communicator> tensor = world.group(ranks, kTensorTag);
  tensor->wait(tensor->begin_all_gather(whole));
  EXPECT_EQ(values_of(backend, whole), (std::vector<float>{1, 2, 1, 2, 0, 1, 2, 0}));
}

}  // namespace
}  // namespace ptdp::testing
