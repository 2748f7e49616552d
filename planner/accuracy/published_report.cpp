// Writes the page of errors, section by section, as Markdown.
#include "planner/accuracy/published_report.h"

#include <fmt/format.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/measured/contradictions.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "planner/accuracy/interval_fit.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {
namespace {

/// Rows of a group that a table names; it counts the others.
constexpr std::size_t kListedRows = 20;

/// Reports of the same rows under each calibration that the page compares.
struct Reports {
  ValidationReport none;
  ValidationReport leave_one_out;
  ValidationReport scale;
};

/// Returns a text as one cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '\\');
  }
  return text.empty() ? "(none)" : text;
}

std::string in_percent(double fraction) {
  return fmt::format("{:.1f}", 100.0 * fraction);
}

std::string error_cells(const ErrorSummary& errors) {
  return fmt::format(" {} | {} | {} | {} | {:+.1f} |", in_percent(errors.mean_absolute),
                     in_percent(errors.median_absolute), in_percent(errors.p90_absolute),
                     in_percent(errors.max_absolute), 100.0 * errors.bias);
}

std::string errors_section(const Reports& reports) {
  std::string text =
      "\n## Errors by group\n\n"
      "predicted/measured − 1 of the time of an iteration [%]. *As it is*: the cost model, not\n"
      "calibrated. *Leave-one-out*: corrected by all other rows, the more the nearer they are.\n"
      "\n"
      "| group | rows | as it is: MAPE | median | p90 | max | bias "
      "| leave-one-out: MAPE | median | p90 | max | bias |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  const auto add = [&](const GroupErrors& none, const GroupErrors& leave_one_out,
                       const std::string& name) {
    text += fmt::format("| {} | {} |{}{}\n", name, none.errors.count, error_cells(none.errors),
                        error_cells(leave_one_out.errors));
  };
  for (std::size_t i = 0; i < reports.none.groups.size(); ++i) {
    add(reports.none.groups[i], reports.leave_one_out.groups[i],
        cell(reports.none.groups[i].group));
  }
  add(reports.none.total, reports.leave_one_out.total, "**all**");
  return text;
}

/// Groups with rows on which a constant of the cost model was set (cost_model/ACCURACY.md).
constexpr std::array kGroupsBehindConstants = {"bloom", "sc21-f12", "sc21-f17", "vtrain-node"};

bool is_behind_constants(const std::string& group) {
  return std::find(kGroupsBehindConstants.begin(), kGroupsBehindConstants.end(), group) !=
         kGroupsBehindConstants.end();
}

