#include "cost_model/measured/levels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

namespace ptdp {
namespace {

/// Degrees of freedom below which an interval would say nothing.
constexpr double kFewestDegrees = 1.0;

/// Names of a path's levels, the widest first; shorter ones stand for all scopes below them. They
/// belong to the path.
using Place = std::vector<std::string_view>;

Place place_of(const LevelPath& path) {
  return {name_of(path.program, NamedValues<ProgramKind>(kProgramKindNames)), path.stack,
          path.has_experts ? "experts" : "dense", path.cluster};
}

/// What the scopes below each place say of its mean, by the number of levels that are named.
using BeliefsByDepth = std::array<std::map<Place, Belief>, kNumLevels + 1>;

/// Returns the logarithm of the normal density of the difference of two beliefs.
double log_agreement(const Belief& a, const Belief& b) {
  const double variance = 1.0 / a.precision + 1.0 / b.precision;
  const double difference = a.mean - b.mean;
  return -0.5 * (std::log(variance) + difference * difference / variance);
}

/// Passes what is known of narrow places up to wide ones. Adds to `log_likelihood` how well they
/// agree.
BeliefsByDepth pass_up(const LevelModel& model, const std::map<Place, Belief>& scopes,
                       double& log_likelihood) {
  BeliefsByDepth beliefs;
  beliefs[kNumLevels] = scopes;
  for (std::size_t depth = kNumLevels; depth > 0; --depth) {
    for (const auto& [place, belief] : beliefs[depth]) {
      const Belief message = belief.blurred(model.variances[depth - 1]);
      Belief& above = beliefs[depth - 1][Place(place.begin(), place.end() - 1)];
      if (above.precision > 0.0) {
        log_likelihood += log_agreement(above, message);
      }
      above = above.with(message);
    }
  }
  return beliefs;
}

}  // namespace

Belief Belief::with(const Belief& other) const {
  const double sum = precision + other.precision;
  return sum > 0.0 ? Belief{(mean * precision + other.mean * other.precision) / sum, sum}
                   : Belief{};
}

Belief Belief::without(const Belief& other) const {
  const double rest = precision - other.precision;
  constexpr double rounding = 1e-9;
  return rest > rounding * precision
             ? Belief{(mean * precision - other.mean * other.precision) / rest, rest}
             : Belief{};
}

Belief Belief::blurred(double variance) const {
  return precision > 0.0 ? Belief{mean, 1.0 / (1.0 / precision + variance)} : Belief{};
}

Belief Belief::scaled(double factor) const {
  return {mean * factor, precision / (factor * factor)};
}

ScopeSums::ScopeSums(const LevelModel& model, std::span<const LevelRun> runs) : model_(model) {
  for (const LevelRun& run : runs) {
    add(run);
  }
}

double ScopeSums::weight_of(const Job& job) const {
  return job.num_runs > 0 ? 1.0 / (model_.job + model_.noise / job.num_runs) : 0.0;
}

void ScopeSums::count(const LevelRun& run, int times) {
  Job& job = jobs_[run.job];
  const auto add_job = [&](double sign) {
    const double weight = sign * weight_of(job);
    weights_ += weight;
    weighted_means_ += job.num_runs > 0 ? weight * job.sum / job.num_runs : 0.0;
  };
  add_job(-1.0);
  job.num_runs += times;
  job.sum += times * run.value;
  add_job(1.0);
  num_runs_ += times;
  sum_ += times * run.value;
  squares_ += times * run.value * run.value;
}

double ScopeSums::scatter_squared() const {
  if (num_runs_ == 0) {
    return model_.usual_scatter * model_.usual_scatter;
  }
  const double n = num_runs_;
  const double deviations = std::max(0.0, squares_ - sum_ * sum_ / n);
  return (deviations + model_.scatter_runs * model_.scatter * model_.scatter) /
         (n - 1.0 + model_.scatter_runs);
}

Belief ScopeSums::scope_mean() const {
  return num_runs_ > 0 ? Belief{weighted_means_ / weights_, weights_ / scatter_squared()}
                       : Belief{};
}

Belief ScopeSums::job_mean(const Belief& prior, const std::string& job) const {
  const double scatter = scatter_squared();
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.num_runs == 0) {
    return prior.with(scope_mean()).blurred(model_.job * scatter);
  }
  const double n = found->second.num_runs;
  const double own_mean = found->second.sum / n;
  const Belief others = scope_mean().without({own_mean, weight_of(found->second) / scatter});
  return prior.with(others)
      .blurred(model_.job * scatter)
      .with({own_mean, n / (model_.noise * scatter)});
}

