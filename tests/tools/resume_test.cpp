// Tests of ptdp-run --resume: where it goes on, what it says, and that it ends like a whole run.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

void write(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// A plan of four ranks, and a run of six steps of it that saved every step into "whole".
class WholeRun {
 public:
  WholeRun() : plan_(plan_of_four_ranks()) {
    EXPECT_TRUE(succeeds(run({"--quiet", "--steps", "6", "--save", in("whole"), "--save-every", "1",
                              "-o", in("whole.json")})));
  }
  [[nodiscard]] std::string in(const std::string& name) const { return plan_.in(name); }
  [[nodiscard]] ProgramRun run(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), plan_.path());
    return run_run(flags);
  }
  /// Returns a directory of checkpoints as a run leaves it that ended after `step` steps.
  [[nodiscard]] std::string kept_until(int step) const {
    const fs::path kept = in("kept");
    fs::remove_all(kept);
    for (int i = 0; i <= step; ++i) {
      const std::string name = "step-0000000" + std::to_string(i);
      fs::create_directories(kept / name);
      fs::copy(fs::path(in("whole")) / name, kept / name);
    }
    return kept.string();
  }
  /// Runs the command line that was ended once more.
  [[nodiscard]] ProgramRun again(const std::string& kept, const std::string& steps) const {
    return run({"--steps", steps, "--save", kept, "--save-every", "1", "--resume", kept, "-o",
                in("again.json")});
  }
  /// Whether step 6 of the directory has the bits of the whole run.
  [[nodiscard]] bool has_its_bits(const std::string& kept) const {
    const auto shard = [](const fs::path& directory, int rank) {
      return content_of(directory / "step-00000006" /
                        ("rank-0000" + std::to_string(rank) + ".bin"));
    };
    bool is_equal = true;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string expected = shard(in("whole"), rank);
      is_equal = is_equal && !expected.empty() && shard(kept, rank) == expected;
    }
    return is_equal;
  }

 private:
  PlanFile plan_;
};

TEST(ResumedRun, EndsAtTheLastStepOfTheTrainingWithItsBits) {
  const WholeRun whole;
  const json losses = json::parse(content_of(whole.in("whole.json")))["losses"];
  for (const int step : {0, 2, 5}) {
    const std::string kept = whole.kept_until(step);
    const ProgramRun run = whole.again(kept, "6");
    EXPECT_TRUE(ends_with(run, kDone));
    EXPECT_THAT(run.errors,
                AllOf(HasSubstr("going on from step " + std::to_string(step) + " of 6: " + kept +
                                "/step-0000000" + std::to_string(step) + "\n"),
                      HasSubstr("step 6/6  loss"), Not(HasSubstr("--lr-decay"))));
    EXPECT_TRUE(whole.has_its_bits(kept)) << step;
    const json report = json::parse(content_of(whole.in("again.json")));
    EXPECT_EQ(report["execution"]["first_step"], step);
    EXPECT_EQ(report["execution"]["steps"], 6 - step);
    EXPECT_EQ(report["execution"]["warm_up"], std::min(2, 5 - step));
    EXPECT_FALSE(report["execution"].contains("requested_steps"));
    EXPECT_EQ(report["losses"], json(std::vector<json>(losses.begin() + step, losses.end())));
  }
}

TEST(ResumedRun, CountsOverTheTrainingWhereItEndsEarly) {
  const WholeRun whole;
  const ProgramRun run =
      whole.run({"--quiet", "--steps", "6", "--resume", whole.kept_until(2), "-o",
                 whole.in("again.json"), "--inject", "rank=3,kind=B,step=5,what=throw"});
  EXPECT_TRUE(ends_with(run, kRuntimeFault));
  EXPECT_THAT(run.errors, HasSubstr("of step 5: a fault on purpose"));
  EXPECT_THAT(run.output, HasSubstr("Ended after 4 of 6 steps."));
  const json execution = json::parse(content_of(whole.in("again.json")))["execution"];
  EXPECT_EQ(execution["first_step"], 2);
  EXPECT_EQ(execution["steps"], 2);  // 3 and 4
  EXPECT_EQ(execution["requested_steps"], 4);
}

