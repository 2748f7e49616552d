// Prints a simulated step, and schedules side by side, as text and as JSON.
#include "planner/answer/simulation_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost_model/iteration/simulated_step.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/constraints/constraint.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr double kShownElasticity = 0.005;
constexpr std::size_t kShownRanks = 3;
constexpr double kTellingDifference = 0.02;

/// Returns whether the plan predicts just what is simulated: its schedule, no stragglers, no
/// jitter.
bool is_predicted(const SimulationContext& context) {
  return context.is_as_planned && context.options.stragglers.empty() &&
         context.options.jitter.sigma == 0.0;
}

/// Returns which of plan and simulation to believe where they differ, and why.
std::string belief(const Plan& plan) {
  if (plan.tool_version != PTDP_VERSION) {
    return fmt::format(
        "believe the simulation, which takes the durations of ptdp {}; ptdp-plan {} made the plan",
        PTDP_VERSION, plan.tool_version);
  }
  if (!is_simulated(plan.config)) {
    return "believe the plan, which counts waits between stages in a pipeline that never drains; "
           "the simulation counts the busiest rank's passes alone";
  }
  if (plan.predicted.breakdown.core_contention > Seconds(0.0)) {
    return "believe the plan, which counts waits of ranks for a core; the simulation gives each "
           "rank a core";
  }
  return fmt::format(
      "believe the simulation, which walks through all {} microbatches; the plan continues the "
      "rhythm of the first ones",
      plan.schedule.num_microbatches);
}

/// Returns a sentence when plan and simulation of the same step differ by more than
/// kTellingDifference, else an empty string.
std::string difference(const Plan& plan, const SimulationContext& context,
                       const PlanSimulation& simulation) {
  const double longer = simulation.step / plan.predicted.iteration_time.value - 1.0;
  if (!is_predicted(context) || !context.options.shares_links ||
      std::abs(longer) <= kTellingDifference) {
    return "";
  }
  return fmt::format("The simulated step is {:.1f} % {} than the planned one: {}.",
                     100.0 * std::abs(longer), longer > 0.0 ? "longer" : "shorter", belief(plan));
}

std::string headline(const Plan& plan, const SimulationContext& context,
                     const PlanSimulation& simulation) {
  const Seconds predicted = plan.predicted.iteration_time.value;
  const std::string sentence = difference(plan, context, simulation);
  return fmt::format("{} on {} with {}: a step takes {} simulated, {}.\n{}",
                     plan.scenario.job.model_name, plural(plan.config.world_size(), "GPU"),
                     to_string(plan.config), duration(simulation.step),
                     is_predicted(context)
                         ? fmt::format("{} planned ({})", duration(predicted),
                                       signed_percent(simulation.step / predicted - 1.0))
                         : fmt::format("while the plan as it is predicts {}", duration(predicted)),
                     sentence.empty() ? "" : sentence + '\n');
}

std::string changes(const SimulationOptions& options) {
  std::string text;
  for (const Straggler& straggler : options.stragglers) {
    text += fmt::format("  rank {} taking {} times as long to compute\n", straggler.rank,
                        straggler.factor);
  }
  if (options.jitter.sigma > 0.0) {
    text += fmt::format("  every action taking exp({} z) times as long, z normal, seed {}\n",
                        options.jitter.sigma, options.jitter.seed);
  }
  if (!options.shares_links) {
    text += "  every transfer having its links to itself\n";
  }
  return text.empty() ? text : "With\n" + text;
}

/// Returns the least and the largest figure over the ranks: "1.2 s .. 1.5 s".
template <class Figure>
std::string range_over_ranks(const SimulatedTimes& times, const Figure& figure) {
  Seconds least = figure(times.ranks.front());
  Seconds most = least;
  for (const RankTimes& rank : times.ranks) {
    least = std::min(least, figure(rank));
    most = std::max(most, figure(rank));
  }
  return duration(least) + " .. " + duration(most);
}

