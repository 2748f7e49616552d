// Draws plans at random from all that the planner can write, of models small enough to train.
#pragma once

#include <cstdint>
#include <optional>
#include <random>

#include "cost_model/inputs/stack_spec.h"
#include "planner/plan/plan.h"
#include "planner/search/enumerate.h"

namespace ptdp::testing {

/// A plan, and what of it is asked to run beside compute.
struct DrawnPlan {
  Plan plan;
  std::optional<Overlap> overlap;
  bool is_gpt = true;  ///< Whether the model is of GPT-2's kind.
};

/// Draws plans from one seed: equal seeds give equal plans.
class PlanLottery {
 public:
  explicit PlanLottery(std::uint64_t seed) : random_(seed) {}

  /// Draws until a configuration violates no constraint of the search, then writes and reads its
  /// plan as commands do. Stacks take turns. Models, degrees, schedules, recomputation, ZeRO stages
  /// and all other fields of a configuration are drawn.
  [[nodiscard]] DrawnPlan draw();

 private:
  [[nodiscard]] std::optional<DrawnPlan> try_draw(const StackSpec& stack);
  [[nodiscard]] std::int64_t below(std::int64_t count);
  [[nodiscard]] bool happens(int percent) { return below(100) < percent; }
  template <class Container>
  [[nodiscard]] const typename Container::value_type& one_of(const Container& values) {
    return values[static_cast<std::size_t>(below(std::ssize(values)))];
  }

  [[nodiscard]] TransformerConfig draw_model(bool is_gpt);
  [[nodiscard]] SearchSpace draw_pins();

  std::mt19937_64 random_;
  std::size_t turn_ = 0;
};

}  // namespace ptdp::testing
