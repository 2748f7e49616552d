#include "cost_model/measured/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "cost_model/measured/quantile.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

/// The runs to whose last a distance is taken, if there are so many.
constexpr std::ptrdiff_t kNearRuns = 3;

/// The most runs that a prediction's distance is taken to. A file may have a quarter of a million
/// rows: beyond this number, only every k-th run counts.
constexpr std::size_t kMostCompared = 1000;

/// Returns every how many of the runs count.
std::size_t stride_of(const std::vector<CalibrationPoint>& points) {
  return points.size() / kMostCompared + 1;
}

/// Returns the distance from `point` to the third nearest of `points`, or to the nearest of fewer.
/// The point with index `left_out` does not count.
double reach(const CalibrationPoint& point, const std::vector<CalibrationPoint>& points,
             std::size_t left_out) {
  const std::size_t stride = stride_of(points);
  std::vector<double> distances;
  distances.reserve(points.size() / stride + 1);
  for (std::size_t i = 0; i < points.size(); i += stride) {
    if (i != left_out) {
      distances.push_back(distance(point, points[i]));
    }
  }
  if (distances.empty()) {
    return 0.0;
  }
  const auto nearest = distances.begin() + (std::ssize(distances) < kNearRuns ? 0 : kNearRuns - 1);
  std::nth_element(distances.begin(), nearest, distances.end());
  return *nearest;
}

/// Returns the distance from `point` to the others, each thing that none of them has (`unseen`)
/// being 1 away.
double reach_of(const CalibrationPoint& point, const std::vector<std::string>& unseen,
                const std::vector<CalibrationPoint>& points, std::size_t left_out) {
  return reach(point, points, left_out) + static_cast<double>(unseen.size());
}

/// Returns what is known of a job once `sums` hold the runs of its scope.
CalibrationFit fit_of(const LevelModel& model, const LevelPrior& prior, const ScopeSums& sums,
                      const std::string& job) {
  CalibrationFit fit{.support = support_of(prior, sums.num_runs())};
  if (!fit.is_calibrated()) {
    return fit;
  }
  const NextRun next = next_run(model, prior, sums, job);
  fit.factor = std::exp(next.job.mean);
  fit.layout_variance = next.noise;
  fit.variance = next.variance();
  fit.degrees = next.degrees;
  return fit;
}

Calibration calibration_at(const CalibrationFit& fit, double distance) {
  Calibration calibration{
      .support = fit.support, .factor = fit.factor, .layout_variance = fit.layout_variance};
  calibration.support.distance = distance;
  const double far = kDeviationPerDistance * distance;
  calibration.interval = interval_of(fit.variance + far * far, fit.degrees);
  return calibration;
}

std::vector<CalibrationPoint> points_of(std::span<const CalibrationRun> runs) {
  std::vector<CalibrationPoint> points;
  points.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    points.push_back(run.point);
  }
  return points;
}

/// Adds a line when a size lies more than twice beyond those of all runs.
void note_outside(const char* what, std::int64_t CalibrationPoint::*size,
                  const CalibrationPoint& point, const std::vector<CalibrationPoint>& points,
                  std::vector<std::string>& lines) {
  std::int64_t least = points.front().*size;
  std::int64_t most = least;
  for (std::size_t i = 0; i < points.size(); i += stride_of(points)) {
    least = std::min(least, points[i].*size);
    most = std::max(most, points[i].*size);
  }
  const bool is_above = point.*size > 2 * most;
  if (is_above || 2 * (point.*size) < least) {
    std::string line = std::to_string(point.*size);
    line += ' ';
    line += what;
    line += is_above ? ", where runs of this cluster and stack have at most "
                     : ", where runs of this cluster and stack have at least ";
    line += std::to_string(is_above ? most : least);
    lines.push_back(std::move(line));
  }
}

}  // namespace

Support support_of(const LevelPrior& prior, int runs) {
  return {.num_runs = runs,
          .stack_runs = runs + prior.stack_runs,
          .program_runs = runs + prior.program_runs,
          .all_runs = runs + prior.all_runs};
}

std::string to_text(const Support& support) {
  if (support.num_runs > 0) {
    const std::string runs = plural(support.num_runs, "run") + " of this cluster and stack";
    return support.program_runs > support.num_runs
               ? runs + ", " + std::to_string(support.program_runs) + " of its kind of program"
               : runs;
  }
  if (support.stack_runs > 0) {
    return plural(support.stack_runs, "run") + " of this stack elsewhere, " +
           std::to_string(support.program_runs) + " of its kind of program";
  }
  if (support.program_runs > 0) {
    return "no run of this stack, " + plural(support.program_runs, "run") +
           " of its kind of program";
  }
  return "no run of this kind of program, " + plural(support.all_runs, "run") + " of others";
}

