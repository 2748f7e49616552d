// Compares predicted memory with the memory that measured runs report.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "cost_model/measured/memory_belief.h"
#include "cost_model/units.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// A row that reports its memory, with the prediction.
struct ValidatedMemory {
  std::string id;
  std::string group;
  std::string stack;
  /// Memory of the GPU that has most in use, as the source measures it: allocated, reserved or in
  /// the driver's eyes, alike for all rows of a stack.
  Bytes measured;
  Bytes formulas;  ///< Predicted memory of the heaviest stage, without the stack's reserve.
  Bytes reserve;   ///< Memory that the stack reserves beyond all formulas.
  /// The median of measured − formulas of the other rows of the stack; nullopt if there are none.
  std::optional<Bytes> constant;
  /// What all other rows say of it; nullopt if there are none.
  std::optional<MemoryBelief> by_others = {};
  /// What the rows of other groups say of it; nullopt if there are none.
  std::optional<MemoryBelief> by_other_groups = {};

  /// Returns (formulas + reserve)/measured − 1.
  [[nodiscard]] double error() const { return (formulas + reserve) / measured - 1.0; }
  /// Returns (formulas + constant)/measured − 1, with the reserve if there is no constant.
  [[nodiscard]] double error_with_constant() const {
    return (formulas + constant.value_or(reserve)) / measured - 1.0;
  }
  /// Returns (formulas + expected)/measured − 1.
  [[nodiscard]] double error_with(const MemoryBelief& belief) const {
    return (formulas + belief.expected) / measured - 1.0;
  }
};

/// The probabilities with which runs are stated to fit, in the check of these.
inline constexpr std::array kStatedProbabilities = {0.05, 0.1,  0.25, 0.5, 0.75,
                                                    0.9,  0.95, 0.98, 0.99};

/// What beliefs about the memory of rows are worth. All figures are over the rows of which
/// something is known, `errors.count` of them.
struct MemoryBeliefs {
  ErrorSummary errors;      ///< Errors with what is expected beyond the formulas.
  double inside = 0.0;      ///< Share of rows measured inside the 90 % interval.
  double half_width = 0.0;  ///< Median half-width of the intervals [GiB].
  /// Share of rows that fit into a capacity chosen for each, such that it is stated to fit with
  /// each of kStatedProbabilities.
  std::array<double, kStatedProbabilities.size()> fitted = {};
};

/// Errors of predicted memory over the rows of one group, or over all rows.
struct MemoryErrors {
  std::string group;           ///< Name of the group, or "all".
  ErrorSummary as_it_is;       ///< Errors with the stack's reserve.
  ErrorSummary with_constant;  ///< Errors with the constant of the stack's other rows.
  /// What the other rows say; nullopt where nothing is known of any row.
  std::optional<MemoryBeliefs> by_others = {};
  /// What the rows of other groups say; nullopt where nothing is known of any row.
  std::optional<MemoryBeliefs> by_other_groups = {};
};

/// The median of measured − formulas over all rows of a stack: in-sample by nature.
struct MemoryConstant {
  std::string stack;
  Bytes constant;
  int num_rows = 0;
};

/// Predicted memory beside measured memory.
struct MemoryReport {
  std::vector<ValidatedMemory> rows;  ///< Rows of the runs that report memory, in their order.
  std::vector<MemoryErrors> groups;   ///< Errors by group, in the order of names.
  MemoryErrors total;
  /// What the rows of other groups say, as means over groups; nullopt where nothing is known.
  std::optional<MemoryBeliefs> held_out = {};
  std::vector<MemoryConstant> constants;  ///< One constant per stack, in the order of names.
};

/// Summarizes what one kind of belief says of rows; nullopt where nothing is known of any.
[[nodiscard]] std::optional<MemoryBeliefs> summary_of(
    std::span<const ValidatedMemory* const> rows,
    std::optional<MemoryBelief> ValidatedMemory::*kind);

/// Compares predicted and measured memory of the runs that report it.
[[nodiscard]] MemoryReport make_memory_report(const std::vector<CostedRun>& runs);

}  // namespace ptdp
