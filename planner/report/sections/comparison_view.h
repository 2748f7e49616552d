// Predicted values over measured ones.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/interval.h"
#include "planner/report/report.h"

namespace ptdp {

/// A value as it was measured and as it was predicted.
struct ComparedValue {
  std::string name;
  std::string note = {};
  double measured = 0.0;
  double predicted = 0.0;
};

/// Values that are drawn alike.
struct ComparedGroup {
  std::string name;
  std::vector<ComparedValue> values;
};

/// What compared values are of.
struct ComparedQuantity {
  std::string name;
  std::string unit;
};

/// Returns the groups' predicted values over their measured ones, on axes with equal ratios. A
/// diagonal shows where they are equal; its band holds predictions for which measured/predicted
/// lies in `interval`. The interval of exactly 1 has no band.
[[nodiscard]] ScatterView comparison_view(const ComparedQuantity& quantity,
                                          const std::vector<ComparedGroup>& groups,
                                          const RelativeInterval& interval);

}  // namespace ptdp
