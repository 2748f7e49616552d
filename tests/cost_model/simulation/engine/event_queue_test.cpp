// Tests of the event queue against a plain search.
#include "cost_model/simulation/engine/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ptdp {
namespace {

// The oracle is a plain search through all times. Few different times are drawn, so that many are
// equal.
TEST(EventQueue, KnowsTheEarliestAndOfEqualOnesTheLowest) {
  std::mt19937 random(1);
  for (const int num_ids : {1, 2, 3, 4, 5, 16, 17, 64, 100, 257}) {
    EventQueue queue(num_ids);
    EXPECT_EQ(queue.next_time(), EventQueue::kNever);
    std::vector<double> times(static_cast<std::size_t>(num_ids), EventQueue::kNever);
    for (int i = 0; i < 1000; ++i) {
      const int id = static_cast<int>(random() % static_cast<unsigned>(num_ids));
      const double time =
          random() % 8 == 0 ? EventQueue::kNever : static_cast<double>(random() % 20);
      queue.set(id, time);
      times[static_cast<std::size_t>(id)] = time;
      const auto earliest = std::min_element(times.begin(), times.end());
      ASSERT_EQ(queue.next_time(), *earliest);
      if (*earliest < EventQueue::kNever) {
        ASSERT_EQ(queue.next(), earliest - times.begin());
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
