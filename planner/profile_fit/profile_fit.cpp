// Fits the factors of the knobs to what runs measured, by Gauss-Newton.
#include "planner/profile_fit/profile_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cost_model/error.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/schedule/text/order_text.h"
#include "planner/plan/prediction.h"
#include "planner/plan/run_terms.h"

namespace ptdp {
namespace {

constexpr std::array kComparedTerms = {
    RunTerm::kMatmul,         RunTerm::kAttention,          RunTerm::kMemoryBound,
    RunTerm::kTensorParallel, RunTerm::kEmbeddingAllReduce, RunTerm::kOptimizer};

constexpr int kMostRounds = 100;
constexpr double kLongestStep = 1.5;        // most that a factor's logarithm moves in a round
constexpr double kConverged = 1e-7;         // rounds end when no logarithm moves by more
constexpr double kDifference = 1e-4;        // step in a logarithm for numeric derivatives
constexpr double kSmallestResidual = 1e-3;  // smaller residuals count as squares, not absolutely
// Weights of pulls towards the profile and towards the partner, beside residuals that count
// 1 / |residual|. A knob stays where nothing moves it, and by its partner where nothing tells them
// apart.
constexpr double kTowardsProfile = 1e-7;
constexpr double kTowardsPartner = 1e-4;
constexpr std::size_t kFewestForLeaveOneOut = 3;

/// A measured time of a run, and how to predict it.
struct Observation {
  enum class Kind { kTerm, kSend, kReduction, kGather };
  Kind kind = Kind::kTerm;
  RunTerm term = RunTerm::kMatmul;  ///< The term, for kTerm.
  int stage = 0;                    ///< Virtual stage of an action, for the other kinds.
  double count = 1.0;               ///< How many times it happens in an iteration.
  double measured = 0.0;            ///< Measured time of one [s].
  double weight = 0.0;              ///< Share of the iteration.
};

/// A run with the observations that say something about the profiles.
struct ObservedRun {
  const RunReport* report = nullptr;
  std::vector<Observation> observations;
};

/// Predicts the times [s] of the run's observations for its configuration in another scenario.
std::vector<double> predict_times(const Scenario& scenario, const ObservedRun& run) {
  const ParallelConfig& config = run.report->plan.config;
  const RunTerms terms = own_run_terms({scenario, config}, run.report->execution.terms_rank);
  const StepTimes step = step_times({scenario, config});
  const auto of_rank = [](const std::vector<TransferTime>& times, int stage) {
    const TransferTime& time = times[times.size() == 1 ? 0 : static_cast<std::size_t>(stage)];
    return (time.latency + time.transfer).value();
  };
  std::vector<double> times;
  times.reserve(run.observations.size());
  for (const Observation& observation : run.observations) {
    switch (observation.kind) {
      case Observation::Kind::kTerm:
        times.push_back(terms[observation.term].value());
        break;
      case Observation::Kind::kSend:
        times.push_back(send_time({scenario, config}).value());
        break;
      case Observation::Kind::kReduction:
        times.push_back(of_rank(step.reductions, observation.stage));
        break;
      case Observation::Kind::kGather:
        times.push_back(of_rank(step.gathers, observation.stage));
        break;
    }
  }
  return times;
}

void add_terms(ObservedRun& run) {
  for (const TermComparison& term : run.report->terms) {
    for (const RunTerm compared : kComparedTerms) {
      if (term.name == kRunTermNames[static_cast<std::size_t>(compared)]) {
        run.observations.push_back({.term = compared, .measured = term.time.measured.value()});
      }
    }
  }
}

void add_actions(ObservedRun& run) {
  using Kind = Observation::Kind;
  const auto is = [](const ActionComparison& action, ActionKind kind) {
    return action.kind == spelling_of(kind);
  };
  for (const ActionComparison& action : run.report->actions) {
    Observation observation{.stage = action.stage,
                            .count = static_cast<double>(action.count),
                            .measured = action.time.measured.value()};
    if (is(action, ActionKind::kSendForward) || is(action, ActionKind::kSendBackward)) {
      observation.kind = Kind::kSend;
    } else if (is(action, ActionKind::kReduceGradients)) {
      observation.kind = Kind::kReduction;
    } else if (is(action, ActionKind::kGatherParameters)) {
      observation.kind = Kind::kGather;
    } else {
      continue;
    }
    run.observations.push_back(observation);
  }
}

/// Returns what a run measured, without observations below kLeastTimeShare of its time.
ObservedRun observe(const RunReport& report) {
  ObservedRun run{.report = &report};
  add_terms(run);
  add_actions(run);
  const std::vector<double> predicted = predict_times(report.plan.scenario, run);
  const double iteration = report.measured_time.value();
  std::vector<Observation> kept;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    Observation observation = run.observations[i];
    observation.weight =
        observation.count * std::max(observation.measured, predicted[i]) / iteration;
    if (observation.measured > 0.0 && predicted[i] > 0.0 && observation.weight >= kLeastTimeShare) {
      observation.weight = std::min(observation.weight, 1.0);
      kept.push_back(observation);
    }
  }
  run.observations = std::move(kept);
  return run;
}

using Vector = std::array<double, kNumProfileKnobs>;
using Matrix = std::array<Vector, kNumProfileKnobs>;

KnobFactors factors_of(const Vector& logarithms) {
  KnobFactors factors;
  for (const ProfileKnobText& text : kProfileKnobs) {
    factors[text.knob] = std::exp(logarithms[static_cast<std::size_t>(text.knob)]);
  }
  return factors;
}

/// Solves a positive definite system by Gauss's elimination.
Vector solve(Matrix matrix, Vector right) {
  for (std::size_t pivot = 0; pivot < right.size(); ++pivot) {
    for (std::size_t row = pivot + 1; row < right.size(); ++row) {
      const double factor = matrix[row][pivot] / matrix[pivot][pivot];
      for (std::size_t column = pivot; column < right.size(); ++column) {
        matrix[row][column] -= factor * matrix[pivot][column];
      }
      right[row] -= factor * right[pivot];
    }
  }
  for (std::size_t i = right.size(); i-- > 0;) {
    for (std::size_t column = i + 1; column < right.size(); ++column) {
      right[i] -= matrix[i][column] * right[column];
    }
    right[i] /= matrix[i][i];
  }
  return right;
}

/// Residuals log(predicted/measured) of a run, and their derivatives by the logarithms of factors.
struct Linearised {
  std::vector<double> residuals;
  std::vector<Vector> slopes;
};

Linearised linearise(const ObservedRun& run, const Vector& at) {
  const Scenario& scenario = run.report->plan.scenario;
  const std::vector<double> here = predict_times(with_factors(scenario, factors_of(at)), run);
  Linearised result;
  for (std::size_t i = 0; i < here.size(); ++i) {
    result.residuals.push_back(std::log(here[i] / run.observations[i].measured));
  }
  result.slopes.resize(here.size());
  for (std::size_t knob = 0; knob < at.size(); ++knob) {
    Vector moved = at;
    moved[knob] += kDifference;
    const std::vector<double> there = predict_times(with_factors(scenario, factors_of(moved)), run);
    for (std::size_t i = 0; i < here.size(); ++i) {
      result.slopes[i][knob] = std::log(there[i] / here[i]) / kDifference;
    }
  }
  return result;
}

/// The normal equations of one round of Gauss-Newton, for the step of the factors' logarithms.
struct Equations {
  Matrix matrix{};
  Vector right{};