std::string intervals_section(const Reports& reports, const std::vector<CostedRun>& runs) {
  std::string text =
      "\n## Intervals\n\n"
      "Rows inside the 90 % interval of their prediction, and the median half-width [%].\n"
      "*Group held out*: neither the levels nor their constants rest on the group.\n"
      "*Cost model*: whether a constant of it was set on rows of the group\n"
      "([which](../../cost_model/ACCURACY.md"
      "#constants-that-come-from-the-runs-they-are-compared-with));\n"
      "the levels that are shipped rest on all groups.\n"
      "\n"
      "| group | rows | as it is: inside | ± | leave-one-out: inside | ± "
      "| group held out: inside | ± | MAPE | bias | what lies behind it then | cost model |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  const std::vector<HeldOutRun> held_out = hold_groups_out(runs);
  std::map<std::string, std::vector<HeldOutRun>> by_group;
  for (const HeldOutRun& run : held_out) {
    by_group[run.group].push_back(run);
  }
  std::size_t next = 0;
  for (const auto& [name, of_group] : by_group) {
    const HeldOutCoverage coverage = coverage_of(of_group);
    const GroupErrors& none = reports.none.groups[next];
    const GroupErrors& leave_one_out = reports.leave_one_out.groups[next++];
    std::set<std::string_view> behind;
    for (const HeldOutRun& run : of_group) {
      behind.insert(name_of(run.nearest, NamedValues<NearestRuns>(kNearestRunsNames)));
    }
    text += fmt::format(
        "| {} | {} | {:.0f} | {} | {:.0f} | {} | {:.0f} | {} | {} | {:+.1f} | {} | {} |\n",
        cell(name), coverage.num_runs, 100.0 * none.inside_interval,
        in_percent(none.median_half_width), 100.0 * leave_one_out.inside_interval,
        in_percent(leave_one_out.median_half_width), 100.0 * coverage.inside,
        in_percent(coverage.median_half_width), in_percent(coverage.mean_absolute),
        100.0 * coverage.bias, fmt::join(behind, ", "),
        is_behind_constants(name) ? "in-sample" : "unseen");
  }
  text +=
      "\nGroups held out, by the nearest runs that are left;\n"
      "inside, MAPE and bias are means over groups.\n\n"
      "| runs of | groups | rows | inside | ± | MAPE | bias |\n|---|---|---|---|---|---|---|\n";
  const auto add = [&](std::string_view name, const HeldOutCoverage& coverage) {
    text += fmt::format("| {} | {} | {} | {:.0f} | {} | {} | {:+.1f} |\n", name,
                        coverage.num_groups, coverage.num_runs, 100.0 * coverage.inside,
                        in_percent(coverage.median_half_width), in_percent(coverage.mean_absolute),
                        100.0 * coverage.bias);
  };
  for (const auto& nearest : kNearestRunsNames) {
    if (const std::vector<HeldOutRun> some = with_nearest(held_out, nearest.value); !some.empty()) {
      add(nearest.name, coverage_of(some));
    }
  }
  add("**all**", coverage_of(held_out));
  return text;
}

/// Returns the constants of the levels as standard deviations.
std::string levels_section() {
  const LevelModel& model = shipped_levels().time.model;
  std::string text =
      "\n## Levels\n\n"
      "Standard deviations of ln(measured/predicted), fitted to all rows\n"
      "(`ptdp-calibrate --levels`); those of jobs and of runs of one job are shares of what the\n"
      "runs of a scope scatter.\n"
      "\n"
      "| kind of program | stack | dense or experts | cluster | job | runs of a job "
      "| usual scatter |\n"
      "|---|---|---|---|---|---|---|\n"
      "|";
  for (const double variance : model.variances) {
    text += fmt::format(" {:.3f} |", std::sqrt(variance));
  }
  return text + fmt::format(" {:.2f} | {:.2f} | {:.3f} |\n", std::sqrt(model.job),
                            std::sqrt(model.noise), model.usual_scatter);
}

ErrorSummary errors_at(const ValidationReport& report, const std::vector<std::size_t>& indices) {
  std::vector<double> errors;
  errors.reserve(indices.size());
  for (const std::size_t i : indices) {
    errors.push_back(report.rows[i].error());
  }
  return summarized(errors);
}

std::string factors_section(const Reports& reports, const std::vector<CostedRun>& runs) {
  std::string text =
      "\n## Factors\n\n"
      "What all rows say of another job, by cluster, stack and kind of model; MAPE [%].\n\n"
      "| cluster | stack | model | rows | factor | as it is | in-sample | leave-one-out |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto indices_of = by_scope(runs);
  for (const FittedFactor& factor : reports.scale.factors) {
    const std::vector<std::size_t>& indices = indices_of.at(factor.scope);
    text += fmt::format("| {} | {} | {} | {} | {:.3f} | {} | {} | {} |\n",
                        cell(factor.scope.cluster), cell(factor.scope.stack),
                        factor.scope.has_experts ? "experts" : "dense", factor.num_rows,
                        factor.factor, in_percent(errors_at(reports.none, indices).mean_absolute),
                        in_percent(errors_at(reports.scale, indices).mean_absolute),
                        in_percent(errors_at(reports.leave_one_out, indices).mean_absolute));
  }
  return text;
}

