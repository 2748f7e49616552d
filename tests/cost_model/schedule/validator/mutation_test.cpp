// Mutates valid schedules: the validator must refuse what is no longer a schedule, and nothing
// else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/schedule/validator/validator.h"
#include "tests/cost_model/schedule/random_schedules.h"
#include "tests/cost_model/schedule/validator/naive_validity.h"

namespace ptdp {
namespace {

/// Draws places and changes. It takes the place of RapidCheck, which would shrink a thousand draws
/// for ever.
class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}

  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// Changes a schedule in one place. Returns false if there is nothing that it could change.
using Mutation = std::function<bool(Schedule&, Dice&)>;

std::vector<Action>& any_order(Schedule& schedule, Dice& dice) {
  return schedule.orders[dice.below(schedule.orders.size())];
}

Action& any_action(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  return order[dice.below(order.size())];
}

bool drop(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(dice.below(order.size())));
  return true;
}

bool duplicate(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  const Action copy = order[dice.below(order.size())];
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(dice.below(order.size() + 1)), copy);
  return true;
}

bool change_stage(Schedule& schedule, Dice& dice) {
  Action& action = any_action(schedule, dice);
  const int before = action.stage;
  action.stage = static_cast<int>(dice.below(num_stages(schedule) + 1));
  return action.stage != before;
}

bool change_microbatch(Schedule& schedule, Dice& dice) {
  Action& action = any_action(schedule, dice);
  const int before = action.microbatch;
  action.microbatch = static_cast<int>(dice.below(schedule.num_microbatches + 1));
  return action.microbatch != before;
}

bool change_kind(Schedule& schedule, Dice& dice) {
  Action& action = any_action(schedule, dice);
  const ActionKind before = action.kind;
  action.kind = static_cast<ActionKind>(dice.below(kNumActionKinds));
  return action.kind != before;
}

bool move_to_another_rank(Schedule& schedule, Dice& dice) {
  if (schedule.pp == 1) {
    return false;
  }
  const std::size_t from = dice.below(schedule.orders.size());
  const std::size_t to =
      (from + 1 + dice.below(schedule.orders.size() - 1)) % schedule.orders.size();
  std::vector<Action>& order = schedule.orders[from];
  const auto moved = order.begin() + static_cast<std::ptrdiff_t>(dice.below(order.size()));
  std::vector<Action>& other = schedule.orders[to];
  other.insert(other.begin() + static_cast<std::ptrdiff_t>(dice.below(other.size() + 1)), *moved);
  order.erase(moved);
  return true;
}

bool swap_places(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  std::swap(order[dice.below(order.size())], order[dice.below(order.size())]);
  return true;
}

bool swap_neighbours(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  if (order.size() < 2) {
    return false;
  }
  const std::size_t i = dice.below(order.size() - 1);
  std::swap(order[i], order[i + 1]);
  return true;
}

bool move_along(Schedule& schedule, Dice& dice) {
  std::vector<Action>& order = any_order(schedule, dice);
  const std::size_t from = dice.below(order.size());
  const Action moved = order[from];
  order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(dice.below(order.size() + 1)), moved);
  return true;
}

bool pair_or_part(Schedule& schedule, Dice& dice) {
  Action& action = any_action(schedule, dice);
  action.overlaps_next = !action.overlaps_next;
  return true;
}

/// Swaps two actions of a rank for which `are_such` holds.
template <class Predicate>
bool swap_two(Schedule& schedule, Dice& dice, const Predicate& are_such) {
  std::vector<Action>& order = any_order(schedule, dice);
  std::vector<std::pair<std::size_t, std::size_t>> found;
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t k = i + 1; k < order.size(); ++k) {
      if (are_such(order[i], order[k])) {
        found.emplace_back(i, k);
      }
    }
  }
  if (found.empty()) {
    return false;
  }
  const auto [i, k] = found[dice.below(found.size())];
  std::swap(order[i], order[k]);
  std::swap(order[i].overlaps_next, order[k].overlaps_next);
  return true;
}

/// Swaps two messages of one kind whose other ends are on one rank.
bool swap_messages(Schedule& schedule, Dice& dice) {
  const auto other_rank = [&](const Action& action) {
    const bool is_next =
        action.kind == ActionKind::kSendForward || action.kind == ActionKind::kReceiveBackward;
    return rank_of(schedule, action.stage + (is_next ? 1 : -1), action.microbatch);
  };
  return swap_two(schedule, dice, [&](const Action& a, const Action& b) {
    return a.kind == b.kind && a.kind >= ActionKind::kSendForward &&
           a.kind <= ActionKind::kReceiveBackward && other_rank(a) == other_rank(b);
  });
}

/// Swaps a result and the action that takes it on the same rank.
bool swap_dependent(Schedule& schedule, Dice& dice) {
  using enum ActionKind;
  return swap_two(schedule, dice, [](const Action& a, const Action& b) {
    const bool is_same = a.stage == b.stage && a.microbatch == b.microbatch;
    constexpr std::array dependent = {std::pair(kReceiveForward, kForward),
                                      std::pair(kForward, kSendForward),
                                      std::pair(kForward, kBackward),
                                      std::pair(kForward, kInputGradient),
                                      std::pair(kInputGradient, kWeightGradient),
                                      std::pair(kReceiveBackward, kBackward),
                                      std::pair(kReceiveBackward, kInputGradient),
                                      std::pair(kBackward, kSendBackward),
                                      std::pair(kInputGradient, kSendBackward)};
    return is_same && std::find(dependent.begin(), dependent.end(), std::pair(a.kind, b.kind)) !=
                          dependent.end();
  });
}

