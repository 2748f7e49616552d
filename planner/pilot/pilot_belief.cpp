#include "planner/pilot/pilot_belief.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace ptdp {
namespace {

constexpr std::size_t kShared = 2;  // job and another job, in front of the layouts
constexpr std::size_t kMostRuns = 6;
constexpr int kChoiceSamples = 1500;
constexpr std::uint64_t kChoiceSeed = 20210409;  // any will do: equal questions, equal answers

/// Returns the lower triangle L of a covariance = L·Lᵀ, row by row. Directions without variance
/// are 0.
std::vector<double> cholesky(const std::vector<double>& covariance, std::size_t size) {
  std::vector<double> lower(covariance.size(), 0.0);
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column <= row; ++column) {
      double rest = covariance[row * size + column];
      for (std::size_t k = 0; k < column; ++k) {
        rest -= lower[row * size + k] * lower[column * size + k];
      }
      const double pivot = lower[column * size + column];
      lower[row * size + column] = row == column   ? std::sqrt(std::max(rest, 0.0))
                                   : pivot > 1e-12 ? rest / pivot
                                                   : 0.0;
    }
  }
  return lower;
}

/// Returns what may be added to the chosen runs: one more; at first two at once, since a single run
/// does not tell its plan from the job that all plans share.
std::vector<std::vector<ShortRun>> next_runs(const std::vector<ShortRun>& chosen,
                                             std::span<const ShortRun> possible) {
  std::vector<std::vector<ShortRun>> next;
  for (std::size_t i = 0; i < possible.size(); ++i) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), possible[i]) == chosen.end()) {
      next.push_back({possible[i]});
    }
    for (std::size_t j = 0; chosen.empty() && j < i; ++j) {
      if (possible[i].plan != possible[j].plan) {
        next.push_back({possible[j], possible[i]});
      }
    }
  }
  return next;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

/// A linear observation of job, another job and layouts.
struct PilotBelief::Update {
  std::vector<double> weights;
  double variance = 0.0;  ///< Variance of what the run shows besides.
};

PilotBelief::PilotBelief(const PilotModel& model, std::vector<double> log_times)
    : model_(model), log_times_(std::move(log_times)) {
  const std::size_t size = kShared + log_times_.size();
  means_.assign(size, 0.0);
  covariance_.assign(size * size, 0.0);
  for (std::size_t i = 0; i < size; ++i) {
    covariance_[i * size + i] = i == 0   ? model.job_variance
                                : i == 1 ? model.other_job
                                         : model.layout_variance;
  }
}

PilotBelief::Update PilotBelief::update_of(const ShortRun& run) const {
  Update update{.weights = std::vector<double>(means_.size(), 0.0), .variance = kShortRunVariance};
  const double correlation = run.is_smaller ? kSmallerRunCorrelation : 1.0;
  update.weights[0] = 1.0;
  update.weights[1] = run.is_smaller ? 1.0 : 0.0;
  update.weights[kShared + run.plan] = correlation;
  update.variance += (1.0 - correlation * correlation) * model_.layout_variance;
  return update;
}

std::vector<double> PilotBelief::gain_of(const Update& update,
                                         std::vector<double>& covariance) const {
  const std::size_t size = means_.size();
  std::vector<double> with(size, 0.0);  // covariance of everything with what the run shows
  for (std::size_t i = 0; i < size; ++i) {
    with[i] = dot(std::span(covariance).subspan(i * size, size), update.weights);
  }
  const double variance = dot(with, update.weights) + update.variance;
  std::vector<double> gain(size);
  std::transform(with.begin(), with.end(), gain.begin(),
                 [&](double value) { return value / variance; });
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      covariance[i * size + j] -= gain[i] * with[j];
    }
  }
  return gain;
}

void PilotBelief::observe(const ShortRun& run, double log_ratio) {
  const Update update = update_of(run);
  const double surprise = log_ratio - dot(means_, update.weights);
  const std::vector<double> gain = gain_of(update, covariance_);
  for (std::size_t i = 0; i < means_.size(); ++i) {
    means_[i] += gain[i] * surprise;
  }
}

double PilotBelief::mean(std::size_t plan) const {
  return log_times_[plan] + means_[0] + means_[kShared + plan];
}

double PilotBelief::variance(std::size_t plan) const {
  const std::size_t size = means_.size();
  const std::size_t place = kShared + plan;
  return covariance_[0] + 2.0 * covariance_[place] + covariance_[place * size + place];
}

std::size_t PilotBelief::best() const {
  std::size_t best = 0;
  for (std::size_t plan = 1; plan < num_plans(); ++plan) {
    best = mean(plan) < mean(best) ? plan : best;
  }
  return best;
}

