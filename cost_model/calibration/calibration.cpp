#include "cost_model/calibration/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ptdp {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2.0;
}

/// Logarithms of measured/predicted, in order of the runs.
std::vector<double> log_ratios(std::span<const CalibrationRun> runs) {
  std::vector<double> ratios;
  ratios.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    ratios.push_back(std::log(run.measured / run.predicted));
  }
  return ratios;
}

/// For each value the median of all the others; at least two values.
std::vector<double> medians_of_others(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t others = values.size() - 1;
  std::vector<double> medians;
  medians.reserve(values.size());
  for (const double value : values) {
    const auto left_out = static_cast<std::size_t>(
        std::lower_bound(sorted.begin(), sorted.end(), value) - sorted.begin());
    const auto other = [&](std::size_t i) { return sorted[i < left_out ? i : i + 1]; };
    const std::size_t middle = others / 2;
    medians.push_back(others % 2 == 1 ? other(middle) : (other(middle - 1) + other(middle)) / 2.0);
  }
  return medians;
}

/// The 95th percentile of Student's t for 1, 2, ... 30 degrees of freedom (standard tables).
constexpr std::array kStudentT95 = {6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860,
                                    1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753, 1.746,
                                    1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711,
                                    1.708, 1.706, 1.703, 1.701, 1.699, 1.697};

/// The same for any number of degrees of freedom.
double student_t95(std::size_t degrees) {
  return degrees <= kStudentT95.size() ? kStudentT95[degrees - 1]
                                       : 1.645 + 1.56 / static_cast<double>(degrees);
}

}  // namespace

Calibration calibrate(std::span<const CalibrationRun> runs) {
  if (runs.size() < static_cast<std::size_t>(kFewestCalibrationRuns)) {
    return {.interval = kUncalibratedInterval};
  }
  const std::vector<double> ratios = log_ratios(runs);
  const std::vector<double> medians = medians_of_others(ratios);
  double squares = 0.0;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    squares += (ratios[i] - medians[i]) * (ratios[i] - medians[i]);
  }
  const auto n = static_cast<double>(runs.size());
  const double spread = std::sqrt(squares / n);
  const double half_width = student_t95(runs.size() - 1) * spread * std::sqrt(1.0 + 1.0 / n);
  return {.num_runs = static_cast<int>(runs.size()),
          .factor = std::exp(median(ratios)),
          .interval = {std::exp(-half_width), std::exp(half_width)}};
}

std::vector<double> leave_one_out_errors(std::span<const CalibrationRun> runs) {
  const bool is_enough = runs.size() > static_cast<std::size_t>(kFewestCalibrationRuns);
  const std::vector<double> logarithms =
      is_enough ? medians_of_others(log_ratios(runs)) : std::vector<double>(runs.size(), 0.0);
  std::vector<double> errors;
  errors.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    errors.push_back(std::exp(logarithms[i]) * (runs[i].predicted / runs[i].measured) - 1.0);
  }
  return errors;
}

ErrorSummary summarize(std::span<const double> errors) {
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
  summary.median_absolute = median(std::move(absolute));
  return summary;
}

}  // namespace ptdp
