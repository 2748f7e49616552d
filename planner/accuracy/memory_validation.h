// Compares predicted memory with the memory that measured runs report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
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

  /// Returns (formulas + reserve)/measured − 1.
  [[nodiscard]] double error() const { return (formulas + reserve) / measured - 1.0; }
  /// Returns (formulas + constant)/measured − 1, with the reserve if there is no constant.
  [[nodiscard]] double error_with_constant() const {
    return (formulas + constant.value_or(reserve)) / measured - 1.0;
  }
};

/// Errors of predicted memory over the rows of one group, or over all rows.
struct MemoryErrors {
  std::string group;           ///< Name of the group, or "all".
  ErrorSummary as_it_is;       ///< Errors with the stack's reserve.
  ErrorSummary with_constant;  ///< Errors with the constant of the stack's other rows.
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
  std::vector<MemoryConstant> constants;  ///< One constant per stack, in the order of names.
};

/// Compares predicted and measured memory of the runs that report it.
[[nodiscard]] MemoryReport make_memory_report(const std::vector<CostedRun>& runs);

}  // namespace ptdp
