// Tests of the flags of ptdp-run: what they ask for, and which values no run can have.
#include "tools/run/run_flags.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

CommandLine run_line(std::vector<std::string> flags) {
  const boost::program_options::options_description known = run_flags();
  flags.insert(flags.begin(), "ptdp-run");
  std::vector<const char*> arguments;
  arguments.reserve(flags.size());
  for (const std::string& flag : flags) {
    arguments.push_back(flag.c_str());
  }
  return {static_cast<int>(arguments.size()), arguments.data(), known};
}

/// Reads a request as ptdp-run does.
RunRequest run_request(const std::vector<std::string>& flags) {
  const CommandLine line = run_line(flags);
  RunRequest request = parse_request(line);
  finish_learning_rate(line, request);
  static_cast<void>(parse_checkpoint(line));
  return request;
}

// As --help has them; --min-lr is a tenth of --lr.
TEST(RunRequest, HasTheDefaultsWithoutFlags) {
  const RunRequest request = run_request({});
  EXPECT_EQ(request.training_steps, 10);
  EXPECT_EQ(request.steps, 10);
  EXPECT_EQ(request.warm_up, 2);
  EXPECT_EQ(request.seed, 1U);
  EXPECT_DOUBLE_EQ(request.learning_rate.maximum, 6e-4);
  EXPECT_DOUBLE_EQ(request.learning_rate.minimum, 6e-5);
  EXPECT_EQ(request.learning_rate.warm_up_steps, 0);
  EXPECT_EQ(request.learning_rate.decay_steps, 10);
  EXPECT_EQ(request.weight_decay, 0.1);
  EXPECT_EQ(request.gradient_clip, 1.0);
  // The plan decides.
  EXPECT_FALSE(request.precision);
  EXPECT_FALSE(request.dropout);
  EXPECT_FALSE(request.overlap);
  EXPECT_FALSE(request.device);
  EXPECT_FALSE(request.uses_nccl);
  EXPECT_FALSE(request.is_reproducible);
  EXPECT_FALSE(request.allows_other_gpu);
  EXPECT_FALSE(run_request({"--transport", "threads"}).uses_nccl.value());
}

// One step at least is measured.
TEST(RunRequest, WarmsUpForTwoStepsOrOneLessThanThereAre) {
  for (const auto& [steps, warm_up] : {std::pair(1, 0), {2, 1}, {3, 2}, {4, 2}}) {
    EXPECT_EQ(run_request({"--steps", std::to_string(steps)}).warm_up, warm_up) << steps;
  }
  EXPECT_EQ(run_request({"--shrink"}).steps, 1);
  EXPECT_EQ(run_request({"--shrink"}).warm_up, 0);
}

TEST(RunRequest, HasEveryFlagInAFieldOfItsOwn) {
  const RunRequest request = run_request({"--steps",
                                          "40",
                                          "--warm-up",
                                          "7",
                                          "--seed",
                                          "5",
                                          "--dtype",
                                          "bf16",
                                          "--data",
                                          "t.bin",
                                          "--data-type",
                                          "uint32",
                                          "--orders",
                                          "o.csv",
                                          "--dropout",
                                          "0.25",
                                          "--microbatches",
                                          "6",
                                          "--shrink",
                                          "--lr",
                                          "0.5",
                                          "--clip",
                                          "2.5",
                                          "--min-lr",
                                          "0.125",
                                          "--lr-warm-up",
                                          "3",
                                          "--lr-decay",
                                          "30",
                                          "--weight-decay",
                                          "0.75",
                                          "--device",
                                          "cuda",
                                          "--transport",
                                          "nccl",
                                          "--reproducible",
                                          "--allow-other-gpu",
                                          "--overlap",
                                          "reductions"});
  EXPECT_EQ(request.training_steps, 40);
  EXPECT_EQ(request.steps, 40);
  EXPECT_EQ(request.warm_up, 7);
  EXPECT_EQ(request.seed, 5U);
  EXPECT_EQ(request.precision, Precision::kBf16);
  EXPECT_EQ(request.data, "t.bin");
  EXPECT_EQ(request.data_type, TokenType::kUint32);
  EXPECT_EQ(request.orders, "o.csv");
  EXPECT_EQ(request.dropout, 0.25);
  EXPECT_EQ(request.microbatches, 6);
  EXPECT_TRUE(request.shrinks);
  EXPECT_EQ(request.learning_rate.maximum, 0.5);
  EXPECT_EQ(request.learning_rate.minimum, 0.125);
  EXPECT_EQ(request.learning_rate.warm_up_steps, 3);
  EXPECT_EQ(request.learning_rate.decay_steps, 30);
  EXPECT_EQ(request.weight_decay, 0.75);
  EXPECT_EQ(request.gradient_clip, 2.5);
  EXPECT_EQ(request.device, DeviceKind::kCuda);
  EXPECT_EQ(request.uses_nccl, true);
  EXPECT_TRUE(request.is_reproducible);
  EXPECT_TRUE(request.allows_other_gpu);
  ASSERT_TRUE(request.overlap);
  EXPECT_TRUE(request.overlap->reductions);
  EXPECT_FALSE(request.overlap->messages);
  for (const auto& [type, precision] : {std::pair("f64", Precision::kFp64),
                                        {"f32", Precision::kFp32},
                                        {"fp32", Precision::kFp32},
                                        {"float64", Precision::kFp64},
                                        {"bf16", Precision::kBf16},
                                        {"bfloat16", Precision::kBf16},
                                        {"fp16", Precision::kFp16}}) {
    EXPECT_EQ(run_request({"--dtype", type}).precision, precision);
  }
  EXPECT_EQ(run_request({"--data", "t", "--data-type", "uint16"}).data_type, TokenType::kUint16);
  EXPECT_EQ(run_request({"--device", "cpu"}).device, DeviceKind::kCpu);
}