/// Returns what levels say of memory, and what the probabilities of fitting are worth.
std::string memory_levels_section(const MemoryReport& memory) {
  std::string text =
      "\nBy levels: formulas and what runs have beyond them, in bytes, corrected by all other\n"
      "rows, or by rows of other groups alone. *Inside*: measured inside the 90 % interval, whose\n"
      "half-width is ±.\n"
      "\n"
      "| group | rows | all other rows: MAPE | bias | inside | ± [GiB] "
      "| other groups: MAPE | bias | inside | ± [GiB] |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  const auto cells = [](const std::optional<MemoryBeliefs>& beliefs) {
    return beliefs
               ? fmt::format(
                     " {} | {:+.1f} | {:.0f} | {:.1f} |", in_percent(beliefs->errors.mean_absolute),
                     100.0 * beliefs->errors.bias, 100.0 * beliefs->inside, beliefs->half_width)
               : " none | | | |";
  };
  const auto add = [&](const MemoryErrors& group, const std::string& name) {
    text += fmt::format("| {} | {} |{}{}\n", name, group.as_it_is.count, cells(group.by_others),
                        cells(group.by_other_groups));
  };
  for (const MemoryErrors& group : memory.groups) {
    add(group, cell(group.group));
  }
  add(memory.total, "**all**");
  text += fmt::format("| **mean over groups** | {} | | | | |{}\n",
                      memory.held_out ? memory.held_out->errors.count : 0, cells(memory.held_out));
  text +=
      "\nShare of rows [%] that fit into a capacity into which they are stated to fit with a\n"
      "probability of [%]:\n"
      "\n"
      "| |";
  for (const double stated : kStatedProbabilities) {
    text += fmt::format(" {:.0f} |", 100.0 * stated);
  }
  text += "\n|---|";
  for (std::size_t i = 0; i < kStatedProbabilities.size(); ++i) {
    text += "---|";
  }
  const auto add_shares = [&](std::string_view name, const std::optional<MemoryBeliefs>& beliefs) {
    text += fmt::format("\n| {} |", name);
    for (std::size_t i = 0; i < kStatedProbabilities.size(); ++i) {
      text += beliefs ? fmt::format(" {:.0f} |", 100.0 * beliefs->fitted[i]) : " none |";
    }
  };
  add_shares("by all other rows", memory.total.by_others);
  add_shares("by rows of other groups", memory.total.by_other_groups);
  add_shares("these, mean over groups", memory.held_out);
  return text + "\n";
}

std::string memory_section(const MemoryReport& memory) {
  if (memory.rows.empty()) {
    return "";
  }
  std::string text =
      "\n## Memory\n\n"
      "predicted/measured − 1 of the GPU that has most in use [%]. *As it is*: formulas and the\n"
      "stack's reserve. *One constant*: formulas and the median of what the other rows of the\n"
      "stack measure beyond them.\n"
      "\n"
      "| group | rows | as it is: MAPE | max | bias | one constant: MAPE | max | bias |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto cells = [](const ErrorSummary& errors) {
    return fmt::format(" {} | {} | {:+.1f} |", in_percent(errors.mean_absolute),
                       in_percent(errors.max_absolute), 100.0 * errors.bias);
  };
  const auto add = [&](const MemoryErrors& group, const std::string& name) {
    text += fmt::format("| {} | {} |{}{}\n", name, group.as_it_is.count, cells(group.as_it_is),
                        cells(group.with_constant));
  };
  for (const MemoryErrors& group : memory.groups) {
    add(group, cell(group.group));
  }
  add(memory.total, "**all**");
  text += "\n| stack | rows | beyond the formulas [GiB] |\n|---|---|---|\n";
  for (const MemoryConstant& constant : memory.constants) {
    text += fmt::format("| {} | {} | {:+.1f} |\n", cell(constant.stack), constant.num_rows,
                        constant.constant.value() / kGibi);
  }
  return text + memory_levels_section(memory);
}

std::string ranking_cells(const RankingTotals& totals) {
  const auto accuracy = totals.pair_accuracy();
  return fmt::format(" {} | {} | {} | {} | {} | {} |", totals.rows, totals.pairs,
                     accuracy.has_value() ? fmt::format("{:.0f}", 100.0 * *accuracy) : "",
                     in_percent(totals.mean_regret), in_percent(totals.max_regret),
                     in_percent(totals.max_regret_of_three));
}

