// Tests of the names that flags have in other programs.
#include "tools/shared/flag_synonyms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

#include "tools/shared/command_line.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

/// Returns flags, some of which have other names.
boost::program_options::options_description known_flags() {
  boost::program_options::options_description flags("flags");
  auto option = flags.add_options();
  option("gpus", text_value("X"), "GPUs");
  option("micro-batch-size", text_value("X"), "sequences");
  option("precision", text_value("X"), "numbers");
  option("zero-stage", text_value("X"), "what is sharded");
  option("quiet", "says less");
  return flags;
}

TEST(KnownFlag, IsOursASpellingOrASynonym) {
  const auto flags = known_flags();
  EXPECT_EQ(known_flag("micro-batch-size", flags), "micro-batch-size");
  EXPECT_EQ(known_flag("micro_batch_size", flags), "micro-batch-size");
  EXPECT_EQ(known_flag("mbs", flags), "micro-batch-size");
  EXPECT_EQ(known_flag("train_micro_batch_size_per_gpu", flags), "micro-batch-size");
  EXPECT_EQ(known_flag("parallelism.pipeline_parallel_microbatch_size", flags), "micro-batch-size");
  EXPECT_EQ(known_flag("gbs", flags), std::nullopt) << "the command has no --global-batch-size";
  EXPECT_EQ(known_flag("mb", flags), std::nullopt);
  EXPECT_EQ(known_flag("MBS", flags), std::nullopt);
  EXPECT_EQ(known_flag("", flags), std::nullopt);
}

// A command has --precision, --dtype or --types for one thing.
TEST(KnownFlag, IsTheOneThatTheCommandHas) {
  boost::program_options::options_description run("flags");
  run.add_options()("dtype", text_value("X"), "numbers");
  EXPECT_EQ(known_flag("precision", run), "dtype");
  EXPECT_EQ(known_flag("dtype", run), "dtype");
  EXPECT_EQ(known_flag("dtype", known_flags()), "precision");
  boost::program_options::options_description profile("flags");
  profile.add_options()("types", text_value("X"), "numbers");
  EXPECT_EQ(known_flag("precision", profile), "types");
  EXPECT_EQ(known_flag("dtype", profile), "types");
}

TEST(RelatedFlag, IsWhatTheCommandHasForIt) {
  EXPECT_EQ(related_flag("num_gpus", known_flags()), "gpus");
  EXPECT_EQ(related_flag("fsdp", known_flags()), "zero-stage");
  EXPECT_EQ(related_flag("batch-size", known_flags()), std::nullopt);
  EXPECT_EQ(related_flag("mbs", known_flags()), std::nullopt) << "it is the same flag";
}

TEST(WithKnownFlags, LeavesWordsAndValues) {
  const auto known = [](const std::vector<std::string>& arguments) {
    return with_known_flags(arguments, known_flags());
  };
  EXPECT_THAT(
      known({"mbs", "--mbs", "2", "--world-size=8", "--quiet", "-o", "--unknown=mbs"}),
      ElementsAre("mbs", "--micro-batch-size", "2", "--gpus=8", "--quiet", "-o", "--unknown=mbs"));
  EXPECT_THAT(known({"--dtype==x=--mbs"}), ElementsAre("--precision==x=--mbs"));
  EXPECT_THAT(known({"--", "--mbs"}), ElementsAre("--", "--mbs"));
  EXPECT_THAT(known({"--mbs", "1", "--mbs", "2"}),
              ElementsAre("--micro-batch-size", "1", "--micro-batch-size", "2"));
  EXPECT_THAT(known({}), ElementsAre());
  EXPECT_EQ(message_of([&] {
              return known({"--mbs", "1", "--micro_batch_size=1"});
            }),
            "--mbs and --micro_batch_size: expected one of them, got both; they are one flag, "
            "--micro-batch-size");
}

TEST(SynonymsHelp, HasALineForEachFlagThatHasSome) {
  EXPECT_EQ(synonyms_help(known_flags()),
            "\nother names of these flags (with _ for - too):\n"
            "  --gpus: --world-size\n"
            "  --micro-batch-size: --mbs, --train-micro-batch-size-per-gpu, "
            "--pipeline-parallel-microbatch-size\n"
            "  --precision: --dtype\n"
            "  --zero-stage: --zero\n");
  EXPECT_EQ(synonyms_help(boost::program_options::options_description("flags")), "");
}

}  // namespace
}  // namespace ptdp
