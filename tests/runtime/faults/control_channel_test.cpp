// Processes that die, stop, fail or never come: what the others learn.
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
#include "tests/support/error_of.h"

namespace ptdp::testing {
namespace {

using ::testing::HasSubstr;

/// True as soon as it holds; false after half a minute.
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

/// A process of one rank, which is in an action.
ControlOptions options_of(int rank, int world_size) {
  return {.first_rank = rank, .world_size = world_size, .activities = [rank] {
            return std::vector<RankActivity>{
                {.rank = rank,
                 .state = {.events = 2,
                           .is_active = true,
                           .now = {.action = Action{ActionKind::kForward, rank, 4}, .step = 6}}}};
          }};
}

/// Another process of one rank, until it is killed.
class OtherProcess {
 public:
  OtherProcess(const ControlOptions& options, const HubAddress& hub) : process_(::fork()) {
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

/// The hub's process of two, until it is killed.
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
  /// Waits until the other has joined.
  [[nodiscard]] bool has_other() const { return next_word() == 'j'; }
  /// Ends it, too.
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
  const HubAddress address = hub.address();
  ControlChannel zero(options_of(0, 3), std::move(hub));
  ControlChannel one(options_of(1, 3), address);
  ControlChannel two(options_of(2, 3), address);
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
  const HubAddress address = hub.address();
  ControlChannel zero(options_of(0, 2), std::move(hub));
  const ControlChannel one(options_of(1, 2), address);
  ASSERT_TRUE(comes_true([&] { return zero.activities().size() == 1; }));
  EXPECT_EQ(place_of(zero.activities()[0].state.now), "1F4 of step 7");
}

TEST(ControlChannel, NamesAProcessThatDies) {
  ControlHub hub;
  const HubAddress address = hub.address();
  const OtherProcess two(options_of(2, 3), address);
  ControlChannel zero(options_of(0, 3), std::move(hub));
  ControlChannel one(options_of(1, 3), address);
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
  const OtherProcess one(options_of(1, 2), hub.address());
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
  const HubAddress address = hub.address();
  ControlOptions options = options_of(0, 2);
  options.longest_silence = Seconds(1.0);
  const HubProcess zero(options, std::move(hub));
  const OtherProcess one(options_of(1, 2), address);
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

TEST(ControlChannel, SaysThatAProcessDiedAtItsStartBeforeItsFirstBeat) {
  ControlHub hub;
  const HubAddress address = hub.address();
  const ControlChannel zero(options_of(0, 2), std::move(hub));
  {
    LineSocket one(connect_to(address.addresses, address.port, Seconds(10.0)));
    one.send(to_line(Hello{.secret = address.secret, .first_rank = 1, .process = 17, .host = "h"}),
             /*may_be_lost=*/false);
  }
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(to_string(*zero.fault()), "rank 1: its start: its process 17 on h has ended");
}

TEST(ControlChannel, NamesTheHubWhereItDies) {
  ControlHub hub;
  const HubAddress address = hub.address();
  std::optional<ControlChannel> zero;
  zero.emplace(options_of(0, 2), std::move(hub));
  zero->spread({.rank = 0, .what = "so that it says no goodbye"});
  ControlOptions options = options_of(1, 2);
  ControlChannel one(options, address);
  ASSERT_TRUE(comes_true([&] { return !one.activities().empty(); }));
  zero.reset();
  ASSERT_TRUE(comes_true([&] { return one.fault().has_value(); }));
  EXPECT_EQ(one.fault()->rank, 0);
}

TEST(ControlChannel, TakesAGoodbyeForNoFault) {
  ControlHub hub;
  const HubAddress address = hub.address();
  ControlOptions options = options_of(0, 2);
  options.longest_silence = Seconds(0.3);
  options.connect_timeout = Seconds(0.5);
  std::optional<ControlChannel> zero;
  zero.emplace(options, std::move(hub));
  std::optional<ControlChannel> one;
  one.emplace(options_of(1, 2), address);
  ASSERT_TRUE(comes_true([&] { return zero->activities().size() == 1; }));
  one.reset();
  ASSERT_TRUE(comes_true([&] { return zero->activities().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_FALSE(zero->fault());
}

TEST(ControlChannel, NamesAProcessThatNeverComes) {
  ControlHub hub;
  const HubAddress address = hub.address();
  ControlOptions options = options_of(0, 3);
  options.connect_timeout = Seconds(0.5);
  ControlChannel zero(options, std::move(hub));
  const ControlChannel one(options_of(1, 3), address);
  ASSERT_TRUE(comes_true([&] { return zero.fault().has_value(); }));
  EXPECT_EQ(zero.fault()->rank, 2);
  EXPECT_THAT(zero.fault()->what, HasSubstr("did not join"));
}

TEST(ControlChannel, TakesNoStrangers) {
  ControlHub hub;
  HubAddress address = hub.address();
  ControlChannel zero(options_of(0, 2), std::move(hub));
  address.secret ^= 1;
  ControlChannel stranger(options_of(1, 2), address);
  // It is shown the door, and the right one is still taken.
  ASSERT_TRUE(comes_true([&] { return stranger.fault().has_value(); }));
  address.secret ^= 1;
  ControlChannel one(options_of(1, 2), address);
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
  const HubAddress address{.port = port, .addresses = {"127.0.0.1"}};
  const std::string error = error_of([&] { const ControlChannel channel(options, address); });
  EXPECT_THAT(error, HasSubstr("cannot connect to the process of rank 0 within 0.3 s"));
  EXPECT_THAT(error, HasSubstr("127.0.0.1:" + std::to_string(port) + ": Connection refused"));
}

TEST(HubAddress, IsReadFromItsLine) {
  const HubAddress address{.secret = 12345678901234567890U,
                           .port = 4711,
                           .host = "node-7",
                           .addresses = {"10.0.0.7", "127.0.0.1"}};
  const HubAddress received = parse_hub_address(to_line(address));
  EXPECT_EQ(received.secret, address.secret);
  EXPECT_EQ(received.port, 4711);
  EXPECT_EQ(received.host, "node-7");
  EXPECT_EQ(received.addresses, address.addresses);
  EXPECT_THAT(error_of([] { (void)parse_hub_address("x"); }), HasSubstr("control channel"));
}

}  // namespace
}  // namespace ptdp::testing