std::string ranking_section(const ValidationReport& none) {
  std::string text = fmt::format(
      "\n## Ranking\n\n"
      "Rows of one model, batch, sequence, number of GPUs and cluster, within a group, ordered by\n"
      "the cost model as it is. Ordered: pairs in the measured order, but for those within {:.0f} "
      "%.\n"
      "Regret: how much longer than the fastest row the one predicted fastest took; top 3: the\n"
      "best of the three predicted fastest [%]. On the right without rows that contradict\n"
      "themselves.\n"
      "\n"
      "| group | sets | rows | pairs | ordered | mean regret | max | max of top 3 "
      "| rows | pairs | ordered | mean regret | max | max of top 3 |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      100.0 * kMeasuredTie);
  for (const GroupRanking& group : ranking_by_group(rank_rows(none))) {
    text += fmt::format("| {} | {} |{}{}\n", cell(group.group), group.all.sets,
                        ranking_cells(group.all), ranking_cells(group.without_contradicted));
  }
  return text;
}

/// Returns how often pairs of layouts were in their stated order, calibrated by other rows.
std::string order_section(const ValidationReport& leave_one_out) {
  std::vector<CostedRun> rows;
  std::vector<double> layout_variances;
  rows.reserve(leave_one_out.rows.size());
  layout_variances.reserve(leave_one_out.rows.size());
  for (const ValidatedRun& row : leave_one_out.rows) {
    rows.push_back(row.costed);
    layout_variances.push_back(row.calibration.layout_variance);
  }
  std::string text = fmt::format(
      "\nHow likely the faster prediction is measured faster, as stated and as observed [%]: all\n"
      "pairs that differ by {:.0f} % or more, with the scatter that the other rows of a scope\n"
      "show, widened by one constant that was fitted to these pairs.\n"
      "\n"
      "| stated | pairs | mean stated | observed |\n|---|---|---|---|\n",
      100.0 * kMeasuredTie);
  for (const OrderBin& bin : order_bins(rows, layout_variances)) {
    if (bin.pairs > 0) {
      text +=
          fmt::format("| {:.0f} to {:.0f} | {} | {} | {} |\n", 100.0 * bin.low, 100.0 * bin.high,
                      bin.pairs, in_percent(bin.stated), in_percent(bin.observed));
    }
  }
  return text;
}

std::string contradictions_section(const ValidationReport& none) {
  std::string text = fmt::format(
      "\n## Rows that contradict themselves\n\n"
      "Found without any model. In a series of rows that differ in the microbatch size b only,\n"
      "the time per sequence and slot of the pipeline, q = T/((m + p − 1)·b), falls slowly as b\n"
      "grows. A row contradicts itself whose q is more than {} times that of a row with a larger\n"
      "b, or more than {} times that of one with a smaller b.\n"
      "\n",
      kMostOverLarger, kMostOverSmaller);
  std::map<std::string, std::vector<std::string>> by_group;
  for (const ValidatedRun& row : none.rows) {
    if (row.is_contradicted) {
      by_group[row.costed.run.group].push_back(row.costed.run.id);
    }
  }
  if (by_group.empty()) {
    return text + "None.\n";
  }
  text += "| group | rows | |\n|---|---|---|\n";
  for (auto& [group, ids] : by_group) {
    const std::size_t rows = ids.size();
    ids.resize(std::min(rows, kListedRows));
    text += fmt::format("| {} | {} | {}{} |\n", cell(group), rows,
                        cell(fmt::format("{}", fmt::join(ids, ", "))),
                        rows > kListedRows ? " and others, all in `--format json`" : "");
  }
  return text;
}

std::string skipped_section(const ValidationReport& none) {
  std::string text = fmt::format("\n## Not modelled\n\n{} of {} rows.\n", none.skipped.size(),
                                 none.skipped.size() + none.partial.size() + none.rows.size());
  if (none.skipped.empty()) {
    return text;
  }
  struct Reason {
    int rows = 0;
    std::set<std::string> groups = {};
  };
  std::map<std::string, Reason> reasons;
  for (const SkippedRun& run : none.skipped) {
    ++reasons[run.reason].rows;
    reasons[run.reason].groups.insert(run.group);
  }
  text += "\n| reason | rows | groups |\n|---|---|---|\n";
  for (const auto& [reason, found] : reasons) {
    text += fmt::format("| {} | {} | {} |\n", cell(reason), found.rows,
                        cell(fmt::format("{}", fmt::join(found.groups, ", "))));
  }
  return text;
}

std::string explanations_section(const ValidationReport& none, const GroupNotes& notes) {
  std::string text = fmt::format(
      "\n## Why the worst groups are bad\n\n"
      "Groups whose median error as it is exceeds {:.0f} %, worst first; the texts stand in\n"
      "[notes.md](notes.md).\n",
      100.0 * kNeedsExplanation);
  std::vector<GroupErrors> groups = none.groups;
  std::stable_sort(groups.begin(), groups.end(), [](const GroupErrors& a, const GroupErrors& b) {
    return a.errors.median_absolute > b.errors.median_absolute;
  });
  for (const GroupErrors& group : groups) {
    const auto note = notes.find(group.group);
    const bool needs_one = group.errors.median_absolute > kNeedsExplanation;
    if (needs_one || note != notes.end()) {
      text += fmt::format("\n### {}: median {} %\n\n{}\n", cell(group.group),
                          in_percent(group.errors.median_absolute),
                          note != notes.end() ? note->second : "Not explained.");
    }
  }
  for (const PartialGroup& group : partial_groups(none.partial)) {
    const auto note = notes.find(group.group);
    const bool is_above = std::any_of(groups.begin(), groups.end(), [&](const GroupErrors& errors) {
      return errors.group == group.group;
    });
    if (note != notes.end() && !is_above) {
      text += fmt::format("\n### {}: partial rows\n\n{}\n", cell(group.group), note->second);
    }
  }
  return text;
}

/// Returns `text` without white space at either end.
std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  return begin == std::string_view::npos
             ? ""
             : std::string(text.substr(begin, text.find_last_not_of(" \n") - begin + 1));
}

