// Tests of orders of actions as text, of lanes, and of where stages are placed.
#include "cost_model/schedule/schedule.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/lane.h"
#include "tests/cost_model/schedule/golden_schedules.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Returns `order` with torch's spelling of overlapped pairs.
std::string with_overlap_names(std::string order) {
  for (std::size_t at = order.find(')'); at != std::string::npos; at = order.find(')', at + 1)) {
    order.insert(at + 1, "OVERLAP_F_B");
  }
  return order;
}

TEST(Order, IsReadInEitherSpellingOfAPair) {
  for (const char* text : {" 0F0 (0F3;3B5)  0I2 0W2", "0F0 (0F3;3B5)OVERLAP_F_B 0I2\t0W2 "}) {
    EXPECT_THAT(
        parse_order(text, "x"),
        ElementsAre(Action{ActionKind::kForward, 0, 0},
                    Action{ActionKind::kForward, 0, 3, /*overlaps_next=*/true},
                    Action{ActionKind::kBackward, 3, 5}, Action{ActionKind::kInputGradient, 0, 2},
                    Action{ActionKind::kWeightGradient, 0, 2}));
  }
  EXPECT_TRUE(parse_order("  ", "x").empty());
}

TEST(Order, IsWrittenAsTorchWritesIt) {
  EXPECT_EQ(to_string(parse_order("10F12 (0F3;3B5) 0I2 0W2", "x")),
            "10F12 (0F3;3B5)OVERLAP_F_B 0I2 0W2");
}

TEST(Order, SpellsEveryKind) {
  const std::string text =
      "0F1 0B1 0I1 0W1 0R1 0SEND_F1 1RECV_F1 1SEND_B1 0RECV_B1 2COPY_F1 3COPY_B1 4REDUCE_GRAD2 "
      "4UNSHARD2 0TIED0 5NORM0 5OPTIMIZER0";
  const std::vector<Action> order = parse_order(text, "x");
  ASSERT_EQ(std::ssize(order), kNumActionKinds);
  for (int kind = 0; kind < kNumActionKinds; ++kind) {
    EXPECT_EQ(order[kind].kind, static_cast<ActionKind>(kind));
  }
  EXPECT_EQ(to_string(order), text);
}

// torch numbers no bucket and lets go of parameters between their uses.
TEST(Order, MayLackTheNumbersThatTorchLacks) {
  EXPECT_EQ(to_string(parse_order("0UNSHARD 0F0 0BW0 0RESHARD 0REDUCE_GRAD 0NORM", "x")),
            "0UNSHARD0 0F0 0B0 0REDUCE_GRAD0 0NORM0");
}

TEST(Order, ThatIsNoneIsRefusedShowingTheAction) {
  for (const char* text : {"F0",
                           "0F",
                           "0X0",
                           "0",
                           "F",
                           "-1F0",
                           "0F-1",
                           "+0F0",
                           "0F0x",
                           "0SEND_X0",
                           "0SEND_F",
                           "0COPY_B",
                           "RESHARD",
                           "0NORM0x",
                           "0UNSHARD16777216",
                           "0FF0",
                           "1.5F0",
                           "99999999999F0",
                           "65536F0",
                           "0F16777216",
                           "(0F0;1B0",
                           "(0F0)",
                           "(0F0;1B0)OVERLAP",
                           "0F0,1",
                           "0F0;1B0",
                           "(0F0;1B0;2B0)",
                           "((0F0;1B0))",
                           "()",
                           "(;)"}) {
    const std::string message = message_of([&] { return parse_order(text, "x.csv"); });
    EXPECT_THAT(message, HasSubstr("x.csv: expected an action such as 2F0")) << text;
    EXPECT_THAT(message, HasSubstr('"' + std::string(text) + '"'));
  }
}

TEST(Order, TakesTheLargestNumbersThatThereAre) {
  for (const char* text : {"65535F16777215", "65535REDUCE_GRAD16777215", "0F0"}) {
    EXPECT_EQ(to_string(parse_order(text, "x")), text);
  }
  EXPECT_EQ(message_of([] { return parse_order("65536F0", "x.csv"); }),
            "x.csv: expected an action such as 2F0, 2SEND_F0 or (0F3;3B5)OVERLAP_F_B with F, B, I, "
            "W or the name of another kind, stages below 65536 and microbatches below 16777216, "
            "got \"65536F0\"");
}

