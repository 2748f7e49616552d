// Tests what an engine does by itself, over transports that hang or bring what the test says.
#include "runtime/transport/processes/process_engine.h"

#include <gmock/gmock.h>

#include <chrono>
#include <future>

namespace ptdp {
namespace {

/// The engine of one of two processes. Telling the other of an abort hangs until release().
class HangingEngine final : public ProcessEngine {
 public:
  HangingEngine() {
    set_place({.rank = 0, .size = 2});
    start_courier("courier");
  }
  ~HangingEngine() override { stop_courier(); }
  HangingEngine(const HangingEngine&) = delete;
  HangingEngine& operator=(const HangingEngine&) = delete;
  HangingEngine(HangingEngine&&) = delete;
  HangingEngine& operator=(HangingEngine&&) = delete;

  void release() { released_.set_value(); }
  [[nodiscard]] std::string transport() const override { return "none"; }
  [[nodiscard]] int finish(int status) noexcept override { return status; }

 private:
  void start_send(Packet /*packet*/, int /*to*/) override {}
  void progress() override {}
  [[nodiscard]] bool has_unsent() const override { return false; }
  void spread_abort(int /*status*/) override { released_.get_future().wait(); }

  std::promise<void> released_;
};

// As MPI does whose connection to a process that died is not given up yet.
TEST(ProcessEngine, AbortsThoughItsTransportHangs) {
  HangingEngine engine;
  const std::future<void> aborted = std::async(std::launch::async, [&] { engine.abort(4); });
  EXPECT_EQ(aborted.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_TRUE(engine.is_aborted());
  EXPECT_EQ(engine.abort_status(), 4);
  engine.release();
}

/// The engine of the first of four processes. What the others send comes when the test says so.
class HandedEngine final : public ProcessEngine {
 public:
  HandedEngine() { set_place({.rank = 0, .size = 4}); }

  void hand(const PacketHeader& header, int from) {
    const Lock lock = locked();
    Packet packet = pool().take(1);
    packet.header() = header;
    sort(std::move(packet), from);
  }
  void hand_abort(std::uint32_t world, int status) {
    hand({.world = world, .status = status, .kind = PacketHeader::Kind::kAbort}, 1);
  }
  [[nodiscard]] std::string transport() const override { return "none"; }
  [[nodiscard]] int finish(int status) noexcept override { return status; }

 private:
  void start_send(Packet /*packet*/, int /*to*/) override {}
  void progress() override {}
  [[nodiscard]] bool has_unsent() const override { return false; }
  void spread_abort(int /*status*/) override {}
};

// A process that is late may hear of the end of a world that it has not begun.
TEST(ProcessEngine, AbortsAWorldThatWasAbortedBeforeItBeganWithThatStatus) {
  HandedEngine engine;
  const std::uint32_t first = engine.begin_world();
  engine.hand_abort(first + 2, 5);
  engine.hand_abort(first + 2, 4);  // heard of second
  EXPECT_FALSE(engine.is_aborted());
  static_cast<void>(engine.begin_world());
  EXPECT_FALSE(engine.is_aborted());
  EXPECT_EQ(engine.begin_world(), first + 2);
  EXPECT_TRUE(engine.is_aborted());
  EXPECT_EQ(engine.abort_status(), 5);
  static_cast<void>(engine.begin_world());
  EXPECT_FALSE(engine.is_aborted());
  EXPECT_EQ(engine.abort_status(), 0);
  engine.hand_abort(first + 2, 5);  // which is over
  EXPECT_FALSE(engine.is_aborted());
  engine.hand_abort(first + 3, 6);
  engine.hand_abort(first + 3, 4);
  EXPECT_TRUE(engine.is_aborted());
  EXPECT_EQ(engine.abort_status(), 6);
}

TEST(ProcessEngine, AbortsAllWorldsWhereAProcessIsLost) {
  HandedEngine engine;
  static_cast<void>(engine.begin_world());
  engine.hand({.kind = PacketHeader::Kind::kLost}, 2);
  for (int world = 0; world < 3; ++world) {
    EXPECT_TRUE(engine.is_aborted());
    EXPECT_EQ(engine.abort_status(), 4);
    static_cast<void>(engine.begin_world());
  }
}

TEST(ProcessEngine, KeepsMessagesOfAWorldToComeAndDropsThoseOfOneThatIsOver) {
  HandedEngine engine;
  const std::uint32_t first = engine.begin_world();
  constexpr std::uint64_t group = 9;
  const auto arrived = [&](int from) {
    ProcessReceive receive;
    engine.expect(receive, engine.mailbox(group, from));
    const std::int64_t size = receive.has_arrived ? receive.packet.header().size : -1;
    engine.withdraw(receive);
    return size;
  };
  engine.hand({.group = group, .size = 20, .world = first + 1}, 2);
  engine.hand({.group = group, .size = 21, .world = first + 1}, 2);
  engine.hand({.group = group, .size = 30, .world = first + 1}, 3);
  engine.hand({.group = group, .size = 10, .world = first}, 2);
  EXPECT_EQ(arrived(2), 10);
  EXPECT_EQ(arrived(2), -1);
  engine.end_world();
  static_cast<void>(engine.begin_world());
  engine.hand({.group = group, .size = 11, .world = first}, 2);
  EXPECT_EQ(arrived(2), 20);
  EXPECT_EQ(arrived(3), 30);
  EXPECT_EQ(arrived(2), 21);
  EXPECT_EQ(arrived(2), -1);
}

// The first rank that has not come to the end is the one that is waited for.
TEST(ProcessEngine, AwaitsTheFirstRankThatHasNotSaidGoodbye) {
  HandedEngine engine;
  const auto goodbye = [&](int from) {
    engine.hand({.kind = PacketHeader::Kind::kGoodbye}, from);
    return engine.awaited_at_end();
  };
  EXPECT_EQ(engine.awaited_at_end(), 1);
  EXPECT_EQ(goodbye(2), 1);
  EXPECT_EQ(goodbye(1), 3);
  EXPECT_EQ(goodbye(3), 4);
}

}  // namespace
}  // namespace ptdp
