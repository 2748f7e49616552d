// What an engine does of itself, over a transport that hangs.
#include "runtime/transport/processes/process_engine.h"

#include <gmock/gmock.h>

#include <chrono>
#include <future>

namespace ptdp {
namespace {

/// One of two processes; telling the other of an abort hangs until release().
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

}  // namespace
}  // namespace ptdp