  void add(const ObservedRun& run, const Linearised& linear) {
    for (std::size_t i = 0; i < linear.residuals.size(); ++i) {
      const double weight =
          run.observations[i].weight / std::max(std::abs(linear.residuals[i]), kSmallestResidual);
      for (std::size_t row = 0; row < right.size(); ++row) {
        right[row] -= weight * linear.slopes[i][row] * linear.residuals[i];
        for (std::size_t column = 0; column < right.size(); ++column) {
          matrix[row][column] += weight * linear.slopes[i][row] * linear.slopes[i][column];
        }
      }
    }
  }

  void add_priors(const Vector& at, double runs) {
    for (const ProfileKnobText& text : kProfileKnobs) {
      const auto knob = static_cast<std::size_t>(text.knob);
      const auto partner = static_cast<std::size_t>(text.partner);
      matrix[knob][knob] += kTowardsProfile * runs;
      right[knob] -= kTowardsProfile * runs * at[knob];
      if (partner != knob) {
        matrix[knob][knob] += kTowardsPartner * runs;
        matrix[knob][partner] -= kTowardsPartner * runs;
        right[knob] -= kTowardsPartner * runs * (at[knob] - at[partner]);
      }
    }
  }
};

/// Returns the logarithms of the factors that fit the runs best.
Vector fit(const std::vector<ObservedRun>& runs) {
  Vector at{};
  for (int round = 0; round < kMostRounds; ++round) {
    Equations equations;
    for (const ObservedRun& run : runs) {
      equations.add(run, linearise(run, at));
    }
    equations.add_priors(at, static_cast<double>(runs.size()));
    const Vector step = solve(equations.matrix, equations.right);
    double longest = 0.0;
    for (std::size_t knob = 0; knob < at.size(); ++knob) {
      const double bound = std::log(kProfileKnobs[knob].largest);
      const double moved =
          std::clamp(at[knob] + std::clamp(step[knob], -kLongestStep, kLongestStep), -bound, bound);
      longest = std::max(longest, std::abs(moved - at[knob]));
      at[knob] = moved;
    }
    if (longest < kConverged) {
      break;
    }
  }
  return at;
}

/// Returns the share of a run's iteration that each knob times, by the run's observations.
Vector time_shares(const ObservedRun& run, const Vector& at) {
  const Linearised linear = linearise(run, at);
  Vector shares{};
  for (std::size_t i = 0; i < linear.slopes.size(); ++i) {
    for (std::size_t knob = 0; knob < shares.size(); ++knob) {
      shares[knob] += run.observations[i].weight * std::abs(linear.slopes[i][knob]);
    }
  }
  return shares;
}

/// Describes the correction of each knob, and sets `at` to 0 for knobs of which no run says
/// anything.
std::vector<KnobFit> describe_knobs(const std::vector<ObservedRun>& runs, Vector& at) {
  std::vector<KnobFit> knobs;
  knobs.reserve(kProfileKnobs.size());
  for (const ProfileKnobText& text : kProfileKnobs) {
    knobs.push_back({.knob = text.knob});
  }
  for (const ObservedRun& run : runs) {
    const Vector before = time_shares(run, Vector{});
    const Vector after = time_shares(run, at);
    for (std::size_t knob = 0; knob < at.size(); ++knob) {
      const double share = std::max(before[knob], after[knob]);
      knobs[knob].time_share = std::max(knobs[knob].time_share, share);
      knobs[knob].num_runs += share >= kLeastTimeShare ? 1 : 0;
    }
  }
  for (std::size_t knob = 0; knob < at.size(); ++knob) {
    at[knob] = knobs[knob].num_runs == 0 ? 0.0 : at[knob];
    knobs[knob].factor = std::exp(at[knob]);
    knobs[knob].is_at_bound = std::abs(at[knob]) > std::log(kProfileKnobs[knob].largest) - 1e-9;
  }
  return knobs;
}

Seconds time_in(const Scenario& scenario, const RunReport& report) {
  Scenario as_run = scenario;
  as_run.job = report.plan.scenario.job;
  return predict({as_run, report.plan.config}, Calibration{}).iteration_time.value;
}

std::string renamed(const std::string& name) {
  const std::string ending = "-refit";
  return name.ends_with(ending) ? name : name + ending;
}

}  // namespace

