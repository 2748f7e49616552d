// Tests of finding records in lines, in the forms of eight programs. The lines are written here
// after the programs' format strings; expected values are the numbers in them.
#include "planner/logs/log_records.h"

#include <gmock/gmock.h>

namespace ptdp {
namespace {

constexpr const char* kMegatronLine =
    " [2026-08-22 10:11:12.500000] iteration       20/     500 | consumed samples:        61440 | "
    "elapsed time per iteration (ms): 94420.3 | throughput per GPU (TFLOP/s/GPU): 163.2 | "
    "learning rate: 1.500000E-04 | global batch size:  3072 | lm loss: 7.250000E+00 | loss scale: "
    "65536.0 | grad norm: 1.250 | number of skipped iterations:   2 | number of nan iterations:   "
    "0 |";

/// Returns the one record of a line.
LogRecord record_of(std::string_view line) {
  const std::vector<LogRecord> records = records_of(line);
  EXPECT_EQ(records.size(), 1U) << line;
  return records.empty() ? LogRecord() : records.front();
}

TEST(RecordsOf, MegatronHasTimesInMilliseconds) {
  EXPECT_TRUE(may_hold_record(kMegatronLine));
  const LogRecord record = record_of(kMegatronLine);
  EXPECT_EQ(record.format, LogFormat::kMegatron);
  EXPECT_EQ(record.step, 20);
  EXPECT_NEAR(record.seconds.value(), 94.4203, 1e-12);
  EXPECT_EQ(record.tflops_per_gpu, 163.2);
  EXPECT_EQ(record.batch, 3072.0);
  EXPECT_EQ(record.loss, 7.25);
  EXPECT_EQ(record.skipped, 2.0);
}

TEST(RecordsOf, PrefixesOfLaunchersDoNotMatter) {
  for (const char* prefix : {"[default7]:", "7:", "node0: ", "[node0:3]:", "> ", "(worker, pid=12)",
                             "job/0 [default0]:"}) {
    const LogRecord record = record_of(prefix + std::string(kMegatronLine));
    EXPECT_EQ(record.step, 20) << prefix;
    EXPECT_NEAR(record.seconds.value(), 94.4203, 1e-12) << prefix;
  }
}

TEST(RecordsOf, ForksPrintSecondsAndEqualsSignsAndPairs) {
  const LogRecord bloom = record_of(
      " iteration     9/ 115311 | consumed samples: 100 | consumed tokens: 1.258B | elapsed time "
      "per iteration (s): 105.25 | lm loss: 2.5 | samples per second: 19.459 | TFLOPs: 149.3 |");
  EXPECT_EQ(bloom.seconds, 105.25);
  EXPECT_EQ(bloom.tflops_per_gpu, 149.3);
  EXPECT_EQ(bloom.samples_per_second, 19.459);
  const LogRecord equals = record_of(
      "[2024-06-01 10:00:00] iteration=       3/    1000 | elapsed_time_per_iteration_(ms)=1052.0 "
      "| global_batch_size=2048 | lm_loss=2.5 |");
  EXPECT_EQ(equals.step, 3);
  EXPECT_NEAR(equals.seconds.value(), 1.052, 1e-12);
  EXPECT_EQ(equals.batch, 2048.0);
  EXPECT_EQ(equals.loss, 2.5);
  const LogRecord pair = record_of(
      "iteration 4/ 50 | elapsed time per iteration (ms): 5000.5/5100.0 | throughput per GPU "
      "(TFLOP/s/GPU): 500.25/499.0 | tokens per GPU (tokens/s/GPU): 8000.0/7990.0 |");
  EXPECT_NEAR(pair.seconds.value(), 5.0005, 1e-12);
  EXPECT_EQ(pair.tflops_per_gpu, 500.25);
  EXPECT_EQ(pair.tokens_per_gpu_second, 8000.0);
}

TEST(RecordsOf, KeysMayBeTorn) {
  const LogRecord record = record_of(
      "iteration 4/ 50 | elapsed      time per itera  tion (ms): 5000 | g      lobal batch size: 8 "
      "|");
  EXPECT_EQ(record.seconds, 5.0);
  EXPECT_EQ(record.batch, 8.0);
}

TEST(RecordsOf, OneLineMayHoldSeveral) {
  const std::vector<LogRecord> records = records_of(
      "iteration 4/ 50 | elapsed time per iteration (ms): 5000 |7: iteration 4/ 50 | elapsed time "
      "per iteration (ms): 6000 |");
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].seconds, 5.0);
  EXPECT_EQ(records[1].seconds, 6.0);
}

