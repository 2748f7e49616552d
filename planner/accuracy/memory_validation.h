// Predicted memory against the memory that measured runs report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "cost_model/units.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// A row that reports its memory: of the GPU that has most in use, as its source measures that
/// (allocated, reserved or in the driver's eyes, alike for all rows of a stack).
struct ValidatedMemory {
  std::string id;
  std::string group;
  std::string stack;
  Bytes measured;
  Bytes formulas;  ///< Of the heaviest stage, without the stack's reserve.
  Bytes reserve;   ///< The stack's.
  /// The median of measured − formulas of the other rows of the stack, where there are some.
  std::optional<Bytes> constant;

  /// Formulas and the stack's reserve over measured, minus 1.
  [[nodiscard]] double error() const { return (formulas + reserve) / measured - 1.0; }
  /// The same with the constant in place of the reserve, where there is one.
  [[nodiscard]] double error_with_constant() const {
    return (formulas + constant.value_or(reserve)) / measured - 1.0;
  }
};

/// Of one group, or all rows.
struct MemoryErrors {
  std::string group;
  ErrorSummary as_it_is;
  ErrorSummary with_constant;
};

/// The median of measured − formulas over all rows of a stack: in-sample by nature.
struct MemoryConstant {
  std::string stack;
  Bytes constant;
  int num_rows = 0;
};

struct MemoryReport {
  std::vector<ValidatedMemory> rows;  ///< Of the runs that report memory, in their order.
  std::vector<MemoryErrors> groups;   ///< By name.
  MemoryErrors total;
  std::vector<MemoryConstant> constants;  ///< By stack.
};

[[nodiscard]] MemoryReport make_memory_report(const std::vector<CostedRun>& runs);

}  // namespace ptdp