std::vector<double> PilotBelief::probabilities(int samples, std::uint64_t seed) const {
  const std::size_t size = means_.size();
  const std::vector<double> lower = cholesky(covariance_, size);
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<int> wins(num_plans(), 0);
  std::vector<double> draws(size);
  for (int sample = 0; sample < samples; ++sample) {
    std::generate(draws.begin(), draws.end(), [&] { return normal(generator); });
    std::size_t fastest = 0;
    double least = INFINITY;
    for (std::size_t plan = 0; plan < num_plans(); ++plan) {
      // All plans share the job, which their order does not depend on.
      const double time = log_times_[plan] + means_[kShared + plan] +
                          dot(std::span(lower).subspan((kShared + plan) * size, size), draws);
      if (time < least) {
        least = time;
        fastest = plan;
      }
    }
    ++wins[fastest];
  }
  std::vector<double> probabilities(num_plans());
  std::transform(wins.begin(), wins.end(), probabilities.begin(),
                 [&](int count) { return static_cast<double>(count) / samples; });
  return probabilities;
}

double PilotBelief::expected_regret(std::span<const ShortRun> runs, int samples,
                                    std::uint64_t seed) const {
  const std::size_t size = means_.size();
  const std::vector<double> lower = cholesky(covariance_, size);
  std::vector<Update> updates;
  std::vector<std::vector<double>> gains;
  std::vector<double> covariance = covariance_;
  for (const ShortRun& run : runs) {
    updates.push_back(update_of(run));
    gains.push_back(gain_of(updates.back(), covariance));
  }
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> draws(size);
  double regret = 0.0;
  for (int sample = 0; sample < samples; ++sample) {
    std::generate(draws.begin(), draws.end(), [&] { return normal(generator); });
    std::vector<double> truth = means_;
    for (std::size_t i = 0; i < size; ++i) {
      truth[i] += dot(std::span(lower).subspan(i * size, size), draws);
    }
    std::vector<double> believed = means_;
    for (std::size_t run = 0; run < updates.size(); ++run) {
      const double noise = std::sqrt(updates[run].variance) * normal(generator);
      const double surprise =
          dot(truth, updates[run].weights) + noise - dot(believed, updates[run].weights);
      for (std::size_t i = 0; i < size; ++i) {
        believed[i] += gains[run][i] * surprise;
      }
    }
    std::size_t chosen = 0;
    double least = INFINITY;
    const auto time_of = [&](const std::vector<double>& state, std::size_t plan) {
      return log_times_[plan] + state[kShared + plan];
    };
    for (std::size_t plan = 0; plan < num_plans(); ++plan) {
      chosen = time_of(believed, plan) < time_of(believed, chosen) ? plan : chosen;
      least = std::min(least, time_of(truth, plan));
    }
    regret += std::exp(time_of(truth, chosen) - least) - 1.0;
  }
  return regret / samples;
}

std::vector<ShortRun> choose_short_runs(const PilotBelief& belief,
                                        std::span<const ShortRun> possible, double gpu_hours) {
  std::vector<ShortRun> chosen;
  const double before = belief.expected_regret({}, kChoiceSamples, kChoiceSeed);
  double now = before;
  double left = gpu_hours;
  while (chosen.size() < kMostRuns) {
    std::vector<ShortRun> best;
    double best_rate = 0.0;
    double best_regret = now;
    for (const std::vector<ShortRun>& more : next_runs(chosen, possible)) {
      const double cost =
          std::accumulate(more.begin(), more.end(), 0.0,
                          [](double sum, const ShortRun& run) { return sum + run.gpu_hours; });
      if (cost > left || chosen.size() + more.size() > kMostRuns) {
        continue;
      }
      std::vector<ShortRun> with = chosen;
      with.insert(with.end(), more.begin(), more.end());
      const double regret = belief.expected_regret(with, kChoiceSamples, kChoiceSeed);
      // Budget and places are scarce: what a run takes of either counts.
      const double share = cost / left + static_cast<double>(more.size()) /
                                             static_cast<double>(kMostRuns - chosen.size());
      const double rate = (now - regret) / share;
      if (now - regret > 0.01 * before && rate > best_rate) {
        best = more;
        best_rate = rate;
        best_regret = regret;
      }
    }
    if (best.empty()) {
      break;
    }
    for (const ShortRun& run : best) {
      left -= run.gpu_hours;
      chosen.push_back(run);
    }
    now = best_regret;
  }
  return chosen;
}

}  // namespace ptdp
