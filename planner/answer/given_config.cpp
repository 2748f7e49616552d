// Costs one configuration, and prints it as text and as JSON beside the best one of a search.
#include "planner/answer/given_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/error.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/text/object_writer.h"
#include "planner/answer/fit_output.h"
#include "planner/answer/planning.h"
#include "planner/answer/planning_output.h"
#include "planner/answer/planning_summary.h"
#include "planner/explain/nothing_fits.h"
#include "planner/formatting.h"
#include "planner/search/derived_search.h"

namespace ptdp {
namespace {

constexpr double kShareOfChanges = 0.3;  // of the time limit; the search has the rest

/// Returns the scenario as plans are checked: any schedule and any split of the layers may be
/// costed, to say what it would bring.
Scenario with_what_if(const Scenario& scenario) {
  Scenario changed = with_every_schedule(scenario);
  changed.stack.can_run.uneven_layers = true;
  return changed;
}

/// Returns a candidate of the configuration, with the plan's memory.
Candidate candidate_of(const GivenConfig& given) {
  return {.config = given.config,
          .time = given.plan->predicted.iteration_time.value / given.calibration.factor,
          .memory = given.plan->memory.peak()};
}

/// Returns how much worse the configuration is than the best, as a fraction; nullopt if one of them
/// cannot run.
std::optional<double> loss_of(const GivenConfig& given) {
  if (!can_run(given) || given.search.best.empty()) {
    return std::nullopt;
  }
  return loss(candidate_of(given), given.search.best.front(), given.options.objective);
}

/// Returns what the configuration's changes are told beside.
ChangedConfig changed_config(const GivenConfig& given) {
  return {.scenario = given.scenario,
          .options = given.options,
          .config = given.config,
          .time = given.plan ? given.plan->predicted.iteration_time.value : Seconds(0.0),
          .calibration_factor = given.calibration.factor,
          .beyond = given.beyond};
}

}  // namespace

std::string gain_text(const GivenConfig& given, std::string best_command) {
  if (given.search.best.empty() && given.search.unseen) {
    return "The search ended before it found anything that fits.\n";
  }
  if (given.search.best.empty()) {
    return given.larger ? fmt::format("The search finds nothing that fits; {} GPUs would do: {}\n",
                                      given.larger->gpus, to_string(given.larger->config))
                        : "The search finds nothing that fits.\n";
  }
  const Candidate& best = given.search.best.front();
  const std::optional<double> lost = loss_of(given);
  if (lost && best.config == given.config) {
    return "This is the best plan of the search.\n";
  }
  if (best_command.ends_with("--config")) {
    best_command += fmt::format(" '{}' -o plan.json", to_string(best.config));
  }
  const bool is_cost = given.options.objective == Objective::kCost;
  const double change = lost ? 1.0 / (1.0 + *lost) - 1.0 : 0.0;
  const std::string as_slow = given.measured
                                  ? fmt::format(" ({} if it is off by as much)",
                                                duration(best.time * given.measured->factor))
                                  : "";
  return fmt::format("The best plan of the search{}: {}{}, {}{}, {:.1f} GiB\n  {}\n",
                     !lost ? ""
                           : fmt::format(" {} {:.1f} % {}", is_cost ? "costs" : "takes",
                                         100.0 * std::abs(change), change < 0.0 ? "less" : "more"),
                     to_string(best.config), stack_remark(given.scenario.stack, best.config),
                     duration(best.time * given.calibration.factor), as_slow,
                     best.memory.value() / kGibi, best_command);
}

std::string fitting_changes_text(const GivenConfig& given) {
  return changes_text(given.changes, changed_config(given));
}

namespace {

/// Returns whether the configuration fits, its memory by stage, and what would make it fit.
std::string verdict(const GivenConfig& given, const std::string& best_command) {
  const bool is_out_of_memory = given.plan && !can_run(given);
  std::string text = given.plan ? fit_line(*given.plan) + '\n' + stage_table(*given.plan) + '\n'
                                : fmt::format("Fits: no, {} cannot run\n  {}\n\n",
                                              to_string(given.config), given.violation);
  if (!can_run(given)) {
    text += fitting_changes_text(given) + '\n' + gain_text(given, best_command) +
            (is_out_of_memory ? "\nIf it had the memory\n" : "");
  }
  return text;
}

/// Writes the rates and utilizations of a plan by each way of counting FLOPs.
void write_flops(ObjectWriter& part, const Plan& plan) {
  const TrainingJob& job = plan.scenario.job;
  const double gpu_seconds =
      static_cast<double>(plan.config.world_size()) * plan.predicted.iteration_time.value.value();
  const double peak = matmul_peak(plan.scenario).value();
  for (const auto& named : kFlopCountNames) {
    const Flops flops = counted_flops(named.value, job.model, job.global_batch_size, plan.config);
    const double rate = flops.value() / gpu_seconds;
    part.part(std::string(named.name), [&](ObjectWriter& counted) {
      counted.number("tflops_per_gpu", rate / kTera);
      counted.number("of_peak", rate / peak);
      counted.flag("is_logged", plan.scenario.stack.logged_flops == named.value);
    });
  }
}

/// Returns the plan of a configuration whose numbers go together, as runs behind it say.
Plan calibrated_plan(const Scenario& scenario, const SearchOptions& options,
                     const ParallelConfig& config, const CalibrationFit& fit,
                     const CalibrationSource& calibration, const PublishedRuns& published) {
  return make_plan(PlannedJob(scenario, config), options.gpus, options.memory_headroom,
                   fit.at(run_point(scenario, config)),
                   calibration.memory(scenario, options.gpus, published));
}

}  // namespace

Plan plan_given_config(const Scenario& scenario, const SearchOptions& options,
                       const ParallelConfig& config, const CalibrationSource& calibration) {
  check(scenario);
  if (const auto violation = find_shape_violation({with_what_if(scenario), config})) {
    throw Error(to_string(config) +
                " cannot run: " + why_not(scenario, config, *violation, std::nullopt));
  }
  const PublishedRuns& published = calibration.published();
  return calibrated_plan(scenario, options, config,
                         calibration.fit(scenario, options.gpus, published), calibration,
                         published);
}

GivenConfig cost_given_config(const Scenario& scenario, const SearchOptions& options,
                              const ParallelConfig& config, const CalibrationSource& calibration) {
  check(scenario);
  GivenConfig given{.scenario = scenario, .options = options, .config = config};
  given.options.num_best = 1;
  given.options.wants_front = false;
  const PublishedRuns& published = calibration.published();
  given.calibration = calibration.fit(scenario, options.gpus, published);
  const Scenario judged = with_what_if(scenario);
  std::optional<Constraint> violation = find_shape_violation({judged, config});
  std::optional<MemoryShortfall> shortfall;
  if (!violation) {
    given.plan =
        calibrated_plan(scenario, options, config, given.calibration, calibration, published);
    const Bytes capacity = usable_memory(scenario.cluster.gpu, options.memory_headroom);
    violation = find_memory_violation({judged, config}, capacity);
    if (violation) {
      shortfall = {config, given.plan->memory.peak() - capacity};
    }
  }
  given.violation = violation ? why_not(scenario, config, *violation, shortfall) : "";
  given.beyond = given.plan ? given.plan->memory.beyond
                            : calibration.memory(scenario, options.gpus, published);
  if (violation) {
    SearchOptions near = given.options;
    near.limit = options.limit.share(kShareOfChanges);
    given.changes = smallest_fitting_changes(scenario, near, config);
  }
  given.search = search(scenario, given.options);
  derive_and_choose(scenario, given.options, given.search);
  if (violation && given.changes.found.empty() && given.search.best.empty()) {
    given.larger = gpus_that_would_do(scenario, given.options);
  }
  return given;
}

bool can_run(const GivenConfig& given) {
  return given.violation.empty();
}

std::string to_text(const GivenConfig& given, const ReadingNotes& reading, const RunBudget& budget,
                    const AnswerNotes& notes) {
  std::string text = verdict(given, notes.next);
  if (given.plan) {
    text += notes.is_whole
                ? to_text(*given.plan, budget)
                : headline(*given.plan) + assumed_line(notes) + figures_text(*given.plan, budget);
  }
  if (given.measured) {
    text += to_text(*given.measured, *given.plan);
  }
  for (const std::string& remark : notes.remarks) {
    text += remark + "\n";
  }
  text += titled("Read", reading.notes) + titled("Flags not known", reading.unknown_flags) +
          (notes.is_whole ? titled("Assumed", notes.assumptions) : "");
  return text + (can_run(given) ? "\n" + gain_text(given, notes.next) : "") +
         unproven_remark(given.search, given.options, given.calibration.factor);
}

std::string to_json(const GivenConfig& given, const ReadingNotes& reading) {
  ObjectWriter json;
  json.text("schema", "ptdp.given/1");
  json.text("tool_version", PTDP_VERSION);
  json.child("inputs", inputs_json(given.scenario, given.options));
  json.object("config", given.config);
  json.count("gpus_used", given.config.world_size());
  json.flag("fits", can_run(given));
  json.text("violation", given.violation);
  if (given.plan && given.beyond.is_known()) {
    json.number("probability_of_fitting", given.plan->memory.probability_of_fitting);
  }
  if (given.plan) {
    json.object("predicted", given.plan->predicted);
    json.object("memory", given.plan->memory);
    json.part("flops", [&](ObjectWriter& part) { write_flops(part, *given.plan); });
  }
  if (given.measured) {
    json.child("measured", measured_json(*given.measured));
  }
  if (!can_run(given)) {
    json.children("changes", changes_json(given.changes, changed_config(given)));
    json.flag("changes_complete", given.changes.is_complete);
  }
  if (given.larger) {
    json.part("gpus_that_would_do", [&](ObjectWriter& part) {
      part.count("gpus", given.larger->gpus);
      part.object("config", given.larger->config);
    });
  }
  json.texts("notes", reading.notes);
  json.texts("unknown_flags", reading.unknown_flags);
  json.child("candidates", candidates_json(given.search, given.calibration.factor));
  if (!given.search.best.empty()) {
    json.child("best", candidate_json(given.search.best.front(), given.calibration.factor));
  }
  if (const auto lost = loss_of(given)) {
    json.number("loss", *lost);
  }
  return json.dump();
}

}  // namespace ptdp
