// What was predicted of something beside what was measured of it, in documents and in tables.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "cost_model/text/object_reader.h"
#include "cost_model/units.h"

namespace ptdp {

inline constexpr Range kReportedTime = {0.0, 1e15, "seconds"};
inline constexpr Range kReportedSize = {0.0, 1e30};
inline constexpr std::int64_t kMostReportedRanks = 1'000'000'000;

/// A value as it was predicted and as it was measured; 0 where it was not.
template <class Value>
struct Measured {
  Value predicted{};
  Value measured{};
};

/// Describes both values as "predicted_" and "measured_" with `what` behind, such as "s". Reports
/// of runs and of rehearsals share the bounds.
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

/// A line of a table: a name, what was predicted, what was measured, how far the first is off.
[[nodiscard]] std::string measured_row(std::string_view name, std::string_view predicted,
                                       std::string_view measured, std::string_view error = "");
/// The line has a dash for a time of 0, and for a predicted size of 0.
[[nodiscard]] std::string measured_row(std::string_view name, const Measured<Seconds>& time);
[[nodiscard]] std::string measured_row(std::string_view name, const Measured<Bytes>& size);

}  // namespace ptdp
