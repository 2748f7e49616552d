// Tests of reading whole logs: lines as terminals and launchers leave them, restarts, many ranks.
#include "planner/logs/training_log.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/logs/log_lines.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string progress(int step, int milliseconds) {
  return " iteration       " + std::to_string(step) +
         "/     500 | consumed samples:        61440 | elapsed time per iteration (ms): " +
         std::to_string(milliseconds) +
         ".0 | learning rate: 1.500000E-04 | global batch size:    16 | lm loss: 7.250000E+00 | "
         "loss "
         "scale: 1.0 |\n";
}

std::vector<std::string> lines_of_file(const std::string& content) {
  const TemporaryDirectory directory;
  LogLines lines(directory.file("x.log", content));
  std::vector<std::string> found;
  for (std::string line; lines.next(line);) {
    found.push_back(line);
  }
  return found;
}

TrainingLog log_of(const std::string& content) {
  const TemporaryDirectory directory;
  return read_training_log(directory.file("x.log", content));
}

std::vector<std::int64_t> steps_of(const TrainingLog& log) {
  std::vector<std::int64_t> steps;
  for (const LogRecord& record : log.records) {
    steps.push_back(record.step);
  }
  return steps;
}

TEST(LogLines, EndAtFeedsAndReturnsWithoutColours) {
  EXPECT_THAT(lines_of_file("a\n\x1b[31mb\x1b[0m c\rd"), ElementsAre("a", "b c", "d"));
  EXPECT_THAT(lines_of_file("a\r\nb\n"), ElementsAre("a", "b"));
  EXPECT_THAT(lines_of_file("x\x1b["), ElementsAre("x"));
  EXPECT_TRUE(lines_of_file("").empty());
}

