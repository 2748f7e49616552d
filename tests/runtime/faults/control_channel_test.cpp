// Tests what processes learn of others that die, stop, fail or never come.
#include "runtime/faults/control_channel.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "runtime/faults/control_message.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/processes/tcp/keyed_digest.h"
#include "tests/support/error_of.h"

namespace ptdp::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Waits until the condition holds and returns true; returns false after half a minute.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Returns the options of a process with one rank, which is in an action.
ControlOptions options_of(int rank, int world_size) {
  return {.first_rank = rank, .world_size = world_size, .activities = [rank] {
            return std::vector<RankActivity>{
                {.rank = rank,
                 .state = {.events = 2,
                           .is_active = true,
                           .now = {.action = Action{ActionKind::kForward, rank, 4}, .step = 6}}}};
          }};
}

/// Another process with one rank, until it is killed.
class OtherProcess {
 public:
  OtherProcess(const ControlOptions& options, const TcpTable& hub) : process_(::fork()) {
    if (process_ == 0) {
      const ControlChannel channel(options, hub);
      while (true) {
        ::pause();
      }
    }
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  OtherProcess(OtherProcess&&) = delete;
  OtherProcess& operator=(OtherProcess&&) = delete;
  ~OtherProcess() {
    send(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  void send(int signal) const { ::kill(process_, signal); }
  [[nodiscard]] pid_t id() const { return process_; }

 private:
  pid_t process_;
};

/// The hub's process of a job of two, until it is killed.
class HubProcess {
 public:
  HubProcess(const ControlOptions& options, ControlHub hub) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[0]);
      const ControlChannel channel(options, std::move(hub));
      const bool has_joined = comes_true([&] { return channel.activities().size() == 1; });
      char word = has_joined ? 'j' : '-';
      const bool is_asked = ::write(ends[1], &word, 1) == 1 && ::read(ends[1], &word, 1) == 1;
      word = channel.fault() ? 'f' : '-';
      ::_exit(is_asked && ::write(ends[1], &word, 1) == 1 ? 0 : 1);
    }
    ::close(ends[1]);
    end_ = ends[0];
  }
  HubProcess(const HubProcess&) = delete;
  HubProcess& operator=(const HubProcess&) = delete;
  HubProcess(HubProcess&&) = delete;
  HubProcess& operator=(HubProcess&&) = delete;
  ~HubProcess() {
    send(SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::close(end_);
  }
  void send(int signal) const { ::kill(process_, signal); }
  /// Waits until the other process has joined.
  [[nodiscard]] bool has_other() const { return next_word() == 'j'; }
  /// Whether the hub knows of a fault; ends the hub's process.
  [[nodiscard]] bool knows_of_a_fault() const {
    EXPECT_EQ(::write(end_, "?", 1), 1);
    return next_word() != '-';
  }

 private:
  [[nodiscard]] char next_word() const {
    char word = 0;
    return ::read(end_, &word, 1) == 1 ? word : '\0';
  }

  pid_t process_ = 0;
  int end_ = -1;
};

TEST(ControlChannel, TellsAllOfAFault) {
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlChannel zero(options_of(0, 3), std::move(hub));
  ControlChannel one(options_of(1, 3), table);
  ControlChannel two(options_of(2, 3), table);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 2; }));
  ASSERT_TRUE(comes_true([&] { return two.activities().size() == 1; }));
  one.spread({.rank = 1, .place = "1F0 of step 2", .what = "a fault"});
  ASSERT_TRUE(comes_true([&] { return zero.fault() && two.fault(); }));
  EXPECT_EQ(to_string(*zero.fault()), "rank 1: 1F0 of step 2: a fault");
  EXPECT_EQ(to_string(*two.fault()), "rank 1: 1F0 of step 2: a fault");
  EXPECT_FALSE(one.fault());
}

TEST(ControlChannel, BringsWhatTheOthersAreInToTheHub) {
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlChannel zero(options_of(0, 2), std::move(hub));
  const ControlChannel one(options_of(1, 2), table);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 1; }));
  EXPECT_EQ(place_of(zero.activities()[0].state.now), "1F4 of step 7");
}

