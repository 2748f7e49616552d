// Values as they were predicted and as they were measured, in documents and in tables.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "cost_model/text/object_reader.h"
#include "cost_model/units.h"

namespace ptdp {

/// The range of times in reports.
inline constexpr Range kReportedTime = {0.0, 1e15, "seconds"};
/// The range of sizes, FLOPs and rates in reports.
inline constexpr Range kReportedSize = {0.0, 1e30};
/// The largest rank, or number of ranks, in reports.
inline constexpr std::int64_t kMostReportedRanks = 1'000'000'000;

/// A value as predicted and as measured; 0 stands for a value that was not predicted or measured.
template <class Value>
struct Measured {
  Value predicted{};
  Value measured{};
};

/// Describes both values under the keys "predicted_" + `what` and "measured_" + `what`, where
/// `what` is a unit such as "s". Reports of runs and of rehearsals share the bounds.
template <class Fields, class Both>
void describe_measured(Fields& fields, Both& both, const std::string& what) {
  const auto describe_one = [&fields](const std::string& key, auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, Seconds>) {
      fields.quantity(key, value, 1.0, kReportedTime);
    } else if constexpr (std::is_same_v<Value, Bytes>) {
      fields.quantity(key, value, 1.0, kReportedSize);
    } else if constexpr (std::is_same_v<Value, int>) {
      fields.count(key, value, 0, kMostReportedRanks);
    } else {
      fields.count(key, value, 0, std::numeric_limits<std::int64_t>::max());
    }
  };
  describe_one("predicted_" + what, both.predicted);
  describe_one("measured_" + what, both.measured);
}

/// Returns a line of a table: a name, the predicted value, the measured value and the error.
[[nodiscard]] std::string measured_row(std::string_view name, std::string_view predicted,
                                       std::string_view measured, std::string_view error = "");
/// Returns a line of a table for times, with a dash for a time of 0.
[[nodiscard]] std::string measured_row(std::string_view name, const Measured<Seconds>& time);
/// Returns a line of a table for sizes, with a dash for a predicted size of 0.
[[nodiscard]] std::string measured_row(std::string_view name, const Measured<Bytes>& size);

}  // namespace ptdp
