// Prints what decides about a plan; planning_output has the rest.
#include "planner/answer/planning_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "cost_model/text/plural.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/planning_output.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr std::size_t kShownTerms = 4;
constexpr std::size_t kShownRunnersUp = 2;
constexpr std::size_t kTerminalLines = 24;

/// Returns a narrow row(): what is told must fit a terminal.
std::string line_of(std::string_view name, std::string_view value) {
  return fmt::format("  {:<10} {}\n", name, value);
}

/// Returns what an assumption says before it says why: "global batch size 512".
std::string_view assumed_value(std::string_view assumption) {
  return assumption.substr(0, assumption.find(": "));
}

/// Returns about how many lines of 80 columns a text takes, whose wrapped lines are indented.
std::size_t lines_on_terminal(std::string_view text) {
  constexpr std::size_t width = 74;
  std::size_t lines = 0;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    lines += 1 + (length > width ? (length - 1) / width : 0);
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

std::string largest_terms(const Plan& plan) {
  const CostBreakdown& cost = plan.predicted.breakdown;
  const Seconds total = cost.total();
  std::vector<CostTerm> terms = terms_by_time(cost);
  terms.resize(std::min(terms.size(), kShownTerms));
  std::string text;
  for (const CostTerm& term : terms) {
    if (std::lround(100.0 * (cost.*term.time / total)) > 0) {
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", term.name,
                          100.0 * (cost.*term.time / total));
    }
  }
  return text;
}

std::string memory_of(const Plan& plan) {
  return fmt::format("{:.2f} of {:.2f} GiB{}{}", plan.memory.peak().value() / kGibi,
                     plan.scenario.cluster.gpu.memory.value() / kGibi,
                     plan.config.pp > 1 ? fmt::format(" on stage {} of {}",
                                                      plan.memory.heaviest_rank + 1, plan.config.pp)
                                        : "",
                     fitting_remark(plan.memory.probability_of_fitting, plan.memory.beyond));
}

std::string training_figure(const Plan& plan, const RunBudget& budget) {
  const TrainingRun run = training_run(plan.predicted, plan.config.world_size(), *budget.tokens,
                                       budget.price_per_gpu_hour);
  return fmt::format("{} for {} tokens, {} GPU-hours{}{}", duration(run.time.value),
                     short_number(*budget.tokens), short_number(run.gpu_hours.value),
                     plan.config.world_size() < plan.gpus ? " of the GPUs in use" : "",
                     run.cost ? ", cost " + short_number(run.cost->value) : "");
}

/// Returns the runners-up that come first, at most `most`, and why the first of them loses.
std::string first_runners_up(const PlanningResult& result, std::size_t most) {
  const Objective objective = result.options.objective;
  const Plan& best = result.plans.front();
  std::string text;
  for (std::size_t i = 1; i < std::min(result.plans.size(), 1 + most); ++i) {
    const Plan& plan = result.plans[i];
    text += fmt::format(
        "  {}. {:>9} {:>8}{}  {:>5.1f} GiB  {}{}\n", i + 1,
        duration(plan.predicted.iteration_time.value),
        signed_percent(loss_of(plan, best, objective)),
        result.calibration.is_calibrated()
            ? fmt::format("  {:>3.0f} %", 100.0 * probability_better(plan, best, result))
            : "",
        plan.memory.peak().value() / kGibi, to_string(plan.config),
        stack_remark(plan.scenario.stack, plan.config));
    if (i == 1) {
      text += "     " +
              describe_differences(counted(plan.predicted.breakdown, plan.config, objective),
                                   counted(best.predicted.breakdown, best.config, objective),
                                   unit_of(objective)) +
              "\n";
    }
  }
  return text.empty() ? ""
                      : fmt::format("\nRunners-up: time, {}{}, memory{}\n",
                                    objective == Objective::kCost ? "loss of cost" : "loss",
                                    result.calibration.is_calibrated() ? ", likely better" : "",
                                    result.plans.size() > 1 + most ? " (-v: more)" : "") +
                            text;
}

/// Returns the published run of this job that is nearest: on the cluster and stack, if there is
/// one.
std::string nearest_published(const PlanningResult& result) {
  if (result.published.empty()) {
    return "";
  }
  const auto nearest = std::ranges::max_element(
      result.published, [&](const PublishedComparison& a, const PublishedComparison& b) {
        const auto nearness = [&](const PublishedComparison& one) {
          return (one.is_same_stack ? 2 : 0) +
                 (one.run.config == result.plans.front().config ? 1 : 0);
        };
        return nearness(a) < nearness(b);
      });
  const MeasuredRun& run = nearest->run;
  const Plan& best = result.plans.front();
  const bool is_ours = run.config == best.config && nearest->is_same_stack;
  const Seconds predicted = nearest->predicted.iteration_time.value;
  const double loss = predicted / best.predicted.iteration_time.value - 1.0;
  return fmt::format("Published: {} measured {} with {} on {}, predicted {} ({}){}.\n", run.id,
                     duration(run.iteration_time),
                     is_ours ? "this configuration" : to_string(run.config), run.cluster,
                     duration(predicted), error_of(predicted, run.iteration_time),
                     is_ours || !nearest->is_same_stack || loss <= 0.0
                         ? ""
                         : fmt::format(", {} slower than ours", percent(loss)));
}

}  // namespace

std::string assumed_line(const AnswerNotes& notes) {
  std::string text;
  for (const std::string& assumption : notes.assumptions) {
    text += (text.empty() ? "Assumed: " : ", ") + std::string(assumed_value(assumption));
  }
  return text.empty() ? "" : text + ".\n";
}

std::vector<NamedFigure> figures_of(const Plan& plan, const RunBudget& budget) {
  const Prediction& predicted = plan.predicted;
  std::vector<NamedFigure> figures = {
      {"time",
       fmt::format("{} per iteration; {} .. {} with 90 %", duration(predicted.iteration_time.value),
                   duration(predicted.iteration_time.low),
                   duration(predicted.iteration_time.high))},
      {"basis", predicted.basis({plan.scenario, plan.config})},
      {"goes to", largest_terms(plan)},
      {"memory", memory_of(plan)},
      {"speed", fmt::format("{} tokens/s, MFU {} ({} with causal attention)",
                            grouped(predicted.tokens_per_second.value),
                            percent(predicted.mfu.value), percent(causal_mfu(plan).value))}};
  if (budget.tokens) {
    figures.push_back({"training", training_figure(plan, budget)});
  }
  return figures;
}

std::string figures_text(const Plan& plan, const RunBudget& budget) {
  std::string text;
  for (const NamedFigure& figure : figures_of(plan, budget)) {
    text += line_of(figure.name, figure.value);
  }
  return text;
}

std::string summary_text(const PlanningResult& result, const RunBudget& budget,
                         const AnswerNotes& notes) {
  const Plan& best = result.plans.front();
  std::string remarks = choice_remark(result);
  for (const std::string& remark : notes.remarks) {
    remarks += remark + "\n";
  }
  const auto text_with = [&](std::size_t runners_up) {
    return headline(best) + assumed_line(notes) + figures_text(best, budget) + remarks +
           unproven_remark(result.search, result.options, result.calibration.factor) +
           first_runners_up(result, runners_up) + nearest_published(result) +
           "Next: " + notes.next + " (-v tells all)\n";
  };
  std::string text = text_with(kShownRunnersUp);
  return lines_on_terminal(text) <= kTerminalLines ? text : text_with(1);
}

}  // namespace ptdp
