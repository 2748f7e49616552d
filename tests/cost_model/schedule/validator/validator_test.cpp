// Tests of the faults that the schedule validator finds.
#include "cost_model/schedule/validator/validator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/validator/deadlock.h"
#include "tests/cost_model/schedule/golden_schedules.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Schedule schedule_of(std::string_view csv) {
  return parse_schedule_csv(csv, "x");
}

std::string fault_of(const Schedule& schedule, std::vector<int> limits = {}) {
  const auto fault = find_fault(schedule, limits);
  return fault ? fault->message() : "none";
}

/// Returns the golden schedules and, for sizes that the golden file lacks, some of this project's.
std::vector<Schedule> valid_schedules() {
  std::vector<Schedule> schedules;
  for (const GoldenSchedule& golden : golden_schedules()) {
    schedules.push_back(parse_schedule_csv(golden.csv, golden.title()));
    schedules.back().name = golden.title();
  }
  for (const ScheduleTraits& generator : kSchedules) {
    for (const ScheduleShape& shape : {ScheduleShape{.pp = 6, .vpp = 1, .num_microbatches = 7},
                                       ScheduleShape{.pp = 5, .vpp = 3, .num_microbatches = 9}}) {
      if (!generator.find_conflict(shape)) {
        schedules.push_back(generator.generate(shape));
      }
    }
  }
  return schedules;
}

TEST(Validator, AcceptsEveryGoldenSchedule) {
  for (const GoldenSchedule& golden : golden_schedules()) {
    EXPECT_EQ(fault_of(parse_schedule_csv(golden.csv, "x")), "none") << golden.title();
  }
}

/// Calls `mutate(order, i)` on every action of a copy of the schedule. If it says that it changed
/// something, the copy must have a fault whose text begins with one of `beginnings`.
template <class Mutate>
void expect_every_mutation_is_caught(const Mutate& mutate) {
  std::int64_t mutations = 0;
  for (const Schedule& valid : valid_schedules()) {
    for (std::size_t rank = 0; rank < valid.orders.size(); ++rank) {
      for (std::size_t i = 0; i < valid.orders[rank].size(); ++i) {
        Schedule mutated = valid;
        if (!mutate(mutated, rank, i)) {
          continue;
        }
        ++mutations;
        const auto fault = find_fault(mutated);
        ASSERT_TRUE(fault.has_value()) << valid.name << " rank " << rank << " action " << i << "\n"
                                       << to_csv(mutated);
        ASSERT_THAT(fault->message(), HasSubstr("<-- here")) << valid.name;
      }
    }
  }
  EXPECT_GT(mutations, 10000);
}

TEST(Validator, CatchesEveryMissingAction) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    schedule.orders[rank].erase(schedule.orders[rank].begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  });
}

TEST(Validator, CatchesEveryDoubledAction) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    schedule.orders[rank].push_back(schedule.orders[rank][i]);
    return true;
  });
}

TEST(Validator, CatchesEveryActionThatTakesThePlaceOfAnother) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    std::vector<Action>& order = schedule.orders[rank];
    const bool overlaps = order[i].overlaps_next;
    order[i] = order[(i + 1) % order.size()];
    order[i].overlaps_next = overlaps;
    return order.size() > 1;
  });
}

TEST(Validator, CatchesEveryActionOnAnotherRank) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    Action action = schedule.orders[rank][i];
    if (action.overlaps_next) {
      return false;
    }
    schedule.orders[rank].erase(schedule.orders[rank].begin() + static_cast<std::ptrdiff_t>(i));
    std::vector<Action>& other = schedule.orders[(rank + 1) % schedule.orders.size()];
    other.insert(other.begin() + static_cast<std::ptrdiff_t>(std::min(i, other.size())), action);
    return true;
  });
}

TEST(Validator, CatchesEveryActionOutOfRange) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    Action& action = schedule.orders[rank][i];
    if (i % 2 == 0) {
      action.stage = i % 4 == 0 ? num_stages(schedule) : -1;
    } else {
      action.microbatch = i % 4 == 1 ? schedule.num_microbatches : -1;
    }
    return true;
  });
}

TEST(Validator, CatchesEverySwapWithAnActionThatNeedsIt) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    std::vector<Action>& order = schedule.orders[rank];
    for (std::size_t other = i + 1; other < order.size(); ++other) {
      const bool is_same =
          order[other].stage == order[i].stage && order[other].microbatch == order[i].microbatch;
      if (is_same) {
        std::swap(order[i].kind, order[other].kind);
        return true;
      }
    }
    return false;
  });
}

