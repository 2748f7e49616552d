// Tests the lines that tell of a training's steps.
#include "tools/run/run_progress.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace ptdp {
namespace {

std::string told_by(const std::function<void()>& tells) {
  testing::internal::CaptureStderr();
  tells();
  return testing::internal::GetCapturedStderr();
}

/// Returns a run of four ranks, with 8 sequences of 16 tokens an iteration.
PreparedRun told_run() {
  PreparedRun run;
  run.settings.global_batch_size = 8;
  run.settings.model.seq_length = 16;
  run.settings.config.tp = 2;
  run.settings.config.dp = 2;
  return run;
}

// A rank does 1e12 of 4e12 FLOPs, in half a second 2 TFLOP/s. 128 tokens take half a second; 2
// steps of half a second are left.
TEST(RunProgress, TellsOfAStepInFull) {
  const PreparedRun run = told_run();
  Progress progress(run, Flops(4e12));
  EXPECT_EQ(
      told_by([&] {
        progress({.step = 0,
                  .done = 1,
                  .steps = 3,
                  .loss = 4.25,
                  .gradient_norm = 0.5,
                  .time = Seconds(0.5)});
      }),
      "step 1/3  loss 4.2500  norm 0.5  500 ms  2 TFLOP/s per rank  256 tokens/s  1 s left\n");
}

// A resumed training of 12 steps has done 9 of them; the two of this run take 3 s and 1 s, so that
// the last is expected to take 2 s.
TEST(RunProgress, CountsOverTheTrainingAndEstimatesByTheMean) {
  const PreparedRun run = told_run();
  Progress progress(run, Flops(4e12));
  const StepProgress first{.step = 9, .done = 1, .steps = 3, .time = Seconds(3.0)};
  EXPECT_NE(told_by([&] { progress(first); }).find("step 10/12  loss 0.0000  norm 0  3 s  "),
            std::string::npos);
  StepProgress next = first;
  next.step = 10;
  next.done = 2;
  next.time = Seconds(1.0);
  static_cast<void>(told_by([&] { progress(next); }));  // told of where a second went by
  next.step = 11;
  next.done = 3;
  next.is_skipped = true;
  const std::string last = told_by([&] { progress(next); });
  EXPECT_NE(last.find("step 12/12  loss "), std::string::npos) << last;
  EXPECT_NE(last.find("  128 tokens/s  0 ms left  skipped: gradients overflowed\n"),
            std::string::npos)
      << last;
}

// The first and the last one always are; the numbers keep their width.
TEST(RunProgress, EstimatesWhatIsLeftByTheStepsOfThisRun) {
  const PreparedRun run = told_run();
  Progress progress(run, Flops(4e12));
  const std::string first =
      told_by([&] { progress({.step = 4, .done = 1, .steps = 6, .time = Seconds(2.0)}); });
  EXPECT_EQ(first.substr(0, 12), "step  5/10  ") << first;
  EXPECT_NE(first.find("  10 s left\n"), std::string::npos) << first;
}

}  // namespace
}  // namespace ptdp
