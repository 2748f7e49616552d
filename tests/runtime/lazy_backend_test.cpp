// Tests of the lazy backend on which tests of order rest: that it is late, and notices what comes
// too early.
#include "tests/runtime/lazy_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace ptdp::testing {
namespace {

using ::testing::ElementsAre;

std::vector<double> values_of(Backend& backend, const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.buffer().size));
  backend.copy_out(tensor, values.data());
  return values;
}

struct Two {
  std::shared_ptr<LazyDevice> device = std::make_shared<LazyDevice>(Laziness::kLatest);
  LazyBackend first{device};
  LazyBackend second{device};
};

TEST(LazyBackend, DoesNothingBeforeAThreadWaits) {
  Two ranks;
  const Tensor x(ranks.first, DataType::kFloat64, 1);
  ranks.first.fill(x, 3.0);
  EXPECT_TRUE(std::isnan(*elements<double>(x)));
  ranks.first.synchronize();
  EXPECT_EQ(*elements<double>(x), 3.0);
}

TEST(LazyBackend, TakesWhatIsCopiedInAtOnce) {
  Two ranks;
  const Tensor x(ranks.first, DataType::kFloat64, 1);
  double value = 3.0;
  ranks.first.copy_in(&value, x);
  value = 4.0;
  EXPECT_THAT(values_of(ranks.first, x), ElementsAre(3.0));
}

// The order in which lanes and ranks are asked shows that they do not wait by themselves.
TEST(LazyBackend, OrdersLanesAndRanksOnlyByEvents) {
  for (const bool waits : {false, true}) {
    Two ranks;
    const Tensor x(ranks.first, DataType::kFloat64, 1);
    const Tensor y(ranks.first, DataType::kFloat64, 1);
    ranks.first.fill(x, 3.0);
    const Event filled = ranks.first.record();
    ranks.first.use_lane(1);
    if (waits) {
      ranks.first.wait(filled);
    }
    ranks.first.copy(x, y);
    const Event copied = ranks.first.record();
    ranks.first.use_lane(0);
    if (waits) {
      ranks.second.wait(copied);
    }
    const Tensor z(ranks.second, DataType::kFloat64, 1);
    ranks.second.copy(y, z);
    EXPECT_EQ(std::isnan(values_of(ranks.second, z)[0]), !waits);
  }
}

TEST(LazyBackend, PoisonsReleasedMemoryInTheOrderOfItsLane) {
  Two ranks;
  auto x = std::make_unique<Tensor>(ranks.first, DataType::kFloat64, 1);
  const Tensor behind(ranks.first, DataType::kFloat64, 1);
  const Tensor before(ranks.first, DataType::kFloat64, 1);
  const Buffer released = *x;
  ranks.first.fill(*x, 3.0);
  ranks.first.copy(*x, before);
  x.reset();
  ranks.first.copy(released, behind);
  EXPECT_THAT(values_of(ranks.first, before), ElementsAre(3.0));
  EXPECT_TRUE(std::isnan(values_of(ranks.first, behind)[0]));
}

}  // namespace
}  // namespace ptdp::testing