/// Swaps two buckets of a stage, or a bucket and what must come before or after it.
bool swap_buckets(Schedule& schedule, Dice& dice) {
  using enum ActionKind;
  return swap_two(schedule, dice, [](const Action& a, const Action& b) {
    const bool are_buckets =
        a.kind == b.kind && (a.kind == kReduceGradients || a.kind == kGatherParameters);
    const bool is_early = a.kind == kGatherParameters && b.kind == kForward && b.microbatch == 0;
    return a.stage == b.stage && (are_buckets || is_early);
  });
}

/// Swaps NORM or OPTIMIZER with any action before it.
bool swap_step_end(Schedule& schedule, Dice& dice) {
  return swap_two(schedule, dice, [](const Action& /*a*/, const Action& b) {
    return b.kind == ActionKind::kReduceNorm || b.kind == ActionKind::kOptimizer;
  });
}

struct NamedMutation {
  const char* name = nullptr;
  Mutation mutate;
};

const std::vector<NamedMutation>& always_wrong() {
  static const std::vector<NamedMutation> mutations = {{"drop", drop},
                                                       {"duplicate", duplicate},
                                                       {"stage", change_stage},
                                                       {"microbatch", change_microbatch},
                                                       {"kind", change_kind},
                                                       {"rank", move_to_another_rank},
                                                       {"messages", swap_messages},
                                                       {"dependent", swap_dependent},
                                                       {"buckets", swap_buckets},
                                                       {"step end", swap_step_end}};
  return mutations;
}

/// Returns the schedule with everything that a step can have, so that no mutation leaves a smaller
/// valid schedule.
Schedule with_everything(const Schedule& schedule, Dice& dice) {
  StepActions step{
      .merges_backward = dice.below(2) == 0, .gathers_parameters = true, .ties_embeddings = true};
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    step.gradient_buckets.push_back(1 + static_cast<int>(dice.below(3)));
  }
  return complete(schedule, step);
}

TEST(Mutation, ThatMakesAScheduleWrongIsCaughtWithoutException) {
  std::map<std::string, int> caught;
  EXPECT_TRUE(rc::check([&] {
    const RandomSchedule random = random_schedule({.pp = 6, .vpp = 3, .num_microbatches = 12});
    Dice dice(*rc::gen::arbitrary<unsigned>());
    for (const bool is_complete : {false, true}) {
      const Schedule valid =
          is_complete ? with_everything(random.schedule(), dice) : random.schedule();
      for (const NamedMutation& mutation : always_wrong()) {
        for (int repetition = 0; repetition < 4; ++repetition) {
          Schedule mutant = valid;
          // On a single rank a step without its norm is valid, so the mutation means nothing there.
          if (valid.pp > 1 && mutation.mutate(mutant, dice)) {
            RC_LOG() << mutation.name << ":\n" << to_csv(mutant);
            const auto fault = find_fault(mutant);
            RC_ASSERT(fault.has_value());
            RC_ASSERT(!fault->what.empty() && fault->grid.find("<-- here") != std::string::npos);
            ++caught[mutation.name];
          }
        }
      }
    }
  }));
  for (const NamedMutation& mutation : always_wrong()) {
    EXPECT_GT(caught[mutation.name], 100) << mutation.name;
  }
}

TEST(Mutation, IsCaughtExactlyWhereItMakesAScheduleWrong) {
  std::vector<NamedMutation> mutations = always_wrong();
  mutations.insert(mutations.end(), {{"swap", swap_places},
                                     {"neighbours", swap_neighbours},
                                     {"move", move_along},
                                     {"pair", pair_or_part}});
  std::array<int, 2> outcomes = {};
  EXPECT_TRUE(rc::check([&] {
    const RandomSchedule random = random_schedule({.pp = 4, .vpp = 3, .num_microbatches = 6});
    Schedule valid = random.schedule();
    if (*rc::gen::arbitrary<bool>()) {
      valid = complete(valid, random_step_actions(num_stages(valid)));
    }
    RC_ASSERT(!find_fault(valid).has_value());
    RC_ASSERT(is_valid_naively(valid));
    Dice dice(*rc::gen::arbitrary<unsigned>());
    for (const NamedMutation& mutation : mutations) {
      Schedule mutant = valid;
      if (mutation.mutate(mutant, dice)) {
        const auto fault = find_fault(mutant);
        RC_LOG() << mutation.name << ": " << (fault ? fault->message() : "valid") << "\n"
                 << to_csv(valid) << "became\n"
                 << to_csv(mutant);
        RC_ASSERT(fault.has_value() != is_valid_naively(mutant));
        ++outcomes.at(fault.has_value() ? 1 : 0);
      }
    }
  }));
  EXPECT_GT(outcomes[0], 20);
  EXPECT_GT(outcomes[1], 400);
}

}  // namespace
}  // namespace ptdp
