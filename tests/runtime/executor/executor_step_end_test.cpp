// Tests what a step does to weights and moments, by AdamW's update for gradients that it sees for
// the first time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "tests/runtime/training_harness.h"
#include "tests/support/temporary_directory.h"

namespace ptdp::testing {
namespace {

/// A parameter's elements before and after a step.
struct SteppedParameter {
  bool is_matrix = false;
  std::vector<double> before;
  std::vector<double> after;
  std::vector<double> moment1;
};

struct SteppedRank {
  StepRecord record;
  std::vector<SteppedParameter> parameters;
};

/// Runs one step of a rank that trains alone. The training has done `done` steps, and its optimizer
/// none.
SteppedRank stepped(const TrainingSettings& settings, std::int64_t done = 0) {
  const TemporaryDirectory directory;
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, settings.seed);
  SteppedRank rank;
  run_ranks({.size = 1, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              Executor executor(backend, world, settings, data);
              const CheckpointWriter writer(directory.path(), done);
              writer.begin();
              writer.write_shard(0, backend, executor.optimizer());
              writer.finish({.step = done,
                             .next_sample = done * settings.global_batch_size,
                             .seed = settings.seed,
                             .loss_scaler = {.scale = 1024.0},
                             .model = settings.model},
                            1);
              executor.restore(Checkpoint::open(directory.path()));
              const Optimizer& optimizer = executor.optimizer();
              const auto parameters = optimizer.shares()[0].store->parameters();
              for (const OwnedSlice& slice : optimizer.owned_slices(0)) {
                rank.parameters.push_back({.is_matrix = parameters[slice.parameter].block.rows > 1,
                                           .before = values_of(slice.master, backend)});
              }
              rank.record = executor.run_step();
              std::size_t i = 0;
              for (const OwnedSlice& slice : optimizer.owned_slices(0)) {
                rank.parameters[i].after = values_of(slice.master, backend);
                rank.parameters[i].moment1 = values_of(slice.moment1, backend);
                ++i;
              }
            });
  return rank;
}

TrainingSettings plain_settings() {
  Job job = small_job();
  job.dropout = 0.0;
  TrainingSettings settings = settings_of({}, job);
  settings.weight_decay = 0.0;
  settings.gradient_clip = 0.0;
  return settings;
}

// From moments of 0 the first update is the rate times the gradient's sign, whatever its size: m/(1
// - 0.9) over the root of v/(1 - 0.95). The rate is that of the training's step.
TEST(OptimizerStep, HasTheRateOfItsStepAndAdamsOwnCount) {
  TrainingSettings settings = plain_settings();
  settings.learning_rate = {
      .maximum = 1.6e-2, .minimum = 0.0, .warm_up_steps = 16, .decay_steps = 100};
  for (const std::int64_t done : {0, 7}) {
    const double rate = 1e-3 * static_cast<double>(done + 1);
    double largest = 0.0;
    for (const SteppedParameter& parameter : stepped(settings, done).parameters) {
      for (std::size_t i = 0; i < parameter.after.size(); ++i) {
        largest = std::max(largest, std::abs(parameter.after[i] - parameter.before[i]));
      }
    }
    EXPECT_NEAR(largest / rate, 1.0, 1e-4) << "after " << done << " steps";
  }
}

TEST(OptimizerStep, DecaysMatricesAloneByTheRate) {
  TrainingSettings settings = plain_settings();
  settings.learning_rate = {.maximum = 1e-2, .minimum = 1e-2};
  const SteppedRank plain = stepped(settings);
  settings.weight_decay = 0.5;
  const SteppedRank decayed = stepped(settings);
  double most_decayed = 0.0;
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    const SteppedParameter& without = plain.parameters[i];
    const SteppedParameter& with = decayed.parameters[i];
    for (std::size_t k = 0; k < without.after.size(); ++k) {
      const double decay = without.is_matrix ? 1e-2 * 0.5 * without.before[k] : 0.0;
      EXPECT_NEAR(without.after[k] - with.after[k], decay, 1e-15);
      most_decayed = std::max(most_decayed, std::abs(decay));
    }
  }
  EXPECT_GT(most_decayed, 1e-5);
}

/// Returns the norm of the gradients that the optimizer was given: the first moment is a tenth of
/// each.
double given_norm(const SteppedRank& rank) {
  double squares = 0.0;
  for (const SteppedParameter& parameter : rank.parameters) {
    for (const double moment : parameter.moment1) {
      squares += 100.0 * moment * moment;
    }
  }
  return std::sqrt(squares);
}

TEST(OptimizerStep, IsGivenGradientsOfTheLargestNormAtMost) {
  TrainingSettings settings = plain_settings();
  const SteppedRank unclipped = stepped(settings);
  const double norm = unclipped.record.gradient_norm;
  ASSERT_GT(norm, 1e-2);
  EXPECT_NEAR(given_norm(unclipped) / norm, 1.0, 1e-9);
  settings.gradient_clip = 2.0 * norm;
  EXPECT_NEAR(given_norm(stepped(settings)) / norm, 1.0, 1e-9);
  settings.gradient_clip = 0.25 * norm;
  const SteppedRank clipped = stepped(settings);
  EXPECT_EQ(clipped.record.gradient_norm, norm) << "as it was before";
  EXPECT_NEAR(given_norm(clipped) / norm, 0.25, 1e-4);
}

// Gradients of fp16 carry the scale of 1024, which neither the norm nor the optimizer sees.
TEST(OptimizerStep, IsGivenGradientsWithoutTheLossScale) {
  TrainingSettings settings = plain_settings();
  const double norm = stepped(settings).record.gradient_norm;
  settings.type = DataType::kFloat16;
  const SteppedRank half = stepped(settings);
  ASSERT_FALSE(half.record.is_skipped);
  EXPECT_EQ(half.record.loss_scale, 1024.0);
  EXPECT_NEAR(half.record.gradient_norm / norm, 1.0, 0.02);
  EXPECT_NEAR(given_norm(half) / norm, 1.0, 0.02);
}

}  // namespace
}  // namespace ptdp::testing
