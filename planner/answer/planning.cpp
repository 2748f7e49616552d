// Plans a training job, and prints the plans as JSON and as CSV.
#include "planner/answer/planning.h"

#include <fmt/format.h>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/text/csv_columns.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/answer/plan_explanation.h"
#include "planner/answer/planning_output.h"
#include "planner/answer/planning_summary.h"
#include "planner/answer/plans_document.h"
#include "planner/answer/published_formulas.h"
#include "planner/formatting.h"
#include "planner/search/derived_search.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

// Share of the time limit for the search; derived plans and rules of thumb have the rest.
constexpr double kShareOfSearch = 0.9;

ObjectWriter training_json(const Plan& plan, const RunBudget& budget) {
  const TrainingRun run = training_run(plan.predicted, plan.config.world_size(), *budget.tokens,
                                       budget.price_per_gpu_hour);
  ObjectWriter json;
  json.number("tokens", *budget.tokens);
  json.number("time_s", run.time.value.value());
  json.numbers("interval_s", {run.time.low.value(), run.time.high.value()});
  json.number("gpu_hours", run.gpu_hours.value);
  json.numbers("gpu_hours_interval", {run.gpu_hours.low, run.gpu_hours.high});
  if (run.cost.has_value()) {
    json.number("cost", run.cost->value);
    json.numbers("cost_interval", {run.cost->low, run.cost->high});
  }
  return json;
}

ObjectWriter plan_json(const Plan& plan, const RunBudget& budget) {
  ObjectWriter json;
  json.object("config", plan.config);
  json.count("gpus_used", plan.config.world_size());
  json.flag("run_by_stack", is_run_by_stack(plan.scenario.stack, plan.config));
  json.flag("changes_semantics", !traits_of(plan.config.schedule).is_synchronous);
  json.object("predicted", plan.predicted);
  json.object("memory", plan.memory);
  json.children("formulas", formulas_json(plan, budget));
  if (budget.tokens.has_value()) {
    json.child("training", training_json(plan, budget));
  }
  return json;
}

/// Returns the value of a field in a table. Empty when the field does not apply, or is a number
/// below the least that can be typed: the usual number of layers.
template <class Value, class Pin, bool has_flag>
std::string cell(const ConfigField<Value, Pin, has_flag>& field, const ParallelConfig& config) {
  if constexpr (std::is_same_v<Value, bool>) {
    return config.*field.member ? "1" : "0";
  } else if constexpr (std::is_same_v<Value, int>) {
    return config.*field.member < field.traits.low ? "" : spelled(config.*field.member);
  } else {
    return field.applies(config) ? spelled(config.*field.member) : "";
  }
}

/// Adds the columns of the fields with these keys.
void add_fields(const std::vector<std::string_view>& keys, std::vector<CsvColumn<Plan>>& columns) {
  for (const std::string_view key : keys) {
    for_each_config_field([&](const auto& field) {
      if (field.key == key) {
        columns.push_back(
            {std::string(key), [&field](const Plan& plan) { return cell(field, plan.config); }});
      }
    });
  }
}

std::vector<ObjectWriter> baselines_json(const PlanningResult& result) {
  std::vector<ObjectWriter> baselines;
  for (const Baseline& baseline : result.baselines) {
    ObjectWriter json;
    json.text("name", baseline.name);
    json.text("source", baseline.source);
    json.flag("fits", baseline.choice.has_value());
    if (baseline.choice.has_value()) {
      json.child("choice", candidate_json(*baseline.choice, result.calibration.factor));
      json.count("gpus_used", baseline.choice->config.world_size());
      if (!result.search.best.empty()) {
        json.number("loss",
                    loss(*baseline.choice, result.search.best.front(), result.options.objective));
      }
    }
    baselines.push_back(std::move(json));
  }
  return baselines;
}

std::vector<ObjectWriter> published_json(const PlanningResult& result) {
  std::vector<ObjectWriter> published;
  for (const PublishedComparison& comparison : result.published) {
    ObjectWriter json;
    json.text("id", comparison.run.id);
    json.text("source", comparison.run.source);
    json.name("cluster", comparison.run.cluster);
    json.name("stack", comparison.run.stack);
    json.object("config", comparison.run.config);
    json.number("measured_iteration_time_s", comparison.run.iteration_time.value());
    json.object("predicted", comparison.predicted);
    published.push_back(std::move(json));
  }
  return published;
}

}  // namespace

