#include "cost_model/schedule/passes/buffer_slots.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "cost_model/schedule/validator/validator.h"
#include "tests/cost_model/schedule/random_schedules.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

// By hand: rank 0 holds 0 and 1 at first and reuses 0's slot for 2 once its backward pass is done;
// rank 1 holds one at a time.
TEST(BufferSlots, AreTheLowestThatAreFree) {
  const Schedule schedule = parse_schedule_csv(
      "0F0,0F1,0B0,0F2,0B1,0B2\n"
      "1F0,1B0,1F1,1B1,1F2,1B2\n",
      "x");
  const BufferSlots slots = assign_buffer_slots(schedule);
  EXPECT_THAT(slots.activations, ElementsAre(0, 1, 0, 0, 0, 0));
  EXPECT_THAT(slots.ranks, ElementsAre(ElementsAre(StageBuffers{0, 2, 0, 0}),
                                       ElementsAre(StageBuffers{1, 1, 0, 0})));
}

// By hand: rank 1 has both of rank 0's activations before it uses the first, and rank 0 a gradient
// at a time.
TEST(BufferSlots, HoldWhatIsReceivedUntilItIsUsed) {
  const Schedule schedule = parse_schedule_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0W0,0I1,0W1\n"
      "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
      "x");
  const BufferSlots slots = assign_buffer_slots(schedule);
  EXPECT_THAT(slots.ranks, ElementsAre(ElementsAre(StageBuffers{0, 2, 0, 1}),
                                       ElementsAre(StageBuffers{1, 1, 2, 0})));
  EXPECT_THAT(slots.received_activations, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(slots.received_gradients, ElementsAre(0, 0, 0, 0));
}

TEST(BufferSlots, OfAPairAreNotHandedFromOneToTheOther) {
  const Schedule schedule = parse_schedule_csv("0F0,(0B0;0F1),0B1\n", "x");
  const BufferSlots slots = assign_buffer_slots(schedule);
  EXPECT_THAT(slots.activations, ElementsAre(0, 1));
}

/// The actions of a rank that run together, as one turn.
std::vector<std::vector<Action>> turns_of(const std::vector<Action>& order) {
  std::vector<std::vector<Action>> turns;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !order[i - 1].overlaps_next) {
      turns.emplace_back();
    }
    turns.back().push_back(order[i]);
  }
  return turns;
}

/// Replays a schedule with the slots as boxes: whoever takes one must find it empty, and at its
/// worst a pool is full.
void replay(const Schedule& schedule, const BufferSlots& slots) {
  const bool is_lowered = !is_compute_only(schedule);
  const auto index = [&](const Action& action) {
    return static_cast<std::size_t>(action.stage) * schedule.num_microbatches + action.microbatch;
  };
  for (int rank = 0; rank < schedule.pp; ++rank) {
    std::map<std::pair<int, char>, std::set<int>> full;  // by stage and pool
    std::map<std::pair<int, char>, int> most;
    const auto put = [&](const Action& action, char pool, const std::vector<int>& table) {
      std::set<int>& boxes = full[{action.stage, pool}];
      RC_ASSERT(boxes.insert(table[index(action)]).second);
      int& worst = most[{action.stage, pool}];
      worst = std::max(worst, static_cast<int>(boxes.size()));
    };
    const auto take = [&](const Action& action, char pool, const std::vector<int>& table) {
      const std::size_t taken = full[{action.stage, pool}].erase(table[index(action)]);
      RC_ASSERT(taken == 1U);
    };
    for (const std::vector<Action>& turn : turns_of(schedule.orders[rank])) {
      for (const Action& action : turn) {
        const std::string_view kind = spelling_of(action.kind);
        if (kind == "F") {
          put(action, 'a', slots.activations);
        } else if (kind == "RECV_F" || kind == "COPY_F") {
          put(action, 'f', slots.received_activations);
        } else if (kind == "RECV_B" || kind == "COPY_B") {
          put(action, 'b', slots.received_gradients);
        }
      }
      for (const Action& action : turn) {
        const std::string_view kind = spelling_of(action.kind);
        if (kind == "F" && is_lowered && action.stage > 0) {
          take(action, 'f', slots.received_activations);
        } else if ((kind == "B" || kind == "I") && is_lowered &&
                   action.stage + 1 < num_stages(schedule)) {
          take(action, 'b', slots.received_gradients);
        }
        if (kind == "B" || kind == "W") {
          take(action, 'a', slots.activations);
        }
      }
    }
    for (const StageBuffers& stage : slots.ranks[rank]) {
      RC_ASSERT((most[{stage.stage, 'a'}]) == stage.activations);
      RC_ASSERT((most[{stage.stage, 'f'}]) == stage.received_activations);
      RC_ASSERT((most[{stage.stage, 'b'}]) == stage.received_gradients);
    }
  }
}

TEST(BufferSlots, AreAsManyAsAreFullAtTheWorst) {
  EXPECT_TRUE(rc::check([] {
    const RandomSchedule random = random_schedule({.pp = 8, .vpp = 3, .num_microbatches = 20});
    Schedule schedule = random.schedule();
    if (*rc::gen::arbitrary<bool>()) {
      schedule = complete(schedule, random_step_actions(num_stages(schedule)));
    }
    replay(schedule, assign_buffer_slots(schedule));
  }));
}

// One stage per rank and no pairs: the pool is what the theory says.
TEST(BufferSlots, OfOneStagePerRankAreThePeakActivations) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    const Schedule schedule =
        find_schedule(name)->generate({.pp = 5, .vpp = 1, .num_microbatches = 13});
    const BufferSlots slots = assign_buffer_slots(insert_messages(schedule));
    const std::vector<int> peaks = peak_activations(schedule);
    for (int rank = 0; rank < 5; ++rank) {
      EXPECT_EQ(slots.ranks[rank][0].activations, peaks[rank]) << name << " " << rank;
    }
  }
}

}  // namespace
}  // namespace ptdp
