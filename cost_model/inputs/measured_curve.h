// A measured time over a size, for interpolation.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/units.h"

namespace ptdp {

/// One measurement: an operation on `size` bytes took `time`.
struct MeasuredPoint {
  Bytes size;
  Seconds time;

  friend bool operator==(const MeasuredPoint&, const MeasuredPoint&) = default;
};

/// The least share of a time that more work may take: repeated measurements of one size scatter by
/// some percent.
inline constexpr double kDeepestDip = 0.9;

/// Measured times of one operation over message sizes. Between points it interpolates linearly in
/// the logarithms of size and time. Below the first point the time is that of the first: a message
/// is never faster than the smallest one measured. Beyond the last it grows in proportion to size.
class MeasuredCurve {
 public:
  MeasuredCurve() = default;
  /// Takes points in ascending order of size. Throws Error, naming `place`, for fewer than two
  /// points, sizes that do not grow, and a gap: more than a factor of 16 from one size to the next.
  /// An outlier is an error too: times must not fall by more than a tenth, nor grow more than four
  /// times as fast as the sizes.
  MeasuredCurve(std::vector<MeasuredPoint> points, const std::string& place);

  [[nodiscard]] bool empty() const { return points_.empty(); }
  /// Returns the time for `size`, interpolated or extrapolated. The curve must not be empty.
  [[nodiscard]] Seconds time(Bytes size) const;
  /// Returns whether `size` lies within the measured sizes, so that time() does not extrapolate.
  [[nodiscard]] bool covers(Bytes size) const;
  [[nodiscard]] const std::vector<MeasuredPoint>& points() const { return points_; }

  friend bool operator==(const MeasuredCurve&, const MeasuredCurve&) = default;

 private:
  std::vector<MeasuredPoint> points_;  // ascending by size
};

/// Returns the curve with its lowest time multiplied by `latency`, and what points take beyond that
/// by `transfer`. Neighboring points differ by no more than a MeasuredCurve allows.
[[nodiscard]] MeasuredCurve scaled(const MeasuredCurve& curve, double latency, double transfer);

/// Reads or writes a point's JSON; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredPoint>& point);

}  // namespace ptdp