TEST(ResumedRun, DoesNothingWhereAllStepsAreDone) {
  const WholeRun whole;
  const std::string kept = whole.kept_until(6);
  const std::vector<std::string> before = entries_of(kept);
  write(whole.in("again.json"), "the report of the run before");
  for (const std::string steps : {"6", "4"}) {
    const ProgramRun run = whole.again(kept, steps);
    EXPECT_TRUE(ends_with(run, kDone));
    EXPECT_THAT(run.output, IsEmpty());
    EXPECT_EQ(run.errors, "ptdp-run: nothing to do: " + kept +
                              "/step-00000006 is of step 6, and "
                              "--steps " +
                              steps + " is the training's length; \"" + whole.in("again.json") +
                              "\" is not written\n");
  }
  EXPECT_EQ(entries_of(kept), before);
  EXPECT_EQ(content_of(whole.in("again.json")), "the report of the run before");
}

TEST(ResumedRun, NamesWhatItPassesOverAndWhereItGoesOn) {
  const WholeRun whole;
  const std::string kept = whole.kept_until(4);
  write(kept + "/step-00000004/rank-00002.bin", "short");
  fs::remove(kept + "/step-00000003/manifest.json");
  const ProgramRun run = whole.again(kept, "6");
  EXPECT_TRUE(ends_with(run, kDone));
  EXPECT_THAT(run.errors,
              AllOf(HasSubstr("step-00000004/rank-00002.bin: 5 bytes, expected "),
                    HasSubstr("step-00000003/manifest.json: cannot be read: No such file or "
                              "directory; passed over\n"
                              "ptdp-run: going on from step 2 of 6: " +
                              kept + "/step-00000002\n")));
  EXPECT_TRUE(whole.has_its_bits(kept));
}

TEST(ResumedRun, SaysThatALongerTrainingDecaysLater) {
  const WholeRun whole;
  const std::string kept = whole.kept_until(6);
  EXPECT_THAT(
      whole.again(kept, "8").errors,
      AllOf(HasSubstr("going on from step 6 of 8: "),
            HasSubstr("the learning rate comes to its lowest at step 8; in the run that saved "
                      "this checkpoint it was to do so at step 6")));
  const ProgramRun run = whole.run({"--steps", "9", "--lr-decay", "8", "--resume", kept});
  EXPECT_THAT(run.errors,
              AllOf(HasSubstr("going on from step 8 of 9: "), Not(HasSubstr("the learning rate"))));
}

// The directory may have two names. Initial values are rounded once more if they come from masters,
// in a new and in a resumed run alike.
TEST(ResumedRun, HasTheBitsOfHalfPrecisionFromInitialValuesOn) {
  const TemporaryDirectory directory;
  const auto in = [&](const std::string& name) { return (directory.path() / name).string(); };
  ASSERT_TRUE(succeeds(
      run_plan({"--gpus", "1", "--model", "gpt-tiny", "--cluster", "host", "--micro-batch-size",
                "2", "--global-batch-size", "2", "-o", in("plan.json")})));
  for (const std::string type : {"bf16", "fp16"}) {
    const auto losses = [&](const std::vector<std::string>& more) {
      std::vector<std::string> flags = {in("plan.json"), "--quiet", "--steps",  "1",
                                        "--dtype",       type,      "--format", "json",
                                        "--save",        in(type)};
      flags.insert(flags.end(), more.begin(), more.end());
      return json::parse(run_run(flags).output)["losses"];
    };
    const json whole = losses({});
    fs::remove_all(directory.path() / type / "step-00000001");
    EXPECT_EQ(losses({"--resume", in(type)}), whole) << type;
  }
}

TEST(ResumedRun, BeginsWhereTheSavedDirectoryIsEmpty) {
  const WholeRun whole;
  const ProgramRun run =
      whole.run({"--steps", "2", "--save", whole.in("kept"), "--resume", whole.in("kept/")});
  EXPECT_TRUE(ends_with(run, kDone));
  EXPECT_THAT(run.errors, HasSubstr("kept/: no checkpoint yet, beginning at step 0\n"));
  EXPECT_TRUE(is_refused(whole.run({"--quiet", "--resume", whole.in("other")}), {"other"}));
}

}  // namespace
}  // namespace ptdp
