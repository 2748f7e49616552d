// A measured time over a size, for interpolation.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/units.h"

namespace ptdp {

/// One measurement: `size` took `time`.
struct MeasuredPoint {
  Bytes size;
  Seconds time;

  friend bool operator==(const MeasuredPoint&, const MeasuredPoint&) = default;
};

/// Times of one operation over message sizes, between which it interpolates in the logarithms of
/// both. Below the first point the time is that of the first (a message is never faster than the
/// smallest one measured); beyond the last it grows in proportion to the size.
class MeasuredCurve {
 public:
  MeasuredCurve() = default;
  /// Throws Error, naming `place`, unless there are at least two points, sizes grow by no more than
  /// a factor of 16 from one to the next (a gap), and times never fall by more than a tenth nor
  /// grow more than four times as fast as the sizes (an outlier).
  MeasuredCurve(std::vector<MeasuredPoint> points, const std::string& place);

  [[nodiscard]] bool empty() const { return points_.empty(); }
  [[nodiscard]] Seconds time(Bytes size) const;
  /// Whether time(size) rests on points on both sides.
  [[nodiscard]] bool covers(Bytes size) const;
  [[nodiscard]] const std::vector<MeasuredPoint>& points() const { return points_; }

  friend bool operator==(const MeasuredCurve&, const MeasuredCurve&) = default;

 private:
  std::vector<MeasuredPoint> points_;  // ascending by size
};

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredPoint>& point);

}  // namespace ptdp
