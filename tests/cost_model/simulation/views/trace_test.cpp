// Tests of the trace of a step.
#include "cost_model/simulation/views/trace.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cost_model/simulation/spans.h"

namespace ptdp {
namespace {

using nlohmann::json;

std::string trace_of(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                     const std::vector<MemoryProfile>& memory = {}) {
  std::string text;
  write_trace(schedule, timeline, messages, memory, [&](std::string_view piece) { text += piece; });
  return text;
}

std::vector<json> events_of(const std::string& trace, const std::string& phase) {
  std::vector<json> events;
  const json document = json::parse(trace);
  for (const json& event : document["traceEvents"]) {
    if (event["ph"] == phase) {
      events.push_back(event);
    }
  }
  return events;
}

// Forward of one microbatch through two ranks, with its message on lanes of their own.
Schedule with_message() {
  return {.pp = 2, .orders = {parse_order("0F0", ""), parse_order("1F0", "")}};
}
Schedule with_messages() {
  Schedule schedule = with_message();
  schedule.orders[0].push_back({ActionKind::kSendForward, 0, 0});
  schedule.orders[1].insert(schedule.orders[1].begin(), {ActionKind::kReceiveForward, 1, 0});
  return schedule;
}
const Timeline kWithMessages{
    .spans = {{span(0, 1e-3), span(1e-3, 1.5e-3)}, {span(1e-3, 1.5e-3), span(1.5e-3, 2.5e-3)}}};

TEST(Trace, HasAProcessPerRankAndAThreadPerLane) {
  const std::string trace = trace_of(with_messages(), kWithMessages, MessageMode::kOverlapped);
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  for (const json& event : events_of(trace, "M")) {
    if (event["name"] == "process_name") {
      processes[event["pid"]] = event["args"]["name"];
    } else if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    }
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{
                         {{0, 0}, "compute"},
                         {{0, 1}, "messages forward"},
                         {{1, 0}, "compute"},
                         {{1, 4}, "received from rank 0, forward"}}));
}

// The trace format counts microseconds.
TEST(Trace, HasASliceForEveryAction) {
  const auto slices =
      events_of(trace_of(with_messages(), kWithMessages, MessageMode::kOverlapped), "X");
  ASSERT_EQ(slices.size(), 4);
  EXPECT_EQ(slices[0]["name"], "0F0");
  EXPECT_EQ(slices[0]["dur"], 1000.0);
  EXPECT_EQ(slices[1]["name"], "0SEND_F0");
  EXPECT_EQ(slices[1]["ts"], 1000.0);
  EXPECT_EQ(slices[1]["dur"], 500.0);
  EXPECT_EQ(slices[1]["tid"], 1);
  EXPECT_EQ(slices[3]["name"], "1F0");
  EXPECT_EQ(slices[3]["pid"], 1);
  EXPECT_EQ(slices[3]["args"]["stage"], 1);
}

TEST(Trace, PutsBlockingMessagesOnTheLaneThatComputes) {
  const auto slices =
      events_of(trace_of(with_messages(), kWithMessages, MessageMode::kBlocking), "X");
  EXPECT_EQ(slices[1]["tid"], 0);
}

TEST(Trace, DrawsAnArrowForAMessage) {
  const std::string trace = trace_of(with_messages(), kWithMessages, MessageMode::kOverlapped);
  const auto begins = events_of(trace, "s");
  const auto ends = events_of(trace, "f");
  ASSERT_EQ(begins.size(), 1);
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(begins[0]["id"], ends[0]["id"]);
  EXPECT_EQ(begins[0]["pid"], 0);
  EXPECT_EQ(ends[0]["pid"], 1);
  EXPECT_EQ(ends[0]["bp"], "e");
  EXPECT_EQ(begins[0]["ts"], 1000.0);
  EXPECT_EQ(ends[0]["ts"], 1499.999);  // inside of the slice
}

TEST(Trace, DrawsArrowsBetweenWhatComputesWhereThereAreNoMessages) {
  const Timeline timeline{.spans = {{span(0, 1e-3)}, {span(1.5e-3, 2.5e-3)}}};
  const std::string trace = trace_of(with_message(), timeline, MessageMode::kOverlapped);
  const auto begins = events_of(trace, "s");
  const auto ends = events_of(trace, "f");
  ASSERT_EQ(begins.size(), 1);
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(begins[0]["ts"], 999.999);
  EXPECT_EQ(ends[0]["ts"], 1500.0);
}

// Thirds of a second are no whole nanoseconds: rounded one by one, durations would overlap starts.
TEST(Trace, HasNoOverlappingSlices) {
  Schedule schedule{.orders = {{}}};
  Timeline timeline{.spans = {{}}};
  for (int i = 0; i < 1000; ++i) {
    schedule.orders[0].push_back({.microbatch = i});
    timeline.spans[0].push_back(span(i * 1e-7 / 3.0, (i + 1) * 1e-7 / 3.0));
  }
  schedule.num_microbatches = 1000;
  std::int64_t end = 0;
  int slices = 0;
  for (const json& event : events_of(trace_of(schedule, timeline, MessageMode::kOverlapped), "X")) {
    const auto start = std::llround(event["ts"].get<double>() * 1e3);
    EXPECT_GE(start, end);
    end = start + std::llround(event["dur"].get<double>() * 1e3);
    ++slices;
  }
  EXPECT_EQ(slices, 1000);
  EXPECT_EQ(end, 33333);
}