TEST(ControlChannel, NamesAProcessThatDies) {
  ControlHub hub;
  const TcpTable table = hub.table();
  const OtherProcess two(options_of(2, 3), table);
  ControlChannel zero(options_of(0, 3), std::move(hub));
  ControlChannel one(options_of(1, 3), table);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 2; }));
  two.send(SIGKILL);
  ASSERT_TRUE(comes_true([&] { return zero.fault() && one.fault(); }));
  for (const ControlChannel* channel : {&zero, &one}) {
    EXPECT_EQ(channel->fault()->rank, 2);
    EXPECT_EQ(channel->fault()->place, "2F4 of step 7");
    EXPECT_THAT(channel->fault()->what, HasSubstr("process " + std::to_string(two.id()) + " on "));
    EXPECT_THAT(channel->fault()->what, HasSubstr("has ended"));
  }
}

TEST(ControlChannel, NamesAProcessThatIsStopped) {
  ControlHub hub;
  const OtherProcess one(options_of(1, 2), hub.table());
  ControlOptions options = options_of(0, 2);
  options.longest_silence = Seconds(0.7);
  ControlChannel zero(options, std::move(hub));
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 1; }));
  one.send(SIGSTOP);
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(zero.fault()->rank, 1);
  EXPECT_EQ(zero.fault()->place, "1F4 of step 7");
  EXPECT_THAT(zero.fault()->what, HasSubstr("does not answer, and may be stopped (last heard of "));
}

// As Ctrl+Z and fg do with a job: the one that goes on first has heard of nobody for a while.
TEST(ControlChannel, BlamesNobodyForThatItWasStoppedItself) {
  const auto wait = [](int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlOptions options = options_of(0, 2);
  options.longest_silence = Seconds(1.0);
  const HubProcess zero(options, std::move(hub));
  const OtherProcess one(options_of(1, 2), table);
  ASSERT_TRUE(zero.has_other());
  one.send(SIGSTOP);
  wait(100);  // whatever it sent was read
  zero.send(SIGSTOP);
  wait(1300);
  zero.send(SIGCONT);
  wait(100);
  one.send(SIGCONT);
  wait(100);
  EXPECT_FALSE(zero.knows_of_a_fault());
}

/// Returns a connection of somebody who calls the hub and is no ControlChannel.
TcpConnection caller_of(const TcpTable& table, PacketPool& pool) {
  Attempt attempt = try_to_connect(resolve("127.0.0.1", table.processes.at(0).port).addresses.at(0),
                                   std::chrono::steady_clock::now() + std::chrono::seconds(10));
  return {std::move(attempt.socket), pool};
}

/// Returns a greeting like that of rank 1.
TcpGreeting greeting_of(const TcpTable& table) {
  return {.secret = table.secret, .from = 1, .to = 0, .process = 17, .host = "h"};
}

TEST(ControlChannel, SaysThatAProcessDiedAtItsStartBeforeItsFirstBeat) {
  ControlHub hub;
  const TcpTable table = hub.table();
  const ControlChannel zero(options_of(0, 2), std::move(hub));
  {
    PacketPool pool;
    TcpConnection one = caller_of(table, pool);
    one.send_text(to_text(greeting_of(table)));
  }
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(to_string(*zero.fault()), "rank 1: its start: its process 17 on h has ended");
}

TEST(ControlChannel, BlamesAProcessThatTalksNonsense) {
  ControlHub hub;
  const TcpTable table = hub.table();
  const ControlChannel zero(options_of(0, 2), std::move(hub));
  PacketPool pool;
  TcpConnection one = caller_of(table, pool);
  one.send_text(to_text(greeting_of(table)));
  one.send_text("beat me");
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(to_string(*zero.fault()),
            "rank 1: its start: its process 17 on h sent what is no message of ptdp-run");
}

// Four strangers: one greets as the hub itself, one calls another rank, one does not greet, one
// sends no packet.
TEST(ControlChannel, HangsUpOnStrangers) {
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlChannel zero(options_of(0, 2), std::move(hub));
  PacketPool pool;
  TcpGreeting as_hub = greeting_of(table);
  as_hub.from = 0;
  TcpGreeting for_another = greeting_of(table);
  for_another.to = 1;
  for (const std::string& text : {to_text(as_hub), to_text(for_another), std::string(kGoodbye)}) {
    TcpConnection stranger = caller_of(table, pool);
    stranger.send_text(text);
    EXPECT_TRUE(comes_true([&] { return stranger.was_hung_up(); })) << text;
  }
  TcpConnection scanner = caller_of(table, pool);
  std::string request = "GET / HTTP/1.1\r\n\r\n";
  request.resize(Packet::kBlockBytes, ' ');  // as much as is looked at
  EXPECT_EQ(::send(scanner.descriptor(), request.data(), request.size(), MSG_NOSIGNAL),
            std::ssize(request));
  EXPECT_TRUE(comes_true([&] { return scanner.was_hung_up(); }));
  const ControlChannel one(options_of(1, 2), table);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 1; }));
  EXPECT_FALSE(zero.fault());
}

