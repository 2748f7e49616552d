// Meetings that fail, and strangers that come to them.
#include "runtime/transport/tcp_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/error.h"
#include "tests/runtime/transport/tcp_processes.h"

namespace ptdp {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A process that joins in a thread of its own, and leaves at once; what it threw, or "".
std::future<std::string> joining(const TcpJobOptions& options) {
  return std::async(std::launch::async, [options]() -> std::string {
    try {
      const auto process = join_tcp_job(options);
      EXPECT_EQ(process->finish(0), 0);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      return error.what();
    } catch (const Aborted&) {
      return "aborted";
    }
  });
}

TcpJobOptions with_timeout(TcpJobOptions options, double seconds) {
  options.timeout = Seconds(seconds);
  return options;
}

/// Connects as soon as somebody listens.
Socket connected_to(std::uint16_t port) {
  while (true) {
    PendingConnection pending(resolve("127.0.0.1", port).addresses.at(0));
    if (pending.look(1000) == PendingConnection::State::kConnected) {
      return pending.take();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void say(const Socket& socket, const std::string& text) {
  EXPECT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
}

TEST(Meeting, BringsProcessesTogetherInWhateverOrderTheyCome) {
  const std::uint16_t port = free_port();
  auto last = joining(tcp_options(2, 3, port));
  auto middle = joining(tcp_options(1, 3, port));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // both find nobody
  EXPECT_EQ(joining(tcp_options(0, 3, port)).get(), "");
  EXPECT_EQ(middle.get(), "");
  EXPECT_EQ(last.get(), "");
}

TEST(Meeting, CountsTheProcessesOfAMachine) {
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
TEST(Meeting, PlacesProcessesOnTheirMachines) {
  const auto on = [](const std::string& machine) {
    return MetProcess{.host = "h", .machine = machine, .port = 1};
  };
  const Meeting meeting{.processes = {on("a"), on("b"), on("a"), on("b"), on("b")}};
  EXPECT_EQ(place_in(meeting, 2).ranks_on_host, 2);
  EXPECT_EQ(place_in(meeting, 2).place_on_host, 1);
  EXPECT_EQ(place_in(meeting, 4).ranks_on_host, 3);
  EXPECT_EQ(place_in(meeting, 4).place_on_host, 2);
  EXPECT_EQ(place_in(meeting, 1).place_on_host, 0);
}

TEST(Meeting, LeavesLoopbackToProcessesOfOneMachine) {
  const MetProcess to{.machine = "a", .addresses = {"10.0.0.1", "fd00::1", "127.0.0.1", "::1"}};
  EXPECT_THAT(ways_to(to, {.machine = "a"}),
              ::testing::ElementsAre("127.0.0.1", "::1", "10.0.0.1", "fd00::1"));
  EXPECT_THAT(ways_to(to, {.machine = "b"}), ::testing::ElementsAre("10.0.0.1", "fd00::1"));
}

TEST(Meeting, NamesTheRanksThatDoNotCome) {
  const std::uint16_t port = free_port();
  auto one = joining(tcp_options(1, 7, port));
  auto five = joining(tcp_options(5, 7, port));
  EXPECT_THAT(joining(with_timeout(tcp_options(0, 7, port), 0.5)).get(),
              AllOf(StartsWith("4 of 7 processes did not come to rank 0 on host "),
                    HasSubstr("port " + std::to_string(port) + ", address 127.0.0.1"),
                    HasSubstr("within 0.5 s: ranks 2-4, 6")));
  EXPECT_EQ(one.get(), "aborted");  // rank 0 says it
  EXPECT_EQ(five.get(), "aborted");
}

TEST(Meeting, NamesTheAddressWhereRankZeroIsNot) {
  const std::uint16_t port = free_port();
  EXPECT_THAT(joining(with_timeout(tcp_options(1, 2, port), 0.3)).get(),
              AllOf(StartsWith("rank 1 on host "),
                    HasSubstr("cannot join rank 0 at 127.0.0.1:" + std::to_string(port) +
                              " within 0.3 s: Connection refused")));
}

TEST(Meeting, NamesAHostThatDoesNotResolve) {
  TcpJobOptions options = with_timeout(tcp_options(1, 2, 29500), 0.3);
  options.address = "no-such-host.invalid";
  EXPECT_THAT(joining(options).get(),
              ContainsRegex("rank 0 at no-such-host.invalid:29500 within 0.3 s: .*[Nn]ame"));
}

TEST(Meeting, NamesAPortThatIsInUse) {
  const Listening other = listen_on(0);
  EXPECT_THAT(joining(with_timeout(tcp_options(0, 2, other.port), 0.3)).get(),
              AllOf(StartsWith("rank 0 on host "),
                    HasSubstr("cannot listen on port " + std::to_string(other.port) +
                              ": Address already in use (127.0.0.1:")));
}

// As a job before this one may do for a moment.
TEST(Meeting, WaitsForAPortThatComesFree) {
  std::optional<Listening> other = listen_on(0);
  auto zero = joining(tcp_options(0, 2, other->port));
  auto one = joining(tcp_options(1, 2, other->port));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  other.reset();
  EXPECT_EQ(zero.get(), "");
  EXPECT_EQ(one.get(), "");
}

TEST(Meeting, EndsAtOnceWhereSizesDiffer) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 3, port));
  auto one = joining(tcp_options(1, 4, port));
  EXPECT_THAT(zero.get(),
              ContainsRegex("rank 1 \\(process [0-9]+ on host .*\\): expected a job of 3 processes "
                            "as on rank 0, got one of 4"));
  EXPECT_EQ(one.get(), "aborted");
}

TEST(Meeting, EndsAtOnceWhereTwoProcessesAreOneRank) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 3, port));
  auto one = joining(tcp_options(1, 3, port));
  auto other = joining(tcp_options(1, 3, port));
  EXPECT_THAT(zero.get(), ContainsRegex("two processes are rank 1: process [0-9]+ on host .*, and "
                                        "process [0-9]+ on host "));
  EXPECT_EQ(one.get(), "aborted");
  EXPECT_EQ(other.get(), "aborted");
}

