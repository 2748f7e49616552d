// Tests of meetings that fail, and of strangers that connect to them.
#include "runtime/transport/processes/tcp/tcp_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/transport/processes/tcp/meetings.h"

namespace ptdp {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Rendezvous, BringsProcessesTogetherInWhateverOrderTheyCome) {
  const std::uint16_t port = free_port();
  auto last = joining(tcp_options(2, 3, port));
  auto middle = joining(tcp_options(1, 3, port));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // both find nobody
  EXPECT_EQ(joining(tcp_options(0, 3, port)).get(), "");
  EXPECT_EQ(middle.get(), "");
  EXPECT_EQ(last.get(), "");
}

TEST(Rendezvous, CountsTheProcessesOfAMachine) {
  const auto processes = join_all(3);
  std::vector<std::future<void>> ends;
  for (int rank = 0; rank < 3; ++rank) {
    JobProcess& process = *processes[static_cast<std::size_t>(rank)];
    EXPECT_EQ(process.rank(), rank);
    EXPECT_EQ(process.size(), 3);
    EXPECT_EQ(process.host(), own_host_name());
    EXPECT_EQ(process.ranks_on_host(), 3);
    EXPECT_EQ(process.place_on_host(), rank);
    EXPECT_EQ(process.transport(), "tcp");
    ends.push_back(std::async(std::launch::async, [&] { EXPECT_EQ(process.finish(0), 0); }));
  }
}

// Hosts by number of machine: the first has ranks 0 and 2.
TEST(Rendezvous, PlacesProcessesOnTheirMachines) {
  const auto on = [](const std::string& machine) {
    return MetProcess{.host = "h", .machine = machine, .port = 1};
  };
  const Rendezvous meeting{.processes = {on("a"), on("b"), on("a"), on("b"), on("b")}};
  EXPECT_EQ(place_in(meeting, 2).ranks_on_host, 2);
  EXPECT_EQ(place_in(meeting, 2).place_on_host, 1);
  EXPECT_EQ(place_in(meeting, 4).ranks_on_host, 3);
  EXPECT_EQ(place_in(meeting, 4).place_on_host, 2);
  EXPECT_EQ(place_in(meeting, 1).place_on_host, 0);
}

TEST(Rendezvous, LeavesLoopbackToProcessesOfOneMachine) {
  const MetProcess to{.machine = "a", .addresses = {"10.0.0.1", "fd00::1", "127.0.0.1", "::1"}};
  EXPECT_THAT(ways_to(to, {.machine = "a"}),
              ::testing::ElementsAre("127.0.0.1", "::1", "10.0.0.1", "fd00::1"));
  EXPECT_THAT(ways_to(to, {.machine = "b"}), ::testing::ElementsAre("10.0.0.1", "fd00::1"));
}

TEST(Rendezvous, NamesTheRanksThatDoNotCome) {
  const std::uint16_t port = free_port();
  auto one = joining(tcp_options(1, 7, port));
  auto five = joining(tcp_options(5, 7, port));
  EXPECT_THAT(joining(with_timeout(tcp_options(0, 7, port), 0.5)).get(),
              AllOf(StartsWith("the meeting: 4 of 7 processes did not come to rank 0 on host "),
                    HasSubstr("port " + std::to_string(port) + ", address 127.0.0.1"),
                    HasSubstr("within 0.5 s: ranks 2-4, 6")));
  EXPECT_EQ(one.get(), "aborted");  // rank 0 says it
  EXPECT_EQ(five.get(), "aborted");
}

TEST(Rendezvous, NamesTheAddressWhereRankZeroIsNot) {
  const std::uint16_t port = free_port();
  EXPECT_THAT(joining(with_timeout(tcp_options(1, 2, port), 0.3)).get(),
              AllOf(StartsWith("rank 1 on host "),
                    HasSubstr("cannot join rank 0 at 127.0.0.1:" + std::to_string(port) +
                              " within 0.3 s: Connection refused")));
}

TEST(Rendezvous, NamesAHostThatDoesNotResolve) {
  TcpJobOptions options = with_timeout(tcp_options(1, 2, 29500), 0.3);
  options.address = "no-such-host.invalid";
  EXPECT_THAT(joining(options).get(),
              ContainsRegex("rank 0 at no-such-host.invalid:29500 within 0.3 s: .*[Nn]ame"));
}

TEST(Rendezvous, NamesAPortThatIsInUse) {
  const Listening other = listen_on(0);
  EXPECT_THAT(joining(with_timeout(tcp_options(0, 2, other.port), 0.3)).get(),
              AllOf(StartsWith("rank 0 on host "),
                    HasSubstr("cannot listen on port " + std::to_string(other.port) +
                              ": Address already in use (127.0.0.1:")));
}

// As a job before this one may do for a moment.
TEST(Rendezvous, WaitsForAPortThatComesFree) {
  std::optional<Listening> other = listen_on(0);
  auto zero = joining(tcp_options(0, 2, other->port));
  auto one = joining(tcp_options(1, 2, other->port));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  other.reset();
  EXPECT_EQ(zero.get(), "");
  EXPECT_EQ(one.get(), "");
}

TEST(Rendezvous, RefusesWhoComesAfterItsEnd) {
  const std::uint16_t port = free_port();
  auto zero_joins =
      std::async(std::launch::async, [&] { return join_tcp_job(tcp_options(0, 2, port)); });
  const auto one = join_tcp_job(tcp_options(1, 2, port));
  const auto zero = zero_joins.get();
  EXPECT_THAT(
      joining(tcp_options(1, 2, port)).get(),
      AllOf(StartsWith("rank 1 on host "),
            HasSubstr("it comes too late: the job of 2 processes there is complete since")));
  auto end = std::async(std::launch::async, [&] { return zero->finish(0); });
  EXPECT_EQ(one->finish(0), 0);
  EXPECT_EQ(end.get(), 0);
}

// Something else listens at the port: it takes connections and says nothing, or nonsense.
TEST(Rendezvous, SaysThatSomebodyElseListensThere) {
  const Listening other = listen_on(0);
  const std::jthread server([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto caller = accept_next(other.socket)) {
        say(*caller,
            "220 mail.example.org ESMTP, and so much more that it is longer than a "
            "header\r\n");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_THAT(joining(with_timeout(tcp_options(1, 2, other.port), 0.5)).get(),
              HasSubstr("somebody listens there who hangs up"));
}

TEST(Rendezvous, TellsWhatItWaitsFor) {
  const std::uint16_t port = free_port();
  const auto noticing = [](TcpJobOptions options, std::vector<std::string>& notices) {
    options.notice_interval = Seconds(0.1);
    options.notice = [&notices](const std::string& text) { notices.push_back(text); };
    return joining(with_timeout(options, 0.35));
  };
  std::vector<std::string> of_two;
  EXPECT_NE(noticing(tcp_options(2, 4, port), of_two).get(), "");
  ASSERT_GE(of_two.size(), 1U);
  EXPECT_THAT(of_two[0], HasSubstr("waiting for rank 0 at 127.0.0.1:" + std::to_string(port) +
                                   ": Connection refused (0 s of 0.35 s)"));
  std::vector<std::string> of_zero;
  EXPECT_NE(noticing(tcp_options(0, 4, port), of_zero).get(), "");
  ASSERT_GE(of_zero.size(), 2U);
  EXPECT_THAT(of_zero[0], HasSubstr("waiting for ranks 1-3 of 4 at 127.0.0.1:"));
}

}  // namespace
}  // namespace ptdp
