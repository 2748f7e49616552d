#include "tools/plan/stack_choices.h"

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"

namespace ptdp {

std::vector<StackChoice> stack_choices(const CommandLine& line, const PlanRequest& request,
                                       const CalibrationSource& calibration,
                                       const std::optional<FitRequest>& fit) {
  std::vector<StackChoice> choices;
  for (const std::string& name : list_profiles(ProfileKind::kStack)) {
    StackChoice& choice = choices.emplace_back();
    choice.stack = name;
    try {
      PlanRequest of_stack = request;
      of_stack.scenario.stack = as_asked(find_stack(name), line);
      check(of_stack.scenario);
      if (fit) {
        reserve_memory(of_stack, calibration, fit);
      }
      choice.scenario = std::move(of_stack.scenario);
    } catch (const Error& error) {
      choice.reason = error.what();
    }
  }
  return choices;
}

}  // namespace ptdp
