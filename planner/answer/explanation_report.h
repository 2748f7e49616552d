// The answer to "why not X", for people and for programs.
#pragma once

#include <string>

#include "planner/explain/explain.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// Why a partly given configuration is not the best, or cannot run.
[[nodiscard]] std::string summarize(const Explanation& explanation, const Scenario& scenario,
                                    const CalibrationFit& calibration);

/// The comparison as `ptdp.explanation/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Explanation& explanation, const Scenario& scenario,
                                  const CalibrationFit& calibration);

}  // namespace ptdp
