// Tests that a stranger who connects to a meeting ends nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/runtime/transport/processes/tcp/meetings.h"

namespace ptdp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Rendezvous, TurnsAwayAProcessOfAnotherSizeAndGoesOn) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 2, port));
  EXPECT_THAT(joining(tcp_options(1, 4, port)).get(),
              HasSubstr("refuses it: expected a job of 2 processes as on rank 0, got one of 4"));
  EXPECT_EQ(joining(tcp_options(1, 2, port)).get(), "");
  EXPECT_EQ(zero.get(), "");
}

TEST(Rendezvous, TurnsAwayAProcessOfAnotherVersionAndNamesItWhereItMisses) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(tcp_options(0, 2, port), 0.8));
  PacketPool pool;
  TcpHello old = strange_hello(1, 2);
  old.version = "0.0.1";
  TcpConnection guest = guest_with(to_text(old), port, pool);
  const std::string why =
      std::string("expected version ") + PTDP_VERSION + " of this program as on rank 0, got 0.0.1";
  EXPECT_EQ(next_word(guest), "refused " + why);
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("within 0.8 s: rank 1; turned away "),
                                HasSubstr("rank 1 (process 17 on host old): " + why)));
}

// Ranks of three processes are 0 to 2.
TEST(Rendezvous, HangsUpOnARankThatItsJobDoesNotHaveAndGoesOn) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 3, port));
  for (const int rank : {-1, 3, 4}) {
    PacketPool pool;
    TcpConnection guest = guest_with(to_text(strange_hello(rank, 3)), port, pool);
    EXPECT_EQ(next_word(guest), "") << "rank " << rank;
  }
  auto one = joining(tcp_options(1, 3, port));
  EXPECT_EQ(joining(tcp_options(2, 3, port)).get(), "");
  EXPECT_EQ(one.get(), "");
  EXPECT_EQ(zero.get(), "");
}

TEST(Rendezvous, TurnsAwayASecondProcessOfOneRank) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(tcp_options(0, 3, port), 1.0));
  PacketPool pool;
  TcpConnection first = guest_with(to_text(strange_hello(1, 3)), port, pool);
  EXPECT_EQ(next_word(first), kWelcome);
  EXPECT_THAT(joining(tcp_options(1, 3, port)).get(),
              HasSubstr("refuses it: two processes are rank 1: process 17 on host old came first"));
  EXPECT_THAT(zero.get(),
              AllOf(HasSubstr("within 1 s: rank 2; "), HasSubstr("two processes are rank 1")));
}

/// A separate process that is rank 0 of two until it is killed. It must be made before there are
/// threads.
class RankZero {
 public:
  RankZero(std::uint16_t port, int descriptors) : process_(::fork()) {
    if (process_ == 0) {
      const auto most = static_cast<rlim_t>(descriptors);
      const rlimit limit{.rlim_cur = most, .rlim_max = most};
      ::setrlimit(RLIMIT_NOFILE, &limit);
      const auto job = join_tcp_job(tcp_options(0, 2, port));
      ::_exit(job->finish(0));
    }
  }
  RankZero(const RankZero&) = delete;
  RankZero& operator=(const RankZero&) = delete;
  RankZero(RankZero&&) = delete;
  RankZero& operator=(RankZero&&) = delete;
  ~RankZero() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void send(int signal) const { ::kill(process_, signal); }

 private:
  pid_t process_;
};

// Rank 0 is stopped for longer than rank 1 waits for an answer: its first connection is dead when
// rank 0 reads what was said over it.
TEST(Rendezvous, TakesAProcessThatHungUpAndCameAgain) {
  const std::uint16_t port = free_port();
  const RankZero zero(port, 256);
  PacketPool pool;
  { const Descriptor listens = connected_to(port); }
  zero.send(SIGSTOP);
  { const TcpConnection former = guest_with(to_text(strange_hello(1, 2)), port, pool); }
  TcpConnection again = guest_with(to_text(strange_hello(1, 2)), port, pool);
  zero.send(SIGCONT);
  EXPECT_EQ(next_word(again), kWelcome);
}

// The first connection is one whose end was not seen, as of a host that lost power. The process
// comes again, and its last connection counts.
TEST(Rendezvous, TakesTheLastConnectionOfAProcess) {
  const std::uint16_t port = free_port();
  const RankZero zero(port, 256);
  PacketPool pool;
  { const Descriptor listens = connected_to(port); }
  zero.send(SIGSTOP);
  TcpConnection former = guest_with(to_text(strange_hello(1, 2)), port, pool);
  TcpConnection again = guest_with(to_text(strange_hello(1, 2)), port, pool);
  zero.send(SIGCONT);
  EXPECT_EQ(next_word(again), kWelcome);
  EXPECT_EQ(next_word(former), kWelcome);
  EXPECT_EQ(next_word(former), "");
}

TEST(Rendezvous, HasRoomForItsProcessesAmongIdleStrangers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "without a descriptor to spare the sanitizer takes objects for invalid ones";
#endif
  const std::uint16_t port = free_port();
  const RankZero zero(port, 40);
  std::vector<Descriptor> idle;
  idle.reserve(100);
  for (int i = 0; i < 100; ++i) {
    idle.push_back(connected_to(port));
  }
  EXPECT_EQ(joining(with_timeout(tcp_options(1, 2, port), 60.0)).get(), "");
}

TEST(Rendezvous, IsOnlyWhereTheAddressPoints) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(tcp_options(0, 2, port), 1.0));
  { const Descriptor listens = connected_to(port); }
  PendingConnection elsewhere(resolve("127.0.0.2", port).addresses.at(0));
  EXPECT_EQ(elsewhere.look(1000), PendingConnection::State::kFailed);
  EXPECT_NE(zero.get(), "");
}

