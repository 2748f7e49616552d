// The report of measured runs beside their predictions.
#pragma once

#include "planner/accuracy/validation_report.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a validation: predicted over measured times by group with the median
/// interval of rows, errors by group, rows that leave fields out, and memory. Rows that could not
/// be costed are counted.
[[nodiscard]] Report validation_page(const ValidationReport& validation);

}  // namespace ptdp
