#include "tools/plan/stack_switches.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/inputs/config_fields.h"
#include "planner/plan/prediction.h"

namespace ptdp {
namespace {

/// A flag and the field of a stack that it sets.
struct Switch {
  const char* flag;
  bool StackSpec::*field;
  const char* help;
};
constexpr std::array kSwitches = {
    Switch{"scatter-gather", &StackSpec::scatter_gather,
           "on, off: whether messages between stages are split over the tensor-parallel GPUs, and "
           "gathered behind (default: as the stack does)"},
    Switch{"fused", &StackSpec::fused_element_wise,
           "on, off: whether bias and GeLU, bias, dropout and sum, scale, mask and softmax are one "
           "kernel each (default: as the stack does)"}};

std::optional<bool> choice_of(const Switch& entry, const CommandLine& line) {
  const auto text = line.text(entry.flag);
  return text ? std::optional(choose<bool>(*text, kOffAndOn, std::string("--") + entry.flag))
              : std::nullopt;
}

}  // namespace

void add_stack_switches(boost::program_options::options_description& flags) {
  auto option = flags.add_options();
  for (const Switch& entry : kSwitches) {
    option(entry.flag, choice_value<bool>("SWITCH", kOffAndOn), entry.help);
  }
}

StackSpec with_switches(StackSpec stack, const CommandLine& line) {
  for (const Switch& entry : kSwitches) {
    const auto chosen = choice_of(entry, line);
    if (chosen && entry.field == &StackSpec::fused_element_wise &&
        stack.memory_model == MemoryModel::kPtdp) {
      throw Error("--fused: stack " + stack.name +
                  " has kernels of its own; expected a stack of another program");
    }
    stack.*entry.field = chosen.value_or(stack.*entry.field);
  }
  return stack;
}

std::vector<std::string> costs_of_switches(const CommandLine& line, const Plan& plan) {
  std::vector<std::string> lines;
  for (const Switch& entry : kSwitches) {
    const auto chosen = choice_of(entry, line);
    if (!chosen) {
      continue;
    }
    Scenario other = plan.scenario;
    other.stack.*entry.field = !*chosen;
    const Seconds taken = plan.predicted.iteration_time.value;
    const Seconds otherwise =
        predict({other, plan.config}, calibration_of(plan)).iteration_time.value;
    lines.push_back(fmt::format("--{} {}: {:.4g} s in place of {:.4g} s with {}, {:+.1f} %",
                                entry.flag, spelled(*chosen), taken.value(), otherwise.value(),
                                spelled(!*chosen), 100.0 * (taken / otherwise - 1.0)));
  }
  return lines;
}

}  // namespace ptdp
