#include "runtime/profiling/steady_times.h"

#include <fmt/format.h>

#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr int kMostRepeats = 3;

using Point = MeasuredOperation::Point;

std::map<DeviceOperation, std::vector<Point>> points_by_operation(const OperationTimes& times) {
  std::map<DeviceOperation, std::vector<Point>> points;
  for (const auto& [key, seconds] : times) {
    points[key.first].push_back({.sizes = key.second, .time = Seconds(seconds)});
  }
  return points;
}

/// Returns the operations whose times a table would refuse.
std::vector<OperationKey> outliers_among(const OperationTimes& times) {
  std::vector<OperationKey> keys;
  for (const auto& [operation, points] : points_by_operation(times)) {
    if (points.size() < 2) {
      continue;
    }
    for (const std::size_t outlier : find_outliers(operation, points)) {
      keys.emplace_back(operation, points[outlier].sizes);
    }
  }
  return keys;
}

/// Throws Error(kRuntimeFault) when too few times of an operation are left.
void check_enough(const OperationTimes& all, const OperationTimes& left) {
  auto kept = points_by_operation(left);
  for (const auto& [operation, points] : points_by_operation(all)) {
    const std::size_t count = kept[operation].size();
    if (points.size() >= 2 && (count < 2 || 2 * count < points.size())) {
      throw Error(fmt::format("measured {}: only {} of {} times agree with each other: the machine "
                              "is too unsteady; expected one that has nothing else to do",
                              name_of(operation), count, points.size()),
                  ExitStatus::kRuntimeFault);
    }
  }
}

}  // namespace

SteadyTimes steady_times(OperationTimes times, const MeasureAgain& measure_again) {
  std::vector<OperationKey> outliers = outliers_among(times);
  for (int repeat = 0; repeat < kMostRepeats && !outliers.empty(); ++repeat) {
    times = measure_again(outliers);
    outliers = outliers_among(times);
  }
  SteadyTimes steady{.times = times};
  for (const OperationKey& key : outliers) {
    const Point point = {.sizes = key.second, .time = Seconds(times.at(key))};
    steady.left_out.push_back(
        fmt::format("{}: {}", name_of(key.first), describe_point(key.first, point)));
    steady.times.erase(key);
  }
  check_enough(times, steady.times);
  return steady;
}

}  // namespace ptdp
