// Computes the errors of predicted memory by group, and a constant per stack.
#include "planner/accuracy/memory_validation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/measured/quantile.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/memory_levels.h"
#include "planner/accuracy/profile_cache.h"

namespace ptdp {
namespace {

ValidatedMemory predicted_memory(const CostedRun& costed, const MemoryRun& memory,
                                 const Scenario& scenario) {
  return {.id = costed.run.id,
          .group = costed.run.group,
          .stack = costed.run.stack,
          .measured = memory.measured,
          .formulas = memory.formulas,
          .reserve = reserved_memory(scenario.cluster.gpu, scenario.stack)};
}

/// Returns the mean, over the groups of whose memory others know something, of what these say.
std::optional<MemoryBeliefs> mean_over(const std::vector<MemoryErrors>& groups) {
  const auto is_known = [](const MemoryErrors& group) { return group.by_other_groups.has_value(); };
  const auto count = static_cast<double>(std::count_if(groups.begin(), groups.end(), is_known));
  if (count == 0.0) {
    return std::nullopt;
  }
  MemoryBeliefs mean;
  for (const MemoryErrors& group : groups) {
    if (!group.by_other_groups) {
      continue;
    }
    const MemoryBeliefs& beliefs = *group.by_other_groups;
    mean.inside += beliefs.inside / count;
    mean.half_width += beliefs.half_width / count;
    mean.errors.mean_absolute += beliefs.errors.mean_absolute / count;
    mean.errors.bias += beliefs.errors.bias / count;
    mean.errors.max_absolute = std::max(mean.errors.max_absolute, beliefs.errors.max_absolute);
    mean.errors.count += beliefs.errors.count;
    for (std::size_t i = 0; i < mean.fitted.size(); ++i) {
      mean.fitted[i] += beliefs.fitted[i] / count;
    }
  }
  return mean;
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
  return {.group = group,
          .as_it_is = summarized(as_it_is),
          .with_constant = summarized(with_constant),
          .by_others = summary_of(rows, &ValidatedMemory::by_others),
          .by_other_groups = summary_of(rows, &ValidatedMemory::by_other_groups)};
}

}  // namespace

std::optional<MemoryBeliefs> summary_of(std::span<const ValidatedMemory* const> rows,
                                        std::optional<MemoryBelief> ValidatedMemory::*kind) {
  MemoryBeliefs summary;
  std::vector<double> errors;
  std::vector<double> half_widths;
  for (const ValidatedMemory* row : rows) {
    const std::optional<MemoryBelief>& belief = row->*kind;
    if (!belief) {
      continue;
    }
    errors.push_back(row->error_with(*belief));
    const Bytes beyond = row->measured - row->formulas;
    const Bytes half_width = belief->half_width();
    half_widths.push_back(half_width.value() / kGibi);
    summary.inside += std::abs((beyond - belief->expected) / half_width) <= 1.0 ? 1.0 : 0.0;
    for (std::size_t i = 0; i < kStatedProbabilities.size(); ++i) {
      summary.fitted[i] += beyond <= belief->quantile(kStatedProbabilities[i]) ? 1.0 : 0.0;
    }
  }
  if (errors.empty()) {
    return std::nullopt;
  }
  const auto known = static_cast<double>(errors.size());
  summary.errors = summarized(errors);
  summary.inside /= known;
  for (double& share : summary.fitted) {
    share /= known;
  }
  summary.half_width = median(std::move(half_widths));
  return summary;
}

MemoryReport make_memory_report(const std::vector<CostedRun>& runs) {
  MemoryReport report;
  ProfileCache profiles;
  const std::vector<MemoryRow> reported = memory_rows(runs);
  const std::vector<std::optional<MemoryBelief>> by_others = memory_leave_one_out(reported);
  const std::vector<std::optional<MemoryBelief>> by_other_groups = memory_leave_group_out(reported);
  report.rows.reserve(reported.size());
  for (std::size_t i = 0; i < reported.size(); ++i) {
    const CostedRun& run = runs[reported[i].place];
    ValidatedMemory& row = report.rows.emplace_back(
        predicted_memory(run, reported[i].memory, scenario_of(run, profiles)));
    row.by_others = by_others[i];
    row.by_other_groups = by_other_groups[i];
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
  report.held_out = mean_over(report.groups);
  return report;
}

}  // namespace ptdp
