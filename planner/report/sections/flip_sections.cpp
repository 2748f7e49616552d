// Puts an explanation into the views of a page.
#include "planner/report/sections/flip_sections.h"

#include <string>
#include <utility>

#include "planner/answer/plan_explanation.h"

namespace ptdp {

ReportSection flips_section(const PlanningResult& result) {
  const Flips& flips = result.explanation->flips;
  const double factor = result.calibration.factor;
  FlipsView view{.base_s = result.plans.front().predicted.iteration_time.value.value(),
                 .note = grid_text(flips)};
  if (result.options.objective == Objective::kCost) {
    view.note += " Plans are compared by the GPU-seconds that they cost; times are shown.";
  }
  for (const InputFlips& input : flips.inputs) {
    FlipInput& row = view.inputs.emplace_back();
    row.name = text_of(input.input).name;
    for (const FlipPoint& point : input.points) {
      FlipStep& step = row.steps.emplace_back();
      step.change = point.change;
      step.is_same = point.is_same;
      if (point.same) {
        step.same_s = point.same->value() * factor;
      }
      if (point.best) {
        step.time_s = point.best->time.value() * factor;
        step.winner = to_string(point.best->config);
      }
    }
  }
  return {
      .id = "flips",
      .title = "What would flip the choice?",
      .note =
          "One input changed at a time, and searched again: the time of the plan that is chosen "
          "there, and whether that is another one, which beats this plan by more than a tie. The "
          "model, its sequence length and precision, the stack and all latencies stay as they are.",
      .view = std::move(view)};
}

ReportSection explanation_section(const PlanningResult& result) {
  return {.id = "explanation",
          .title = "What binds this plan?",
          .note = "",
          .view = TextView{.paragraphs = explanation_sentences(result)}};
}

}  // namespace ptdp