ProfileFit fit_profile(const std::vector<NamedReport>& runs, const std::string& sources) {
  check_evidence_of_one_machine(runs);
  std::vector<ObservedRun> observed;
  observed.reserve(runs.size());
  for (const NamedReport& run : runs) {
    observed.push_back(observe(run.report));
  }
  Vector at = fit(observed);
  ProfileFit refit{.knobs = describe_knobs(observed, at)};
  const Scenario& before = runs.front().report.plan.scenario;
  Scenario after = with_factors(before, factors_of(at));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunReport& report = runs[i].report;
    refit.runs.push_back({.name = runs[i].name,
                          .measured = report.measured_time,
                          .before = report.predicted_time.value,
                          .after = time_in(after, report)});
    if (runs.size() >= kFewestForLeaveOneOut) {
      std::vector<ObservedRun> others = observed;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      Vector by_others = fit(others);
      (void)describe_knobs(others, by_others);
      refit.runs.back().leave_one_out =
          time_in(with_factors(before, factors_of(by_others)), report);
    }
  }
  after.cluster.name = renamed(before.cluster.name);
  after.cluster.source =
      "Refitted by ptdp-calibrate to " + sources + ". Before: " + before.cluster.source;
  after.stack.name = renamed(before.stack.name);
  after.stack.source =
      "Refitted by ptdp-calibrate to " + sources + ". Before: " + before.stack.source;
  refit.cluster = std::move(after.cluster);
  refit.stack = std::move(after.stack);
  return refit;
}

}  // namespace ptdp
