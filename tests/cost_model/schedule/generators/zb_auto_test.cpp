// Tests of the searched schedule zb-auto.
#include "cost_model/schedule/generators/zb_auto.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/zero_bubble.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/schedule/random_schedules.h"

namespace ptdp {
namespace {

/// Returns when the last action ends if every rank does its list in order. It asks each rank again
/// and again what it can do next. Returns nullopt for a deadlock.
std::optional<std::int64_t> makespan_of(const Schedule& schedule, const ScheduleShape& shape) {
  const auto ticks = [&](int stage) {
    return shape.ticks.empty() ? StageTicks{} : shape.ticks[shape.ticks.size() == 1 ? 0 : stage];
  };
  const int m = schedule.num_microbatches;
  const auto table = [&] {
    return std::vector<std::vector<std::int64_t>>(schedule.pp, std::vector<std::int64_t>(m, -1));
  };
  std::vector<std::vector<std::int64_t>> forward = table();
  std::vector<std::vector<std::int64_t>> input = table();
  std::vector<std::size_t> next(schedule.pp);
  std::vector<std::int64_t> now(schedule.pp);
  std::int64_t left = num_actions(schedule);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < schedule.pp; ++rank) {
      while (next[rank] < schedule.orders[rank].size()) {
        const Action action = schedule.orders[rank][next[rank]];
        const int mb = action.microbatch;
        const bool is_last = rank + 1 == schedule.pp;
        std::int64_t ready = 0;
        std::int64_t duration = ticks(rank).weight_gradient;
        std::vector<std::vector<std::int64_t>>* ends = nullptr;
        if (action.kind == ActionKind::kForward) {
          ready = rank == 0 ? 0 : forward[rank - 1][mb];
          ready += rank == 0 || ready < 0 ? 0 : shape.message_ticks;
          duration = ticks(rank).forward;
          ends = &forward;
        } else if (action.kind == ActionKind::kInputGradient) {
          ready = is_last ? forward[rank][mb] : input[rank + 1][mb];
          ready += is_last || ready < 0 ? 0 : shape.message_ticks;
          duration = ticks(rank).input_gradient;
          ends = &input;
        }
        if (ready < 0) {
          break;
        }
        now[rank] = std::max(now[rank], ready) + duration;
        if (ends != nullptr) {
          (*ends)[rank][mb] = now[rank];
        }
        ++next[rank];
        --left;
        moved = true;
      }
    }
  }
  return left > 0 ? std::nullopt : std::optional(*std::max_element(now.begin(), now.end()));
}

SearchedShape searched(const ScheduleShape& shape) {
  return {.pp = shape.pp,
          .num_microbatches = shape.num_microbatches,
          .ticks = shape.ticks,
          .message_ticks = shape.message_ticks,
          .memory_limit = shape.memory_limit.value_or(shape.pp)};
}

/// Returns a shape with random durations from `least` to `most`, for all stages alike or for each.
ScheduleShape random_shape(int pp, int num_microbatches, int least, int most) {
  ScheduleShape shape{
      .pp = pp, .num_microbatches = num_microbatches, .message_ticks = random_between(0, 4)};
  const int entries = *rc::gen::element(0, 1, pp);
  for (int i = 0; i < entries; ++i) {
    shape.ticks.push_back(
        {random_between(least, most), random_between(least, most), random_between(least, most)});
  }
  return shape;
}

const ScheduleTraits& generator() {
  return *find_schedule("zb-auto");
}

TEST(ZbAuto, IsAValidScheduleWithinAnyMemoryLimit) {
  EXPECT_TRUE(rc::check([] {
    ScheduleShape shape = random_shape(random_between(1, 9), random_between(1, 24), 1, 30);
    shape.memory_limit = random_between(1, 2 * shape.pp + 1);
    RC_ASSERT(!generator().find_conflict(shape));
    const Schedule schedule = generator().generate(shape);
    const auto fault =
        find_fault(schedule, std::vector<int>(shape.pp, shape.memory_limit.value_or(0)));
    RC_LOG() << (fault ? fault->message() : "");
    RC_ASSERT(!fault.has_value());
    RC_ASSERT(generator().generate(shape) == schedule);
  }));
}

TEST(ZbAuto, IsNeverSlowerThanZbH1AndZbH2InTheirMemory) {
  EXPECT_TRUE(rc::check([&] {
    ScheduleShape shape = random_shape(random_between(1, 8), random_between(1, 32), 1, 20);
    const std::int64_t h1 = *makespan_of(zb_h1(shape.pp, shape.num_microbatches), shape);
    const std::int64_t h2 = *makespan_of(zb_h2(shape.pp, shape.num_microbatches), shape);
    RC_ASSERT(*makespan_of(generator().generate(shape), shape) <= h1);  // limit p
    shape.memory_limit = 2 * shape.pp - 1;
    RC_ASSERT(*makespan_of(generator().generate(shape), shape) <= std::min(h1, h2));
  }));
}