// A stream or a thread for each way of messages and for data; all else takes turns with compute.
TEST(Lanes, AreWhereActionsRun) {
  using Kind = ActionKind;
  for (int i = 0; i < kNumActionKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    const bool is_forward = kind == Kind::kSendForward || kind == Kind::kReceiveForward;
    const bool is_backward = kind == Kind::kSendBackward || kind == Kind::kReceiveBackward;
    const bool reduces = kind == Kind::kReduceGradients;
    const bool gathers = kind == Kind::kGatherParameters;
    const Lane messages = is_forward    ? Lane::kForwardMessages
                          : is_backward ? Lane::kBackwardMessages
                                        : Lane::kCompute;
    const Lane data = reduces || gathers ? Lane::kData : messages;
    EXPECT_EQ(lane_of(kind, MessageMode::kOverlapped), data) << i;
    EXPECT_EQ(lane_of(kind, MessageMode::kOverlapped, DataMode::kBlocking), messages) << i;
    EXPECT_EQ(lane_of(kind, MessageMode::kBlocking, DataMode::kBlocking), Lane::kCompute) << i;
    EXPECT_EQ(lane_of(kind, MessageMode::kBlocking, DataMode::kBlockingGathers),
              reduces ? Lane::kData : Lane::kCompute)
        << i;
    EXPECT_EQ(occupies_lane(kind), kind != Kind::kReceiveForward && kind != Kind::kReceiveBackward)
        << i;
  }
}

TEST(ScheduleCsv, OfEveryGoldenScheduleIsReadAndWritten) {
  const std::vector<GoldenSchedule> goldens = golden_schedules();
  EXPECT_EQ(goldens.size(), 257U);
  for (const GoldenSchedule& golden : goldens) {
    const Schedule schedule = parse_schedule_csv(golden.csv, golden.title());
    EXPECT_EQ(schedule.pp, golden.pp) << golden.title();
    EXPECT_EQ(schedule.vpp, golden.vpp) << golden.title();
    EXPECT_EQ(schedule.num_microbatches, golden.num_microbatches) << golden.title();
    EXPECT_EQ(to_csv(schedule), with_overlap_names(golden.csv)) << golden.title();
    for (int rank = 0; rank < golden.pp; ++rank) {
      EXPECT_EQ(to_string(schedule.orders[rank]), with_overlap_names(golden.orders[rank]));
    }
    EXPECT_EQ(parse_schedule_csv(to_csv(schedule), "again"), schedule) << golden.title();
  }
}

TEST(ScheduleCsv, TellsThePlacementByTheStages) {
  const auto placement_of = [](std::string_view csv) {
    return parse_schedule_csv(csv, "x").placement;
  };
  EXPECT_EQ(placement_of("0F0,2F0\n1F0,3F0\n"), StagePlacement::kLooped);
  EXPECT_EQ(placement_of("0F0,3F0\n1F0,2F0\n"), StagePlacement::kV);
  EXPECT_EQ(placement_of("0F0,1F1\n1F0,0F1\n"), StagePlacement::kBidirectional);
  // One action on the wrong rank does not make it another schedule.
  EXPECT_EQ(placement_of("0F0,2F0,1F1\n1F0,3F0\n"), StagePlacement::kLooped);
}

TEST(Schedule, CountsActionsAndStagesOfEveryKind) {
  for (const ScheduleTraits& traits : kSchedules) {
    const Schedule schedule =
        traits.generate({.pp = 4, .vpp = std::min(2, traits.most_chunks), .num_microbatches = 8});
    EXPECT_TRUE(is_compute_only(schedule)) << traits.name;
    std::int64_t actions = 0;
    for (const std::vector<Action>& order : schedule.orders) {
      actions += std::ssize(order);
    }
    EXPECT_EQ(num_actions(schedule), actions) << traits.name;
    EXPECT_EQ(num_stages(schedule), 4 * schedule.vpp) << traits.name;
  }
}

TEST(Schedule, WithAMessageIsNotOfComputeAlone) {
  EXPECT_TRUE(is_compute_only(parse_schedule_csv("0F0,0R0,0B0\n", "x")));
  for (const char* action : {"0SEND_F0", "0UNSHARD0", "0OPTIMIZER0", "0COPY_F0"}) {
    EXPECT_FALSE(is_compute_only(parse_schedule_csv("0F0,0B0," + std::string(action) + "\n", "x")))
        << action;
  }
}

