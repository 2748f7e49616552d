// Compares the executor's training with the plain loop, whose curves are PyTorch's
// (golden_test.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/data/training_data.h"
#include "tests/runtime/training_harness.h"
#include "tests/validation/pytorch/small_training.h"

namespace ptdp::testing {
namespace {

constexpr int kSteps = 6;
// Sums in another order.
constexpr double kRelativeTolerance = 1e-12;

/// Returns settings of which every number matters: the rate warms up and decays, the moments
/// differ, weights decay, and every step's gradients are clipped.
TrainingSettings settings_for(const Layout& layout) {
  Job job = small_job();
  job.dropout = 0.0;
  TrainingSettings settings = settings_of(layout, job);
  settings.learning_rate = {
      .maximum = 2e-2, .minimum = 1e-3, .warm_up_steps = 2, .decay_steps = kSteps};
  settings.beta1 = 0.8;
  settings.beta2 = 0.95;
  settings.epsilon = 1e-6;
  settings.weight_decay = 0.3;
  settings.gradient_clip = 0.05;
  return settings;
}

/// Trains by the plain loop with the same settings, on one rank.
TrainingOutcome train_plainly(const TrainingSettings& settings) {
  const TransformerConfig& model = settings.model;
  const TrainingData data =
      TrainingData::synthetic(model.vocab_size, model.seq_length, settings.seed);
  return ptdp::train(
      TrainingTask{.model = model,
                   .global_batch_size = static_cast<int>(settings.global_batch_size),
                   .samples = [&](std::int64_t number) { return data.sample(number); },
                   .seed = settings.seed,
                   .rates = settings.learning_rate,
                   .beta1 = settings.beta1,
                   .beta2 = settings.beta2,
                   .epsilon = settings.epsilon,
                   .weight_decay = settings.weight_decay,
                   .clip = settings.gradient_clip,
                   .num_steps = kSteps},
      TrainingLayout{.micro_batch_size = 4});
}

TEST(ExecutorTraining, FollowsTheCurveOfAPlainLoop) {
  const TrainingOutcome expected = train_plainly(settings_for({}));
  ASSERT_EQ(expected.losses.size(), kSteps);
  for (const Layout& layout :
       {Layout{.micro_batch_size = 4}, Layout{.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1},
        Layout{.dp = 4, .micro_batch_size = 2, .zero_stage = 3}}) {
    const TrainingSettings settings = settings_for(layout);
    const Trained trained = train(settings, kSteps, [] { return std::make_unique<CpuBackend>(); });
    ASSERT_EQ(trained.losses.size(), kSteps) << to_string(layout);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_NEAR(trained.losses[step], expected.losses[step],
                  kRelativeTolerance * expected.losses[step])
          << to_string(layout) << ", step " << step;
      EXPECT_NEAR(trained.gradient_norms[step], expected.gradient_norms[step],
                  kRelativeTolerance * expected.gradient_norms[step])
          << to_string(layout) << ", step " << step;
      EXPECT_GT(expected.gradient_norms[step], settings.gradient_clip) << "nothing is clipped";
    }
  }
}

}  // namespace
}  // namespace ptdp::testing
