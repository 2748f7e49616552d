// Tests of commands in texts, as the user types them.
#include "cost_model/text/as_typed.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ptdp {
namespace {

class AsTyped : public testing::Test {
 protected:
  void TearDown() override { set_typed_command(before_); }

 private:
  const char* before_ = program_invocation_short_name;
};

TEST_F(AsTyped, IsTheTextItselfForCommandsOfTheirOwn) {
  for (const char* typed : {"ptdp-plan", "ptdp", "of_another_project"}) {
    set_typed_command(typed);
    EXPECT_EQ(as_typed("Next: ptdp-plan show a.json"), "Next: ptdp-plan show a.json") << typed;
  }
}

TEST_F(AsTyped, HasABlankInEachCommandForThoseOfPtdp) {
  set_typed_command("ptdp plan");
  EXPECT_EQ(as_typed("ptdp-plan"), "ptdp plan");
  EXPECT_EQ(as_typed("(`ptdp-plan list models`), ptdp-run's, ptdp-sim"),
            "(`ptdp plan list models`), ptdp run's, ptdp sim");
  EXPECT_EQ(as_typed("ptdp-validate\nptdp-calibrate, ptdp-profile: ptdp-"),
            "ptdp validate\nptdp calibrate, ptdp profile: ptdp-");
}

TEST_F(AsTyped, LeavesLongerNamesAlone) {
  set_typed_command("ptdp run");
  for (const char* name : {"ptdp-cpu", "ptdp-plans", "ptdp-run-step", "bin/ptdp-run", "my-ptdp-sim",
                           "ptdp-COMMAND", ""}) {
    EXPECT_EQ(as_typed(name), name);
  }
}

}  // namespace
}  // namespace ptdp