LevelPrior level_prior(const LevelModel& model, std::span<const LevelScope> scopes,
                       const LevelPath& path) {
  LevelPrior prior;
  std::map<Place, Belief> others;
  for (const LevelScope& scope : scopes) {
    if (scope.path == path || scope.num_runs == 0) {
      continue;
    }
    others.emplace(place_of(scope.path), scope.mean);
    const bool is_of_program = scope.path.program == path.program;
    prior.all_runs += scope.num_runs;
    ++prior.num_scopes;
    prior.program_runs += is_of_program ? scope.num_runs : 0;
    prior.stack_runs += is_of_program && scope.path.stack == path.stack ? scope.num_runs : 0;
  }
  double log_likelihood = 0.0;
  BeliefsByDepth beliefs = pass_up(model, others, log_likelihood);
  // From the widest level down: what is known of a place, less what came from below, says what its
  // surroundings say of the next narrower place.
  const Place place = place_of(path);
  Belief known = beliefs[0][{}];
  for (std::size_t depth = 1; depth <= kNumLevels; ++depth) {
    const double variance = model.variances[depth - 1];
    const Belief below =
        beliefs[depth][Place(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(depth))];
    known = known.without(below.blurred(variance)).blurred(variance).with(below);
  }
  prior.mean = known;
  return prior;
}

NextRun next_run(const LevelModel& model, const LevelPrior& prior, const ScopeSums& sums,
                 const std::string& job) {
  const int runs = sums.num_runs();
  const double degrees = runs > 0 ? runs - 1.0 + model.scatter_runs : prior.num_scopes - 1.0;
  return {.job = sums.job_mean(prior.mean, job),
          .noise = model.noise * sums.scatter_squared(),
          .degrees = std::max(kFewestDegrees, degrees)};
}

std::vector<ScopeStatistics> statistics_of(const LevelModel& model, const RunsByScope& scopes) {
  std::vector<ScopeStatistics> statistics;
  statistics.reserve(scopes.size());
  for (const auto& [path, runs] : scopes) {
    std::map<std::string, std::vector<double>> values_of_job;
    for (const LevelRun& run : runs) {
      values_of_job[run.job].push_back(run.value);
    }
    ScopeStatistics& scope = statistics.emplace_back();
    scope.path = path;
    scope.scatter_squared = ScopeSums(model, runs).scatter_squared();
    scope.jobs.reserve(values_of_job.size());
    for (const auto& [name, values] : values_of_job) {
      const auto n = static_cast<double>(values.size());
      JobStatistics& job = scope.jobs.emplace_back();
      job.num_runs = static_cast<int>(values.size());
      job.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
      for (const double value : values) {
        job.squares += (value - job.mean) * (value - job.mean);
      }
    }
  }
  return statistics;
}

double restricted_log_likelihood(const LevelModel& model, std::span<const ScopeStatistics> scopes) {
  double log_likelihood = 0.0;
  std::map<Place, Belief> means;
  for (const ScopeStatistics& scope : scopes) {
    const double noise = model.noise * scope.scatter_squared;
    Belief& mean = means[place_of(scope.path)];
    for (const JobStatistics& job : scope.jobs) {
      const double n = job.num_runs;
      log_likelihood -= 0.5 * ((n - 1.0) * std::log(noise) + job.squares / noise + std::log(n));
      const Belief of_job{job.mean, 1.0 / (model.job * scope.scatter_squared + noise / n)};
      if (mean.precision > 0.0) {
        log_likelihood += log_agreement(mean, of_job);
      }
      mean = mean.with(of_job);
    }
  }
  pass_up(model, means, log_likelihood);
  return log_likelihood;
}

}  // namespace ptdp
