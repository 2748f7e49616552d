// The answer to "why not X", for people and for programs.
#pragma once

#include <string>

#include "planner/answer_format.h"
#include "planner/explain/explain.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// Why a partly given configuration is not the best, or cannot run.
[[nodiscard]] std::string summarize(const Explanation& explanation, const Scenario& scenario,
                                    const CalibrationFit& calibration);

/// The comparison as `ptdp.explanation/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Explanation& explanation, const Scenario& scenario,
                                  const CalibrationFit& calibration);

/// The explanation in a format. People also read that a search of `options` was ended early.
[[nodiscard]] std::string in_format(AnswerFormat format, const Explanation& explanation,
                                    const Scenario& scenario, const CalibrationFit& calibration,
                                    const SearchOptions& options);

}  // namespace ptdp