// Spans by the simulator, durations in seconds.
TEST(ZbAuto, HasNoLongerSpansThanZbH1AndZbH2WhereSpansCount) {
  EXPECT_TRUE(rc::check([&] {
    ScheduleShape shape = random_shape(random_between(1, 8), random_between(1, 24), 1, 20);
    shape.message_ticks = 0;
    std::vector<StageDurations> durations;
    for (int stage = 0; stage < shape.pp; ++stage) {
      const StageTicks ticks =
          shape.ticks.empty() ? StageTicks{} : shape.ticks[shape.ticks.size() == 1 ? 0 : stage];
      durations.push_back(stage_durations(Seconds(ticks.forward), Seconds(ticks.input_gradient),
                                          Seconds(ticks.weight_gradient)));
    }
    const auto span_of = [&](const Schedule& schedule) {
      Seconds longest;
      for (const RankTimes& rank : simulate(schedule, durations).ranks) {
        longest = std::max(longest, rank.end - rank.start);
      }
      return longest;
    };
    shape.memory_limit = 2 * shape.pp - 1;
    shape.shortens_spans = true;
    const Seconds span = span_of(generator().generate(shape));
    RC_ASSERT(span <= span_of(zb_h1(shape.pp, shape.num_microbatches)));
    RC_ASSERT(span <= span_of(zb_h2(shape.pp, shape.num_microbatches)));
  }));
}

TEST(ZbAuto, BeatsNoBound) {
  EXPECT_TRUE(rc::check([&] {
    ScheduleShape shape = random_shape(random_between(1, 8), random_between(1, 32), 1, 20);
    shape.memory_limit = random_between(1, 2 * shape.pp);
    RC_ASSERT(*makespan_of(generator().generate(shape), shape) >=
              zb_makespan_bound(searched(shape)));
  }));
}

// Uneven stages with messages, drawn from a fixed seed, so that what is counted is the same in
// every run.
TEST(ZbAuto, GainsFromUnevenDurations) {
  std::mt19937 engine(1);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(engine() % static_cast<unsigned>(high - low + 1));
  };
  int faster_than_h1 = 0;
  int faster_than_h2 = 0;
  double excess = 0.0;
  constexpr int drawn = 60;
  for (int i = 0; i < drawn; ++i) {
    ScheduleShape shape{
        .pp = between(4, 8), .num_microbatches = between(12, 32), .message_ticks = 1};
    for (int rank = 0; rank < shape.pp; ++rank) {
      shape.ticks.push_back({between(9, 13), between(9, 13), between(7, 11)});
    }
    const std::int64_t h1 = *makespan_of(zb_h1(shape.pp, shape.num_microbatches), shape);
    const std::int64_t h2 = *makespan_of(zb_h2(shape.pp, shape.num_microbatches), shape);
    faster_than_h1 += *makespan_of(generator().generate(shape), shape) < h1 ? 1 : 0;
    shape.memory_limit = 2 * shape.pp - 1;
    const std::int64_t makespan = *makespan_of(generator().generate(shape), shape);
    faster_than_h2 += makespan < h2 ? 1 : 0;
    excess +=
        static_cast<double>(makespan) / static_cast<double>(zb_makespan_bound(searched(shape))) -
        1.0;
  }
  EXPECT_GE(faster_than_h1, drawn / 3);
  EXPECT_GE(faster_than_h2, drawn / 4);  // it is often at the bound
  EXPECT_LT(excess / drawn, 0.005);
}

/// A list of actions, and how many of each kind it has.
struct Partial {
  std::vector<Action> order;
  std::array<int, 3> done = {};
};

/// Returns every order of m forward passes, input and weight gradients in which each action follows
/// what it needs. Each kind is in the order of microbatches, as it is in some best schedule.
std::vector<Partial> all_orders(int rank, int m, int limit) {
  constexpr std::array kinds = {ActionKind::kForward, ActionKind::kInputGradient,
                                ActionKind::kWeightGradient};
  std::vector<Partial> orders(1);
  for (int length = 0; length < 3 * m; ++length) {
    std::vector<Partial> longer;
    for (const Partial& partial : orders) {
      const auto& [forwards, inputs, weights] = partial.done;
      const std::array<bool, 3> can = {forwards < m && forwards - weights < limit,
                                       inputs < forwards, weights < inputs};
      for (std::size_t kind = 0; kind < 3; ++kind) {
        if (can.at(kind)) {
          longer.push_back(partial);
          longer.back().order.push_back({kinds.at(kind), rank, partial.done.at(kind)});
          ++longer.back().done.at(kind);
        }
      }
    }
    orders = std::move(longer);
  }
  return orders;
}