template <class Fields>
void describe_support(Fields& fields, Described<Fields, Support>& support) {
  constexpr std::int64_t most_runs = 1'000'000'000;
  fields.count("calibration_runs", support.num_runs, 0, most_runs);
  // A plan of an earlier version has no more than that.
  if constexpr (Fields::kIsReading) {
    support.stack_runs = support.num_runs;
  }
  if (fields.optional("calibration_stack_runs", support.stack_runs != support.num_runs)) {
    fields.count("calibration_stack_runs", support.stack_runs, support.num_runs, most_runs);
  }
  if constexpr (Fields::kIsReading) {
    support.program_runs = support.stack_runs;
  }
  if (fields.optional("calibration_program_runs", support.program_runs != support.stack_runs)) {
    fields.count("calibration_program_runs", support.program_runs, support.stack_runs, most_runs);
  }
  if constexpr (Fields::kIsReading) {
    support.all_runs = support.program_runs;
  }
  if (fields.optional("calibration_all_runs", support.all_runs != support.program_runs)) {
    fields.count("calibration_all_runs", support.all_runs, support.program_runs, most_runs);
  }
}

template void describe_support(ObjectReader&, Support&);
template void describe_support(ObjectWriter&, const Support&);

Calibration CalibrationFit::at(const CalibrationPoint& point) const {
  if (!is_calibrated()) {
    return {};
  }
  std::vector<std::string> unseen = never_measured(point, points, points.size());
  Calibration calibration = calibration_at(*this, reach_of(point, unseen, points, points.size()));
  std::vector<std::string>& lines = calibration.outside_runs;
  if (points.empty()) {
    lines.emplace_back(support.stack_runs > 0
                           ? "no measured run of this stack on this cluster with this kind of model"
                           : "no measured run of this stack");
  } else {
    note_outside("GPUs", &CalibrationPoint::gpus, point, points, lines);
    note_outside("parameters", &CalibrationPoint::parameters, point, points, lines);
    note_outside("tokens in a sequence", &CalibrationPoint::seq_length, point, points, lines);
    std::move(unseen.begin(), unseen.end(), std::back_inserter(lines));
  }
  return calibration;
}

double probability_of_order(Seconds first, Seconds second, double layout_variance) {
  const double deviations =
      kOrderSharpness * std::log(second / first) / std::sqrt(2.0 * layout_variance);
  return 0.5 * std::erfc(-deviations / std::sqrt(2.0));
}

LevelRun level_run(const CalibrationRun& run) {
  return {.value = std::log(run.measured / run.predicted), .job = run.job};
}

std::vector<LevelRun> level_runs(std::span<const CalibrationRun> runs) {
  std::vector<LevelRun> levels;
  levels.reserve(runs.size());
  std::transform(runs.begin(), runs.end(), std::back_inserter(levels), level_run);
  return levels;
}

CalibrationFit fit_calibration(const LevelModel& model, const LevelPrior& prior,
                               std::span<const CalibrationRun> runs, const std::string& job) {
  CalibrationFit fit = fit_of(model, prior, ScopeSums(model, level_runs(runs)), job);
  fit.points = points_of(runs);
  return fit;
}

std::vector<Calibration> leave_one_out(const LevelModel& model, const LevelPrior& prior,
                                       std::span<const CalibrationRun> runs) {
  const std::vector<LevelRun> levels = level_runs(runs);
  const std::vector<CalibrationPoint> points = points_of(runs);
  ScopeSums sums(model, levels);
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    sums.remove(levels[i]);
    const CalibrationFit fit = fit_of(model, prior, sums, levels[i].job);
    Calibration& calibration = calibrations.emplace_back();
    if (fit.is_calibrated()) {
      const std::vector<std::string> unseen = never_measured(points[i], points, i);
      calibration = calibration_at(fit, reach_of(points[i], unseen, points, i));
    }
    sums.add(levels[i]);
  }
  return calibrations;
}

ErrorSummary summarized(std::span<const double> errors) {
  if (errors.empty()) {
    return {};
  }
  ErrorSummary summary{.count = static_cast<int>(errors.size())};
  std::vector<double> absolute;
  for (const double error : errors) {
    absolute.push_back(std::abs(error));
    summary.mean_absolute += std::abs(error) / static_cast<double>(errors.size());
    summary.bias += error / static_cast<double>(errors.size());
  }
  summary.max_absolute = *std::max_element(absolute.begin(), absolute.end());
  summary.p90_absolute = quantile(absolute, 0.9);
  summary.median_absolute = median(std::move(absolute));
  return summary;
}

}  // namespace ptdp
