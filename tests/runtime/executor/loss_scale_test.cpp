// Tests of steps that overflow in fp16: what they leave unchanged, and when they end a training.
#include <gmock/gmock.h>

#include <memory>
#include <vector>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "tests/runtime/training_harness.h"
#include "tests/support/temporary_directory.h"

namespace ptdp::testing {
namespace {

Job half_precision_job() {
  Job job = small_job();
  job.type = DataType::kFloat16;
  job.dropout = 0.0;
  return job;
}

/// A rank that trains alone.
class LoneExecutor {
 public:
  explicit LoneExecutor(const TrainingSettings& settings)
      : settings_(settings),
        data_(TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length,
                                      settings.seed)) {}

  /// Calls `use` with an executor of the settings.
  template <class Use>
  void with(const Use& use) const {
    run_ranks({.size = 1, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
              [&](Communicator& world, Backend& backend) {
                Executor executor(backend, world, settings_, data_);
                use(executor, backend);
              });
  }

  /// Saves the initial values as changed by `change`, as a checkpoint after `steps` steps.
  template <class Change>
  [[nodiscard]] Checkpoint saved(const std::filesystem::path& directory, std::int64_t steps,
                                 double scale, const Change& change) const {
    with([&](Executor& executor, Backend& backend) {
      change(executor, backend);
      const CheckpointWriter writer(directory, steps);
      writer.begin();
      writer.write_shard(0, backend, executor.optimizer());
      writer.finish({.step = steps,
                     .next_sample = steps * settings_.global_batch_size,
                     .optimizer_steps = 0,
                     .seed = settings_.seed,
                     .loss_scaler = {.scale = scale},
                     .model = settings_.model},
                    1);
    });
    return Checkpoint::open(directory);
  }

 private:
  TrainingSettings settings_;
  TrainingData data_;
};

void keep(Executor& /*executor*/, Backend& /*backend*/) {}

std::vector<double> masters_of(Executor& executor, Backend& backend) {
  std::vector<double> all;
  for (const OwnedSlice& slice : executor.optimizer().owned_slices(0)) {
    const std::vector<double> values = values_of(slice.master, backend);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

// The scale goes on from the checkpoint and halves until a step holds. That step is Adam's first:
// from there it is what a training does that begins with the same scale, batch and weights.
TEST(LossScale, GoesOnFromACheckpointAndSkippedStepsLeaveAdamAsItWas) {
  const TemporaryDirectory directory;
  constexpr double too_large = 0x1p32;
  const LoneExecutor lone(settings_of({}, half_precision_job()));
  const Checkpoint overflowing = lone.saved(directory.path() / "overflowing", 1, too_large, keep);
  std::vector<double> after_skips;
  std::int64_t steps = 1;
  double scale = too_large;
  lone.with([&](Executor& executor, Backend& backend) {
    executor.restore(overflowing);
    for (bool is_skipped = true; is_skipped; ++steps) {
      const StepRecord step = executor.run_step();
      ASSERT_EQ(step.loss_scale, scale);
      is_skipped = step.is_skipped;
      scale = is_skipped ? scale / 2.0 : scale;
      ASSERT_LT(steps, 40) << "no step holds";
    }
    after_skips = masters_of(executor, backend);
  });
  ASSERT_GT(steps, 2) << "no step was skipped";

  const Checkpoint fresh = lone.saved(directory.path() / "fresh", steps - 1, scale, keep);
  std::vector<double> at_once;
  lone.with([&](Executor& executor, Backend& backend) {
    executor.restore(fresh);
    EXPECT_FALSE(executor.run_step().is_skipped);
    at_once = masters_of(executor, backend);
  });
  EXPECT_EQ(after_skips, at_once);
}

// What is told of a step does not depend on the scale, but for rounding.
TEST(LossScale, IsNotInTheNormThatIsTold) {
  const TemporaryDirectory directory;
  const LoneExecutor lone(settings_of({}, half_precision_job()));
  const auto norm_with = [&](double scale) {
    const Checkpoint checkpoint =
        lone.saved(directory.path() / std::to_string(scale), 1, scale, keep);
    double norm = 0.0;
    lone.with([&](Executor& executor, Backend& /*backend*/) {
      executor.restore(checkpoint);
      norm = executor.run_step().gradient_norm;
    });
    return norm;
  };
  const double small = norm_with(256.0);
  EXPECT_GT(small, 0.0);
  EXPECT_NEAR(norm_with(1024.0) / small, 1.0, 1e-2);
}

// Without a smaller scale to go to, a training would skip steps for ever. Here the loss is finite,
// but inputs without a spread make norms divide by nearly nothing, behind a table of large values.
TEST(LossScale, EndsATrainingWhereTheSmallestOverflows) {
  const TemporaryDirectory directory;
  Job job = half_precision_job();
  job.model.untied_embeddings = true;
  job.global_batch_size = 1;
  const LoneExecutor lone(settings_of({}, job));
  const Checkpoint diverged = lone.saved(
      directory.path(), 1, LossScaler::kSmallestScale, [](Executor& executor, Backend& backend) {
        const auto parameters = executor.optimizer().shares()[0].store->parameters();
        for (const OwnedSlice& slice : executor.optimizer().owned_slices(0)) {
          const std::string& name = parameters[slice.parameter].name;
          if (name.ends_with("gamma")) {
            continue;
          }
          backend.fill(slice.master, 0.0);
          if (name == "output.weight") {  // every other row
            const Parameter& table = parameters[slice.parameter];
            const std::int64_t h = table.block.columns;
            for (std::int64_t row = 0; row + 1 < slice.range.count / h; row += 2) {
              backend.fill(slice.master.slice(row * h, h / 2), 5e4);
            }
          }
        }
      });
  lone.with([&](Executor& executor, Backend& /*backend*/) {
    executor.restore(diverged);
    try {
      static_cast<void>(executor.run_step());
      FAIL() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("the norm of the gradients is"));
    }
  });
}

}  // namespace
}  // namespace ptdp::testing
