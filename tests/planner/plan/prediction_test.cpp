// Tests of predictions: units, intervals, extrapolations.
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
  const Prediction plain = predict({scenario, trillion_config()}, {});
  const Prediction scaled = predict({scenario, trillion_config()},
                                    {.support = {.num_runs = 9, .program_runs = 20, .all_runs = 20},
                                     .factor = 1.25,
                                     .interval = {0.9, 1.1}});
  EXPECT_NEAR(scaled.iteration_time.value / plain.iteration_time.value, 1.25, 1e-12);
  EXPECT_NEAR(scaled.breakdown.total() / scaled.iteration_time.value, 1.0, 1e-12);
  EXPECT_NEAR(scaled.iteration_time.high / scaled.iteration_time.value, 1.1, 1e-12);
  EXPECT_EQ(scaled.basis({scenario, trillion_config()}),
            "rests on 9 runs of this cluster and stack, 20 of its kind of program");
  EXPECT_EQ(plain.basis({scenario, trillion_config()}),
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
  EXPECT_EQ(Prediction().basis({host, trillion_config()}),
            "not calibrated: operations and messages measured on that machine");
}

// By hand from the time: 3072 · 2048 tokens; SC21 eq. 3 FLOPs over 3072 GPUs of 312 TFLOP/s.
TEST(Predict, TurnsTimeIntoTheUnitsPeopleCompare) {
  const Prediction prediction = predict({selene_2021("1T"), trillion_config()}, {});
  const double seconds = prediction.iteration_time.value.value();
  EXPECT_NEAR(prediction.tokens_per_second.value, 3072.0 * 2048.0 / seconds, 1e-6);
  const double per_gpu = prediction.hardware_flops.value() / seconds / 3072.0;
  EXPECT_NEAR(prediction.per_gpu.value.value() / per_gpu, 1.0, 1e-12);
  EXPECT_NEAR(prediction.hfu.value, per_gpu / 312e12, 1e-12);
  EXPECT_LT(prediction.mfu.value, prediction.hfu.value);
}

TEST(Predict, GivesRatesTheReverseOfTheTimesInterval) {
  const Prediction prediction =
      predict({selene_2021("1T"), trillion_config()},
              {.support = {.num_runs = 3, .all_runs = 3}, .interval = {0.8, 1.25}});
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

// 1000 tokens take 50 to 200 s: half a GPU-hour to two, at 3 each.
TEST(TrainingRun, HasAnIntervalOfHoursAndCost) {
  Prediction prediction;
  prediction.tokens_per_second = {.value = 10.0, .low = 5.0, .high = 20.0};
  const TrainingRun run = training_run(prediction, 36, 1000.0, 3.0);
  EXPECT_DOUBLE_EQ(run.gpu_hours.low, 0.5);
  EXPECT_DOUBLE_EQ(run.gpu_hours.high, 2.0);
  ASSERT_TRUE(run.cost.has_value());
  EXPECT_DOUBLE_EQ(run.cost->value, 3.0);
  EXPECT_DOUBLE_EQ(run.cost->low, 1.5);
  EXPECT_DOUBLE_EQ(run.cost->high, 6.0);
  EXPECT_FALSE(training_run(prediction, 36, 1000.0).cost.has_value());
}

/// Returns the extrapolations of a prediction on Selene, whose all-reduces of 1 to 1024 MiB are
/// measured. The model has 4 layers of 64, 1024 words and 32 tokens.
std::vector<std::string> extrapolations_of(const ParallelConfig& config) {
  Scenario scenario = selene_2021("1T", 8);
  scenario.job.model = resolved({.num_layers = 4,
                                 .hidden_size = 64,
                                 .num_attention_heads = 2,
                                 .vocab_size = 1024,
                                 .seq_length = 32},
                                "test");
  return predict({scenario, config}, {}).extrapolations;
}

// Activations of 2 bytes · 32 · 64. Parameters: 12lh² + 13lh + (V+s)h + 2h = 267648 of 2 bytes.
TEST(Predict, SaysWhichCollectivesLieBeyondWhatIsMeasured) {
  EXPECT_TRUE(extrapolations_of({}).empty());
  EXPECT_EQ(extrapolations_of({.tp = 2}),
            std::vector<std::string>{"tensor-parallel all-reduces of 0.004096 MB lie outside the "
                                     "measured 1.049 to 1073 MB of selene-a100"});
  EXPECT_EQ(extrapolations_of({.tp = 2, .micro_batch_size = 2}).at(0).substr(0, 43),
            "tensor-parallel all-reduces of 0.008192 MB ");
  EXPECT_EQ(extrapolations_of({.dp = 2}),
            std::vector<std::string>{"data-parallel all-reduces of 0.5353 MB lie outside the "
                                     "measured 1.049 to 1073 MB of selene-a100"});
  // 2 · 2048 · 25600 bytes of the trillion are measured.
  EXPECT_TRUE(predict({selene_2021("1T"), trillion_config()}, {}).extrapolations.empty());
}

}  // namespace
}  // namespace ptdp
