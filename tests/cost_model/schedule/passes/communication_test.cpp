// Tests of the messages, reductions and gathers that are added to a schedule.
#include "cost_model/schedule/passes/communication.h"

#include <gmock/gmock.h>

#include <cctype>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/files.h"
#include "tests/cost_model/schedule/golden_schedules.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

std::string golden_text(const char* file) {
  return read_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + file, 1 << 20);
}

/// Returns the CSV in the spelling that torch used before it called the input gradient I. Whole
/// backward passes are BW there, and input gradients B.
std::string in_older_spelling(std::string csv) {
  const auto replace_all = [&](const std::string& kind, const std::string& by) {
    for (std::size_t i = 1; i + 1 < csv.size(); ++i) {
      const bool is_kind = csv.compare(i, 1, kind) == 0 && std::isdigit(csv[i - 1]) != 0 &&
                           std::isdigit(csv[i + 1]) != 0;
      if (is_kind) {
        csv.replace(i, 1, by);
      }
    }
  };
  replace_all("B", "BW");
  replace_all("I", "B");
  return csv;
}

TEST(Messages, StandWhereTorchHasThem) {
  const Schedule compute = parse_schedule_csv(golden_text("torch_zb1p_compute.csv"), "compute");
  EXPECT_EQ(to_csv(insert_messages(merge_backward(compute))), golden_text("torch_zb1p_comms.csv"));
}

TEST(Messages, AreReadInBothOfTorchsSpellings) {
  const std::string text = golden_text("torch_zb1p_comms.csv");
  const std::string older = in_older_spelling(text);
  EXPECT_THAT(older, HasSubstr("2RECV_B0,2BW0,2SEND_B0"));
  EXPECT_THAT(older, HasSubstr("3RECV_F1,3B0,3SEND_B0"));
  const Schedule schedule = parse_schedule_csv(text, "comms");
  EXPECT_EQ(parse_schedule_csv(older, "comms"), schedule);
  EXPECT_EQ(to_csv(schedule), text);
}

/// Returns the communication sweep as torch describes it, with sets instead of tables. A set holds,
/// by name, what a rank has.
std::vector<std::string> swept(const Schedule& schedule) {
  const int last = num_stages(schedule) - 1;
  std::vector<std::vector<Action>> left = schedule.orders;
  std::vector<std::string> lists(schedule.pp);
  std::vector<std::set<std::string>> has(schedule.pp);
  const auto name = [](int stage, const char* kind, int microbatch) {
    return std::to_string(stage) + kind + std::to_string(microbatch);
  };
  const auto is_ready = [&](int rank, const Action& a) {
    if (a.kind == ActionKind::kForward) {
      return a.stage == 0 || has[rank].contains(name(a.stage, "RECV_F", a.microbatch)) ||
             has[rank].contains(name(a.stage - 1, "F", a.microbatch));
    }
    return a.kind == ActionKind::kWeightGradient || a.stage == last ||
           has[rank].contains(name(a.stage, "RECV_B", a.microbatch)) ||
           has[rank].contains(name(a.stage + 1, "B", a.microbatch)) ||
           has[rank].contains(name(a.stage + 1, "I", a.microbatch));
  };
  const auto put = [&](int rank, const std::string& action) {
    lists[rank] += (lists[rank].empty() ? "" : " ") + action;
    has[rank].insert(action);
  };
  const auto hand_over = [&](int rank, int from, int to, const char* way, int microbatch) {
    const int receiver = rank_of(schedule, to, microbatch);
    if (receiver == rank) {
      put(rank, name(to, (std::string("COPY_") + way).c_str(), microbatch));
    } else {
      put(rank, name(from, (std::string("SEND_") + way).c_str(), microbatch));
      put(receiver, name(to, (std::string("RECV_") + way).c_str(), microbatch));
    }
  };
  for (bool moved = true; std::exchange(moved, false);) {
    for (int rank = 0; rank < schedule.pp; ++rank) {
      std::vector<Action>& list = left[rank];
      const std::size_t group = list.empty() ? 0 : list[0].overlaps_next ? 2 : 1;
      bool can = group > 0;
      for (std::size_t i = 0; i < group; ++i) {
        can = can && is_ready(rank, list[i]);
      }
      if (!can) {
        continue;
      }
      moved = true;
      lists[rank] += lists[rank].empty() ? "" : " ";
      lists[rank] += to_string(std::span(list).first(group));
      for (std::size_t i = 0; i < group; ++i) {
        has[rank].insert(to_string(list[i]));
      }
      for (std::size_t i = 0; i < group; ++i) {
        const Action& a = list[i];
        if (a.kind == ActionKind::kForward && a.stage < last) {
          hand_over(rank, a.stage, a.stage + 1, "F", a.microbatch);
        } else if (a.kind != ActionKind::kForward && a.kind != ActionKind::kWeightGradient &&
                   a.stage > 0) {
          hand_over(rank, a.stage, a.stage - 1, "B", a.microbatch);
        }
      }
      list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(group));
    }
  }
  return lists;
}

