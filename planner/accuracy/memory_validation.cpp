// Computes the errors of predicted memory by group, and a constant per stack.
#include "planner/accuracy/memory_validation.h"

#include <algorithm>
#include <map>
#include <span>

#include "cost_model/measured/quantile.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/profile_cache.h"

namespace ptdp {
namespace {

ValidatedMemory predicted_memory(const CostedRun& costed, Scenario scenario) {
  const Bytes reserve = reserved_memory(scenario.cluster.gpu, scenario.stack);
  scenario.stack.reserve_fraction = 0.0;
  return {.id = costed.run.id,
          .group = costed.run.group,
          .stack = costed.run.stack,
          .measured = *costed.run.memory,
          .formulas = peak_memory({scenario, costed.run.config}),
          .reserve = reserve};
}

/// Returns the median of measured − formulas over `rows` without the one at `left_out`.
Bytes missing(std::span<const ValidatedMemory* const> rows, const ValidatedMemory* left_out) {
  std::vector<double> bytes;
  for (const ValidatedMemory* row : rows) {
    if (row != left_out) {
      bytes.push_back((row->measured - row->formulas).value());
    }
  }
  return Bytes(median(std::move(bytes)));
}

MemoryErrors errors_of(const std::string& group, std::span<const ValidatedMemory* const> rows) {
  std::vector<double> as_it_is;
  std::vector<double> with_constant;
  for (const ValidatedMemory* row : rows) {
    as_it_is.push_back(row->error());
    with_constant.push_back(row->error_with_constant());
  }
  return {.group = group, .as_it_is = to_text(as_it_is), .with_constant = to_text(with_constant)};
}

}  // namespace

MemoryReport make_memory_report(const std::vector<CostedRun>& runs) {
  MemoryReport report;
  ProfileCache profiles;
  for (const CostedRun& run : runs) {
    if (run.run.memory) {
      report.rows.push_back(
          predicted_memory(run, run.scenario ? *run.scenario : profiles.scenario_of(run.run)));
    }
  }
  std::map<std::string, std::vector<ValidatedMemory*>> by_stack;
  std::map<std::string, std::vector<const ValidatedMemory*>> by_group;
  std::vector<const ValidatedMemory*> all;
  for (ValidatedMemory& row : report.rows) {
    by_stack[row.stack].push_back(&row);
    by_group[row.group].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [stack, rows] : by_stack) {
    const std::vector<const ValidatedMemory*> others(rows.begin(), rows.end());
    report.constants.push_back({.stack = stack,
                                .constant = missing(others, nullptr),
                                .num_rows = static_cast<int>(rows.size())});
    for (ValidatedMemory* row : rows) {
      if (rows.size() > 1) {
        row->constant = missing(others, row);
      }
    }
  }
  for (const auto& [group, rows] : by_group) {
    report.groups.push_back(errors_of(group, rows));
  }
  report.total = errors_of("all", all);
  return report;
}

}  // namespace ptdp
