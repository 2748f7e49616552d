// Lines between processes: what is sent comes back, and nothing else is taken.
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
  const auto received = parse_beat(beat_line(sent, 2'000), 50'000);
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
  const std::string line = fault_line(fault);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const auto received = parse_fault(line);
  ASSERT_TRUE(received);
  EXPECT_EQ(to_string(*received), "rank 3: 2F0 of step 4: two lines and a tab");
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
  for (const char* line : {"", "hello", "hello 1 2 3", "hello x 1 2 host", "hello 1 -1 2 host",
                           "hello 1 2 3 host more"}) {
    EXPECT_FALSE(parse_hello(line)) << line;
  }
  const auto hello =
      parse_hello(to_line({.secret = 7, .first_rank = 2, .process = 99, .host = "a"}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->secret, 7U);
  EXPECT_EQ(hello->first_rank, 2);
}

}  // namespace
}  // namespace ptdp::testing