constexpr std::string_view kHeading = "## ";

}  // namespace

GroupNotes parse_notes(std::string_view text, const std::string& place) {
  GroupNotes notes;
  std::string* note = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(kHeading)) {
      const auto [added, is_new] = notes.try_emplace(std::string(line.substr(kHeading.size())));
      if (!is_new) {
        throw Error(place + ": heading " + in_quotes(added->first) + " is there twice");
      }
      note = &added->second;
    } else if (note != nullptr) {
      *note += std::string(line) + '\n';
    }
  }
  for (auto& [group, body] : notes) {
    body = trimmed(body);
  }
  return notes;
}

GroupNotes read_notes() {
  const ProfileFile file = file_of_profiles("published/notes.md");
  return parse_notes(file.text(), file.path.string());
}

std::string to_markdown(const CostedRuns& runs, const GroupNotes& notes) {
  const Reports reports{
      .none = make_validation_report(runs, CalibrationKind::kNone),
      .leave_one_out = make_validation_report(runs, CalibrationKind::kLeaveOneOut),
      .scale = make_validation_report(runs, CalibrationKind::kScale)};
  return "# Predicted against measured: the published runs\n\n"
         "Written by `ptdp-validate --format markdown`; a test holds this page against what the\n"
         "command writes. The rows are those of the CSV files beside it, described in\n"
         "[../README.md](../README.md#published--csv).\n" +
         errors_section(reports) + intervals_section(reports, runs.costed) + levels_section() +
         factors_section(reports, runs.costed) + memory_section(reports.none.memory) +
         ranking_section(reports.none) + order_section(reports.leave_one_out) +
         contradictions_section(reports.none) +
         partial_section(reports.none.partial, reports.scale.partial) +
         skipped_section(reports.none) + explanations_section(reports.none, notes);
}

}  // namespace ptdp
