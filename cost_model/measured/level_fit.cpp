#include "cost_model/measured/level_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ptdp {
namespace {

RunsByScope thinned(const RunsByScope& scopes) {
  RunsByScope some;
  for (const auto& [path, runs] : scopes) {
    const std::size_t stride = (runs.size() + kMostRunsOfScope - 1) / kMostRunsOfScope;
    std::vector<LevelRun>& kept = some[path];
    for (std::size_t i = 0; i < runs.size(); i += stride) {
      kept.push_back(runs[i]);
    }
  }
  return some;
}

/// A scope's sample variance, with its degrees of freedom.
struct SampleVariance {
  double degrees = 0.0;
  double variance = 0.0;
};

std::vector<SampleVariance> sample_variances(const RunsByScope& scopes) {
  constexpr double least = 1e-6;  // runs that agree by chance say nothing of how well others will
  std::vector<SampleVariance> variances;
  for (const auto& [path, runs] : scopes) {
    if (runs.size() > 1) {
      // With no weight on w0, the squared scatter is the sample variance.
      const double variance = ScopeSums({.noise = 1.0}, runs).scatter_squared();
      variances.push_back({static_cast<double>(runs.size()) - 1.0, std::max(least, variance)});
    }
  }
  return variances;
}

/// Returns the logarithm of the density of sample variances, whose ratio to w0² follows Fisher's
/// distribution.
double log_density(const std::vector<SampleVariance>& samples, double scatter_squared, double v) {
  double sum = 0.0;
  for (const SampleVariance& sample : samples) {
    const double n = sample.degrees;
    const double ratio = sample.variance / scatter_squared;
    sum += std::lgamma((n + v) / 2.0) - std::lgamma(n / 2.0) - std::lgamma(v / 2.0) +
           n / 2.0 * std::log(n / v) + (n / 2.0 - 1.0) * std::log(ratio) -
           (n + v) / 2.0 * std::log1p(n * ratio / v) - std::log(scatter_squared);
  }
  return sum;
}

/// Returns where a function of one variable is largest in [low, high], by golden sections.
double maximize(const std::function<double(double)>& value, double low, double high) {
  constexpr double golden = 0.6180339887498949;
  constexpr double tolerance = 1e-5;
  double left = high - golden * (high - low);
  double right = low + golden * (high - low);
  double at_left = value(left);
  double at_right = value(right);
  while (high - low > tolerance) {
    if (at_left > at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - golden * (high - low);
      at_left = value(left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + golden * (high - low);
      at_right = value(right);
    }
  }
  return (low + high) / 2.0;
}

/// A constant that is fitted has this place and range.
struct Parameter {
  double* place = nullptr;
  double least = kLeastVariance;
  double most = kMostVariance;
};

/// Maximizes `value` over the logarithms of `parameters`, one after another until it grows no more.
void climb(const std::vector<Parameter>& parameters, const std::function<double()>& value) {
  constexpr int most_rounds = 200;
  constexpr double least_gain = 1e-6;
  double best = value();
  for (int round = 0; round < most_rounds; ++round) {
    for (const Parameter& parameter : parameters) {
      const auto at = [&](double logarithm) {
        *parameter.place = std::exp(logarithm);
        return value();
      };
      at(maximize(at, std::log(parameter.least), std::log(parameter.most)));
    }
    const double reached = value();
    if (reached - best < least_gain) {
      return;
    }
    best = reached;
  }
}

}  // namespace

void fit_scatter(const RunsByScope& scopes, LevelModel& model, double most) {
  const std::vector<SampleVariance> samples = sample_variances(scopes);
  double scatter_squared = model.scatter * model.scatter;
  climb({{.place = &scatter_squared, .most = most}, {.place = &model.scatter_runs, .most = most}},
        [&] { return log_density(samples, scatter_squared, model.scatter_runs); });
  model.scatter = std::sqrt(scatter_squared);
}

void fit_variances(std::span<const ScopeStatistics> scopes, LevelModel& model,
                   const VarianceRange& range) {
  std::vector<Parameter> parameters = {{.place = &model.job, .most = range.most},
                                       {.place = &model.noise, .most = range.most}};
  const auto differ_in = [&](auto of_path) {
    return std::ranges::any_of(scopes, [&](const ScopeStatistics& scope) {
      return of_path(scope.path) != of_path(scopes.front().path);
    });
  };
  auto& [program, stack, experts, cluster] = model.variances;
  if (differ_in([](const LevelPath& path) { return path.program; })) {
    parameters.push_back({.place = &program, .most = range.most});
  }
  parameters.push_back({.place = &stack, .most = range.most});
  if (differ_in([](const LevelPath& path) { return path.has_experts; })) {
    parameters.push_back({.place = &experts, .most = range.most});
  }
  parameters.push_back({.place = &cluster, .least = range.least_of_clusters, .most = range.most});
  climb(parameters, [&] { return restricted_log_likelihood(model, scopes); });
}

LevelModel fit_levels(const RunsByScope& scopes, const LevelModel& start,
                      const VarianceRange& range) {
  if (scopes.size() < kFewestScopes) {
    return start;
  }
  const RunsByScope fewer = thinned(scopes);
  LevelModel model = start;
  fit_scatter(fewer, model, range.most);
  const std::vector<ScopeStatistics> statistics = statistics_of(model, fewer);
  fit_variances(statistics, model, range);
  double sum = 0.0;
  for (const ScopeStatistics& scope : statistics) {
    sum += scope.scatter_squared / static_cast<double>(statistics.size());
  }
  model.usual_scatter = std::sqrt(sum);
  return model;
}

}  // namespace ptdp