std::string times_text(const PlanSimulation& simulation) {
  const SimulatedTimes& times = simulation.timeline.times;
  return "\nTime\n" + row("until the last action", duration(times.makespan())) +
         row("bubble",
             fmt::format("{} ({}) in which the rank that paces the pipeline waits for others",
                         duration(simulation.bubble),
                         percent(simulation.bubble / simulation.step))) +
         row("not computing",
             fmt::format("{} ({}) of an average rank: waits, messages, reductions, optimizer",
                         duration(times.not_computing()),
                         percent(times.not_computing() / times.makespan()))) +
         row("idle in between",
             range_over_ranks(times, [](const RankTimes& rank) { return rank.idle_in_span(); }) +
                 " by rank: waits between its first action and its last") +
         row("work of a rank",
             range_over_ranks(times, [](const RankTimes& rank) { return rank.work; }));
}

std::string critical_path_text(const PlanSimulation& simulation) {
  std::string text = "\nCritical path: the chain of actions that makes the step as long as it is\n";
  const Seconds makespan = simulation.timeline.times.makespan();
  for (std::size_t term = 0; term < kPathTermNames.size(); ++term) {
    const Seconds time = simulation.critical_path.terms.at(term);
    if (time > Seconds(0.0)) {
      text += share_row(kPathTermNames.at(term), time, makespan);
    }
  }
  return text;
}

/// Returns the ranks whose slowness costs most, kShownRanks at most.
std::string elasticity_text(const PlanSimulation& simulation) {
  const std::vector<double>& elasticities = simulation.elasticities;
  std::vector<std::size_t> ranks(elasticities.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank] = rank;
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return elasticities[a] > elasticities[b]; });
  std::string text = "\nA rank that computes 1 % slower makes the step longer by\n";
  for (std::size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) {
    if (i == 0 || elasticities[ranks[i]] > kShownElasticity) {
      text +=
          row(fmt::format("rank {}", ranks[i]), fmt::format("{:.2f} %", elasticities[ranks[i]]));
    }
  }
  return text;
}

std::string memory_text(const Plan& plan, const PlanSimulation& simulation) {
  std::size_t heaviest = 0;
  for (std::size_t rank = 0; rank < simulation.memory.size(); ++rank) {
    if (simulation.memory[rank].peak > simulation.memory[heaviest].peak) {
      heaviest = rank;
    }
  }
  const MemoryProfile& profile = simulation.memory[heaviest];
  const Bytes capacity = usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
  return fmt::format("\nMemory: {:.2f} of {:.2f} GiB on rank {} at {}; the plan counts {:.2f}\n",
                     profile.peak.value() / kGibi, capacity.value() / kGibi, heaviest,
                     duration(profile.peak_time), plan.memory.peak().value() / kGibi);
}

/// Returns a remark when the window does not show the whole timeline, else an empty string.
std::string shown_part(const PlanSimulation& simulation, const DrawingWindow& window) {
  const Seconds makespan = simulation.timeline.times.makespan();
  const bool is_whole = window.from == Seconds(0.0) && window.to == makespan;
  return is_whole ? ""
                  : fmt::format(" from {} to {} of {}; --from and --to choose another part",
                                duration(window.from), duration(window.to), duration(makespan));
}

constexpr const char* kLegend =
    "F forward, B backward, I and W its halves for inputs and weights, R recomputation, & two at "
    "once,\nm a message that blocks, a all-reduces at the end, O optimizer; . waiting, * for "
    "gradients or parameters\n";

template <class Value, class Figure>
std::vector<Value> by_rank(const PlanSimulation& simulation, const Figure& figure) {
  std::vector<Value> values;
  for (const RankTimes& rank : simulation.timeline.times.ranks) {
    values.push_back(figure(rank));
  }
  return values;
}

