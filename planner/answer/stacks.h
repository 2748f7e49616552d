// Software stacks side by side for one job on one cluster, each at its best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/answer_format.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

/// The best plan with a stack, or why there is none.
struct StackResult {
  std::string stack;
  std::optional<Plan> plan;
  std::string reason;  ///< Why there is no plan, in one line; empty if there is one.
  SearchResult search;
};

/// The best plan with every stack.
struct StackComparison {
  Scenario scenario;  ///< The job and the cluster; its stack is that of no result.
  SearchOptions options;
  std::vector<StackResult> results;  ///< The best first, those without a plan last.
};

/// A stack to plan with: a scenario, or why it cannot be costed.
struct StackChoice {
  std::string stack;
  std::optional<Scenario> scenario;
  std::string reason;  ///< Why there is no scenario, in one line.
};

/// Searches once per stack, as `options` say, and calibrates each with its own runs. All choices
/// have the job and the cluster of `scenario`.
[[nodiscard]] StackComparison compare_stacks(const Scenario& scenario,
                                             const std::vector<StackChoice>& choices,
                                             const SearchOptions& options,
                                             const CalibrationSource& calibration);

/// Returns how much worse a result is than the best one under the objective, as a fraction. The
/// result must have a plan.
[[nodiscard]] double loss(const StackComparison& comparison, const StackResult& result);

/// Returns how likely an iteration takes less time than another one with a different stack. Their
/// errors count as independent ones.
[[nodiscard]] double probability_faster(const Estimate<Seconds>& time,
                                        const Estimate<Seconds>& other);

/// Returns a line on a stack among `choices` that takes over kFasterStack less time with the
/// configuration of `plan`; empty if there is none. No other takes over kFasterStack less than the
/// named one. This project's own runtime, which is not calibrated, is left out. Searches nothing.
[[nodiscard]] std::string faster_stack_remark(const Plan& plan,
                                              const std::vector<StackChoice>& choices,
                                              const CalibrationSource& calibration);
/// Gain of time from which another stack is named.
inline constexpr double kFasterStack = 0.03;

/// Returns the comparison in a format: text for people with `assumptions` at its end,
/// `ptdp.stacks/1` as FORMATS.md describes it, or CSV.
[[nodiscard]] std::string in_format(AnswerFormat format, const StackComparison& comparison,
                                    const std::vector<std::string>& assumptions);

}  // namespace ptdp