TEST(Trace, HasOneSliceForAnOverlappedPair) {
  const Schedule schedule{.orders = {parse_order("(0F0;0B1)", "")}};
  const Timeline timeline{.spans = {{span(0, 3), span(0, 3)}}};
  const auto slices = events_of(trace_of(schedule, timeline, MessageMode::kOverlapped), "X");
  ASSERT_EQ(slices.size(), 1);
  EXPECT_EQ(slices[0]["name"], "(0F0;0B1)");
}

TEST(Trace, CountsMemory) {
  const Schedule schedule{.orders = {parse_order("0F0", "")}};
  const auto counters = events_of(
      trace_of(schedule, {.spans = {{span(0, 1)}}}, MessageMode::kOverlapped,
               {{.samples = {{Seconds(0.0), gibibytes(1.5)}, {Seconds(1.0), gibibytes(0.25)}}}}),
      "C");
  ASSERT_EQ(counters.size(), 2);
  EXPECT_EQ(counters[0]["args"]["GiB"], 1.5);
  EXPECT_EQ(counters[1]["ts"], 1e6);
  EXPECT_EQ(counters[1]["args"]["GiB"], 0.25);
}

TEST(Trace, IsWrittenInPieces) {
  Schedule schedule{.num_microbatches = 20000, .orders = {{}}};
  Timeline timeline{.spans = {{}}};
  for (int i = 0; i < 20000; ++i) {
    schedule.orders[0].push_back({.microbatch = i});
    timeline.spans[0].push_back(span(i, i + 1));
  }
  std::size_t longest = 0;
  write_trace(schedule, timeline, MessageMode::kOverlapped, {},
              [&](std::string_view piece) { longest = std::max(longest, piece.size()); });
  EXPECT_LT(longest, 80 * 1024);
}

// Down and up again, three ranks: the middle one has both of its neighbors' messages.
TEST(Trace, NamesWhatIsReceivedByItsSenderAndItsWay) {
  const Schedule schedule{.pp = 3,
                          .orders = {parse_order("0F0 0SEND_F0 0RECV_B0 0B0", ""),
                                     parse_order("1RECV_F0 1F0 1SEND_F0 1RECV_B0 1B0 1SEND_B0", ""),
                                     parse_order("2RECV_F0 2F0 2B0 2SEND_B0", "")}};
  const Timeline timeline{
      .spans = {{span(0, 1), span(1, 2), span(9, 10), span(10, 11)},
                {span(1, 2), span(2, 3), span(3, 4), span(6, 7), span(7, 8), span(9, 10)},
                {span(3, 4), span(4, 5), span(5, 6), span(6, 7)}}};
  const std::string trace = trace_of(schedule, timeline, MessageMode::kOverlapped);
  std::map<std::pair<int, int>, std::string> threads;
  for (const json& event : events_of(trace, "M")) {
    if (event["name"] == "thread_name") {
      threads[{event["pid"], event["tid"]}] = event["args"]["name"];
    } else if (event["name"] == "thread_sort_index") {
      EXPECT_EQ(event["args"]["sort_index"], event["tid"]);
    } else if (event["name"] == "process_sort_index") {
      EXPECT_EQ(event["args"]["sort_index"], event["pid"]);
    }
  }
  EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{
                         {{0, 0}, "compute"},
                         {{0, 1}, "messages forward"},
                         {{0, 7}, "received from rank 1, backward"},
                         {{1, 0}, "compute"},
                         {{1, 1}, "messages forward"},
                         {{1, 2}, "messages backward"},
                         {{1, 4}, "received from rank 0, forward"},
                         {{1, 7}, "received from rank 2, backward"},
                         {{2, 0}, "compute"},
                         {{2, 2}, "messages backward"},
                         {{2, 4}, "received from rank 1, forward"}}));
  // Four arrows, each from the rank that sends to the one that receives, as one number.
  std::map<std::int64_t, std::pair<int, int>> arrows;
  for (const json& event : events_of(trace, "s")) {
    EXPECT_TRUE(arrows.emplace(event["id"], std::pair(event["pid"].get<int>(), -1)).second);
  }
  for (const json& event : events_of(trace, "f")) {
    arrows.at(event["id"]).second = event["pid"];
  }
  std::vector<std::pair<int, int>> ends;
  ends.reserve(arrows.size());
  for (const auto& [id, arrow] : arrows) {
    ends.push_back(arrow);
  }
  EXPECT_THAT(ends, testing::UnorderedElementsAre(std::pair(0, 1), std::pair(1, 2), std::pair(2, 1),
                                                  std::pair(1, 0)));
}

TEST(Trace, SaysOfASliceWhatItIs) {
  const Schedule schedule{.num_microbatches = 6,
                          .orders = {parse_order("0B5 0REDUCE_GRAD0 0OPTIMIZER0", "")}};
  const Timeline timeline{.spans = {{span(0, 1), span(1, 2), span(2, 2)}}};
  const auto slices = events_of(trace_of(schedule, timeline, MessageMode::kOverlapped), "X");
  ASSERT_EQ(slices.size(), 2) << "what takes no time has no slice";
  EXPECT_EQ(slices[0]["cat"], "compute");
  EXPECT_EQ(slices[0]["args"]["microbatch"], 5);
  EXPECT_EQ(slices[1]["cat"], "communication");
  EXPECT_EQ(slices[1]["tid"], 3);
}

}  // namespace
}  // namespace ptdp
