// Tests that messages between processes are read as they were sent, and that nothing else is
// accepted.
#include "runtime/faults/control_message.h"

#include <gtest/gtest.h>

namespace ptdp::testing {
namespace {

TEST(ControlMessage, BringsActivitiesToTheClockOfTheReceiver) {
  const std::vector<RankActivity> sent = {
      {.rank = 3,
       .lane = Lane::kData,
       .state = {.events = 12,
                 .is_active = true,
                 .now = {.action = Action{ActionKind::kReduceGradients, 5, 1},
                         .step = 9,
                         .start = 1'000},
                 .waits_since = 1'400},
       .longest = Seconds(2.0)},
      {.rank = 4,
       .state = {.events = 2, .is_active = true, .now = {.phase = Phase::kSaving, .start = 1'900}}},
      {.rank = 5}};  // never in anything
  const auto received = parse_beat(beat_text(sent, 2'000), 50'000);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->size(), 2U);
  const RankActivity& first = received->front();
  EXPECT_EQ(first.rank, 3);
  EXPECT_EQ(first.lane, Lane::kData);
  EXPECT_EQ(first.state.events, 12);
  EXPECT_EQ(place_of(first.state.now), "5REDUCE_GRAD1 of step 10");
  EXPECT_EQ(first.state.now.start, 49'000);
  EXPECT_EQ(first.state.waits_since, 49'400);
  EXPECT_EQ(first.longest.value(), 2.0);
  EXPECT_TRUE(received->back().state.is_working());
  EXPECT_EQ(place_of(received->back().state.now), place_of(sent[1].state.now));
}

TEST(ControlMessage, KeepsAFaultOnOneLine) {
  const RunFault fault{.rank = 3, .place = "2F0 of step 4", .what = "two\nlines\tand a tab"};
  const std::string line = fault_text(fault);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto received = parse_fault(line);
  ASSERT_TRUE(received);
  EXPECT_EQ(to_string(*received), "rank 3: 2F0 of step 4: two lines and a tab");
}

TEST(ControlMessage, BringsAFaultWhole) {
  for (const RunFault& sent :
       {RunFault{.rank = 7, .place = "its start", .what = "gone", .signal = 15},
        RunFault{.rank = -1, .place = "", .what = "", .signal = 64}}) {
    const auto fault = parse_fault(fault_text(sent));
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->rank, sent.rank);
    EXPECT_EQ(fault->place, sent.place);
    EXPECT_EQ(fault->what, sent.what);
    EXPECT_EQ(fault->signal, sent.signal);
  }
  EXPECT_FALSE(parse_fault("fault 7 65\tplace\twhat"));
}

// The messages are of a rank between two actions, and of one that waits since the moment of the
// message.
TEST(ControlMessage, TellsIdleRanksFromThoseThatWaitAndWork) {
  RankActivity idle{.rank = 1, .state = {.events = 4}};
  RankActivity waits{
      .rank = 2,
      .lane = Lane::kBackwardMessages,
      .state = {.events = 5,
                .is_active = true,
                .now = {.action = Action{ActionKind::kSendBackward, 3, 9}, .step = 1, .start = 700},
                .waits_since = 900}};
  const auto received = parse_beat(beat_text(std::vector{idle, waits}, 900), 5'000);
  ASSERT_TRUE(received);
  ASSERT_EQ(received->size(), 2U);
  EXPECT_FALSE(received->front().state.is_active);
  EXPECT_FALSE(received->front().state.now.action);
  EXPECT_EQ(received->front().state.waits_since, 0);
  EXPECT_EQ(received->back().lane, Lane::kBackwardMessages);
  EXPECT_EQ(received->back().state.waits_since, 5'000);
  EXPECT_EQ(received->back().state.now.start, 4'800);
  EXPECT_EQ(place_of(received->back().state.now), "3SEND_B9 of step 2");
  EXPECT_EQ(received->back().longest, Seconds(0.0));
}

TEST(ControlMessage, RefusesWhatIsNone) {
  for (const char* line :
       {"", "beat 1", "beat 1 2 3 x", "beats", "beat  1", "beat 0 9 2 1 0 0 0 0 0 0 0 0",
        "beat 0 0 2 1 99 0 0 0 0 0 0 0", "GET / HTTP/1.1"}) {
    EXPECT_FALSE(parse_beat(line, 0)) << line;
  }
  for (const char* line : {"", "fault", "fault 3", "fault x 0\ty\tz", "fault 3\ty\tz",
                           "fault 3 -1\ty\tz", "fault 3\tplace"}) {
    EXPECT_FALSE(parse_fault(line)) << line;
  }
}

}  // namespace
}  // namespace ptdp::testing