TEST(Validator, CatchesEverySwapOfTwoMessagesOfAStage) {
  expect_every_mutation_is_caught([](Schedule& schedule, std::size_t rank, std::size_t i) {
    std::vector<Action>& order = schedule.orders[rank];
    for (std::size_t other = i + 1; other < order.size(); ++other) {
      const bool are_alike = order[other].stage == order[i].stage &&
                             order[other].kind == order[i].kind &&
                             order[i].kind != ActionKind::kWeightGradient;
      if (are_alike) {
        std::swap(order[i].microbatch, order[other].microbatch);
        return true;
      }
    }
    return false;
  });
}

TEST(Validator, ShowsTheGridAroundTheOffence) {
  EXPECT_EQ(fault_of(schedule_of("0F0,0F1,0F2,0F3,0F4,0F5,0B0,0B1,0B2,0B3,0B4,0B4\n"
                                 "1F0,1F1,1F2,1F3,1F4,1F5,1B0,1B1,1B2,1B3,1B4,1B5\n")),
            "rank 0, action 11, 0B4: expected once, but it is there twice\n"
            "rank 0: ... 0B1 0B2 0B3 0B4 >0B4<  <-- here\n"
            "rank 1: ... 1B1 1B2 1B3 1B4 1B5\n");
}

TEST(Validator, NamesAMissingAction) {
  EXPECT_THAT(fault_of(schedule_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n")),
              HasSubstr("rank 1: 1B1 (or 1I1 and 1W1) is missing"));
  EXPECT_THAT(fault_of(schedule_of("0F0,0I0\n")), HasSubstr("rank 0: 0W0 is missing"));
  EXPECT_THAT(fault_of(schedule_of("0F0,0F1,0B0,0W1\n0I1\n")), HasSubstr("expected"));
  // There are far more slots than actions, so the validator must not make a table of them.
  EXPECT_THAT(fault_of(schedule_of("0F0,65535F16777215\n")), HasSubstr("0F1 is missing"));
}

TEST(Validator, NamesBothEndsOfADeadlock) {
  // Each first action needs what the other rank does second.
  EXPECT_EQ(fault_of(schedule_of("0F0,2F0,0F1,2F1,2B0,2B1,0B0,0B1\n"
                                 "1F0,3F0,1F1,3F1,1B0,3B0,3B1,1B1\n")),
            "deadlock: rank 0, action 4, 2B0: expected 3I0 or 3B0 first, which waits in turn\n"
            "rank 0: 0F0 2F0 0F1 2F1 >2B0< 2B1 0B0 0B1  <-- here\n"
            "rank 1: 1F0 3F0 1F1 3F1 >1B0< 3B0 3B1 1B1  <-- here\n");
}

/// The first rank's list of 1F1B on two ranks with two microbatches, complete.
const std::string kFirstRank =
    "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD0,0TIED0,0NORM0,0OPTIMIZER0\n";
const std::string kSecondRank =
    "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD0,1TIED0,1NORM0,"
    "1OPTIMIZER0\n";

/// Returns the schedule with a part of the second rank's list replaced.
Schedule with_second_rank(const std::string& part, const std::string& by) {
  std::string second = kSecondRank;
  return schedule_of(kFirstRank + second.replace(second.find(part), part.size(), by));
}

TEST(CompleteSchedule, WithoutAFaultIsAccepted) {
  EXPECT_EQ(fault_of(schedule_of(kFirstRank + kSecondRank)), "none");
}

// Each rank sends before it receives. That is no deadlock where the two directions have lanes of
// their own, but it is one where both wait in line with compute.
TEST(CompleteSchedule, MayNotDeadlockWhereMessagesBlock) {
  const Schedule schedule =
      with_second_rank("1RECV_F1,1B0,1SEND_B0,1F1", "1B0,1SEND_B0,1RECV_F1,1F1");
  EXPECT_EQ(find_lane_deadlock(schedule, MessageMode::kOverlapped), std::nullopt);
  EXPECT_EQ(fault_of(schedule),
            "deadlock where messages block compute: rank 0, action 3, 0SEND_F1: expected rank 1 at "
            "1RECV_F1 first, which waits in turn\n"
            "rank 0: 0F0 0SEND_F0 0F1 >0SEND_F1< 0RECV_B0 0B0 0RECV_B1 0B1 ...  <-- here\n"
            "rank 1: 1RECV_F0 1F0 1B0 >1SEND_B0< 1RECV_F1 1F1 1B1 1SEND_B1 ...  <-- here\n");
}

// Rank 1 waits for stage 2's gradient before it sends that of stage 3, from which it is made.
TEST(CompleteSchedule, MayNotDeadlockWhereMessagesOverlap) {
  const Schedule schedule = schedule_of(
      "0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,1RECV_B0,3SEND_B0,1B0,1SEND_B0\n");
  EXPECT_EQ(find_lane_deadlock(schedule, MessageMode::kOverlapped)->what,
            "deadlock where messages overlap with compute: rank 0, action 5, 2RECV_B0: expected "
            "rank 1 at 3SEND_B0 first, which waits in turn");
}

TEST(CompleteSchedule, ShowsEveryKindOfOffence) {
  struct Row {
    const char* part = nullptr;
    const char* by = nullptr;
    const char* fault = nullptr;
  };
  for (const Row& row :
       {Row{"1RECV_F0,", "", "rank 1: 1RECV_F0 is missing; expected once"},
        Row{"1SEND_B1", "1SEND_B1,1SEND_B0", "1SEND_B0: expected once, but it is there twice"},
        Row{"1RECV_F0", "1SEND_F0", "rank 1, action 0, 1SEND_F0: expected messages between"},
        Row{"1RECV_F0", "1COPY_F0", "rank 1, action 0, 1COPY_F0: expected copies between"},
        Row{"1RECV_F0,1F0", "1F0,1RECV_F0", "1F0: expected 1RECV_F0 before it"},
        Row{"1B0,1SEND_B0", "1SEND_B0,1B0", "1SEND_B0: expected 1B0 or 1I0 before it"},
        Row{"1RECV_F0,1F0,1RECV_F1", "1RECV_F1,1RECV_F0,1F0",
            "rank 1, action 0, 1RECV_F1: expected the results of rank 0 in the order in which"},
        Row{"1B1,1SEND_B1,1REDUCE_GRAD0", "1REDUCE_GRAD0,1B1,1SEND_B1",
            "1REDUCE_GRAD0: expected it behind the last weight gradient of the stage"},
        Row{"1REDUCE_GRAD0", "1REDUCE_GRAD1", "1REDUCE_GRAD1: expected bucket 0 next"},
        Row{"1REDUCE_GRAD0,", "", "rank 1: 1REDUCE_GRAD0 is missing; expected once"},
        Row{"1REDUCE_GRAD0", "0REDUCE_GRAD0", "0REDUCE_GRAD0: expected it on rank 0"},
        Row{"1F0", "1F0,1UNSHARD0", "expected it before the first forward pass of the stage"},
        Row{"1TIED0", "0TIED0", "0TIED0: expected 0TIED0 on rank 0 and 1TIED0 on rank 1"},
        Row{"1TIED0,", "", "rank 1: 1TIED0 is missing; expected once"},
        Row{"1NORM0", "0NORM0", "0NORM0: expected 1NORM0 on this rank"},
        Row{"1TIED0,1NORM0", "1NORM0,1TIED0", "1TIED0: expected the order TIED, NORM, OPTIMIZER"},
        Row{"1OPTIMIZER0", "1OPTIMIZER0,1OPTIMIZER0",
            "1OPTIMIZER0: expected once, but it is there twice"},
        Row{"1SEND_B1,1REDUCE_GRAD0,1TIED0", "1REDUCE_GRAD0,1TIED0,1SEND_B1",
            "1SEND_B1: expected it before TIED, NORM and OPTIMIZER"},
        Row{",1OPTIMIZER0", "", "rank 1: 1OPTIMIZER0 is missing; expected once"}}) {
    const std::string fault = fault_of(with_second_rank(row.part, row.by));
    EXPECT_THAT(fault, HasSubstr(row.fault)) << row.part << " -> " << row.by;
    EXPECT_THAT(fault, HasSubstr("<-- here")) << row.part;
  }
}

TEST(CompleteSchedule, HasPairsThatComputeOnly) {
  EXPECT_THAT(fault_of(with_second_rank("1RECV_F1,1B0,", "(1RECV_F1;1B0),")),
              HasSubstr("1RECV_F1: expected actions that compute in a pair"));
}

TEST(CompleteSchedule, RecomputesBetweenForwardAndBackward) {
  EXPECT_EQ(fault_of(with_second_rank("1B0,", "1R0,1B0,")), "none");
  EXPECT_THAT(fault_of(with_second_rank("1F0,", "1R0,1F0,")),
              HasSubstr("1R0: expected 1F0 before it"));
  EXPECT_THAT(fault_of(with_second_rank("1B0,", "1B0,1R0,")),
              HasSubstr("1R0: expected it before the backward pass"));
  EXPECT_EQ(fault_of(schedule_of("0F0,0F1,0R0,0B0,0R1,0B1\n"), {2}), "none");
}

TEST(CompleteSchedule, OfTorchIsAccepted) {
  for (const char* file : {"torch_zb1p_compute.csv", "torch_zb1p_comms.csv"}) {
    EXPECT_EQ(fault_of(read_schedule_csv(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + file)),
              "none");
  }
}

TEST(Validator, LetsNoPairWaitForItself) {
  EXPECT_THAT(fault_of(schedule_of("(0F0;0B0)\n")),
              HasSubstr("rank 0, action 1, 0B0: expected 0F0 before it"));
  EXPECT_THAT(fault_of(schedule_of("0F0,(0I0;0W0)\n")),
              HasSubstr("rank 0, action 2, 0W0: expected 0I0 before it"));
  EXPECT_EQ(fault_of(schedule_of("0F0,(0F1;0B0),0B1\n")), "none");
}

TEST(Validator, WantsTwoActionsInAPair) {
  Schedule schedule = schedule_of("0F0,0B0\n");
  schedule.orders[0][1].overlaps_next = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("expected one action behind it to overlap with"));
  schedule = schedule_of("0F0,0F1,0B0,0B1\n");
  schedule.orders[0][1].overlaps_next = true;
  schedule.orders[0][2].overlaps_next = true;
  EXPECT_THAT(fault_of(schedule), HasSubstr("expected one action behind it to overlap with"));
}