/// Returns the least makespan of all lists of two ranks.
std::int64_t least_makespan(const ScheduleShape& shape) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Schedule schedule{.pp = 2, .num_microbatches = shape.num_microbatches, .orders = {{}, {}}};
  const int limit = shape.memory_limit.value_or(2);
  const std::vector<Partial> seconds = all_orders(1, shape.num_microbatches, limit);
  for (const Partial& first : all_orders(0, shape.num_microbatches, limit)) {
    schedule.orders[0] = first.order;
    for (const Partial& second : seconds) {
      schedule.orders[1] = second.order;
      if (const auto makespan = makespan_of(schedule, shape)) {
        least = std::min(least, *makespan);
      }
    }
  }
  return least;
}

TEST(ZbAuto, IsNearTheBestOfAllOrdersOfTwoRanks) {
  EXPECT_TRUE(rc::check([&] {
    ScheduleShape shape = random_shape(2, random_between(1, 3), 3, 20);
    shape.memory_limit = random_between(1, 3);
    const std::int64_t least = least_makespan(shape);
    const std::int64_t makespan = *makespan_of(generator().generate(shape), shape);
    RC_ASSERT(zb_makespan_bound(searched(shape)) <= least);
    RC_ASSERT(makespan >= least);
    RC_ASSERT(static_cast<double>(makespan) <= 1.2 * static_cast<double>(least));
  }));
}

// By hand: with room for a single activation a microbatch has the pipeline to itself. It takes 2·10
// + 2·12 and the first rank's weight gradient of 8, during which the second rank is not needed.
TEST(ZbAuto, RunsOneMicrobatchAfterTheOtherInTheLeastMemory) {
  const ScheduleShape shape{
      .pp = 2, .num_microbatches = 5, .ticks = {{10, 12, 8}}, .memory_limit = 1};
  EXPECT_EQ(makespan_of(generator().generate(shape), shape), 5 * (20 + 24 + 8));
}

TEST(ZbAuto, RefusesWhatCannotWork) {
  struct Row {
    ScheduleShape shape;
    const char* size = nullptr;
    int found = 0;
  };
  for (const Row& row :
       {Row{{.pp = 2, .num_microbatches = 4, .memory_limit = 0}, "memory-limit", 0},
        Row{{.pp = 2, .vpp = 2, .num_microbatches = 4}, "vpp", 2},
        Row{{.pp = 3, .num_microbatches = 4, .ticks = {{1, 1, 1}, {1, 1, 1}}}, "durations", 2},
        Row{{.pp = 2, .num_microbatches = 4, .ticks = {{1, 0, 1}}}, "durations", 0},
        Row{{.pp = 2, .num_microbatches = 4, .ticks = {{1, 1, kMostTicks + 1}}},
            "durations",
            kMostTicks + 1},
        Row{{.pp = 2, .num_microbatches = 4, .message_ticks = -1}, "durations", -1}}) {
    const auto conflict = generator().find_conflict(row.shape);
    ASSERT_TRUE(conflict.has_value()) << row.size;
    EXPECT_EQ(conflict->size, row.size);
    EXPECT_EQ(conflict->found, row.found);
  }
  const ScheduleShape limited{.pp = 2, .num_microbatches = 4, .memory_limit = 4};
  EXPECT_EQ(find_schedule("zb-h1")->find_conflict(limited)->size, "memory-limit");
}

// A million microbatches of the longest durations still fit the numbers.
TEST(ZbAuto, TakesTheLongestDurations) {
  const SearchedShape shape{.pp = 1, .num_microbatches = 1 << 20};
  const StageTicks longest{kMostTicks, kMostTicks, kMostTicks};
  SearchedShape with_longest = shape;
  with_longest.ticks = {&longest, 1};
  EXPECT_EQ(zb_makespan_bound(with_longest), 3LL * kMostTicks * (1 << 20));
}

TEST(Ticks, AreExactForWholeNumbersAndFineForOthers) {
  const std::vector<Seconds> whole = {Seconds(10.0), Seconds(12.0), Seconds(8.0)};
  EXPECT_EQ(suitable_tick(whole), Seconds(1.0));
  EXPECT_EQ(in_ticks(Seconds(12.0), Seconds(1.0)), 12);
  const std::vector<Seconds> real = {Seconds(0.004), Seconds(0.002)};
  EXPECT_EQ(in_ticks(Seconds(0.004), suitable_tick(real)), 10000);
  EXPECT_EQ(in_ticks(Seconds(0.002), suitable_tick(real)), 5000);
  EXPECT_EQ(in_ticks(Seconds(1e-9), suitable_tick(real)), 1);
  EXPECT_EQ(in_ticks(Seconds(0.0), suitable_tick(real), 0), 0);
  EXPECT_EQ(in_ticks(Seconds(1e300), Seconds(1.0)), kMostTicks);
}

}  // namespace
}  // namespace ptdp
