#include "planner/plan/prediction.h"

#include <gtest/gtest.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

ParallelConfig trillion_config() {
  return {.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
}

TEST(Predict, ScalesEveryTermByTheCalibration) {
  const Scenario scenario = selene_2021("1T");
  const Prediction plain = predict(scenario, trillion_config(), {});
  const Prediction scaled =
      predict(scenario, trillion_config(),
              {.support = {.num_runs = 9}, .factor = 1.25, .interval = {0.9, 1.1}});
  EXPECT_NEAR(scaled.iteration_time.value / plain.iteration_time.value, 1.25, 1e-12);
  EXPECT_NEAR(scaled.breakdown.total() / scaled.iteration_time.value, 1.0, 1e-12);
  EXPECT_NEAR(scaled.iteration_time.high / scaled.iteration_time.value, 1.1, 1e-12);
  EXPECT_EQ(scaled.basis(scenario), "calibrated on 9 runs");
  EXPECT_EQ(plain.basis(scenario),
            "not calibrated: data sheets and published measurements of parts");
}

TEST(Predict, SaysThatItsProfileWasMeasured) {
  Scenario host = selene_2021("1T");
  host.stack.memory_model = MemoryModel::kPtdp;
  host.cluster.gpu.measured_operations = {
      {DeviceOperation::kLayerNorm,
       host.stack.precision,
       {{{8.0, 8.0, 1.0}, Seconds(1e-6)}, {{16.0, 8.0, 1.0}, Seconds(2e-6)}},
       "a test"}};
  EXPECT_EQ(Prediction().basis(host),
            "not calibrated: operations and messages measured on that machine");
}

// By hand from the time: 3072 · 2048 tokens; SC21 eq. 3 FLOPs over 3072 GPUs of 312 TFLOP/s.
TEST(Predict, TurnsTimeIntoTheUnitsPeopleCompare) {
  const Prediction prediction = predict(selene_2021("1T"), trillion_config(), {});
  const double seconds = prediction.iteration_time.value.value();
  EXPECT_NEAR(prediction.tokens_per_second.value, 3072.0 * 2048.0 / seconds, 1e-6);
  const double per_gpu = prediction.hardware_flops.value() / seconds / 3072.0;
  EXPECT_NEAR(prediction.per_gpu.value.value() / per_gpu, 1.0, 1e-12);
  EXPECT_NEAR(prediction.hfu.value, per_gpu / 312e12, 1e-12);
  EXPECT_LT(prediction.mfu.value, prediction.hfu.value);
}

TEST(Predict, GivesRatesTheReverseOfTheTimesInterval) {
  const Prediction prediction = predict(selene_2021("1T"), trillion_config(),
                                        {.support = {.num_runs = 3}, .interval = {0.8, 1.25}});
  EXPECT_LT(prediction.per_gpu.low, prediction.per_gpu.value);
  EXPECT_NEAR(prediction.per_gpu.low / prediction.per_gpu.value, 0.8, 1e-12);
  EXPECT_NEAR(prediction.tokens_per_second.high / prediction.tokens_per_second.value, 1.25, 1e-12);
}

// By hand: 1000 tokens at 10 per second on 36 GPUs: 100 s, one GPU-hour.
TEST(TrainingRun, CountsTheHoursOfAllGpus) {
  Prediction prediction;
  prediction.tokens_per_second = {.value = 10.0, .low = 5.0, .high = 20.0};
  const TrainingRun run = training_run(prediction, 36, 1000.0);
  EXPECT_DOUBLE_EQ(run.time.value.value(), 100.0);
  EXPECT_DOUBLE_EQ(run.time.low.value(), 50.0);
  EXPECT_DOUBLE_EQ(run.time.high.value(), 200.0);
  EXPECT_DOUBLE_EQ(run.gpu_hours.value, 1.0);
}

}  // namespace
}  // namespace ptdp