// Pieces of a file meet inside of lines.
TEST(LogLines, AreWholeHoweverLongTheFileIs) {
  std::string content;
  for (int i = 0; i < 20'000; ++i) {
    content += "line " + std::to_string(i) + " of a file that is longer than any piece of it\n";
  }
  const std::vector<std::string> lines = lines_of_file(content);
  ASSERT_EQ(lines.size(), 20'000U);
  EXPECT_EQ(lines[19'999], "line 19999 of a file that is longer than any piece of it");
}

TEST(LogLines, AreCutWhereTheyAreTooLong) {
  const std::vector<std::string> lines =
      lines_of_file(std::string(3 * kLongestLogLine, 'x') + "\nnext\n");
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].size(), kLongestLogLine);
  EXPECT_EQ(lines[1], "next");
}

// Terminals of any width break inside keys and numbers, and right behind bars.
TEST(ReadTrainingLog, JoinsRecordsThatATerminalBroke) {
  for (const std::string end : {"\n", "\r\n"}) {
    for (std::size_t width = 60; width < 300; ++width) {
      std::string content;
      for (int step = 1; step <= 4; ++step) {
        const std::string line = progress(step, 1000 + step);
        for (std::size_t at = 0; at + 1 < line.size(); at += width) {
          content += line.substr(at, std::min(width, line.size() - 1 - at)) + end;
        }
        content += "time (ms) | forward-compute: 265.42" + end;
      }
      const TrainingLog log = log_of(content);
      ASSERT_THAT(steps_of(log), ElementsAre(1, 2, 3, 4)) << width;
      EXPECT_NEAR(log.records[2].seconds.value(), 1.003, 1e-12) << width;
      EXPECT_EQ(log.records[2].batch, 16.0) << width;
      EXPECT_EQ(log.records[2].loss, 7.25) << width;
    }
  }
}

// Lines of other programs have no last bar; digits of the next line are not theirs.
TEST(ReadTrainingLog, KeepsLinesOfNanotronApart) {
  std::string content;
  for (int step = 1; step <= 3; ++step) {
    content += "iteration: " + std::to_string(step) +
               " / 5 | consumed_tokens: 1M | time_per_iteration_ms: 600 | model_tflops_per_gpu: "
               "104\n08/31/2024 memory usage\n";
  }
  EXPECT_EQ(log_of(content).records[1].tflops_per_gpu, 104.0);
}

TEST(ReadTrainingLog, LeavesOutARecordThatTheFileEndsIn) {
  const std::string whole = progress(1, 1000) + progress(2, 1000) + progress(3, 1000);
  for (const std::size_t size : {60, 128, 150, 200}) {
    EXPECT_THAT(steps_of(log_of(whole + progress(4, 1000).substr(0, size))), ElementsAre(1, 2, 3))
        << size;
  }
}

// A record whose last bar is missing does not take the next one's values.
TEST(ReadTrainingLog, KeepsRecordsWithoutALastBarApart) {
  const std::string line = " iteration 1/ 5 | elapsed time per iteration (ms): 1000";
  const TrainingLog log = log_of(line + "\n" + progress(2, 2000) + progress(3, 2000));
  EXPECT_THAT(steps_of(log), ElementsAre(1, 2, 3));
  EXPECT_EQ(log.records[0].seconds, 1.0);
  EXPECT_FALSE(log.records[0].batch.has_value());
}

TEST(ReadTrainingLog, TakesTheRunAfterARestart) {
  std::string content;
  for (int step = 1; step <= 9; ++step) {
    content += progress(step, 5000);
  }
  content += "Traceback (most recent call last):\n";
  for (int step = 6; step <= 9; ++step) {
    content += progress(step, 2000);
  }
  const TrainingLog log = log_of(content);
  EXPECT_EQ(log.restarts, 1);
  EXPECT_THAT(steps_of(log), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(log.records.front().seconds, 2.0);
}

TEST(ReadTrainingLog, TakesTheRunBeforeWhereTheLastHasTooFewLines) {
  const TrainingLog log = log_of(progress(1, 5000) + progress(2, 5000) + progress(3, 5000) +
                                 progress(4, 5000) + progress(1, 2000) + progress(2, 2000));
  EXPECT_EQ(log.restarts, 1);
  EXPECT_THAT(steps_of(log), ElementsAre(1, 2, 3, 4));
}

/// Returns a list of arguments with this size of tensor-parallel groups.
std::string list_of(int tp) {
  const std::string dots(30, '.');
  return "------------ arguments ------------\n  num_layers " + dots +
         " 24\n  tensor_model_parallel_size " + dots + " " + std::to_string(tp) +
         "\n------------ end of arguments -----\n  amp_enabled " + dots + " False\n";
}

// Arguments, times and memory are of the same run: the last one with three lines.
TEST(ReadTrainingLog, TakesAllOfOneRun) {
  const auto run = [](int tp, int lines, int milliseconds, int mebibytes) {
    std::string text = list_of(tp);
    for (int step = 1; step <= lines; ++step) {
      text += progress(step, milliseconds);
    }
    return text + "[Rank 0] (after 1 iterations) memory (MB) | max allocated: " +
           std::to_string(mebibytes) + ".0\n";
  };
  const TrainingLog last = log_of(run(1, 5, 1000, 4096) + run(2, 4, 3000, 2048));
  EXPECT_EQ(last.records.front().seconds, 3.0);
  EXPECT_EQ(last.memory.allocated, 2048.0 * 1048576.0);
  EXPECT_THAT(last.arguments,
              HasSubstr("tensor_model_parallel_size .............................. 2"));
  EXPECT_EQ(last.arguments.find("amp_enabled"), std::string::npos);
  const TrainingLog before = log_of(run(1, 5, 1000, 4096) + run(2, 2, 3000, 2048));
  EXPECT_EQ(before.records.front().seconds, 1.0);
  EXPECT_EQ(before.memory.allocated, 4096.0 * 1048576.0);
  EXPECT_THAT(before.arguments, HasSubstr(" 1\n"));
}

// Bars of evaluation and of a data set end before training does.
TEST(ReadTrainingLog, TakesTheBarThatRunsLongest) {
  std::string content = "  50%| 500/1000 [00:05<00:05, 99.0it/s]\r 100%| 1000/1000 [00:10<00:00]\n";
  for (int step = 10; step <= 40; step += 10) {
    content += " 1%|#| " + std::to_string(step) + "/440 [0" + std::to_string(step / 10) +
               ":00<2:27:09, 6.00s/it]\r";
    for (int batch = 1; batch <= 3; ++batch) {
      content += " 3%|#| " + std::to_string(batch) + "/60 [00:0" + std::to_string(batch) +
                 "<00:30, 1.0it/s]\r";
    }
  }
  const TrainingLog log = log_of(content);
  EXPECT_EQ(log.format, LogFormat::kProgressBar);
  EXPECT_EQ(log.restarts, 0);
  EXPECT_THAT(steps_of(log), ElementsAre(10, 20, 30, 40));
}

// Eight ranks print each step, some of them after the next one's first.
TEST(ReadTrainingLog, CountsAStepOfManyRanksOnce) {
  std::string content;
  for (int step = 1; step <= 4; ++step) {
    for (int rank = 0; rank < 8; ++rank) {
      const int shown = rank == 7 && step > 1 ? step - 1 : step;
      content += "[rank" + std::to_string(rank) + "]: step: " + std::to_string(shown) +
                 "  loss: 1.5  memory: " + std::to_string(10 + rank) + ".00GiB(1%)  tps: 100\n";
    }
  }
  const TrainingLog log = log_of(content);
  EXPECT_EQ(log.format, LogFormat::kTorchtitan);
  EXPECT_EQ(log.restarts, 0);
  EXPECT_THAT(steps_of(log), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(log.memory.reserved, 17.0 * 1073741824.0);
}

// Megatron-DeepSpeed prints its own lines, those of DeepSpeed's timer, and memory.
TEST(ReadTrainingLog, PrefersTheLinesThatSayMore) {
  std::string content;
  for (int step = 1; step <= 3; ++step) {
    content += "epoch=0/micro_step=1/global_step=" + std::to_string(step) +
               ", RunningAvgSamplesPerSec=1, CurrSamplesPerSec=2, MaxMemAllocated=3.0GB\n" +
               progress(step, 2000);
  }
  content +=
      "[Rank 0] (after 3 iterations) memory (MB) | max allocated: 1024.0 | max reserved: "
      "5120.0\n";
  const TrainingLog log = log_of(content);
  EXPECT_EQ(log.format, LogFormat::kMegatron);
  EXPECT_EQ(log.memory.allocated, 3.0 * 1073741824.0);
  EXPECT_EQ(log.memory.reserved, 5.0 * 1073741824.0);
}

TEST(ReadTrainingLog, KeepsTheLastLinesOfAVeryLongOne) {
  std::string content;
  constexpr std::size_t lines = 2 * kMostLogRecords + 10;
  for (std::size_t step = 1; step <= lines; ++step) {
    content += "steps: " + std::to_string(step) + " loss: 2.0 iter time (s): 0.5 samples/sec: 4\n";
  }
  const TrainingLog log = log_of(content);
  EXPECT_LE(log.records.size(), 2 * kMostLogRecords);
  EXPECT_GE(log.records.size(), kMostLogRecords);
  EXPECT_EQ(log.records.back().step, static_cast<std::int64_t>(lines));
}

TEST(ReadTrainingLog, RefusesAFileWithoutProgress) {
  const TemporaryDirectory directory;
  for (const char* content : {"", "\n\n", "iteration 4 of a book\n"}) {
    const auto file = directory.file("x.log", content);
    EXPECT_THAT(message_of([&] { return read_training_log(file); }),
                HasSubstr("x.log: no line of progress"));
  }
  EXPECT_THAT(message_of([&] { return read_training_log(directory.path()); }),
              HasSubstr("found a directory"));
}

}  // namespace
}  // namespace ptdp