TEST(Validator, WantsMessagesInOrder) {
  EXPECT_THAT(fault_of(schedule_of("0F0,0F1,0B0,0B1\n1F1,1B1,1F0,1B0\n")),
              HasSubstr("rank 1, action 0, 1F1: expected the results of rank 0 in the order in "
                        "which it makes them"));
  EXPECT_THAT(fault_of(schedule_of("0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1\n")),
              HasSubstr("rank 0, action 2, 0B1: expected the results of rank 1 in the order"));
}

TEST(Validator, HoldsRanksToTheirMemory) {
  const Schedule schedule = schedule_of("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(fault_of(schedule, {2, 1}), "none");
  EXPECT_THAT(fault_of(schedule, {1, 1}),
              HasSubstr("rank 0, action 1, 0F1: expected at most 1 activations at a time, got 2"));
}

TEST(Validator, RefusesSizesThatCannotBe) {
  const Schedule valid = gpipe({.pp = 2, .num_microbatches = 2});
  const auto with = [&](auto change) {
    Schedule schedule = valid;
    change(schedule);
    return fault_of(schedule);
  };
  EXPECT_EQ(with([](Schedule& s) { s.pp = 0; }), "pp: expected a positive number of ranks, got 0");
  EXPECT_EQ(with([](Schedule& s) { s.vpp = -1; }),
            "vpp: expected a positive number of stages per rank, got -1");
  EXPECT_EQ(with([](Schedule& s) { s.num_microbatches = 0; }),
            "microbatches: expected a positive number, got 0");
  EXPECT_EQ(with([](Schedule& s) { s.orders.pop_back(); }),
            "orders: expected one for each of 2 ranks, got 1");
  EXPECT_EQ(with([](Schedule& s) { s.placement = StagePlacement::kV; }),
            "vpp: expected 2 stages per rank in a V, got 1");
  EXPECT_EQ(with([](Schedule& s) {
              s.placement = StagePlacement::kBidirectional;
              s.vpp = 2;
            }),
            "vpp: expected 1 stage per rank and direction, got 2");
}

// By hand: F0 F1 I0 F2 W0: three are held until the weight gradient of the first.
TEST(PeakActivations, AreHeldUntilTheWeightGradient) {
  EXPECT_THAT(peak_activations(schedule_of("0F0,0F1,0I0,0F2,0W0,0I1,0W1,0I2,0W2\n")),
              ElementsAre(3));
}

}  // namespace
}  // namespace ptdp
