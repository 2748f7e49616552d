// Tests many ranks at random: messages and collectives of overlapping groups, waits in any order,
// and an end at any moment.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

constexpr int kNumGroups = 4;

// What happens next for the ranks concerned. All ranks walk the same list of events.
struct Event {
  enum class Kind : std::uint8_t { kMessage, kAllReduce, kReduceScatter, kAllGather, kBarrier };
  Kind kind = Kind::kMessage;
  int group = 0;
  int from = 0;  // rank in the group
  int to = 0;
  std::int64_t size = 0;
};

struct Traffic {
  std::array<std::vector<int>, kNumGroups> groups;  // ranks of the world
  std::vector<Event> events;
};

Traffic random_traffic(int ranks, int num_events, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % limit); };
  Traffic traffic;
  for (std::vector<int>& group : traffic.groups) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      all[static_cast<std::size_t>(rank)] = rank;
    }
    std::shuffle(all.begin(), all.end(), random);
    all.resize(1 + random() % static_cast<std::size_t>(ranks));
    group = all;
  }
  for (int i = 0; i < num_events; ++i) {
    Event event;
    event.kind = static_cast<Event::Kind>(std::max(0, below(12) - 7));
    event.group = below(kNumGroups);
    const int size = static_cast<int>(traffic.groups[static_cast<std::size_t>(event.group)].size());
    event.from = below(size);
    event.to = below(size);
    // Some sizes have slices that are copied, and some have slices that are not.
    const int magnitude = below(16);
    event.size = magnitude == 0 ? below(60'000) : magnitude < 4 ? below(3000) : below(20);
    traffic.events.push_back(event);
  }
  return traffic;
}

// Returns whole numbers, whose sums are exact.
double value_of(std::size_t event, int rank, std::int64_t i) {
  return static_cast<double>(
      (event * 7919 + static_cast<std::size_t>(rank) * 104729 + static_cast<std::size_t>(i) * 31) %
      1000);
}

std::vector<double> values_of(std::size_t event, int rank, std::int64_t size) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    values.push_back(value_of(event, rank, i));
  }
  return values;
}

double sum_of(std::size_t event, int ranks, std::int64_t i) {
  double sum = 0.0;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += value_of(event, rank, i);
  }
  return sum;
}

// One rank's walk through the events.
class Walk {
 public:
  Walk(const Traffic& traffic, Communicator& world) : traffic_(&traffic), random_(world.rank()) {
    for (int i = 0; i < kNumGroups; ++i) {
      const std::vector<int>& ranks = traffic.groups[static_cast<std::size_t>(i)];
      const bool is_member = std::find(ranks.begin(), ranks.end(), world.rank()) != ranks.end();
      if (!is_member) {
        world.skip_group();
      }
      groups_.push_back(is_member ? world.group(ranks, i) : nullptr);
    }
  }

  void step(std::size_t number) {
    const Event& event = traffic_->events[number];
    Communicator* const group = groups_[static_cast<std::size_t>(event.group)].get();
    if (group == nullptr) {
      return;
    }
    if (event.kind == Event::Kind::kMessage) {
      exchange(number, event, *group);
    } else {
      collect(number, event, *group);
    }
    if (random_() % 4 == 0) {
      wait_for_one();
    }
  }

  void finish() {
    while (!receives_.empty()) {
      wait_for_one();
    }
  }

 private:
  struct Receive {
    Communicator* group;
    Request request;
    std::unique_ptr<std::vector<double>> values;
    std::vector<double> expected;
  };

  void exchange(std::size_t number, const Event& event, Communicator& group) {
    if (group.rank() == event.from) {
      std::vector<double> values = values_of(number, event.from, event.size);
      group.wait(group.send(buffer_of(values), event.to));
    }
    if (group.rank() == event.to) {
      auto values = std::make_unique<std::vector<double>>(event.size);
      const Request request = group.receive(buffer_of(*values), event.from);
      receives_.push_back(
          {&group, request, std::move(values), values_of(number, event.from, event.size)});
    }
  }

  void wait_for_one() {
    if (receives_.empty()) {
      return;
    }
    const std::size_t which = random_() % receives_.size();
    std::swap(receives_[which], receives_.back());
    const Receive receive = std::move(receives_.back());
    receives_.pop_back();
    receive.group->wait(receive.request);
    EXPECT_EQ(*receive.values, receive.expected);
  }

  static void collect(std::size_t number, const Event& event, Communicator& group) {
    std::vector<double> values = values_of(number, group.rank(), event.size);
    Part checked = {0, event.size};
    switch (event.kind) {
      case Event::Kind::kMessage:
      case Event::Kind::kBarrier:
        group.barrier();
        return;
      case Event::Kind::kAllReduce:
        group.all_reduce(buffer_of(values), Reduction::kSum);
        break;
      case Event::Kind::kReduceScatter:
        group.reduce_scatter(buffer_of(values));
        checked = part_of(event.size, group.size(), group.rank());
        break;
      case Event::Kind::kAllGather:
        group.all_gather(buffer_of(values));
        for (int rank = 0; rank < group.size(); ++rank) {
          const Part part = part_of(event.size, group.size(), rank);
          for (std::int64_t i = part.first; i < part.first + part.count; ++i) {
            EXPECT_EQ(values[static_cast<std::size_t>(i)], value_of(number, rank, i));
          }
        }
        return;
    }
    for (std::int64_t i = checked.first; i < checked.first + checked.count; ++i) {
      EXPECT_EQ(values[static_cast<std::size_t>(i)], sum_of(number, group.size(), i));
    }
  }

  const Traffic* traffic_;
  std::minstd_rand random_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  std::vector<Receive> receives_;
};

TEST(RandomTraffic, ArrivesAsItWasSent) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kOrdered}) {
    for (const int wanted : {2, 3, 8, 33}) {
      const int ranks = std::min(wanted, most_ranks());
      const Traffic traffic = random_traffic(ranks, 400, static_cast<unsigned>(wanted));
      on_ranks(ranks, algorithm, [&](const TestRank& rank) {
        Walk walk(traffic, rank.all);
        for (std::size_t i = 0; i < traffic.events.size(); ++i) {
          walk.step(i);
        }
        walk.finish();
      });
    }
  }
}

// One rank stops at a random step, wherever the others are then; nobody stays behind, and nobody
// writes to what those that left have freed (the address sanitizer looks).
TEST(RandomTraffic, EndsForAllWhenOneRankStops) {
  std::mt19937 random(1);
  for (int round = 0; round < 40; ++round) {
    const int ranks = std::min(2 + static_cast<int>(random() % 7), most_ranks());
    const int culprit = static_cast<int>(random() % static_cast<unsigned>(ranks));
    const std::size_t last = random() % 200;
    const Traffic traffic = random_traffic(ranks, 400, static_cast<unsigned>(random()));
    const auto algorithm =
        round % 2 == 0 ? CollectiveAlgorithm::kRing : CollectiveAlgorithm::kOrdered;
    on_ranks(ranks, algorithm, [&](const TestRank& rank) {
      const auto walk_on = [&] {
        Walk walk(traffic, rank.all);
        for (std::size_t i = 0; i < traffic.events.size(); ++i) {
          if (rank.all.rank() == culprit && i == last) {
            rank.world.abort();
          }
          walk.step(i);
        }
        walk.finish();
        rank.all.barrier();
      };
      EXPECT_THROW(walk_on(), Aborted);
    });
  }
}

}  // namespace
}  // namespace ptdp
