// What is believed of the times of several plans of one job, and what short runs teach of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ptdp {

/// Correlation of what two runs of different sizes show of a layout with the same degrees within a
/// node. It is that of 100,864 pairs of rows of vTrain on one node: equal tp, microbatch and
/// recomputation, other jobs; ln(measured/predicted) less the mean of each job.
inline constexpr double kSmallerRunCorrelation = 0.38;
/// Variance of ln(time) that a steady state of ten iterations leaves: 1 % squared.
inline constexpr double kShortRunVariance = 1e-4;

/// How sure predictions for plans of one job are. Variances are of ln(measured/predicted):
///
///   ln T_i = ln P_i + job + layout_i
struct PilotModel {
  double job_variance = 0.0;     ///< What all plans of the job share.
  double other_job = 0.0;        ///< How far another job of the same cluster and stack lies off.
  double layout_variance = 0.0;  ///< What each plan has for itself.

  friend bool operator==(const PilotModel&, const PilotModel&) = default;
};

/// A short run of a plan, or of a smaller job with the plan's degrees within a node.
struct ShortRun {
  std::size_t plan = 0;     ///< Place of the plan among the candidates.
  bool is_smaller = false;  ///< Whether it has fewer GPUs or layers than the plan.
  double gpu_hours = 0.0;   ///< What it costs.

  friend bool operator==(const ShortRun&, const ShortRun&) = default;
};

/// A normal belief about job, another job and the layouts, which runs update one by one.
class PilotBelief {
 public:
  /// Takes ln of the predicted times of all plans.
  PilotBelief(const PilotModel& model, std::vector<double> log_times);

  /// Learns ln(measured/predicted) of a run, where predicted is that of the very run.
  void observe(const ShortRun& run, double log_ratio);

  [[nodiscard]] std::size_t num_plans() const { return log_times_.size(); }
  /// Returns the expected ln of a plan's time.
  [[nodiscard]] double mean(std::size_t plan) const;
  /// Returns the variance of the ln of a plan's time.
  [[nodiscard]] double variance(std::size_t plan) const;
  /// Returns the plan with the least expected time; the first of equals.
  [[nodiscard]] std::size_t best() const;
  /// Computes with which probability each plan is the fastest, by `samples` draws.
  [[nodiscard]] std::vector<double> probabilities(int samples, std::uint64_t seed) const;
  /// Computes the expected excess of the best plan's time over the fastest plan's, as a fraction,
  /// by `samples` draws, after what `runs` will teach; without runs, as it is now.
  [[nodiscard]] double expected_regret(std::span<const ShortRun> runs, int samples,
                                       std::uint64_t seed) const;

 private:
  struct Update;
  /// Returns what a run shows as weights of job, another job and layouts, and its own variance.
  [[nodiscard]] Update update_of(const ShortRun& run) const;
  /// Returns the gain of a run and takes its certainty into `covariance`.
  [[nodiscard]] std::vector<double> gain_of(const Update& update,
                                            std::vector<double>& covariance) const;

  PilotModel model_;
  std::vector<double> log_times_;
  std::vector<double> means_;       ///< Of job, another job, and each layout.
  std::vector<double> covariance_;  ///< Square matrix of these, row by row.
};

/// Chooses runs that separate the plans for at most `gpu_hours`, six at most: two at first, then
/// one after the other. It takes those with the largest fall of the expected regret for their share
/// of the budget and of the six places, and ends where none lowers it by a hundredth.
[[nodiscard]] std::vector<ShortRun> choose_short_runs(const PilotBelief& belief,
                                                      std::span<const ShortRun> possible,
                                                      double gpu_hours);

}  // namespace ptdp
