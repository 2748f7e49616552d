// Tests of the sizes of a job: GPUs, nodes, sequences and batches as people write them.
#include <gmock/gmock.h>

#include <algorithm>

#include <string>
#include <vector>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Runs ptdp-plan with these flags, --top 1 and -v.
ProgramRun plan_with(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--top", "1"});
  if (std::find(flags.begin(), flags.end(), "--format") == flags.end()) {
    flags.emplace_back("-v");
  }
  return run_plan(flags);
}

/// Returns the first line of the answer and what it assumes.
std::string answer(const std::vector<std::string>& flags) {
  const ProgramRun run = plan_with(flags);
  EXPECT_TRUE(succeeds(run));
  return run.output.substr(0, run.output.find('\n')) +
         run.output.substr(run.output.find("\nAssumed"));
}

// Llama 3 70B: 512 sequences of 8192 tokens, 4 Mi tokens, which are 32 sequences of 128 Ki.
TEST(SequenceLength, KeepsTheTokensOfAModelsBatch) {
  const std::vector<std::string> job = {"--gpus",    "64",       "--model",     "llama-3-70b",
                                        "--cluster", "dgx-h100", "--seq-length"};
  const auto at = [&](const char* length, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = job;
    flags.emplace_back(length);
    flags.insert(flags.end(), more.begin(), more.end());
    return answer(flags);
  };
  const std::string longer = at("128k");
  EXPECT_THAT(longer, HasSubstr("sequence length 131072: 128k"));
  EXPECT_THAT(longer, HasSubstr("iteration of 32 sequences"));
  EXPECT_THAT(longer, HasSubstr("global batch size 32: the model's batch of 4194304 tokens (512 "
                                "sequences of 8192)"));
  EXPECT_THAT(at("8192"), HasSubstr("global batch size 512: the model's\n"));
  EXPECT_THAT(at("16K", {"--gbs", "512"}), HasSubstr("iteration of 512 sequences"));
  EXPECT_THAT(at("16384", {"--gbs", "512"}), Not(HasSubstr("global batch size")));
}

// gpt-tiny's 16 sequences of 128 tokens are half a sequence of 4096.
TEST(SequenceLength, LeavesAtLeastOneSequence) {
  EXPECT_THAT(answer({"--gpus", "1", "--model", "gpt-tiny", "--cluster", "selene-a100",
                      "--seq-length", "4k"}),
              HasSubstr("iteration of 1 sequence"));
}

// 4 Mi tokens of 8192 are 512 sequences; 4·10⁶ are 488 and 2304 tokens.
TEST(BatchTokens, AreWholeSequences) {
  const auto of = [](const char* tokens) {
    return answer({"--gpus", "64", "--model", "llama-3-8b", "--cluster", "dgx-h100",
                   "--global-batch-tokens", tokens});
  };
  EXPECT_THAT(of("4M"), HasSubstr("global batch size 512: 4194304 tokens in sequences of 8192\n"));
  EXPECT_THAT(of("4000000"),
              HasSubstr("global batch size 488: 3997696 tokens in sequences of 8192, 2304 fewer"));
  EXPECT_TRUE(is_refused(
      plan_with({"--gpus", "64", "--model", "llama-3-8b", "--global-batch-tokens", "8191"}),
      {"--global-batch-tokens", "8192 tokens", "got 8191"}));
  EXPECT_TRUE(is_refused(
      plan_with({"--gpus", "64", "--model", "llama-3-8b", "--global-batch-tokens", "4G"}),
      {"--global-batch-tokens", "4G", "1k is 1024"}));
}

TEST(BatchPerGpu, MayBeAFraction) {
  const auto of = [](const char* gpus, const char* batch) {
    return plan_with({"--gpus", gpus, "--model", "gpt-tiny", "--cluster", "selene-a100",
                      "--batch-per-gpu", batch});
  };
  EXPECT_THAT(of("32", "1/4").output, HasSubstr("iteration of 8 sequences"));
  EXPECT_THAT(of("32", "1/4").output, HasSubstr("global batch size 8: 1/4 on each of 32 GPUs"));
  EXPECT_THAT(of("32", "3/2").output, HasSubstr("iteration of 48 sequences"));
  EXPECT_THAT(of("32", "2").output, HasSubstr("iteration of 64 sequences"));
  EXPECT_TRUE(is_refused(of("30", "1/4"), {"1/4 on 30 GPUs is 7.5 sequences", "7 or 8"}));
  EXPECT_TRUE(is_refused(of("2", "1/4"), {"is 0.5 sequences", "--global-batch-size 1"}));
  for (const char* batch : {"1/0", "/4", "1/", "1/4/2", "0.25", "1/-4", "/"}) {
    EXPECT_TRUE(is_refused(of("32", batch), {"--batch-per-gpu"})) << batch;
  }
}

TEST(Sizes, TakeBinarySuffixes) {
  const std::string text = answer({"--gpus", "1k", "--model", "22B", "--global-batch-size", "2K"});
  EXPECT_THAT(text, HasSubstr("1024 GPUs: 1k"));
  EXPECT_THAT(text, HasSubstr("global batch size 2048: 2K"));
  EXPECT_THAT(text, HasSubstr("Train 22B on 1024 GPUs"));
  for (const char* gpus : {"k", "1kk", "1.5k", "-1k", "1 k", "0k", "1g", "96M"}) {
    EXPECT_TRUE(is_refused(plan_with({"--gpus", gpus, "--model", "22B"}), {"--gpus", gpus}))
        << gpus;
  }
}

// Nodes of a DGX H100 have eight GPUs, those of the rack GB200 NVL72 have 72.
TEST(Nodes, HaveTheGpusOfTheCluster) {
  EXPECT_THAT(answer({"--nodes", "4", "--model", "llama-3-8b", "--cluster", "dgx-h100"}),
              HasSubstr("32 GPUs: 4 nodes of dgx-h100, 8 GPUs each"));
  EXPECT_THAT(answer({"--nnodes", "1", "--model", "llama-3-8b", "--cluster", "dgx-gb200"}),
              HasSubstr("72 GPUs: 1 node of dgx-gb200, 72 GPUs each"));
  EXPECT_THAT(answer({"--nodes", "1", "--model", "gpt-tiny", "--cluster", "selene-a100"}),
              HasSubstr("8 GPUs: 1 node of selene-a100"));
  EXPECT_TRUE(is_refused(
      plan_with({"--nodes", "0", "--model", "gpt-tiny", "--cluster", "selene-a100"}), {"--nodes"}));
  EXPECT_TRUE(
      is_refused(plan_with({"--nodes", "90M", "--model", "gpt-tiny", "--cluster", "selene-a100"}),
                 {"--nodes"}));
}

// 15 T tokens, as Llama 3 was trained on; decimal factors, since these are counts of a data set.
TEST(Tokens, TakeDecimalSuffixesInAnyCase) {
  const auto days = [](const char* tokens) {
    const ProgramRun run = plan_with({"--gpus", "64", "--model", "llama-3-8b", "--cluster",
                                      "dgx-h100", "--tokens", tokens, "--format", "json"});
    EXPECT_TRUE(succeeds(run));
    return run.output;
  };
  EXPECT_EQ(days("15t"), days("15T"));
  EXPECT_EQ(days("15T"), days("15e12"));
  EXPECT_EQ(days("450b"), days("450000000k"));
}

}  // namespace
}  // namespace ptdp
