// Two written plans beside each other: term by term, stage by stage.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/answer_format.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// A plan, and the file that it was read from.
struct NamedPlan {
  std::string name;
  Plan plan;
};

/// A key that two plans have otherwise.
struct ComparedKey {
  std::string_view key;
  std::array<std::string, 2> values;  ///< As configurations spell them; "-" where it means nothing.
};

/// A pipeline stage of a plan.
struct ComparedStage {
  /// Time of its passes of an iteration, calibrated, with adding up gradients: not what it waits.
  Seconds passes;
  Bytes memory;  ///< Memory of a GPU of the stage.
};

/// Two plans beside each other.
struct PlanComparison {
  std::array<NamedPlan, 2> plans;
  std::vector<ComparedKey> inputs;  ///< Inputs that differ: model, batch, cluster, stack ...
  std::vector<ComparedKey> config;  ///< Fields of the configuration that differ.
  std::array<std::vector<ComparedStage>, 2> stages;  ///< Stages of each plan, in order.
  /// Probability that the first plan is faster; nullopt where nothing can be said.
  std::optional<double> first_faster;
  std::string reason;  ///< Why no probability can be said; empty where it can.

  /// Returns whether both plans train the same model with the same batch.
  [[nodiscard]] bool is_one_job() const;
};

/// Compares two plans. How layouts of one job scatter is taken from `calibration`. Plans of
/// different jobs are compared, too, but no probability is said: their iterations do other work.
[[nodiscard]] PlanComparison compare_plans(std::array<NamedPlan, 2> plans,
                                           const CalibrationSource& calibration);

/// Returns the comparison in a format: text, or `ptdp.comparison/1`, described in FORMATS.md.
[[nodiscard]] std::string in_format(AnswerFormat format, const PlanComparison& comparison);

/// Returns what a comparison says first: that the jobs differ, or which plan is faster and how
/// surely.
[[nodiscard]] std::string verdict_of(const PlanComparison& comparison);

}  // namespace ptdp
