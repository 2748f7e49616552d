#include "cost_model/inputs/measured_curve.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr double kWidestGap = 16.0;
constexpr double kSteepestGrowth = 4.0;  // growth of the time over growth of the size

// A MeasuredCurve may grow four times as fast as its sizes; a little less, so that rounding to the
// digits of a file does not matter.
constexpr double kFastestGrowth = 3.99;
// A MeasuredCurve may fall to 0.9 of the time before; a little less, for the same reason.
constexpr double kDeepestKeptDip = 0.91;

std::string point_text(const MeasuredPoint& point) {
  std::ostringstream text;
  text << std::setprecision(15);
  text << point.size.value() << " bytes in " << point.time.value() / kMicro << " us";
  return text.str();
}

}  // namespace

MeasuredCurve::MeasuredCurve(std::vector<MeasuredPoint> points, const std::string& place)
    : points_(std::move(points)) {
  if (points_.size() < 2) {
    throw Error(place + ": expected at least two points, got " + std::to_string(points_.size()));
  }
  for (std::size_t i = 1; i < points_.size(); ++i) {
    const MeasuredPoint& before = points_[i - 1];
    const MeasuredPoint& after = points_[i];
    const auto refuse = [&](const std::string& why) {
      std::string message = place;
      message += ": " + why + ": " + point_text(before) + ", then " + point_text(after);
      throw Error(message);
    };
    const double growth = after.size / before.size;
    if (growth <= 1.0) {
      refuse("expected growing sizes");
    }
    if (growth > kWidestGap) {
      refuse("a gap of more than a factor of 16 between sizes");
    }
    if (after.time < before.time * kDeepestDip) {
      refuse("the larger message is faster");
    }
    if (after.time > before.time * growth * kSteepestGrowth) {
      refuse("an outlier: the time grows far faster than the size");
    }
  }
}

Seconds MeasuredCurve::time(Bytes size) const {
  assert(!points_.empty() && !std::isnan(size.value()));
  const MeasuredPoint& first = points_.front();
  const MeasuredPoint& last = points_.back();
  if (size <= first.size) {
    return first.time;
  }
  if (size >= last.size) {
    return last.time * (size / last.size);
  }
  const auto after =
      std::lower_bound(points_.begin(), points_.end(), size,
                       [](const MeasuredPoint& point, Bytes value) { return point.size < value; });
  const auto before = after - 1;
  const double position = std::log(size / before->size) / std::log(after->size / before->size);
  return before->time * std::pow(after->time / before->time, position);
}

bool MeasuredCurve::covers(Bytes size) const {
  return !points_.empty() && size >= points_.front().size && size <= points_.back().size;
}

MeasuredCurve scaled(const MeasuredCurve& curve, double latency, double transfer) {
  if (curve.empty() || (latency == 1.0 && transfer == 1.0)) {
    return curve;
  }
  std::vector<MeasuredPoint> points = curve.points();
  Seconds lowest = points.front().time;
  for (const MeasuredPoint& point : points) {
    lowest = std::min(lowest, point.time);
  }
  for (MeasuredPoint& point : points) {
    point.time = lowest * latency + (point.time - lowest) * transfer;
  }
  for (std::size_t i = points.size() - 1; i > 0; --i) {
    const double growth = kFastestGrowth * (points[i].size / points[i - 1].size);
    points[i - 1].time = std::max(points[i - 1].time, points[i].time * (1.0 / growth));
  }
  for (std::size_t i = 1; i < points.size(); ++i) {
    points[i].time = std::max(points[i].time, points[i - 1].time * kDeepestKeptDip);
  }
  return {std::move(points), "curve"};
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredPoint>& point) {
  fields.quantity("bytes", point.size, 1.0, {1.0, 1e15});
  fields.quantity("time_us", point.time, kMicro, {1e-3, 1e12});
}
template void describe(ObjectReader&, MeasuredPoint&);
template void describe(ObjectWriter&, const MeasuredPoint&);

}  // namespace ptdp
