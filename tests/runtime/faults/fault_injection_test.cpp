// Tests of injected faults: what their text means, and where they happen.
#include "runtime/faults/fault_injection.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "cost_model/error.h"
#include "tests/support/error_of.h"

namespace ptdp::testing {
namespace {

using ::testing::HasSubstr;

TEST(InjectedFault, IsReadFromItsText) {
  const InjectedFault fault =
      parse_injected_fault("rank=3,action=2F0,step=1,what=hang", "--inject");
  EXPECT_EQ(fault.rank, 3);
  EXPECT_EQ(fault.action, (Action{ActionKind::kForward, 2, 0}));
  EXPECT_EQ(fault.step, 0);
  EXPECT_EQ(fault.what, FaultKind::kHang);
  const InjectedFault slow = parse_injected_fault("what=slow:2.5,kind=SEND_F,rank=0", "--inject");
  EXPECT_EQ(slow.kind, ActionKind::kSendForward);
  EXPECT_EQ(slow.factor, 2.5);
  EXPECT_FALSE(slow.step);
}

TEST(InjectedFault, HasTheKindThatIsNamedWithinItsBounds) {
  for (const auto& [name, kind] : {std::pair("throw", FaultKind::kThrow),
                                   {"alloc", FaultKind::kAlloc},
                                   {"exit", FaultKind::kExit},
                                   {"kill", FaultKind::kKill},
                                   {"stop", FaultKind::kStop},
                                   {"hang", FaultKind::kHang},
                                   {"slow:1", FaultKind::kSlow},
                                   {"slow:1000", FaultKind::kSlow}}) {
    EXPECT_EQ(parse_injected_fault("rank=0,what=" + std::string(name), "--inject").what, kind);
  }
  const InjectedFault last =
      parse_injected_fault("rank=1048576,step=1099511627776,what=throw", "--inject");
  EXPECT_EQ(last.rank, 1048576);
  EXPECT_EQ(last.step, 1099511627775);
  const auto message = [](const std::string& text) {
    return error_of([&] { (void)parse_injected_fault(text, "--inject"); });
  };
  EXPECT_EQ(message("rank=1048577,what=throw"),
            "--inject: expected a rank from 0 to 1048576, got \"1048577\"");
  EXPECT_EQ(message("rank=1,step=0,what=throw"),
            "--inject: expected a step from 1 to 1099511627776, got \"0\"");
  EXPECT_EQ(message("rank=1,what=slow:1000.5"),
            "--inject: expected a factor from 1 to 1000, got \"1000.5\"");
  EXPECT_EQ(message("rank=1,what=throw,action=2F0 2F1"),
            "--inject: expected one action such as 2F0, got \"2F0 2F1\"");
  EXPECT_EQ(message("rank=1,where=2F0"),
            "--inject: expected rank=, action=, kind=, step= or what=, got \"where=2F0\"");
  EXPECT_EQ(message("rank=1,step=2"),
            "--inject: expected rank=N and what=FAULT at least, got \"rank=1,step=2\"");
}

TEST(InjectedFault, IsRefusedWhereItsTextIsNone) {
  struct Row {
    const char* text;
    const char* mentions;
  };
  for (const Row row :
       {Row{"", "rank=N and what=FAULT"}, Row{"rank=1", "what=FAULT"}, Row{"what=throw", "rank=N"},
        Row{"rank=-1,what=throw", "a rank"}, Row{"rank=1,what=explode", "explode"},
        Row{"rank=1,what=slow", "slow"}, Row{"rank=1,what=slow:0.5", "a factor"},
        Row{"rank=1,what=slow:x", "x"}, Row{"rank=1,what=throw:2", "throw:2"},
        Row{"rank=1,what=throw,step=0", "0"}, Row{"rank=1,what=throw,kind=Q", "Q"},
        Row{"rank=1,what=throw,action=2Q0", "2Q0"},
        Row{"rank=1,what=throw,action=2F0 2F1", "one action"},
        Row{"rank=1,what=throw,where=2F0", "where"}}) {
    EXPECT_THAT(error_of([&] { (void)parse_injected_fault(row.text, "--inject"); }),
                HasSubstr(row.mentions))
        << row.text;
  }
}

/// Whether the hooks of this rank throw before the action.
bool throws(const ActionHooks& hooks, std::int64_t step, const Action& action) {
  try {
    hooks.before(step, action, Lane::kCompute);
    hooks.after(Lane::kCompute);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
    return true;
  }
}

TEST(InjectedFaults, HappenOnceAndWhereTheyAreMeantTo) {
  const std::vector<InjectedFault> faults = {
      parse_injected_fault("rank=1,kind=F,step=2,what=throw", "--inject")};
  EXPECT_FALSE(injected_faults(faults, 0).before);
  const ActionHooks hooks = injected_faults(faults, 1);
  EXPECT_FALSE(throws(hooks, 0, {ActionKind::kForward, 1, 0}));
  EXPECT_FALSE(throws(hooks, 1, {ActionKind::kBackward, 1, 0}));
  EXPECT_TRUE(throws(hooks, 1, {ActionKind::kForward, 1, 0}));
  EXPECT_FALSE(throws(hooks, 1, {ActionKind::kForward, 1, 1}));
}

// A fault of one action and one of a step: each happens once, whichever comes first, also where
// another action follows the first without a pause.
TEST(InjectedFaults, AreEachOnTheirOwn) {
  const std::vector<InjectedFault> faults = {
      parse_injected_fault("rank=2,action=1F3,what=throw", "--inject"),
      parse_injected_fault("rank=2,step=5,what=throw", "--inject"),
      parse_injected_fault("rank=3,what=throw", "--inject")};
  const ActionHooks hooks = injected_faults(faults, 2);
  EXPECT_FALSE(throws(hooks, 0, {ActionKind::kForward, 1, 2}));
  EXPECT_FALSE(throws(hooks, 0, {ActionKind::kForward, 0, 3}));
  EXPECT_FALSE(throws(hooks, 0, {ActionKind::kBackward, 1, 3}));
  EXPECT_TRUE(
      throws(hooks, 0,
             {.kind = ActionKind::kForward, .stage = 1, .microbatch = 3, .overlaps_next = true}));
  EXPECT_FALSE(throws(hooks, 1, {ActionKind::kForward, 1, 3}));
  EXPECT_TRUE(throws(hooks, 4, {ActionKind::kBackward, 0, 0}));
  EXPECT_FALSE(throws(hooks, 4, {ActionKind::kBackward, 0, 1}));
}

TEST(InjectedFaults, AreOfTheBackendWhereMemoryIsMeant) {
  const std::vector<InjectedFault> faults = {parse_injected_fault("rank=0,what=alloc", "--inject")};
  const ActionHooks hooks = injected_faults(faults, 0);
  EXPECT_THROW(hooks.before(0, {ActionKind::kForward, 0, 0}, Lane::kCompute), OutOfMemory);
}

TEST(InjectedFaults, MakeActionsSlow) {
  const std::vector<InjectedFault> faults = {
      parse_injected_fault("rank=0,what=slow:4", "--inject")};
  const ActionHooks hooks = injected_faults(faults, 0);
  const auto start = std::chrono::steady_clock::now();
  hooks.before(0, {ActionKind::kForward, 0, 0}, Lane::kCompute);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  hooks.after(Lane::kCompute);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

}  // namespace
}  // namespace ptdp::testing