// Each value that no run can have is refused, and the nearest possible value is accepted.
TEST(RunRequest, RefusesWhatIsBeyondTheBoundsAndTakesTheBounds) {
  struct Row {
    std::vector<std::string> refused;
    std::string message;
    std::vector<std::string> taken;
  };
  const std::string steps = "a whole number from 1 to 1000000000";
  for (const Row& row : std::vector<Row>{
           {{"--steps", "0"}, "--steps: expected " + steps + ", got \"0\"", {"--steps", "1"}},
           {{"--steps", "1000000001"},
            "--steps: expected " + steps + ", got \"1000000001\"",
            {"--steps", "1000000000"}},
           {{"--steps", "5", "--warm-up", "5"},
            "--warm-up: expected a whole number from 0 to 4, got \"5\"",
            {"--steps", "5", "--warm-up", "4"}},
           {{"--steps", "1", "--warm-up", "1"},
            "--warm-up: expected a whole number from 0 to 0, got \"1\"",
            {"--steps", "1", "--warm-up", "0"}},
           {{"--seed", "-1"},
            "--seed: expected a whole number from 0 to 9223372036854775807, got \"-1\"",
            {"--seed", "0"}},
           {{"--dropout", "0.991"},
            "--dropout: expected a number from 0 to 0.99, got \"0.991\"",
            {"--dropout", "0.99"}},
           {{"--lr", "1000.5"},
            "--lr: expected a number from 0 to 1000, got \"1000.5\"",
            {"--lr", "1000"}},
           {{"--lr", "0.25", "--min-lr", "0.26"},
            "--min-lr: expected a number from 0 to 0.25, got \"0.26\"",
            {"--lr", "0.25", "--min-lr", "0.25"}},
           {{"--lr-warm-up", "11"},
            "--lr-warm-up: expected at most the 10 steps of --lr-decay, got 11",
            {"--lr-warm-up", "10"}},
           {{"--lr-decay", "4", "--lr-warm-up", "5"},
            "--lr-warm-up: expected at most the 4 steps of --lr-decay, got 5",
            {"--lr-decay", "12", "--lr-warm-up", "12"}},
           {{"--lr-decay", "0"},
            "--lr-decay: expected " + steps + ", got \"0\"",
            {"--lr-decay", "1"}},
           {{"--weight-decay", "1001"},
            "--weight-decay: expected a number from 0 to 1000, got \"1001\"",
            {"--weight-decay", "1000"}},
           {{"--clip", "-0.1"},
            "--clip: expected a number from 0 to 1e+30, got \"-0.1\"",
            {"--clip", "0"}},
           {{"--data-type", "uint16"},
            "--data-type: expected together with --data FILE",
            {"--data-type", "uint16", "--data", "t.bin"}},
           {{"--data",
             "a\x1F"
             "b"},
            R"(--data: expected a path without control characters, got "a\x1fb")",
            {"--data", "a b"}},
           {{"--data", "a\x7F"},
            R"(--data: expected a path without control characters, got "a\x7f")",
            {"--data", "a~"}},
           {{"--microbatches", "2"},
            "--microbatches: expected together with --shrink; without it the plan's are run",
            {"--microbatches", "1", "--shrink"}},
           {{"--microbatches", "0", "--shrink"},
            "--microbatches: expected " + steps + ", got \"0\"",
            {"--microbatches", "2", "--shrink"}},
           {{"--save-every", "2"},
            "--save-every: expected together with --save DIR",
            {"--save-every", "1", "--save", "there"}},
           {{"--save-every", "0", "--save", "there"},
            "--save-every: expected " + steps + ", got \"0\"",
            {"--save", "there"}},
           {{"--transport", "udp"},
            "--transport: expected one of threads, mpi, tcp, nccl, nccl-threads, got \"udp\"",
            {"--transport", "tcp"}}}) {
    EXPECT_EQ(message_of([&] { return run_request(row.refused); }), row.message);
    EXPECT_EQ(message_of([&] { return run_request(row.taken); }), "nothing was thrown")
        << row.message;
  }
}