ObjectWriter critical_path_json(const PlanSimulation& simulation) {
  ObjectWriter json;
  for (std::size_t term = 0; term < kPathTermNames.size(); ++term) {
    std::string key(kPathTermNames.at(term));
    std::replace(key.begin(), key.end(), ' ', '_');
    json.number(key, simulation.critical_path.terms.at(term).value());
  }
  return json;
}

}  // namespace

std::string to_text(const Plan& plan, const SimulationContext& context,
                    const PlanSimulation& simulation, const DrawingWindow& window) {
  return headline(plan, context, simulation) + changes(context.options) + times_text(simulation) +
         critical_path_text(simulation) + elasticity_text(simulation) +
         memory_text(plan, simulation) + "\nTimeline" + shown_part(simulation, window) + "\n" +
         draw(simulation.schedule, simulation.timeline, simulation.times.messages, window) +
         kLegend;
}

std::string to_json(const Plan& plan, const SimulationContext& context,
                    const PlanSimulation& simulation) {
  const SimulatedTimes& times = simulation.timeline.times;
  ObjectWriter json;
  json.text("schema", "ptdp.simulation/1");
  json.text("tool_version", PTDP_VERSION);
  json.text("schedule", simulation.schedule.name);
  json.count("pp", plan.config.pp);
  json.count("vpp", plan.config.vpp);
  json.count("microbatches", plan.schedule.num_microbatches);
  json.count("actions", num_actions(simulation.schedule));
  json.flag("shares_links", context.options.shares_links);
  std::vector<ObjectWriter> stragglers;
  for (const Straggler& straggler : context.options.stragglers) {
    ObjectWriter of;
    of.count("rank", straggler.rank);
    of.number("factor", straggler.factor);
    stragglers.push_back(std::move(of));
  }
  json.children("stragglers", std::move(stragglers));
  json.number("jitter_sigma", context.options.jitter.sigma);
  json.text("jitter_seed", std::to_string(context.options.jitter.seed));
  json.number("step_s", simulation.step.value());
  json.number("planned_s", plan.predicted.iteration_time.value.value());
  if (const std::string sentence = difference(plan, context, simulation); !sentence.empty()) {
    json.text("difference", sentence);
  }
  json.number("calibration_factor", plan.predicted.calibration_factor);
  json.number("makespan", times.makespan().value());
  json.number("bubble", simulation.bubble.value());
  json.number("bubble_ratio", simulation.bubble / simulation.step);
  json.number("not_computing", times.not_computing().value());
  json.number("not_computing_ratio", times.not_computing() / times.makespan());
  json.numbers("idle_in_span", by_rank<double>(simulation, [](const RankTimes& rank) {
                 return rank.idle_in_span().value();
               }));
  json.numbers(
      "work", by_rank<double>(simulation, [](const RankTimes& rank) { return rank.work.value(); }));
  json.counts("peaks", by_rank<int>(simulation,
                                    [](const RankTimes& rank) { return rank.peak_activations; }));
  std::vector<double> memory;
  for (const MemoryProfile& profile : simulation.memory) {
    memory.push_back(profile.peak.value() / kGibi);
  }
  json.numbers("memory_peak_GiB", memory);
  json.child("critical_path_s", critical_path_json(simulation));
  json.numbers("elasticity", simulation.elasticities);
  if (context.has_orders) {
    std::vector<std::string> orders;
    for (const std::vector<Action>& order : simulation.schedule.orders) {
      orders.push_back(to_string(order));
    }
    json.texts("orders", orders);
  }
  return json.dump();
}

std::vector<ScheduleComparison> fastest_first(std::span<const ScheduleComparison> schedules) {
  std::vector<ScheduleComparison> rows(schedules.begin(), schedules.end());
  std::stable_sort(
      rows.begin(), rows.end(), [](const ScheduleComparison& a, const ScheduleComparison& b) {
        return a.conflict.empty() != b.conflict.empty() ? a.conflict.empty()
                                                        : a.conflict.empty() && a.step < b.step;
      });
  return rows;
}