TEST(Meeting, EndsAtOnceWhereVersionsDiffer) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 2, port));
  PacketPool pool;
  TcpConnection old(connected_to(port), pool);
  old.send(to_packet(
      pool, to_text({.rank = 1,
                     .size = 2,
                     .version = "0.0.1",
                     .job = "test",
                     .process = 17,
                     .self = {.host = "old", .machine = "m", .port = 1, .addresses = {}}})));
  EXPECT_THAT(zero.get(), ContainsRegex("rank 1 \\(process 17 on host old\\): expected version .* "
                                        "of this program as on rank 0, got 0.0.1"));
}

TEST(Meeting, RefusesProcessesOfAnotherJobAndGoesOn) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 2, port));
  TcpJobOptions other = tcp_options(1, 2, port);
  other.job = "17.0";
  EXPECT_THAT(joining(other).get(), HasSubstr("refuses it: another job meets there: expected job "
                                              "test, got 17.0"));
  EXPECT_EQ(joining(tcp_options(1, 2, port)).get(), "");
  EXPECT_EQ(zero.get(), "");
}

TEST(Meeting, RefusesWhoComesAfterItsEnd) {
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

// One talks nonsense, one much of it, one says nothing, one hangs up, one goes after its hello.
TEST(Meeting, SurvivesStrangers) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 3, port));
  const Socket browser = connected_to(port);
  say(browser,
      "GET / HTTP/1.1\r\nHost: somewhere\r\nUser-Agent: a scanner of ports, and no process "
      "of any job\r\n\r\n");
  PacketHeader large{.size = std::int64_t{1} << 50, .kind = PacketHeader::Kind::kText};
  std::string block(Packet::kBlockBytes, '\0');
  std::memcpy(block.data(), &large, sizeof large);
  const Socket greedy = connected_to(port);
  say(greedy, block);
  const Socket silent = connected_to(port);
  { const Socket gone = connected_to(port); }
  {
    PacketPool pool;
    TcpConnection quitter(connected_to(port), pool);
    quitter.send(to_packet(
        pool, to_text({.rank = 1,
                       .size = 3,
                       .version = PTDP_VERSION,
                       .job = "test",
                       .process = 17,
                       .self = {.host = "h", .machine = "m", .port = 1, .addresses = {}}})));
    while (!quitter.receive(TcpConnection::kMost)) {
      ASSERT_TRUE(quitter.is_open());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(150));  // rank 0 sees it go
  auto one = joining(tcp_options(1, 3, port));
  EXPECT_EQ(joining(tcp_options(2, 3, port)).get(), "");
  EXPECT_EQ(one.get(), "");
  EXPECT_EQ(zero.get(), "");
  // Both were hung up on.
  char byte = 0;
  EXPECT_LE(::recv(browser.get(), &byte, 1, 0), 0);
  EXPECT_LE(::recv(greedy.get(), &byte, 1, 0), 0);
}

// Something else listens at the port: it takes connections and says nothing, or nonsense.
TEST(Meeting, SaysThatSomebodyElseListensThere) {
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

TEST(Meeting, TellsWhatItWaitsFor) {
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
