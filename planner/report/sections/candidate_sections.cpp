// Costs the candidates that the picture shows.
#include "planner/report/sections/candidate_sections.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "cost_model/iteration/step_builder.h"
#include "cost_model/text/plural.h"
#include "planner/answer/planning_output.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"
#include "planner/search/candidate_sample.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostSplits = 64;
constexpr std::int64_t kLookedAt = 50'000;
// Share of what is left of the limit for the best of each split.
constexpr double kShareOfSplits = 0.25;
// Rough times of costing a point, on a usual processor: they decide what is costed, so that equal
// answers give equal pages, and nothing else.
constexpr Seconds kMostTime(2.0);  // of all points of the front and of splits, and of all others
constexpr Seconds kTimeOfPoint(5e-5);
constexpr Seconds kTimeOfAction(3e-7);
constexpr Seconds kTimeOfContendedAction(1.5e-6);  // transfers that share links

/// Returns about how long iteration_cost() takes.
Seconds time_to_cost(const PlannedJob& job) {
  if (!is_simulated(job.config())) {
    return kTimeOfPoint;
  }
  const bool shares_links = is_contended(step_times(job), step_actions(job));
  if (!shares_links && job.config().schedule == ScheduleKind::kOneFOneB) {
    return kTimeOfPoint;  // by a formula
  }
  return kTimeOfPoint + simulated_actions(job.config(), job.microbatches()) *
                            (shares_links ? kTimeOfContendedAction : kTimeOfAction);
}

/// Makes points of candidates, as long as their simulations take little.
class Points {
 public:
  explicit Points(const PlanningResult& result)
      : result_(result),
        scenario_(as_searched(result.scenario, result.options.space)),
        best_(result.plans.front()) {}

  [[nodiscard]] ScatterPoint reference() const {
    return {.x = best_.memory.peak().value() / kGibi,
            .y = best_.predicted.iteration_time.value.value(),
            .name = to_string(best_.config),
            .note = "the plan that was chosen",
            .parts = parts_of(best_.predicted.breakdown)};
  }

  /// Returns the point of a candidate whose time is known; its parts cost simulations.
  [[nodiscard]] ScatterPoint of(const Candidate& candidate) {
    const auto cost = cost_of({scenario_, candidate.config, candidate.costs.get()});
    return point(candidate.config, candidate.time * result_.calibration.factor, candidate.memory,
                 cost);
  }

  /// Returns the point of a configuration; nullopt where its simulation would take too long.
  [[nodiscard]] std::optional<ScatterPoint> of(const ParallelConfig& config) {
    const PlannedJob job(scenario_, config);
    const auto cost = cost_of(job);
    return cost ? std::optional(point(config, cost->total(), peak_memory(job), cost))
                : std::nullopt;
  }

 private:
  /// Returns the calibrated breakdown; nullopt where it would take more than is left.
  [[nodiscard]] std::optional<CostBreakdown> cost_of(const PlannedJob& job) {
    const Seconds time = time_to_cost(job);
    if (time_ + time > kMostTime) {
      return std::nullopt;
    }
    time_ += time;
    CostBreakdown cost = iteration_cost(job);
    for (const CostTerm& term : kCostTerms) {
      cost.*term.time = cost.*term.time * result_.calibration.factor;
    }
    return cost;
  }

  [[nodiscard]] static std::vector<double> parts_of(const CostBreakdown& cost) {
    std::vector<double> parts;
    parts.reserve(kCostTerms.size());
    for (const CostTerm& term : kCostTerms) {
      parts.push_back((cost.*term.time).value());
    }
    return parts;
  }

  [[nodiscard]] ScatterPoint point(const ParallelConfig& config, Seconds time, Bytes memory,
                                   const std::optional<CostBreakdown>& cost) const {
    const Objective objective = result_.options.objective;
    const double lost = score(time, config, objective) /
                            score(best_.predicted.iteration_time.value, best_.config, objective) -
                        1.0;
    std::string note = config == best_.config ? "the plan that was chosen" : signed_percent(lost);
    if (cost && config != best_.config) {
      note +=
          ": " + describe_differences(counted(*cost, config, objective),
                                      counted(best_.predicted.breakdown, best_.config, objective),
                                      unit_of(objective));
    }
    return {.x = memory.value() / kGibi,
            .y = time.value(),
            .name = to_string(config),
            .note = std::move(note),
            .parts = cost ? parts_of(*cost) : std::vector<double>()};
  }

  const PlanningResult& result_;
  Scenario scenario_;
  const Plan& best_;
  Seconds time_;  ///< Rough time of what was costed.
};

/// Says of what the picture is a part.
std::string note_of(const PlanningResult& result, const BestOfSplits& splits,
                    std::size_t num_others) {
  std::string note = fmt::format(
      "Of {} that can run, {} are drawn beside the front and the best of each pair of tp and pp. "
      "A click pins a candidate beside the best.",
      plural(result.search.feasible, "candidate"), num_others);
  if (splits.num_searched < splits.num_splits) {
    note +=
        fmt::format(" For this picture {} of {} were searched again, those that may be fastest.",
                    splits.num_searched, plural(splits.num_splits, "pair"));
  }
  return note;
}

}  // namespace

ReportSection candidates_section(const PlanningResult& result) {
  SearchOptions limited = result.options;
  limited.limit = result.options.limit.share(kShareOfSplits);
  const BestOfSplits splits = best_of_splits(result.scenario, limited, kMostSplits);
  Points points(result);
  ScatterView view{
      .x = {.name = "memory of the heaviest stage", .unit = "GiB"},
      .y = {.name = "time of an iteration", .unit = "s", .is_log = true},
      .groups = {{.name = "front, up to twice as slow"}, {.name = "best of each tp x pp"}},
      .part_unit = "s",
      .reference = points.reference()};
  for (const CostTerm& term : kCostTerms) {
    view.parts.emplace_back(term.name);
  }
  std::set<ParallelConfig> shown;
  const auto add = [&](std::size_t group, const std::vector<Candidate>& candidates) {
    for (const Candidate& candidate : candidates) {
      if (shown.insert(candidate.config).second) {
        view.groups[group].points.push_back(points.of(candidate));
      }
    }
  };
  add(0, result.search.pareto);
  add(1, splits.best);
  const std::size_t left = kMostCandidatePoints - std::min(shown.size(), kMostCandidatePoints);
  ScatterGroup others{.name = "others", .points = {}};
  Points of_others(result);
  for (const ParallelConfig& config :
       sample_candidates(result.scenario, result.options,
                         {.all = result.search.enumerated, .looked_at = kLookedAt, .kept = left})) {
    if (shown.insert(config).second) {
      if (auto point = of_others.of(config)) {
        others.points.push_back(std::move(*point));
      }
    }
  }
  std::string note = note_of(result, splits, others.points.size());
  view.groups.push_back(std::move(others));
  return {.id = "candidates",
          .title = "Which other plans can run, and why do they lose?",
          .note = std::move(note),
          .view = std::move(view)};
}

}  // namespace ptdp