TcpJobOptions with_secret(TcpJobOptions options, const std::string& secret) {
  options.secret = secret;
  return options;
}

TEST(Rendezvous, BringsTogetherWhoKnowsTheSecret) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_secret(tcp_options(0, 3, port), "xyzzy"));
  EXPECT_THAT(joining(with_secret(tcp_options(1, 3, port), "plugh")).get(),
              HasSubstr("refuses it: expected the PTDP_JOB_SECRET of rank 0, got another"));
  EXPECT_THAT(joining(tcp_options(1, 3, port)).get(),
              HasSubstr("asks for the job's secret: expected PTDP_JOB_SECRET"));
  auto one = joining(with_secret(tcp_options(1, 3, port), "xyzzy"));
  EXPECT_EQ(joining(with_secret(tcp_options(2, 3, port), "xyzzy")).get(), "");
  EXPECT_EQ(one.get(), "");
  EXPECT_EQ(zero.get(), "");
}

// What one process proved opens nothing a second time.
TEST(Rendezvous, TakesAProofOnce) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(with_secret(tcp_options(0, 3, port), "xyzzy"), 1.0));
  PacketPool pool;
  TcpProof proof{.hello = to_text(strange_hello(1, 3)), .answer = "1"};
  TcpConnection honest = guest_with(proof.hello, port, pool);
  proof.challenge = next_word(honest).substr(kChallenge.size());
  honest.send_text(proof.of_guest("xyzzy"));
  EXPECT_EQ(next_word(honest), proof.of_host("xyzzy"));
  EXPECT_THAT(proof.of_guest("xyzzy"), Not(HasSubstr("xyzzy")));
  honest.close();
  TcpConnection replay = guest_with(proof.hello, port, pool);
  EXPECT_THAT(next_word(replay), StartsWith(std::string(kChallenge)));
  replay.send_text(proof.of_guest("xyzzy"));
  EXPECT_THAT(next_word(replay), StartsWith("refused "));
  EXPECT_NE(zero.get(), "");
}

TEST(Rendezvous, IsNotJoinedWhereRankZeroAloneLacksTheSecret) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(tcp_options(0, 3, port), 1.0));
  const std::string why = "it has a PTDP_JOB_SECRET, rank 0 has none";
  EXPECT_THAT(joining(with_secret(tcp_options(1, 3, port), "xyzzy")).get(),
              HasSubstr("refuses it: " + why));
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("turned away rank 1 (process "), HasSubstr(why)));
}

TEST(Rendezvous, NamesAProcessThatLacksTheSecretWhereItMisses) {
  const std::uint16_t port = free_port();
  auto zero = joining(with_timeout(with_secret(tcp_options(0, 2, port), "xyzzy"), 1.0));
  EXPECT_NE(joining(tcp_options(1, 2, port)).get(), "");
  EXPECT_THAT(zero.get(), AllOf(HasSubstr("within 1 s: rank 1; turned away rank 1 (process "),
                                HasSubstr(": it did not answer for PTDP_JOB_SECRET")));
}

// A stranger that listens in rank 0's place.
TEST(Rendezvous, IsNotJoinedWhereRankZeroDoesNotProveToKnowTheSecret) {
  const Listening stranger = listen_on(0, "127.0.0.1");
  auto one = joining(with_secret(tcp_options(1, 3, stranger.port), "xyzzy"));
  PacketPool pool;
  std::optional<Descriptor> socket;
  while (!socket) {
    socket = accept_next(stranger.socket);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  TcpConnection connection(std::move(*socket), pool);
  EXPECT_THAT(next_word(connection), StartsWith("hello "));
  connection.send_text(kWelcome);
  EXPECT_THAT(one.get(), HasSubstr("does not prove to know PTDP_JOB_SECRET"));
}

TEST(Rendezvous, RefusesProcessesOfAnotherJobAndGoesOn) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 2, port));
  TcpJobOptions other = tcp_options(1, 2, port);
  other.job = "17.0";
  EXPECT_THAT(joining(other).get(), HasSubstr("refuses it: another job meets there: expected job "
                                              "test, got 17.0"));
  EXPECT_EQ(joining(tcp_options(1, 2, port)).get(), "");
  EXPECT_EQ(zero.get(), "");
}

// Five strangers: one talks nonsense, one much of it, one says nothing, one hangs up, one goes
// after its hello.
TEST(Rendezvous, SurvivesStrangers) {
  const std::uint16_t port = free_port();
  auto zero = joining(tcp_options(0, 3, port));
  const Descriptor browser = connected_to(port);
  say(browser,
      "GET / HTTP/1.1\r\nHost: somewhere\r\nUser-Agent: a scanner of ports, and no process "
      "of any job\r\n\r\n");
  PacketHeader large{.size = std::int64_t{1} << 50, .kind = PacketHeader::Kind::kText};
  std::string block(Packet::kBlockBytes, '\0');
  std::memcpy(block.data(), &large, sizeof large);
  const Descriptor greedy = connected_to(port);
  say(greedy, block);
  const Descriptor silent = connected_to(port);
  { const Descriptor gone = connected_to(port); }
  {
    PacketPool pool;
    TcpConnection quitter(connected_to(port), pool);
    quitter.send_text(to_text(strange_hello(1, 3)));
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
  // The meeting hung up on both strangers.
  char byte = 0;
  EXPECT_LE(::recv(browser.get(), &byte, 1, 0), 0);
  EXPECT_LE(::recv(greedy.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace ptdp
