// Prints the report of a validation as tables for people.
#include <fmt/format.h>

#include "cost_model/text/plural.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {
namespace {

std::string title_of(CalibrationKind calibration) {
  switch (calibration) {
    case CalibrationKind::kNone:
      return "not calibrated: the cost model as it is";
    case CalibrationKind::kShipped:
      return "calibrated as ptdp-plan does: by the published runs of other jobs";
    case CalibrationKind::kLeaveOneOut:
      return "calibrated by the other rows (leave-one-out)";
    case CalibrationKind::kLeaveOneGroupOut:
      return "calibrated by the rows that are not of the group";
    case CalibrationKind::kScale:
      return "calibrated by all rows: in-sample, no test of the model";
  }
  return "";
}

std::string rows_table(const ValidationReport& report) {
  std::string text =
      fmt::format("{:<28} {:>10} {:>10} {:>7}  {:^21}  {:^17}\n", "run", "measured s", "predicted",
                  "error", "90 % interval s", "TFLOP/s measured");
  text += fmt::format("{:<28} {:>10} {:>10} {:>7}  {:>10} {:>10}  {:>8} {:>8}\n", "", "", "", "",
                      "low", "high", "", "predicted");
  for (const ValidatedRun& row : report.rows) {
    const MeasuredRun& run = row.costed.run;
    const Estimate<Seconds> predicted = row.predicted();
    text += fmt::format(
        "{:<28} {:>10.4g} {:>10.4g} {:>+6.1f}%  {:>10.4g} {:>10.4g}  {:>8.4g} {:>8.4g}{}{}\n",
        run.id, run.iteration_time.value(), predicted.value.value(), 100.0 * row.error(),
        predicted.low.value(), predicted.high.value(), tflops_per_gpu(run, run.iteration_time),
        tflops_per_gpu(run, predicted.value), row.is_inside_interval() ? "" : "  outside",
        row.is_contradicted ? "  contradicts itself" : "");
  }
  return text;
}

std::string group_line(const GroupErrors& group) {
  const ErrorSummary& errors = group.errors;
  return fmt::format(
      "{:<24} {:>5} {:>7.1f} {:>7.1f} {:>7.1f} {:>7.1f} {:>+7.1f}  {:>8.0f} {:>8.1f}\n",
      group.group.empty() ? "(none)" : group.group, errors.count, 100.0 * errors.mean_absolute,
      100.0 * errors.median_absolute, 100.0 * errors.p90_absolute, 100.0 * errors.max_absolute,
      100.0 * errors.bias, 100.0 * group.inside_interval, 100.0 * group.median_half_width);
}

std::string groups_table(const ValidationReport& report) {
  std::string text =
      fmt::format("\n{:<24} {:>5} {:>7} {:>7} {:>7} {:>7} {:>7}  {:>8} {:>8}\n", "group [%]",
                  "runs", "MAPE", "median", "p90", "max", "bias", "inside", "± median");
  for (const GroupErrors& group : report.groups) {
    text += group_line(group);
  }
  return text + group_line(report.total) +
         "\nerror: predicted/measured - 1; MAPE: mean absolute error; p90: exceeded by one run in\n"
         "ten; bias: mean error; inside: measured times inside their 90 % interval; ± median:\n"
         "half-width of the interval. TFLOP/s per GPU count recomputation, too.\n";
}

std::string factors_table(const ValidationReport& report) {
  std::string text = "\nfactors for other jobs by all runs above, which test nothing (in-sample)\n";
  for (const FittedFactor& factor : report.factors) {
    text += fmt::format("  {}: x{:.3f}, {}\n", text_of(factor.scope), factor.factor,
                        plural(factor.num_rows, "run"));
  }
  return text;
}

std::string memory_line(const MemoryErrors& group) {
  const auto cells = [](const ErrorSummary& errors) {
    return fmt::format(" {:>7.1f} {:>7.1f} {:>+7.1f}", 100.0 * errors.mean_absolute,
                       100.0 * errors.max_absolute, 100.0 * errors.bias);
  };
  return fmt::format("{:<24} {:>5}{} {}\n", group.group.empty() ? "(none)" : group.group,
                     group.as_it_is.count, cells(group.as_it_is), cells(group.with_constant));
}

/// Returns what other rows, and the rows of other groups, say of a group's memory.
std::string beliefs_line(const MemoryErrors& group) {
  const auto cells = [](const std::optional<MemoryBeliefs>& beliefs) {
    return beliefs
               ? fmt::format(" {:>7.1f} {:>+7.1f} {:>6.0f}% {:>7.1f}",
                             100.0 * beliefs->errors.mean_absolute, 100.0 * beliefs->errors.bias,
                             100.0 * beliefs->inside, beliefs->half_width)
               : fmt::format(" {:>7}", "none");
  };
  return fmt::format("{:<24} {:>5}{:<32} {}\n", group.group.empty() ? "(none)" : group.group,
                     group.as_it_is.count, cells(group.by_others), cells(group.by_other_groups));
}

std::string beliefs_table(const MemoryReport& memory) {
  std::string text = fmt::format(
      "\n{:<30} {:^31}  {:^31}\n{:<24} {:>5} {:>7} {:>7} {:>7} {:>7}  {:>7} {:>7} {:>7} {:>7}\n",
      "", "by all other rows", "by rows of other groups", "memory by levels [%]", "runs", "MAPE",
      "bias", "inside", "+- GiB", "MAPE", "bias", "inside", "+- GiB");
  for (const MemoryErrors& group : memory.groups) {
    text += beliefs_line(group);
  }
  text += beliefs_line(memory.total);
  text += memory.held_out
              ? fmt::format(
                    "mean over groups held out: MAPE {:.1f} %, {:.0f} % inside, +- {:.1f} GiB\n",
                    100.0 * memory.held_out->errors.mean_absolute, 100.0 * memory.held_out->inside,
                    memory.held_out->half_width)
              : "mean over groups held out: none, no other group says anything of these\n";
  text += fmt::format("\n{:<30}", "probability of fitting [%]");
  for (const double stated : kStatedProbabilities) {
    text += fmt::format(" {:>4.0f}", 100.0 * stated);
  }
  const auto add = [&](std::string_view name, const std::optional<MemoryBeliefs>& beliefs) {
    text += fmt::format("\n{:<30}", name);
    if (!beliefs) {
      text += " none";
      return;
    }
    for (const double share : beliefs->fitted) {
      text += fmt::format(" {:>4.0f}", 100.0 * share);
    }
  };
  add("fitted, by all other rows", memory.total.by_others);
  add("by rows of other groups", memory.total.by_other_groups);
  add("  mean over groups", memory.held_out);
  return text + "\n";
}

std::string memory_table(const MemoryReport& memory) {
  std::string text = fmt::format("\n{:<40} {:>12} {:>10} {:>7} {:>9}\n", "memory [GiB]", "measured",
                                 "predicted", "error", "constant");
  for (const ValidatedMemory& row : memory.rows) {
    text += fmt::format("{:<40} {:>12.1f} {:>10.1f} {:>+6.1f}% {:>+8.1f}%\n", row.id,
                        row.measured.value() / kGibi, (row.formulas + row.reserve).value() / kGibi,
                        100.0 * row.error(), 100.0 * row.error_with_constant());
  }
  text += fmt::format("\n{:<24} {:>5} {:>7} {:>7} {:>7}  {:>7} {:>7} {:>7}\n", "memory [%]", "runs",
                      "MAPE", "max", "bias", "MAPE", "max", "bias");
  for (const MemoryErrors& group : memory.groups) {
    text += memory_line(group);
  }
  text += memory_line(memory.total);
  for (const MemoryConstant& constant : memory.constants) {
    text += fmt::format("  {}: {:+.1f} GiB beyond the formulas on {}\n", constant.stack,
                        constant.constant.value() / kGibi, plural(constant.num_rows, "run"));
  }
  return text +
         "\npredicted: with the reserve that the stack is given; constant, and the columns on the\n"
         "right: with the median of what the stack's other rows measure beyond the formulas.\n" +
         beliefs_table(memory) +
         "\nby levels: formulas and what runs have beyond them, by kind of program, stack, "
         "experts,\n"
         "cluster and job; inside: measured inside the 90 % interval. Fitted: share of the rows\n"
         "that fit into a capacity into which they are stated to fit with that probability.\n";
}

std::string accuracy(const std::optional<double>& share) {
  return share.has_value() ? fmt::format("{:.0f}", 100.0 * *share) : "-";
}

template <class Figures>
std::string ranking_columns(const Figures& figures, double regret, double regret_of_three) {
  return fmt::format(" {:>5} {:>6} {:>8} {:>7.1f} {:>7.1f}", figures.rows, figures.pairs,
                     accuracy(figures.pair_accuracy()), 100.0 * regret, 100.0 * regret_of_three);
}

std::string ranking_table(const ValidationReport& report) {
  std::string text = fmt::format(
      "\n{:<48} {:^37}   {:^37}\n{:<48} {:>5} {:>6} {:>8} {:>7} {:>7}   {:>5} {:>6} {:>8} {:>7} "
      "{:>7}\n",
      "ranking", "all rows", "without those that contradict themselves",
      "layers x hidden, seq, batch, GPUs", "rows", "pairs", "ordered%", "regret%", "top 3", "rows",
      "pairs", "ordered%", "regret%", "top 3");
  for (const RankedSet& set : report.ranking) {
    text += fmt::format("{:<48}",
                        fmt::format("{}: {} x {}, {}, {}, {}", set.job.group, set.job.num_layers,
                                    set.job.hidden_size, set.job.seq_length,
                                    set.job.global_batch_size, set.job.gpus)) +
            ranking_columns(set.all, set.all.regret, set.all.regret_of_three);
    if (const auto& without = set.without_contradicted) {
      text += "  " + ranking_columns(*without, without->regret, without->regret_of_three);
    }
    text += "\n";
  }
  for (const GroupRanking& group : ranking_by_group(report.ranking)) {
    const RankingTotals& all = group.all;
    const RankingTotals& without = group.without_contradicted;
    text += fmt::format("{:<48}", group.group + ": mean regret of " + std::to_string(all.sets)) +
            ranking_columns(all, all.mean_regret, all.mean_regret_of_three) + "  " +
            ranking_columns(without, without.mean_regret, without.mean_regret_of_three) + "\n";
    text += fmt::format("{:<48}{:>30.1f} {:>7.1f} {:>31.1f} {:>7.1f}\n", group.group + ": largest",
                        100.0 * all.max_regret, 100.0 * all.max_regret_of_three,
                        100.0 * without.max_regret, 100.0 * without.max_regret_of_three);
  }
  return text +
         "\nordered: pairs predicted in the order measured, leaving out pairs within 2 %; regret:\n"
         "how much slower than the fastest the row predicted fastest was, top 3: the best of the\n"
         "three predicted fastest; rows contradict themselves where a microbatch size is far\n"
         "slower or faster than its neighbours in the same series.\n";
}

std::string skipped_table(const ValidationReport& report) {
  std::string text = tally_of_skipped(report.skipped);
  for (const SkippedRun& skipped : report.skipped) {
    text += fmt::format("  {:<28} {}\n", skipped.id, skipped.reason);
  }
  return text;
}

}  // namespace

std::string to_text(const ValidationReport& report) {
  std::string text = title_of(report.calibration) + "\n";
  if (!report.rows.empty() || report.partial.empty()) {
    text += "\n" + rows_table(report) + groups_table(report);
  }
  if (report.calibration != CalibrationKind::kNone) {
    text += factors_table(report);
  }
  if (!report.ranking.empty()) {
    text += ranking_table(report);
  }
  if (!report.memory.rows.empty()) {
    text += memory_table(report.memory);
  }
  if (!report.partial.empty()) {
    text += to_text(report.partial);
  }
  if (!report.skipped.empty()) {
    text += skipped_table(report);
  }
  return text;
}

}  // namespace ptdp