TEST(Messages, FollowTheSweepOfEveryGenerator) {
  int compared = 0;
  for (const ScheduleTraits& generator : kSchedules) {
    for (const int pp : {1, 2, 3, 4, 7}) {
      for (const int vpp : {1, 2, 3}) {
        for (const int microbatches : {1, 3, 8, 16}) {
          const ScheduleShape shape{.pp = pp, .vpp = vpp, .num_microbatches = microbatches};
          if (generator.find_conflict(shape)) {
            continue;
          }
          const Schedule lowered = insert_messages(generator.generate(shape));
          const std::vector<std::string> expected = swept(generator.generate(shape));
          for (int rank = 0; rank < pp; ++rank) {
            ASSERT_EQ(to_string(lowered.orders[rank]), expected[rank]) << generator.name;
          }
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 150);
}

// Turns are kept 64 ranks to a word.
TEST(Messages, OfManyRanksFollowTheSweep) {
  for (const int pp : {64, 65, 130}) {
    const Schedule schedule =
        find_schedule("zb-v")->generate({.pp = pp, .vpp = 2, .num_microbatches = 3});
    const Schedule lowered = insert_messages(schedule);
    const std::vector<std::string> expected = swept(schedule);
    for (int rank = 0; rank < pp; ++rank) {
      ASSERT_EQ(to_string(lowered.orders[rank]), expected[rank]) << pp << " " << rank;
    }
  }
}

TEST(Messages, OfADeadlockNameTheActionThatWaits) {
  const Schedule schedule = parse_schedule_csv("0B0,0F0\n1F0,1B0\n", "x");
  EXPECT_EQ(message_of([&] { return insert_messages(schedule); }),
            "schedule imported: rank 0 waits for the input of 0B0 for ever; expected no deadlock");
}

TEST(Copies, AreAllThatTorchsFilesLack) {
  const Schedule lowered = insert_messages(
      find_schedule("dualpipev")->generate({.pp = 4, .vpp = 2, .num_microbatches = 10}));
  std::string csv = to_csv(lowered);
  for (const char* copy : {",4COPY_F", ",3COPY_B"}) {
    for (std::size_t i = csv.find(copy); i != std::string::npos; i = csv.find(copy)) {
      csv.erase(i, csv.find_first_of(",\n", i + 1) - i);
    }
  }
  EXPECT_EQ(csv.find("COPY"), std::string::npos);
  Schedule read = parse_schedule_csv(csv, "x");
  read.name = lowered.name;
  EXPECT_EQ(read, lowered);
}

std::string merged(const char* order) {
  return to_string(merge_backward({.orders = {parse_order(order, "x")}}).orders[0]);
}

TEST(MergeBackward, TakesAnInputGradientWithItsWeightGradient) {
  EXPECT_EQ(merged("0F0 0I0 0W0 0F1 0I1 0F2 0W1 0I2 0W2"), "0F0 0B0 0F1 0I1 0F2 0W1 0B2");
  EXPECT_EQ(merged("0I0 0W1 1I1 0W1 0I2 0I3 0W3"), "0I0 0W1 1I1 0W1 0I2 0B3");
  EXPECT_EQ(merged("(0F1;0I0) 0W0"), "(0F1;0I0)OVERLAP_F_B 0W0");
}

TEST(SplitBackward, IsItsInverseOutsidePairs) {
  for (const ScheduleTraits& generator : kSchedules) {
    const ScheduleShape shape{.pp = 4, .vpp = 1, .num_microbatches = 8};
    if (!generator.find_conflict(shape)) {
      const Schedule schedule = merge_backward(generator.generate(shape));
      EXPECT_EQ(merge_backward(split_backward(schedule)), schedule) << generator.name;
    }
  }
  const Schedule split = split_backward({.orders = {parse_order("0B0 (0F1;1B0) 0B1", "x")}});
  EXPECT_EQ(to_string(split.orders[0]), "0I0 0W0 (0F1;1B0)OVERLAP_F_B 0I1 0W1");
}

std::string completed(const Schedule& schedule, const StepActions& step) {
  return to_csv(complete(schedule, step));
}

// By hand, 1F1B of two ranks and two microbatches. Rank 1's last backward pass is its last weight
// gradient; its message leaves first.
TEST(Complete, AddsWhatAStepNeeds) {
  const Schedule schedule = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "x");
  EXPECT_EQ(
      completed(schedule,
                {.gradient_buckets = {1, 2}, .gathers_parameters = true, .ties_embeddings = true}),
      "0UNSHARD0,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD0,0TIED0,"
      "0NORM0,0OPTIMIZER0\n"
      "1UNSHARD0,1UNSHARD1,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,"
      "1REDUCE_GRAD0,1REDUCE_GRAD1,1TIED0,1NORM0,1OPTIMIZER0\n");
  EXPECT_EQ(completed(schedule, {.reduces_norm = false, .has_optimizer = false}),
            to_csv(insert_messages(schedule)));
}

// Passes reduce gradients by themselves; the optimizer updates shards of weights.
TEST(Complete, GathersWithoutReducing) {
  const Schedule schedule = parse_schedule_csv("0F0,0B0,0F1,0B1\n", "x");
  EXPECT_EQ(
      completed(schedule,
                {.gradient_buckets = {2}, .reduces_gradients = false, .gathers_parameters = true}),
      "0UNSHARD0,0UNSHARD1,0F0,0B0,0F1,0B1,0NORM0,0OPTIMIZER0\n");
}

// By hand: both stages of the V are on rank 0, so that nothing is tied over ranks; the second is
// used behind the first and done before it.
TEST(Complete, GathersStagesAsTheyAreUsedAndReducesThemAsTheyEnd) {
  const Schedule schedule = parse_schedule_csv("0F0,1F0,1B0,0I0,0W0\n", "x");
  EXPECT_EQ(completed(schedule, {.merges_backward = true,
                                 .gradient_buckets = {1},
                                 .gathers_parameters = true,
                                 .ties_embeddings = true}),
            "0UNSHARD0,1UNSHARD0,0F0,1COPY_F0,1F0,1B0,0COPY_B0,1REDUCE_GRAD0,0B0,0REDUCE_GRAD0,"
            "0NORM0,0OPTIMIZER0\n");
}

TEST(Complete, ReducesBehindAPair) {
  const Schedule schedule = parse_schedule_csv("0F0,(0B0;1F0),1B0\n", "x");
  const Schedule lowered = insert_data_parallel(schedule, {.gradient_buckets = {1}});
  EXPECT_EQ(to_string(lowered.orders[0]),
            "0F0 (0B0;1F0)OVERLAP_F_B 0REDUCE_GRAD0 1B0 1REDUCE_GRAD0");
}

// Rank 0 of DualPipe holds the first stage for one half of the microbatches, the last for the
// other.
TEST(Complete, HasTheBucketsOfBothStagesOfDualPipe) {
  const Schedule schedule = find_schedule("dualpipe")->generate({.pp = 2, .num_microbatches = 4});
  const Schedule lowered = complete(schedule, {.gradient_buckets = {2}, .ties_embeddings = true});
  for (int rank = 0; rank < 2; ++rank) {
    const std::string text = to_string(lowered.orders[rank]);
    for (const char* bucket : {"0REDUCE_GRAD0 0REDUCE_GRAD1", "1REDUCE_GRAD0 1REDUCE_GRAD1"}) {
      EXPECT_THAT(text, HasSubstr(bucket)) << rank;
    }
    // Each rank has both ends of the model and one table for them.
    EXPECT_THAT(text, Not(HasSubstr("TIED")));
  }
}

}  // namespace
}  // namespace ptdp
