// The answer to "why not X", as text for people and as JSON.
#pragma once

#include <string>

#include "cost_model/measured/memory_belief.h"
#include "planner/answer_format.h"
#include "planner/explain/explain.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// Returns a text that says why a partly given configuration is not the best, or cannot run. Times
/// are calibrated; `beyond` is what runs say of memory beyond the formulas.
[[nodiscard]] std::string to_text(const Explanation& explanation, const Scenario& scenario,
                                  const CalibrationFit& calibration,
                                  const MemoryBelief& beyond = {});

/// Returns the explanation as `ptdp.explanation/1`, described in FORMATS.md. Times are calibrated.
[[nodiscard]] std::string to_json(const Explanation& explanation, const Scenario& scenario,
                                  const CalibrationFit& calibration,
                                  const MemoryBelief& beyond = {});

/// Returns the explanation in a format. The text also says when a search of `options` was ended
/// early.
[[nodiscard]] std::string in_format(AnswerFormat format, const Explanation& explanation,
                                    const Scenario& scenario, const CalibrationFit& calibration,
                                    const MemoryBelief& beyond, const SearchOptions& options);

}  // namespace ptdp