std::string remarks_on(const Plan& plan, const ScheduleComparison& row) {
  std::vector<std::string> remarks;
  if (row.schedule == name_of(plan.config.schedule)) {
    remarks.emplace_back("the plan's");
  }
  if (row.changes_semantics) {
    remarks.emplace_back("stale weights: another optimizer; never drains between steps");
  }
  if (!row.fits) {
    remarks.push_back(
        fmt::format("does not fit: {:.1f} GiB planned", row.planned_memory.value() / kGibi));
  }
  if (!row.is_run_by_stack) {
    remarks.push_back("not run by " + plan.scenario.stack.name);
  }
  return fmt::format("{}", fmt::join(remarks, "; "));
}

std::string to_text(const Plan& plan, std::span<const ScheduleComparison> schedules) {
  Seconds of_the_plan;
  for (const ScheduleComparison& row : schedules) {
    if (row.schedule == name_of(plan.config.schedule)) {
      of_the_plan = row.step;
    }
  }
  std::string text = fmt::format(
      "{} on {} with {}, simulated with every schedule\n\n{:<14}{:>4}{:>12}{:>9}{:>9}{:>10}\n",
      plan.scenario.job.model_name, plural(plan.config.world_size(), "GPU"), to_string(plan.config),
      "schedule", "vpp", "step", "", "bubble", "memory");
  for (const ScheduleComparison& row : fastest_first(schedules)) {
    if (!row.conflict.empty()) {
      text += fmt::format("{:<14}{:>4}  {}\n", row.schedule, "-", row.conflict);
      continue;
    }
    text += fmt::format("{:<14}{:>4}{:>12}{:>9}{:>7.1f} %{:>6.1f} GiB  {}\n", row.schedule, row.vpp,
                        duration(row.step), signed_percent(row.step / of_the_plan - 1.0),
                        100.0 * (row.bubble / row.step), row.peak_memory.value() / kGibi,
                        remarks_on(plan, row));
  }
  return text;
}

std::string to_json(const Plan& plan, std::span<const ScheduleComparison> schedules) {
  std::vector<ObjectWriter> rows;
  for (const ScheduleComparison& row : schedules) {
    ObjectWriter json;
    json.text("schedule", row.schedule);
    json.count("vpp", row.vpp);
    if (!row.conflict.empty()) {
      json.text("conflict", row.conflict);
    } else {
      json.number("step_s", row.step.value());
      json.number("makespan", row.makespan.value());
      json.number("bubble", row.bubble.value());
      json.number("bubble_ratio", row.bubble / row.step);
      json.number("not_computing", row.not_computing.value());
      json.number("not_computing_ratio", row.not_computing / row.makespan);
      json.number("memory_peak_GiB", row.peak_memory.value() / kGibi);
      json.number("memory_planned_GiB", row.planned_memory.value() / kGibi);
      json.flag("fits", row.fits);
      json.flag("run_by_stack", row.is_run_by_stack);
      json.flag("changes_semantics", row.changes_semantics);
    }
    rows.push_back(std::move(json));
  }
  ObjectWriter json;
  json.text("schema", "ptdp.schedules/1");
  json.text("tool_version", PTDP_VERSION);
  json.text("schedule", std::string(name_of(plan.config.schedule)));
  json.count("pp", plan.config.pp);
  json.count("microbatches", plan.schedule.num_microbatches);
  json.children("schedules", std::move(rows));
  return json.dump();
}

std::string in_format(AnswerFormat format, const Plan& plan, const SimulationContext& context,
                      const PlanSimulation& simulation, const DrawingWindow& window) {
  return format == AnswerFormat::kJson ? to_json(plan, context, simulation)
                                       : to_text(plan, context, simulation, window);
}

std::string in_format(AnswerFormat format, const Plan& plan,
                      std::span<const ScheduleComparison> schedules) {
  return format == AnswerFormat::kJson ? to_json(plan, schedules) : to_text(plan, schedules);
}

}  // namespace ptdp
