// Runs plans, refits the profiles and searches again, until the choice rests on what was measured.
#include "planner/profile_fit/tuning.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/measured/quantile.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

/// Distance between the quarter points of a normal distribution, in σ.
constexpr double kQuarterPoints = 1.349;
/// Standard error of the median of n normal values, in σ/√n: √(π/2).
constexpr double kMedianError = 1.2533;
/// Standard errors beyond which a difference is more than scatter.
constexpr double kTieErrors = 2.0;

std::vector<NamedReport> reports_of(const std::vector<TunedPlan>& plans) {
  std::vector<NamedReport> reports;
  reports.reserve(plans.size());
  for (const TunedPlan& plan : plans) {
    reports.push_back({.name = to_string(plan.plan.config), .report = plan.run.report});
  }
  return reports;
}

Scenario corrected(const PlansDocument& list, const ProfileFit& refit) {
  return {.job = list.scenario.job, .cluster = refit.cluster, .stack = refit.stack};
}

/// Returns the best plan of the list's search in another scenario. Throws Error(kNothingFits) when
/// there is none.
Plan search_again(const PlansDocument& list, const Scenario& scenario) {
  SearchOptions options = list.options;
  options.num_best = 1;
  options.wants_front = false;
  SearchResult result = search(scenario, options);
  choose_among_ties(scenario, options, result);
  if (result.best.empty()) {
    throw Error(
        "the search with the corrected profiles finds no plan; was the list made with "
        "other flags?",
        ExitStatus::kNothingFits);
  }
  const Candidate& best = result.best.front();
  return make_plan({scenario, best.config, best.costs.get()}, options.gpus, options.memory_headroom,
                   Calibration{});
}

std::size_t find_config(const std::vector<TunedPlan>& plans, const ParallelConfig& config) {
  const auto found = std::find_if(plans.begin(), plans.end(), [&](const TunedPlan& plan) {
    return plan.plan.config == config;
  });
  return static_cast<std::size_t>(found - plans.begin());
}

std::size_t find_fastest(const std::vector<TunedPlan>& plans) {
  const auto least = std::min_element(
      plans.begin(), plans.end(),
      [](const TunedPlan& a, const TunedPlan& b) { return a.measured() < b.measured(); });
  return static_cast<std::size_t>(least - plans.begin());
}

/// Notes what the corrected profiles choose: `best`, if it ran. If not, notes it in `not_run`, and
/// chooses the plan predicted fastest of those that ran.
void choose_again(Tuning& tuning, const Plan& best) {
  tuning.chosen_again = find_config(tuning.plans, best.config);
  if (tuning.chosen_again < tuning.plans.size()) {
    return;
  }
  tuning.not_run = best;
  const auto least = std::min_element(tuning.plans.begin(), tuning.plans.end(),
                                      [](const TunedPlan& a, const TunedPlan& b) {
                                        return a.corrected_time() < b.corrected_time();
                                      });
  tuning.chosen_again = static_cast<std::size_t>(least - tuning.plans.begin());
}

/// Adds a further run of a plan: steps of both count alike, terms and actions stay the first run's.
void add_run(RanPlan& run, const RanPlan& more) {
  run.step_times.insert(run.step_times.end(), more.step_times.begin(), more.step_times.end());
  run.report.measured_time = Seconds(median(run.step_times));
  run.report.fastest = std::min(run.report.fastest, more.report.fastest);
  run.report.slowest = std::max(run.report.slowest, more.report.slowest);
  run.report.execution.requested_steps += more.report.execution.requested_steps;
  run.report.execution.steps += more.report.execution.steps;
  run.report.execution.warm_up += more.report.execution.warm_up;
}

std::vector<Plan> first_plans(const PlansDocument& list, std::size_t most) {
  std::vector<Plan> plans;
  for (const Plan& plan : list.plans) {
    const bool is_there = std::any_of(
        plans.begin(), plans.end(), [&](const Plan& other) { return other.config == plan.config; });
    if (!is_there && plans.size() < most) {
      plans.push_back(plan);
    }
  }
  if (plans.empty()) {
    throw Error("expected at least one plan to run, got a list without any");
  }
  return plans;
}

}  // namespace

double TunedPlan::spread() const {
  return quantile(run.step_times, 0.75) - quantile(run.step_times, 0.25);
}

double TunedPlan::standard_error() const {
  const std::size_t steps = run.step_times.size();
  return steps < 2 ? std::numeric_limits<double>::infinity()
                   : kMedianError * spread() / kQuarterPoints / std::sqrt(steps);
}

std::size_t Tuning::best() const {
  return is_tie(plans[chosen_first], plans[fastest]) ? chosen_first : fastest;
}

double Tuning::regret_of(std::size_t plan) const {
  return plans[plan].measured() / plans[fastest].measured() - 1.0;
}

double Tuning::predicted_gain(std::size_t plan) const {
  return plans[chosen_first].corrected_time() / plans[plan].corrected_time() - 1.0;
}

double Tuning::measured_gain(std::size_t plan) const {
  return plans[chosen_first].measured() / plans[plan].measured() - 1.0;
}

bool is_tie(const TunedPlan& a, const TunedPlan& b) {
  const double error = std::hypot(a.standard_error(), b.standard_error());
  return std::abs((a.measured() - b.measured()).value()) <= kTieErrors * error;
}

ChangedTerm find_changed_term(const Tuning& tuning) {
  const TunedPlan& first = tuning.plans[tuning.chosen_first];
  const TunedPlan& tuned = tuning.plans[tuning.best()];
  ChangedTerm changed;
  Seconds most(-1.0);
  for (const CostTerm& term : kCostTerms) {
    const auto difference = [&](const Plan& a, const Plan& b) {
      return a.predicted.breakdown.*term.time - b.predicted.breakdown.*term.time;
    };
    const Seconds before = difference(first.plan, tuned.plan);
    const Seconds after = difference(first.corrected, tuned.corrected);
    if (after - before > most) {
      most = after - before;
      changed = {.name = std::string(term.name), .before = before, .after = after};
    }
  }
  return changed;
}

Tuning tune(const PlansDocument& list, std::size_t most, const PlanRunner& run,
            const std::string& sources) {
  const std::vector<Plan> plans = first_plans(list, most);
  const std::vector<RanPlan> runs = run(plans);
  Tuning tuning;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    tuning.plans.push_back({.plan = plans[i], .run = runs[i]});
  }
  tuning.fit = fit_profile(reports_of(tuning.plans), sources);

  Plan best = search_again(list, corrected(list, tuning.fit));
  if (find_config(tuning.plans, best.config) == tuning.plans.size()) {
    // The plan as the first search would have predicted it, had its list been long enough.
    const Plan as_planned =
        make_plan({list.scenario, best.config}, list.options.gpus, list.options.memory_headroom,
                  Calibration{.factor = plans.front().predicted.calibration_factor});
    TunedPlan& fastest = tuning.plans[find_fastest(tuning.plans)];
    const std::vector<RanPlan> more = run({as_planned, fastest.plan});
    add_run(fastest.run, more[1]);
    tuning.plans.push_back({.plan = as_planned, .run = more[0], .is_new = true});
    tuning.fit = fit_profile(reports_of(tuning.plans), sources);
    best = search_again(list, corrected(list, tuning.fit));
  }
  tuning.fastest = find_fastest(tuning.plans);
  for (TunedPlan& plan : tuning.plans) {
    plan.corrected = make_plan({corrected(list, tuning.fit), plan.plan.config}, list.options.gpus,
                               list.options.memory_headroom, Calibration{});
  }
  choose_again(tuning, best);
  return tuning;
}

}  // namespace ptdp
