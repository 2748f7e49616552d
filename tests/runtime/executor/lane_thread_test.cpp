// Tests of a lane that runs work on a thread of its own.
#include "runtime/executor/lane_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ptdp {
namespace {

void ignore(const std::exception_ptr& failure) {
  EXPECT_NE(failure, nullptr);
}

TEST(LaneThread, WithoutAThreadRunsWorkAtOnceInItsCaller) {
  LaneThread lane;
  std::thread::id where;
  const LaneThread::Ticket ticket = lane.post([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
  lane.wait(ticket);
  EXPECT_THROW(lane.post([] { throw std::runtime_error("no"); }), std::runtime_error);
}

TEST(LaneThread, RunsWorkInOrderOnAThreadOfItsOwn) {
  LaneThread lane = LaneThread::beside("order", ignore);
  std::vector<int> done;
  std::thread::id where;
  LaneThread::Ticket half = 0;
  for (int i = 0; i < 100; ++i) {
    const LaneThread::Ticket ticket = lane.post([&done, &where, i] {
      done.push_back(i);
      where = std::this_thread::get_id();
    });
    half = i == 49 ? ticket : half;
  }
  lane.wait(half);
  lane.wait();
  EXPECT_NE(where, std::this_thread::get_id());
  ASSERT_EQ(done.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(done[i], i);
  }
}

TEST(LaneThread, GoesOnBesideItsOwner) {
  LaneThread lane = LaneThread::beside("beside", ignore);
  std::atomic<bool> may_end = false;
  const LaneThread::Ticket ticket = lane.post([&] { may_end.wait(false); });
  may_end = true;  // the owner came here while the work waits for it
  may_end.notify_all();
  lane.wait(ticket);
}

TEST(LaneThread, ThrowsWhatItsWorkThrewAndRunsNothingAfterIt) {
  std::atomic<int> failures = 0;
  std::atomic<int> later = 0;
  {
    LaneThread lane = LaneThread::beside("failure", [&](const std::exception_ptr&) { ++failures; });
    const LaneThread::Ticket good = lane.post([] {});
    lane.post([] { throw std::runtime_error("the bucket burst"); });
    const LaneThread::Ticket after = lane.post([&] { ++later; });
    lane.wait(good);
    try {
      lane.wait(after);
      FAIL() << "expected what was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the bucket burst");
    }
    EXPECT_NE(lane.failure(), nullptr);
  }
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(later, 0);
}

TEST(LaneThread, ReleasesWhatItsWorkHoldsBeforeItCountsAsDone) {
  LaneThread lane = LaneThread::beside("release", ignore);
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  lane.post([held = std::move(held)] {});
  lane.wait();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace ptdp
