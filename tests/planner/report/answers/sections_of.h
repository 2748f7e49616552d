// Sections of reports by name, and numbers as documents tell them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planner/report/report.h"

namespace ptdp {

inline const ReportSection& section_named(const Report& report, const std::string& id) {
  const auto found = std::ranges::find(report.sections, id, &ReportSection::id);
  EXPECT_NE(found, report.sections.end()) << id;
  return *found;
}

inline std::vector<std::string> ids_of(const Report& report) {
  std::vector<std::string> ids;
  for (const ReportSection& section : report.sections) {
    ids.push_back(section.id);
  }
  return ids;
}

/// Returns whether a document has the value, to the twelve digits that it tells.
inline testing::AssertionResult is_told(double value, const nlohmann::json& document) {
  constexpr double rounding = 1e-11;
  const double told = document.get<double>();
  return std::abs(value - told) <= rounding * std::abs(told)
             ? testing::AssertionSuccess()
             : testing::AssertionFailure() << value << " is not " << document;
}

}  // namespace ptdp