PlanningResult plan_training(const Scenario& scenario, const SearchOptions& options,
                             const CalibrationSource& calibration) {
  check(scenario);
  PlanningResult result{.scenario = scenario, .options = options};
  const PublishedRuns& published = published_runs();
  result.calibration = calibration.fit(scenario, options.gpus, published);
  result.memory = calibration.memory(scenario, options.gpus, published);
  result.leaves_out_published_runs = calibration.leaves_out_published_runs();
  SearchOptions searched = options;
  searched.limit = options.limit.share(kShareOfSearch);
  if (options.on_progress) {
    searched.on_progress = [&](SearchProgress progress) {
      progress.least_time = progress.least_time * result.calibration.factor;
      if (progress.best) {
        progress.best = *progress.best * result.calibration.factor;
      }
      options.on_progress(progress);
    };
  }
  IterationTimes times;
  result.search = search(scenario, searched, times);
  derive_and_choose(scenario, options, result.search);
  for (const Candidate& candidate : result.search.best) {
    result.plans.push_back(make_plan(
        {scenario, candidate.config, candidate.costs.get()}, options.gpus, options.memory_headroom,
        result.calibration.at(run_point(scenario, candidate.config)), result.memory));
  }
  if (!result.search.best.empty()) {
    result.baselines = rules_of_thumb(scenario, options, times);
    if (options.limit.is_over()) {
      result.baselines.clear();  // a rule that was cut off would seem to have nothing that fits
    }
  }
  if (!result.search.best.empty() && !options.limit.is_over()) {
    result.fuller = batch_that_uses_gpus(scenario, options, result.search.best.front());
  }
  for (const MeasuredRun& run : published.of_job(scenario, options.gpus)) {
    const Scenario as_run = scenario_of(run);
    const bool is_same_stack = is_run_on(run, scenario);
    const CalibrationFit fit = is_same_stack
                                   ? result.calibration
                                   : calibration.fit_if_known(as_run, options.gpus, published);
    result.published.push_back(
        {.run = run,
         .predicted = predict({as_run, run.config}, fit.at(run_point(as_run, run.config))),
         .is_same_stack = is_same_stack});
  }
  return result;
}

namespace {

ObjectWriter choice_json(const PlanningResult& result) {
  ObjectWriter json;
  json.number("tie", result.options.tie);
  json.count("ties", std::ssize(result.search.ties));
  if (result.search.fastest) {
    json.child("fastest", candidate_json(*result.search.fastest, result.calibration.factor));
    json.texts("gains", gains_of_choice(result.search.best.front(), *result.search.fastest,
                                        result.scenario, result.options));
  }
  return json;
}

}  // namespace

ObjectWriter inputs_json(const Scenario& scenario, const SearchOptions& options) {
  const TransformerConfig& model = scenario.job.model;
  ObjectWriter model_json;
  model_json.name("name", scenario.job.model_name);
  model_json.count("parameters", parameter_count(model));
  describe(model_json, model);

  ObjectWriter inputs;
  inputs.count("gpus", options.gpus);
  inputs.child("model", std::move(model_json));
  inputs.count("global_batch_size", scenario.job.global_batch_size);
  inputs.name("cluster", scenario.cluster.name);
  inputs.name("gpu", scenario.cluster.gpu.name);
  inputs.name("stack", scenario.stack.name);
  inputs.choice("objective", options.objective, NamedValues<Objective>(kObjectiveNames));
  inputs.number("memory_headroom", options.memory_headroom);
  return inputs;
}

double probability_better(const Plan& plan, const Plan& other, const PlanningResult& result) {
  const auto cost = [&](const Plan& of) {
    return Seconds(score(of.predicted.iteration_time.value, of.config, result.options.objective));
  };
  return probability_of_order(cost(plan), cost(other), result.calibration.layout_variance);
}

ObjectWriter candidates_json(const SearchResult& search, double calibration_factor) {
  ObjectWriter violations;
  for (const ConstraintText& text : kConstraints) {
    const auto found = search.violations.find(text.constraint);
    violations.count(std::string(text.name), found == search.violations.end() ? 0 : found->second);
  }
  ObjectWriter candidates;
  candidates.count("enumerated", search.enumerated);
  candidates.count("feasible", search.feasible);
  candidates.child("violations", std::move(violations));
  if (search.shortfall.has_value()) {
    candidates.number("smallest_shortfall_bytes", search.shortfall->missing.value());
  }
  candidates.flag("proven", search.is_proven);
  candidates.flag("complete", !search.unseen.has_value());
  if (search.unseen.has_value()) {
    candidates.number("least_unseen_s", search.unseen->least_time.value() * calibration_factor);
  }
  return candidates;
}

std::string unproven_remark(const SearchResult& search, const SearchOptions& options,
                            double calibration_factor) {
  if (!search.unseen.has_value()) {
    return "";
  }
  const std::string least =
      options.objective == Objective::kCost
          ? fmt::format("{:.4g} GPU-seconds", search.unseen->least_score * calibration_factor)
          : duration(search.unseen->least_time * calibration_factor);
  return search.is_proven
             ? fmt::format(
                   "\nProven, though not all candidates were counted\n  the search ended early; "
                   "what it did not look at takes at least {} an iteration\n",
                   least)
             : fmt::format(
                   "\nNot proven\n  the search ended before it had looked at everything: what is "
                   "left may be better,\n  but takes at least {} an iteration. More time "
                   "(--time-limit) may find a better plan.\n",
                   least);
}

ObjectWriter candidate_json(const Candidate& candidate, double calibration_factor) {
  ObjectWriter json;
  json.object("config", candidate.config);
  json.number("iteration_time_s", candidate.time.value() * calibration_factor);
  json.number("peak_GiB", candidate.memory.value() / kGibi);
  return json;
}

