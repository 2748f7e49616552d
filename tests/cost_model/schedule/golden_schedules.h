// Reads the schedules of tests/golden/schedule_orders.csv.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {

/// A schedule of the golden file, with the name that the file gives it.
struct GoldenSchedule {
  std::string name;
  std::string oracle;
  int pp = 0;
  int num_microbatches = 0;
  int vpp = 0;
  std::string csv;                  ///< The schedule as a CSV file of its own.
  std::vector<std::string> orders;  ///< Orders by rank; overlapped pairs without OVERLAP_F_B.

  /// Returns the schedule's name and sizes, for messages of tests.
  [[nodiscard]] std::string title() const {
    return name + " p=" + std::to_string(pp) + " m=" + std::to_string(num_microbatches) +
           " v=" + std::to_string(vpp);
  }
};

/// Returns all golden schedules in the order of the file.
inline std::vector<GoldenSchedule> golden_schedules() {
  const CsvTable table = CsvTable::from_file(PTDP_SOURCE_DIR "/tests/golden/schedule_orders.csv");
  const auto count = [&](std::size_t row, const char* column) {
    return static_cast<int>(parse_count(table.text(row, column), 0, 1000, column));
  };
  std::vector<GoldenSchedule> schedules;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (count(row, "rank") == 0) {
      schedules.push_back({.name = table.text(row, "schedule"),
                           .oracle = table.text(row, "oracle"),
                           .pp = count(row, "p"),
                           .num_microbatches = count(row, "m"),
                           .vpp = count(row, "v")});
    }
    GoldenSchedule& schedule = schedules.back();
    std::string order = table.text(row, "order");
    schedule.orders.push_back(order);
    std::replace(order.begin(), order.end(), ' ', ',');
    schedule.csv += order + '\n';
  }
  return schedules;
}

}  // namespace ptdp
