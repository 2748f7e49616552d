// Costs the candidates that the picture shows.
#include "planner/report/sections/candidate_sections.h"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <utility>

#include "cost_model/iteration/iteration.h"
#include "cost_model/text/plural.h"
#include "planner/answer/planning_output.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"
#include "planner/search/candidate_sample.h"
#include "planner/search/parallel_tasks.h"
#include "planner/search/search_time_limit.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostSplits = 64;
constexpr std::int64_t kLookedAt = 50'000;
// Rough time of costing all points of a group. It decides what is costed, so that equal answers
// give equal pages, and nothing else.
constexpr Seconds kMostTime(0.4);
constexpr double kSimulationsOfPoint = 3.0;  // with all of the step's parts, with fewer, with few

/// A candidate to draw.
struct Drawn {
  ParallelConfig config;
  const Candidate* known = nullptr;  ///< With its time; null where that has to be found.
  bool is_costed = false;            ///< Whether there is time to find its parts.
};

/// Makes points of candidates, as long as their simulations take little.
class Points {
 public:
  explicit Points(const PlanningResult& result)
      : result_(result),
        scenario_(as_searched(result.scenario, result.options.space)),
        best_(result.plans.front()) {}

  /// Returns the points of the answer's plans, the chosen one first.
  [[nodiscard]] std::vector<ScatterPoint> of_answer() const {
    std::vector<ScatterPoint> points;
    for (const Plan& plan : result_.plans) {
      points.push_back(point(plan.config, plan.predicted.iteration_time.value, plan.memory.peak(),
                             plan.predicted.breakdown));
    }
    return points;
  }

  /// Returns the points of candidates, in their order. Once costing them would take too long, those
  /// whose time is known have no parts, and the others are left out.
  [[nodiscard]] std::vector<ScatterPoint> of(std::vector<Drawn> drawn) const {
    Seconds time;
    for (Drawn& one : drawn) {
      const Seconds more = kSimulationsOfPoint * rough_simulation_time(job_of(one));
      one.is_costed = time + more <= kMostTime;
      time += one.is_costed ? more : Seconds(0.0);
    }
    std::erase_if(drawn, [](const Drawn& one) { return one.known == nullptr && !one.is_costed; });
    std::vector<ScatterPoint> points(drawn.size());
    std::vector<StepSimulations> simulations(std::max<std::size_t>(result_.options.num_workers, 1));
    run_tasks(drawn.size(), simulations.size(), [&](std::size_t worker, std::size_t i) {
      points[i] = point_of(drawn[i], simulations[worker]);
    });
    return points;
  }

 private:
  [[nodiscard]] PlannedJob job_of(const Drawn& drawn) const {
    return {scenario_, drawn.config, drawn.known == nullptr ? nullptr : drawn.known->costs.get()};
  }

  [[nodiscard]] ScatterPoint point_of(const Drawn& drawn, StepSimulations& simulations) const {
    const PlannedJob job = job_of(drawn);
    const auto cost =
        drawn.is_costed ? std::optional(calibrated_cost(job, simulations)) : std::nullopt;
    return drawn.known == nullptr
               ? point(drawn.config, cost->total(), peak_memory(job), cost)
               : point(drawn.config, drawn.known->time * result_.calibration.factor,
                       drawn.known->memory, cost);
  }

  [[nodiscard]] CostBreakdown calibrated_cost(const PlannedJob& job,
                                              StepSimulations& simulations) const {
    CostBreakdown cost = iteration_cost(job, simulations);
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
};

/// Says of what the picture is a part.
std::string note_of(const PlanningResult& result, const BestOfSplits& splits,
                    std::size_t num_others) {
  std::string note = fmt::format(
      "Of {} that can run, {} are drawn beside the answer's plans, the front and the best of each "
      "pair of tp and pp. A click pins a candidate beside the chosen plan.",
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
  const BestOfSplits splits = best_of_splits(result.scenario, result.options, kMostSplits);
  const Points points(result);
  std::vector<ScatterPoint> answer = points.of_answer();
  ScatterPoint chosen = answer.front();
  ScatterView view{.x = {.name = "memory of the heaviest stage", .unit = "GiB"},
                   .y = {.name = "time of an iteration", .unit = "s", .is_log = true},
                   .groups = {{.name = "the answer's plans", .points = std::move(answer)},
                              {.name = "less memory, up to twice the time"},
                              {.name = "best of each tp x pp"}},
                   .part_unit = "s",
                   .reference = std::move(chosen)};
  for (const CostTerm& term : kCostTerms) {
    view.parts.emplace_back(term.name);
  }
  std::set<ParallelConfig> shown;
  for (const Plan& plan : result.plans) {
    shown.insert(plan.config);
  }
  const auto not_shown = [&](const std::vector<Candidate>& candidates) {
    std::vector<Drawn> drawn;
    for (const Candidate& candidate : candidates) {
      if (shown.insert(candidate.config).second) {
        drawn.push_back({candidate.config, &candidate});
      }
    }
    return drawn;
  };
  // Plans that are derived from candidates may be faster than all of these.
  std::vector<Candidate> front = result.search.pareto;
  std::erase_if(front, [&](const Candidate& candidate) {
    return candidate.time * result.calibration.factor > 2.0 * Seconds(view.reference->y);
  });
  view.groups[1].points = points.of(not_shown(front));
  view.groups[2].points = points.of(not_shown(splits.best));
  std::vector<Drawn> sampled;
  const std::size_t left = kMostCandidatePoints - std::min(shown.size(), kMostCandidatePoints);
  for (const ParallelConfig& config :
       sample_candidates(result.scenario, result.options,
                         {.all = result.search.enumerated, .looked_at = kLookedAt, .kept = left})) {
    if (shown.insert(config).second) {
      sampled.push_back({config});
    }
  }
  view.groups.push_back({.name = "others", .points = points.of(std::move(sampled))});
  std::string note = note_of(result, splits, view.groups.back().points.size());
  return {.id = "candidates",
          .title = "Which other plans can run, and why do they lose?",
          .note = std::move(note),
          .view = std::move(view)};
}

}  // namespace ptdp
