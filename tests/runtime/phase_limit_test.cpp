// Tests of phases that last too long, and of those that do not.
#include "runtime/phase_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

namespace ptdp::testing {
namespace {

TEST(PhaseLimit, ExpiresOnceAPhaseHasLastedLonger) {
  std::promise<void> expired;
  const PhaseLimit limit(Seconds(0.1), [&] { expired.set_value(); });
  EXPECT_EQ(expired.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  EXPECT_TRUE(limit.has_expired());
}

TEST(PhaseLimit, IsOverWithItsPhase) {
  bool has_expired = false;
  {
    const PhaseLimit limit(Seconds(1e6), [&] { has_expired = true; });
  }
  EXPECT_FALSE(has_expired);
}

TEST(PhaseLimit, IsNoneWhereNothingIsLimited) {
  const PhaseLimit limit(std::nullopt, [] { FAIL(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_FALSE(limit.has_expired());
}

}  // namespace
}  // namespace ptdp::testing
