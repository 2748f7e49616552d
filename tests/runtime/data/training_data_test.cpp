// Tests of the samples that training takes from its data.
#include "runtime/data/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Returns the little-endian bytes of 16-bit tokens.
std::string bytes_of_tokens(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes.push_back(static_cast<char>(token & 0xFF));
    bytes.push_back(static_cast<char>(token >> 8));
  }
  return bytes;
}

std::vector<int> ascending(int count) {
  std::vector<int> tokens(count);
  for (int i = 0; i < count; ++i) {
    tokens[i] = i;
  }
  return tokens;
}

std::string message_for(const std::filesystem::path& path, int vocab_size = 1000,
                        int seq_length = 4) {
  return error_of([&] { (void)TrainingData::from_file({path}, vocab_size, seq_length, 1); });
}

TEST(TrainingData, TakesEveryWindowOfAFileAndNoOther) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(20)));
  const TrainingData data = TrainingData::from_file({path}, 20, /*seq_length=*/4, /*seed=*/1);
  std::set<int> begins;
  for (int g = 0; g < 400; ++g) {
    const auto sample = data.sample(g);
    ASSERT_EQ(sample.size(), 5U);
    for (int i = 0; i < 5; ++i) {
      ASSERT_EQ(sample[i], sample[0] + i);
    }
    begins.insert(sample[0]);
  }
  EXPECT_EQ(begins.size(), 16U);  // 0 … 15, the last with targets up to 19
  EXPECT_EQ(*begins.rbegin(), 15);
}

TEST(TrainingData, DrawsWindowsUniformlyOverALargeFile) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(60'001)));
  const TrainingData data = TrainingData::from_file({path}, 65'536, /*seq_length=*/1, /*seed=*/9);
  double sum = 0.0;
  double squares = 0.0;
  const int num_samples = 20'000;
  for (int g = 0; g < num_samples; ++g) {
    const double place = data.sample(g)[0] / 60'000.0;
    sum += place;
    squares += place * place;
  }
  // Standard errors of uniform numbers: 0.289/√20,000 = 0.002 and 0.298/√20,000 = 0.002.
  EXPECT_NEAR(sum / num_samples, 1.0 / 2.0, 0.01);
  EXPECT_NEAR(squares / num_samples, 1.0 / 3.0, 0.01);
}

TEST(TrainingData, ReadsTokensAbove32767) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens({50256, 40000}));
  EXPECT_THAT(TrainingData::from_file({path}, 50257, 1, 1).sample(0), ElementsAre(50256, 40000));
}

TEST(TrainingData, DependsOnSeedAndSampleAlone) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(5000)));
  const auto data = TrainingData::from_file({path}, 5000, 8, 1);
  const auto later = data.sample(77);
  EXPECT_EQ(TrainingData::from_file({path}, 5000, 8, 1).sample(77), later);
  EXPECT_NE(TrainingData::from_file({path}, 5000, 8, 2).sample(77), later);
  EXPECT_NE(data.sample(78), later);
}

TEST(TrainingData, BatchesPositionByPositionWithTargetsOneLater) {
  const TrainingData data =
      TrainingData::synthetic(/*vocab_size=*/50, /*seq_length=*/6, /*seed=*/4);
  const TokenBatch batch = data.batch(/*first=*/10, /*count=*/3);
  ASSERT_EQ(batch.tokens.size(), 18U);
  ASSERT_EQ(batch.targets.size(), 18U);
  for (int sample = 0; sample < 3; ++sample) {
    const auto tokens = data.sample(10 + sample);
    for (int position = 0; position < 6; ++position) {
      EXPECT_EQ(batch.tokens[position * 3 + sample], tokens[position]);
      EXPECT_EQ(batch.targets[position * 3 + sample], tokens[position + 1]);
    }
  }
}

TEST(TrainingData, KnowsTheEntropyOfTheSyntheticLanguageOnly) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(20)));
  EXPECT_NEAR(TrainingData::synthetic(50, 6, 4).entropy().value(), 1.10974, 1e-5);
  EXPECT_FALSE(TrainingData::from_file({path}, 20, 4, 1).entropy().has_value());
}

TEST(TrainingData, RefusesFilesTooShortForOneSample) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(4)));
  EXPECT_THAT(message_for(path), HasSubstr("tokens.bin: 4 tokens, expected 5 at least"));
  EXPECT_THAT(message_for(directory.file("empty.bin", "")), HasSubstr("0 tokens, expected 5"));
  EXPECT_EQ(TrainingData::from_file({path}, 5, 3, 1).describe(), "4 tokens of uint16 (raw)");
  EXPECT_EQ(message_for(directory.file("enough.bin", bytes_of_tokens(ascending(5)))),
            "nothing thrown");
}

TEST(TrainingData, RefusesWhatIsNoReadableFile) {
  const TemporaryDirectory directory;
  EXPECT_THAT(message_for(directory.path() / "missing.bin"),
              HasSubstr("missing.bin: cannot be read: No such file or directory"));
  EXPECT_THAT(message_for(directory.path()), HasSubstr("expected a file, found a directory"));
  const auto pipe = directory.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(message_for(pipe), HasSubstr("expected a regular file, found a pipe or device"));
}

TEST(TrainingData, SaysWhenAFileIsCutWhileInUse) {
  const TemporaryDirectory directory;
  const auto path = directory.file("tokens.bin", bytes_of_tokens(ascending(100)));
  const auto data = TrainingData::from_file({path}, 100, 90, 1);
  std::filesystem::resize_file(path, 20);
  EXPECT_THAT(error_of([&] { (void)data.sample(0); }), HasSubstr("tokens.bin: ends at byte 20"));
}

}  // namespace
}  // namespace ptdp