// torch's zb1p_2rank_2stagep_compute.csv has empty cells where a rank waits, and writes B for the
// half that its W completes.
TEST(ScheduleCsv, OfTorchsZeroBubbleMeansTheInputGradientByB) {
  const Schedule schedule =
      parse_schedule_csv("0F0,0F1,,0B0,0W0,0B1,0W1\r\n,1F0,1B0,1F1,1B1,1W0, 1W1\r\n\r\n", "x");
  EXPECT_EQ(to_csv(schedule), "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
}

TEST(ScheduleCsv, OfWholeAndSplitBackwardPassesKeepsBoth) {
  const std::string text = "0F0,0B0,0F1,0I1,0W1\n";
  EXPECT_EQ(to_csv(parse_schedule_csv(text, "x")), text);
}

TEST(ScheduleCsv, OfWholeAndWeightGradientsAloneIsRefused) {
  EXPECT_EQ(message_of([] { return parse_schedule_csv("0F0,0BW0,0W0\n", "x.csv"); }),
            "x.csv: BW is a whole backward pass; expected B or I beside W, got none");
}

// B beside BW is the half that a W completes, however many there are; BW leaves nothing for a W.
TEST(ScheduleCsv, OfManyPassesIsReadAsOfOneEach) {
  EXPECT_EQ(to_csv(parse_schedule_csv("0F0,0BW0,0F1,0B1,0W1,0F2,0B2,0W2\n", "x")),
            "0F0,0B0,0F1,0I1,0W1,0F2,0I2,0W2\n");
  EXPECT_EQ(message_of([] { return parse_schedule_csv("0F0,0BW0,0W0,0F1,0BW1,0W1\n", "x.csv"); }),
            "x.csv: BW is a whole backward pass; expected B or I beside W, got none");
}

TEST(ScheduleCsv, IsSizedByItsCompute) {
  const Schedule schedule = parse_schedule_csv("0F0,0B0,0REDUCE_GRAD7,0NORM0\n", "x");
  EXPECT_EQ(schedule.num_microbatches, 1);
  EXPECT_EQ(schedule.vpp, 1);
}

TEST(ScheduleCsv, ThatHoldsNoActionIsRefused) {
  for (const char* text : {"", "\n", "\n\n", ",,,\n,,\n", " \r\n", "0RESHARD\n\n0RESHARD"}) {
    EXPECT_EQ(message_of([&] { return parse_schedule_csv(text, "x.csv"); }),
              "x.csv: expected a line of actions per rank, got none");
  }
}

TEST(ScheduleCsv, OfMoreRanksThanThereAreStagesIsRefused) {
  EXPECT_THAT(
      message_of([] { return parse_schedule_csv(std::string(70000, '\n') + "0F0", "x.csv"); }),
      HasSubstr("x.csv: expected a line of actions for each of at most 65536 ranks"));
}

TEST(ScheduleCsv, WithABadCellIsRefusedNamingLineAndCell) {
  EXPECT_THAT(message_of([] { return parse_schedule_csv("0F0,0B0\n1F0,,1Q0\n", "x.csv"); }),
              HasSubstr("x.csv: line 2: cell 3: expected an action"));
}

TEST(ScheduleCsv, IsReadFromAFile) {
  const TemporaryDirectory directory;
  const auto file = directory.file("schedule.csv", "0F0,0B0\n");
  EXPECT_EQ(to_csv(read_schedule_csv(file)), "0F0,0B0\n");
  EXPECT_THAT(message_of([&] { return read_schedule_csv(directory.path() / "none.csv"); }),
              HasSubstr("none.csv"));
}

// By hand for p = 4: s % 4; 0 1 2 3 3 2 1 0; s, and 3 − s for microbatches 2 and 3 of 4.
TEST(RankOf, FollowsThePlacement) {
  const auto ranks_of = [](const Schedule& schedule, int microbatch) {
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(num_stages(schedule)));
    for (int stage = 0; stage < num_stages(schedule); ++stage) {
      ranks.push_back(rank_of(schedule, stage, microbatch));
    }
    return ranks;
  };
  const Schedule looped{.pp = 4, .vpp = 2, .num_microbatches = 4};
  EXPECT_THAT(ranks_of(looped, 0), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  const Schedule v{.pp = 4, .vpp = 2, .num_microbatches = 4, .placement = StagePlacement::kV};
  EXPECT_THAT(ranks_of(v, 0), ElementsAre(0, 1, 2, 3, 3, 2, 1, 0));
  const Schedule both{
      .pp = 4, .vpp = 1, .num_microbatches = 4, .placement = StagePlacement::kBidirectional};
  EXPECT_THAT(ranks_of(both, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(ranks_of(both, 2), ElementsAre(3, 2, 1, 0));
}

}  // namespace
}  // namespace ptdp