TEST(ControlChannel, NamesTheHubWhereItDies) {
  ControlHub hub;
  const TcpTable table = hub.table();
  std::optional<ControlChannel> zero;
  zero.emplace(options_of(0, 2), std::move(hub));
  zero->spread({.rank = 0, .what = "so that it says no goodbye"});
  ControlOptions options = options_of(1, 2);
  ControlChannel one(options, table);
  ASSERT_TRUE(comes_true([&] { return !one.activities().empty(); }));
  zero.reset();
  ASSERT_TRUE(comes_true([&] { return one.fault().has_value(); }));
  EXPECT_EQ(one.fault()->rank, 0);
}

TEST(ControlChannel, TakesAGoodbyeForNoFault) {
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlOptions options = options_of(0, 2);
  options.longest_silence = Seconds(0.3);
  options.connect_timeout = Seconds(0.5);
  std::optional<ControlChannel> zero;
  zero.emplace(options, std::move(hub));
  std::optional<ControlChannel> one;
  one.emplace(options_of(1, 2), table);
  ASSERT_TRUE(comes_true([&] { return zero->activities().size() == 1; }));
  one.reset();
  ASSERT_TRUE(comes_true([&] { return zero->activities().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_FALSE(zero->fault());
}

TEST(ControlChannel, NamesAProcessThatNeverComes) {
  ControlHub hub;
  const TcpTable table = hub.table();
  ControlOptions options = options_of(0, 3);
  options.connect_timeout = Seconds(0.5);
  ControlChannel zero(options, std::move(hub));
  const ControlChannel one(options_of(1, 3), table);
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(zero.fault()->rank, 2);
  EXPECT_THAT(zero.fault()->what, HasSubstr("did not join"));
}

TEST(ControlChannel, TakesNoStrangers) {
  ControlHub hub;
  TcpTable table = hub.table();
  ControlChannel zero(options_of(0, 2), std::move(hub));
  const std::string secret = std::exchange(table.secret, random_digits());
  ControlChannel stranger(options_of(1, 2), table);
  // The hub hangs up on the stranger, and still takes the right process.
  ASSERT_TRUE(comes_true([&] { return stranger.fault().has_value(); }));
  table.secret = secret;
  ControlChannel one(options_of(1, 2), table);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 1; }));
  EXPECT_FALSE(zero.fault());
}

TEST(ControlChannel, SaysWhereNobodyAnswers) {
  std::uint16_t port = 0;
  {
    const Listening gone = listen_on(0);
    port = gone.port;
  }
  ControlOptions options = options_of(1, 2);
  options.connect_timeout = Seconds(0.3);
  const TcpTable table{
      .secret = "s",
      .processes = {{.host = "h", .machine = "m", .port = port, .addresses = {"127.0.0.1"}}}};
  const std::string error = error_of([&] { const ControlChannel channel(options, table); });
  EXPECT_THAT(error, HasSubstr("cannot connect to the process of rank 0 within 0.3 s"));
  EXPECT_THAT(error, HasSubstr("127.0.0.1:" + std::to_string(port) + ": Connection refused"));
}

TEST(HubTable, IsReadFromItsText) {
  const ControlHub hub("127.0.0.1");
  const TcpTable received = parse_hub_table(to_text(hub.table()));
  EXPECT_EQ(received.secret, hub.table().secret);
  EXPECT_EQ(received.processes.at(0).port, hub.table().processes.at(0).port);
  EXPECT_THAT(received.processes.at(0).addresses, ElementsAre("127.0.0.1"));
  for (const char* text :
       {"", "x", "complete 1", "complete 1\nhost machine 17", "complete 1\nhost machine 0 10.0.0.7",
        "complete 1\na machine 17 10.0.0.7\nb machine 17 10.0.0.8"}) {
    EXPECT_EQ(error_of([&] { (void)parse_hub_table(text); }),
              std::string("control channel: expected the address of rank 0's process, got \"") +
                  text + '"');
  }
}

}  // namespace
}  // namespace ptdp::testing
