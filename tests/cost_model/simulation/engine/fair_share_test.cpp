// Tests of how transfers share links fairly.
#include "cost_model/simulation/engine/fair_share.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

namespace ptdp {
namespace {

TEST(FairShare, GivesAFlowAloneTheWholeLink) {
  FairShare shares(1, 2);
  shares.start(0, {0, 1});
  EXPECT_EQ(shares.update().size(), 1U);
  EXPECT_EQ(shares.rate(0), 1.0);
}

TEST(FairShare, HalvesALinkOfTwo) {
  FairShare shares(2, 3);
  shares.start(0, {0, 1});
  shares.start(1, {0, 2});
  EXPECT_EQ(shares.update().size(), 2U);
  EXPECT_EQ(shares.rate(0), 0.5);
  EXPECT_EQ(shares.rate(1), 0.5);
  shares.stop(0);
  EXPECT_EQ(shares.update().size(), 1U);
  EXPECT_EQ(shares.rate(1), 1.0);
}

// By hand: three flows on link 0 have 1/3 each; the fourth has what the third leaves of link 1.
TEST(FairShare, GivesTheRestOfALinkToThoseWhoCanUseIt) {
  FairShare shares(4, 2);
  shares.start(0, {0, 0});
  shares.start(1, {0, 0});
  shares.start(2, {0, 1});
  shares.start(3, {1, 1});
  (void)shares.update();
  for (const int flow : {0, 1, 2}) {
    EXPECT_DOUBLE_EQ(shares.rate(flow), 1.0 / 3.0);
  }
  EXPECT_DOUBLE_EQ(shares.rate(3), 2.0 / 3.0);
}

TEST(FairShare, LeavesAloneWhatIsNotConnected) {
  FairShare shares(3, 4);
  shares.start(0, {0, 1});
  (void)shares.update();
  shares.start(1, {2, 3});
  shares.start(2, {2, 2});
  const std::span<const int> changed = shares.update();
  EXPECT_EQ(std::vector<int>(changed.begin(), changed.end()), (std::vector<int>{1, 2}));
}

/// Expects the conditions of max-min fair rates (Bertsekas & Gallager, 6.5.2). No link carries more
/// than 1, and every flow has a full link on which no flow has more.
void expect_max_min(const FairShare& shares, const std::map<int, std::array<int, 2>>& flows) {
  std::map<int, double> load;
  std::map<int, double> most;
  for (const auto& [flow, links] : flows) {
    for (const int link : std::set<int>(links.begin(), links.end())) {
      load[link] += shares.rate(flow);
      most[link] = std::max(most[link], shares.rate(flow));
    }
  }
  for (const auto& [link, carried] : load) {
    RC_ASSERT(carried <= 1.0 + 1e-12);
  }
  for (const auto& [flow, links] : flows) {
    RC_ASSERT(std::any_of(links.begin(), links.end(), [&, flow = flow](int link) {
      return load[link] >= 1.0 - 1e-12 && shares.rate(flow) >= most[link] - 1e-12;
    }));
  }
}

TEST(FairShare, IsMaxMinFairAfterAnyStartsAndStops) {
  EXPECT_TRUE(rc::check([] {
    const int num_links = *rc::gen::inRange(1, 12);
    constexpr int num_flows = 20;
    FairShare shares(num_flows, num_links);
    std::map<int, std::array<int, 2>> running;
    const auto choices = *rc::gen::container<std::vector<std::array<int, 3>>>(
        rc::gen::container<std::array<int, 3>>(rc::gen::inRange(0, 1000)));
    for (const auto& [which, first, second] : choices) {
      const int flow = which % num_flows;
      if (running.erase(flow) > 0) {
        shares.stop(flow);
      } else {
        running[flow] = {first % num_links, second % num_links};
        shares.start(flow, running[flow]);
      }
      if (which % 3 != 0) {  // else several at once
        (void)shares.update();
        expect_max_min(shares, running);
      }
    }
  }));
}

}  // namespace
}  // namespace ptdp