TEST(CheckpointFlags, SayWhereAndHowOften) {
  EXPECT_FALSE(parse_checkpoint(run_line({})).save_to);
  const CheckpointOptions at_the_end = parse_checkpoint(run_line({"--save", "there"}));
  EXPECT_EQ(at_the_end.save_to, "there");
  EXPECT_EQ(at_the_end.save_every, 0);
  EXPECT_EQ(parse_checkpoint(run_line({"--save", "there", "--save-every", "3"})).save_every, 3);
}

// What is written into a checkpoint would make it another than it says.
TEST(OutputFlags, NameNoFileOfACheckpointNorOfOneAnother) {
  const TemporaryDirectory directory;
  const std::string saved = (directory.path() / "saved").string();
  const std::string resumed = (directory.path() / "resumed").string();
  std::filesystem::create_directories(saved + "/step-00000003");
  std::filesystem::create_directories(resumed + "/step-00000004/below");
  const auto checked = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"plan.json", "--save", saved, "--resume", resumed});
    return message_of([&] {
      check_outputs(run_line(flags));
      return 0;
    });
  };
  struct Row {
    std::string flag;
    std::string file;
    std::string of;
  };
  for (const Row& row : {Row{"--output", saved + "/step-00000003/run.json", "--save"},
                         Row{"--trace", saved + "/step-00000003/x", "--save"},
                         Row{"--dump-actions", resumed + "/step-00000004/y", "--resume"},
                         Row{"--output", resumed + "/step-00000004/below/../z", "--resume"}}) {
    EXPECT_THAT(checked({row.flag, row.file}),
                testing::StartsWith(row.flag + ": expected a file outside the checkpoints of " +
                                    row.of + ", got \""));
  }
  for (const std::string& file : {saved + "/run.json", resumed + "/step-00000004/below/run.json",
                                  (directory.path() / "run.json").string()}) {
    EXPECT_EQ(checked({"--output", file}), "nothing was thrown") << file;
  }
  EXPECT_THAT(checked({"--output", saved + "/a", "--trace", saved + "/a"}),
              testing::StartsWith("--trace: expected another file than --output, got \""));
}

TEST(OutputFlags, MakeTheDirectoryOfCheckpoints) {
  const TemporaryDirectory directory;
  const std::string saved = (directory.path() / "a" / "b").string();
  check_outputs(run_line({"plan.json", "--save", saved}));
  EXPECT_TRUE(std::filesystem::is_directory(saved));
  const std::string file = directory.file("file", "").string();
  for (const std::string& path : {file, file + "/below"}) {
    const auto check = [&] {
      check_outputs(run_line({"plan.json", "--save", path}));
      return 0;
    };
    EXPECT_THAT(message_of(check, ExitStatus::kOutputFailed),
                testing::AllOf(testing::StartsWith("--save: \""),
                               testing::EndsWith("\" cannot be made a directory")));
  }
}

}  // namespace
}  // namespace ptdp
