// Checks that a plan that was read is one that could have been written.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/constraints/constraint.h"
#include "planner/plan/plan.h"

namespace ptdp {
namespace {

/// Throws Error unless the configuration can run as the plan says.
void check_config(const Plan& plan, const std::string& place) {
  const ParallelConfig& config = plan.config;
  const auto refuse = [&](const std::string& why) {
    throw Error(place + ": config: " + to_string(config) + ": " + why);
  };
  const std::vector<int>& layers = config.layers_per_stage;
  if (!layers.empty() && std::equal(layers.begin() + 1, layers.end(), layers.begin())) {
    refuse("layers_per_stage: expected [] where all are equal");
  }
  if (!has_chunks(config.schedule, config.vpp)) {
    refuse(std::string(name_of(config.schedule)) + " has another vpp");
  }
  // A plan may have a schedule or a split that its stack does not run, to say what it would bring.
  Scenario scenario = with_every_schedule(plan.scenario);
  scenario.stack.can_run.uneven_layers = true;
  if (const auto violation = find_shape_violation({scenario, config})) {
    refuse(std::string(text_of(*violation).description));
  }
  if (config.world_size() > plan.gpus) {
    refuse("uses " + plural(config.world_size(), "GPU") + " of " + std::to_string(plan.gpus));
  }
  const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  if (const auto violation = find_violation({scenario, config}, capacity)) {
    refuse(std::string(text_of(*violation).description));
  }
}

/// Returns the first place where two documents differ by more than rounding; empty if they agree.
std::string first_difference(const nlohmann::json& found, const nlohmann::json& expected) {
  const nlohmann::json flat_found = found.flatten();
  const nlohmann::json flat_expected = expected.flatten();
  for (const auto& [pointer, value] : flat_expected.items()) {
    const auto other = flat_found.find(pointer);
    const bool is_there = other != flat_found.end();
    const bool agrees = is_there && (value.is_number() && other->is_number()
                                         ? is_close(other->get<double>(), value.get<double>())
                                         : *other == value);
    if (!agrees) {
      std::string place = pointer.substr(1);
      std::replace(place.begin(), place.end(), '/', '.');
      return place;
    }
  }
  return flat_found.size() == flat_expected.size() ? "" : "a key";
}

/// Throws Error unless everything that the plan predicts follows from its inputs.
void check_derived(const Plan& plan, const PlannedJob& job, const std::string& place) {
  const Plan again =
      make_plan(job, plan.gpus, plan.memory_headroom, calibration_of(plan), plan.memory.beyond);
  const std::string different =
      first_difference(nlohmann::json::parse(to_json(plan)), nlohmann::json::parse(to_json(again)));
  if (!different.empty()) {
    throw Error(place + ": " + different +
                ": does not follow from the inputs; was the plan edited?");
  }
}

void check_scenario(const Scenario& scenario, const std::string& place) {
  try {
    check(scenario);
  } catch (const Error& error) {
    throw Error(place + ": inputs: " + error.what());
  }
}

void check_plan(const Plan& plan, const std::string& place) {
  check_scenario(plan.scenario, place);
  check_config(plan, place);
  const PlannedJob job(plan.scenario, plan.config);
  ScheduleRecipe recipe = schedule_recipe(job);
  if (plan.tool_version != PTDP_VERSION && plan.schedule.ticks.size() == recipe.ticks.size()) {
    // Another version may have searched the schedule with other durations.
    recipe.ticks = plan.schedule.ticks;
    recipe.message_ticks = plan.schedule.message_ticks;
  }
  if (plan.schedule != recipe) {
    throw Error(place + ": schedule: is not the one of this configuration");
  }
  if (plan.memory.stages.size() != static_cast<std::size_t>(plan.config.pp)) {
    throw Error(place + ": memory.stages: expected " + std::to_string(plan.config.pp) +
                " stages, got " + std::to_string(plan.memory.stages.size()));
  }
  const Seconds total = plan.predicted.breakdown.total();
  if (!is_close(total.value(), plan.predicted.iteration_time.value.value())) {
    throw Error(place + ": predicted.breakdown_s: does not add up to iteration_time_s");
  }
  if (plan.tool_version == PTDP_VERSION) {
    check_derived(plan, job, place);
  }
}

}  // namespace

Calibration calibration_of(const Plan& plan) {
  const Prediction& predicted = plan.predicted;
  const Estimate<Seconds>& time = predicted.iteration_time;
  return {.support = predicted.support,
          .factor = predicted.support.all_runs > 0 ? predicted.calibration_factor : 1.0,
          .interval = {.low = time.low / time.value, .high = time.high / time.value},
          .outside_runs = predicted.outside_runs};
}

Plan checked(Plan plan, const std::string& place) {
  plan.scenario.job.model = resolved(plan.scenario.job.model, place + ": inputs.model");
  check_plan(plan, place);
  return plan;
}

}  // namespace ptdp