TEST(RecordsOf, OtherLinesOfMegatronAreNone) {
  for (const char* line :
       {"time (ms) | forward-compute: 265.42 | forward-recv: 1118.94",
        " validation loss at iteration 200 | lm loss value: 7.6E+00 | lm loss PPL: 2.0E+03 | ",
        "saving checkpoint at iteration     200 to /checkpoints",
        "[Rank 18] (after 20 iterations) memory (MB) | allocated: 1 | max allocated: 2"}) {
    EXPECT_TRUE(records_of(line).empty()) << line;
  }
}

// nanotron's numbers have three digits and a factor; one below 1 has an exponent.
TEST(RecordsOf, NanotronHasFactors) {
  const LogRecord record = record_of(
      "06/01/2025 12:00:01 [INFO|DP=0|PP=1|TP=0]: iteration: 20 / 500 | consumed_tokens: 10.5M | "
      "time_per_iteration_ms: 2.31K | tokens_per_sec: 227K | tokens_per_sec_per_gpu: 28.4K | "
      "global_batch_size: 524K | lm_loss: 7.12 | lr: 3e-05 | model_tflops_per_gpu: 312 | eta: "
      "0:20:00");
  EXPECT_EQ(record.format, LogFormat::kNanotron);
  EXPECT_EQ(record.step, 20);
  EXPECT_NEAR(record.seconds.value(), 2.31, 1e-12);
  EXPECT_NEAR(record.tokens_per_gpu_second.value(), 28'400.0, 1e-9);
  EXPECT_NEAR(record.batch.value(), 524'000.0, 1e-9);
  EXPECT_EQ(record.tflops_per_gpu, 312.0);
  EXPECT_EQ(record.loss, 7.12);
  EXPECT_NEAR(
      record_of("iteration: 1 / 5 | time_per_iteration_ms: 1.2K | lm_loss: 3e-05").loss.value(),
      3e-5, 1e-15);
}

TEST(RecordsOf, TorchtitanHasTokensOfAGpu) {
  const LogRecord record = record_of(
      "[rank0]:[titan] 2025-06-01 12:00:01,250 - root - INFO - step: 10  loss:  4.12345  "
      "grad_norm:  1.2345  memory: 61.75GiB(64.91%)  tps: 7,104  tflops: 411.22  mfu: 41.58%");
  EXPECT_EQ(record.format, LogFormat::kTorchtitan);
  EXPECT_EQ(record.step, 10);
  EXPECT_EQ(record.loss, 4.12345);
  EXPECT_EQ(record.tokens_per_gpu_second, 7104.0);
  EXPECT_EQ(record.tflops_per_gpu, 411.22);
  EXPECT_NEAR(record.reserved_bytes.value(), 61.75 * 1073741824.0, 1.0);
  EXPECT_EQ(record_of("step:  2  loss: 12.1  memory: 10.00GiB(5.00%)  wps: 1,234,567  mfu: N/A")
                .tokens_per_gpu_second,
            1'234'567.0);
}

TEST(RecordsOf, ValidationOfTorchtitanIsNone) {
  EXPECT_TRUE(
      records_of("validate step: 10  loss:  4.1  memory: 61.75GiB(64.91%)  tps: 17,104").empty());
}

TEST(RecordsOf, DeepSpeedHasSequencesOfAllGpus) {
  const LogRecord record = record_of(
      "[2023-04-18 01:46:59,171] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=30, "
      "RunningAvgSamplesPerSec=173.4, CurrSamplesPerSec=171.5, MemAllocated=3.96GB, "
      "MaxMemAllocated=22.5GB");
  EXPECT_EQ(record.format, LogFormat::kDeepSpeed);
  EXPECT_EQ(record.step, 30);
  EXPECT_EQ(record.samples_per_second, 171.5);
  EXPECT_NEAR(record.allocated_bytes.value(), 22.5 * 1073741824.0, 1.0);
  const LogRecord pipeline =
      record_of("steps: 10 loss: 2.2985 iter time (s): 0.400 samples/sec: 639.687");
  EXPECT_EQ(pipeline.format, LogFormat::kDeepSpeedPipeline);
  EXPECT_EQ(pipeline.step, 10);
  EXPECT_EQ(pipeline.seconds, 0.4);
  EXPECT_EQ(pipeline.loss, 2.2985);
}

TEST(RecordsOf, NemoHasLinesBarsAndRecordsOfDllogger) {
  const LogRecord text = record_of(
      "i.finetune/0 Training epoch 1, iteration 2/99 | lr: 2.9e-07 | global_batch_size: 64 | "
      "global_step: 102 | reduced_train_loss: 0.999 | train_step_timing in s: 0.5949 | "
      "consumed_samples: 192 | val_loss: 0.244");
  EXPECT_EQ(text.format, LogFormat::kNemo);
  EXPECT_EQ(text.step, 102);  // iterations of an epoch begin anew, those of a run do not
  EXPECT_EQ(text.seconds, 0.5949);
  EXPECT_EQ(text.loss, 0.999);
  const LogRecord dllogger = record_of(
      R"(DLLL {"timestamp": "1727486904.6", "type": "LOG", "step": 7, "data": )"
      R"({"reduced_train_loss": 11.06, "global_step": 7.0, "train_step_timing in s": 107.35}})");
  EXPECT_EQ(dllogger.format, LogFormat::kNemo);
  EXPECT_EQ(dllogger.step, 7);
  EXPECT_EQ(dllogger.seconds, 107.35);
  EXPECT_EQ(dllogger.loss, 11.06);
  const std::vector<LogRecord> bar = records_of(
      "Epoch 0: :   3%|#  | 30/1000 [05:10<2:47:09, v_num=ab, reduced_train_loss=10.9, "
      "global_step=29.00, consumed_samples=960.0, train_step_timing in s=5.07]");
  ASSERT_EQ(bar.size(), 2U);
  EXPECT_EQ(bar[1].format, LogFormat::kNemo);
  EXPECT_EQ(bar[1].step, 29);
  EXPECT_EQ(bar[1].seconds, 5.07);
}

TEST(RecordsOf, BarsHaveTheTimeSinceTheirStart) {
  const LogRecord record = record_of(" 40%|####      | 174/440 [2:02:39<1:28:10, 19.89s/it]");
  EXPECT_EQ(record.format, LogFormat::kProgressBar);
  EXPECT_EQ(record.step, 174);
  EXPECT_EQ(record.clock, 2 * 3600.0 + 2 * 60.0 + 39.0);
  EXPECT_TRUE(records_of("  0%|          | 0/440 [00:00").empty());
  EXPECT_TRUE(records_of("took [3/4] of it [10:20]").empty());
}

// One day and 1.5 s lie between them.
TEST(RecordsOf, StampsCountDays) {
  const auto clock = [](const std::string& stamp) {
    return record_of(stamp + " iteration 4/ 50 | elapsed time per iteration (ms): 5000 |").clock;
  };
  EXPECT_NEAR(
      clock("[2024-03-01 00:00:01.250]").value() - clock("[2024-02-28T23:59:59,750]").value(),
      86'400.0 + 1.5, 1e-5);
  EXPECT_FALSE(clock("[2024-02-30 00:00:01]").has_value());
  EXPECT_FALSE(clock("10:11:12").has_value());
}

TEST(RecordsOf, WithoutTimesThereAreNone) {
  for (const char* line :
       {"iteration 4/ 50 | lm loss: 3.0 |", "step: 10  loss:  4.1", "steps: 10 loss: 2.2",
        "global_step=10, vm %: 30, swap %: 0",
        "iteration 99999999999999999999/ 5 | elapsed time per iteration (ms): 1 |",
        "iteration 4/ 50 | elapsed time per iteration (ms): 1e999 |"}) {
    EXPECT_TRUE(records_of(line).empty()) << line;
  }
}

TEST(IsCut, IsARecordOfMegatronThatLacksItsEnd) {
  const auto cut = [](std::string_view line) { return is_cut(line, records_of(line)); };
  const std::string line = kMegatronLine;
  EXPECT_FALSE(cut(line));
  EXPECT_TRUE(cut(line.substr(0, 150)));
  EXPECT_TRUE(cut(line.substr(0, line.find("global batch size"))));  // right behind a bar
  EXPECT_FALSE(cut("time (ms) | forward-compute: 265.42"));
  EXPECT_FALSE(cut("iteration: 1 / 5 | consumed_tokens: 1M | time_per_iteration_ms: 1.2K"));
  EXPECT_FALSE(cut(""));
}

// Two ranks' reports on one line; Megatron's MB are 2^20 bytes.
TEST(ReportedMemory, IsTheLargestOfALine) {
  const LogMemory memory = reported_memory(
      "[Rank 18] (after 20 iterations) memory (MB) | allocated: 17694.5 | max allocated: 20045.5 | "
      "reserved: 24084.0 | max reserved: 24084.0[Rank 27] (after 20 iterations) memory (MB) | "
      "allocated: 17693.0 | max allocated: 19944.0 | reserved: 23954.0 | max reserved: 24100.0");
  EXPECT_EQ(memory.allocated, 20045.5 * 1048576.0);
  EXPECT_EQ(memory.reserved, 24100.0 * 1048576.0);
  EXPECT_EQ(reported_memory("no report").reserved, 0.0);
}

}  // namespace
}  // namespace ptdp