std::string to_json(const PlanningResult& result, const RunBudget& budget) {
  std::vector<ObjectWriter> plans;
  for (const Plan& plan : result.plans) {
    ObjectWriter& json = plans.emplace_back(plan_json(plan, budget));
    if (result.calibration.is_calibrated()) {
      json.number("better_than_best", probability_better(plan, result.plans.front(), result));
    }
  }
  std::vector<ObjectWriter> pareto;
  for (const Candidate& candidate : result.search.pareto) {
    pareto.push_back(candidate_json(candidate, result.calibration.factor));
  }
  ObjectWriter json;
  json.text("schema", kPlansSchema);
  json.text("tool_version", PTDP_VERSION);
  json.child("inputs", inputs_json(result.scenario, result.options));
  json.child("candidates", candidates_json(result.search, result.calibration.factor));
  json.children("plans", std::move(plans));
  json.child("choice", choice_json(result));
  if (result.fuller) {
    ObjectWriter fuller;
    fuller.count("global_batch_size", result.fuller->global_batch_size);
    fuller.object("config", result.fuller->best.config);
    fuller.number("iteration_time_s", result.fuller->best.time.value() * result.calibration.factor);
    fuller.number("peak_GiB", result.fuller->best.memory.value() / kGibi);
    json.child("fuller_batch", std::move(fuller));
  }
  if (result.explanation) {
    json.child("explanation", explanation_json(result));
  }
  json.children("pareto", std::move(pareto));
  json.children("baselines", baselines_json(result));
  json.children("published", published_json(result));
  // Inputs for searching again, which plans_document.h reads.
  json.object("search", result.options);
  json.object("cluster", result.scenario.cluster);
  json.object("stack", result.scenario.stack);
  return json.dump();
}

std::string to_csv(const PlanningResult& result, const RunBudget& budget) {
  std::vector<CsvColumn<Plan>> columns;
  const auto add = [&](std::string name, auto cell) {
    columns.push_back({std::move(name), std::move(cell)});
  };
  const auto add_number = [&](const std::string& name, auto number) {
    add(name, [=](const Plan& p) { return fmt::format("{:.6g}", number(p)); });
  };
  const auto add_of_run = [&](const std::string& name, auto number) {
    add(name, [=, &budget](const Plan& p) {
      const std::optional<double> value =
          budget.tokens ? number(training_run(p.predicted, p.config.world_size(), *budget.tokens,
                                              budget.price_per_gpu_hour))
                        : std::nullopt;
      return value ? fmt::format("{:.6g}", *value) : "";
    });
  };
  using Number = std::optional<double>;
  add_fields({"tp", "pp", "dp", "vpp", "micro_batch_size", "schedule", "recompute",
              "sequence_parallel", "zero_stage"},
             columns);
  add("gpus_used", [](const Plan& p) { return std::to_string(p.config.world_size()); });
  add_number("iteration_time_s",
             [](const Plan& p) { return p.predicted.iteration_time.value.value(); });
  add_number("iteration_time_low_s",
             [](const Plan& p) { return p.predicted.iteration_time.low.value(); });
  add_number("iteration_time_high_s",
             [](const Plan& p) { return p.predicted.iteration_time.high.value(); });
  add_number("tflops_per_gpu",
             [](const Plan& p) { return p.predicted.per_gpu.value.value() / kTera; });
  add_number("mfu", [](const Plan& p) { return p.predicted.mfu.value; });
  add_number("hfu", [](const Plan& p) { return p.predicted.hfu.value; });
  add_number("tokens_per_s", [](const Plan& p) { return p.predicted.tokens_per_second.value; });
  add_number("peak_GiB", [](const Plan& p) { return p.memory.peak().value() / kGibi; });
  add_of_run("training_s", [](const TrainingRun& run) { return Number(run.time.value.value()); });
  add_of_run("gpu_hours", [](const TrainingRun& run) { return Number(run.gpu_hours.value); });
  add_of_run("cost",
             [](const TrainingRun& run) { return run.cost ? Number(run.cost->value) : Number(); });
  add("run_by_stack",
      [](const Plan& p) { return is_run_by_stack(p.scenario.stack, p.config) ? "1" : "0"; });
  add_fields({"ep", "etp", "cp", "dp_replicate", "reshard_after_forward", "recompute_modules",
              "recompute_method", "recompute_num_layers", "offload", "offload_num_layers"},
             columns);
  add("probability_of_fitting", [](const Plan& p) {
    return p.memory.beyond.is_known() ? fmt::format("{:.4g}", p.memory.probability_of_fitting) : "";
  });
  add("proven", [&](const Plan&) { return result.search.is_proven ? "1" : "0"; });
  return csv_text(columns, result.plans);
}

std::string in_format(AnswerFormat format, const PlanningResult& result, const RunBudget& budget,
                      const AnswerNotes& notes) {
  switch (format) {
    case AnswerFormat::kJson:
      return to_json(result, budget);
    case AnswerFormat::kCsv:
      return to_csv(result, budget);
    default:
      return notes.is_whole ? to_text(result, budget, notes) : summary_text(result, budget, notes);
  }
}

}  // namespace ptdp
