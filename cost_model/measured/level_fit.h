// Fits the constants of the levels to measured runs.
#pragma once

#include <span>

#include "cost_model/measured/levels.h"

namespace ptdp {

/// The range of fitted variances. The least one stands for 0: an effect of 0.1 % on time, or of
/// 0.001 GiB on memory.
inline constexpr double kLeastVariance = 1e-6;
inline constexpr double kMostVariance = 10.0;

/// Bounds say what variances a fit may find.
struct VarianceRange {
  double least_of_clusters = kLeastVariance;  ///< This one is for the level of clusters alone.
  double most = kMostVariance;
};

/// Variances of memory lie in this range [GiB²]. That clusters differ by 4 GiB at least is a
/// judgement. Published runs of one stack on several clusters were all measured alike, by what
/// PyTorch allocates, and hardly differ. Sources that measured otherwise do: Megatron-LM of 2021
/// has 1.4 GiB beyond the formulas on Jean Zay's V100s, Megatron-DeepSpeed on its A100s 12.8.
inline constexpr VarianceRange kMemoryVariances = {.least_of_clusters = 16.0, .most = 1e3};

/// Where the search for the constants starts, if nothing better is known.
inline constexpr LevelModel kLevelStart = {.variances = {0.01, 0.01, 0.01, 0.01},
                                           .job = 0.5,
                                           .noise = 0.5,
                                           .scatter = 0.1,
                                           .scatter_runs = 1.0};

/// Where the search starts for memory: variances in GiB², scatter in GiB.
inline constexpr LevelModel kMemoryLevelStart = {
    .variances = {4.0, 4.0, 4.0, kMemoryVariances.least_of_clusters},
    .job = 0.5,
    .noise = 0.5,
    .scatter = 2.0,
    .scatter_runs = 1.0};

/// The fewest scopes that constants are fitted to.
inline constexpr std::size_t kFewestScopes = 8;

/// The most runs of one scope that take part in a fit: one large set shall not decide for all.
inline constexpr std::size_t kMostRunsOfScope = 100;

/// Fits the constants to runs: fit_scatter(), then fit_variances(). Of a scope with more than
/// kMostRunsOfScope runs, every k-th counts. The search starts from `start`, which is also returned
/// for fewer than kFewestScopes scopes: these do not tell how scopes vary.
[[nodiscard]] LevelModel fit_levels(const RunsByScope& scopes,
                                    const LevelModel& start = kLevelStart,
                                    const VarianceRange& range = {});

/// Sets w0 and v to maximize the likelihood of the scopes' sample variances: their ratio to w0²
/// follows Fisher's distribution with n − 1 and v degrees of freedom.
void fit_scatter(const RunsByScope& scopes, LevelModel& model, double most = kMostVariance);

/// Sets the variances of all levels, jobs and noise to maximize restricted_log_likelihood(). Where
/// all scopes are of one program, or all dense, or all of experts, the runs say nothing of how
/// these vary: that variance stays.
void fit_variances(std::span<const ScopeStatistics> scopes, LevelModel& model,
                   const VarianceRange& range = {});

}  // namespace ptdp
