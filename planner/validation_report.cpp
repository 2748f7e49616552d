#include "planner/validation_report.h"

#include <fmt/format.h>

#include <map>

#include "cost_model/spec/object_writer.h"

namespace ptdp {
namespace {

/// The errors at `indices`, summarised.
ErrorSummary summary_of(const std::vector<double>& errors,
                        const std::vector<std::size_t>& indices) {
  std::vector<double> selected;
  selected.reserve(indices.size());
  for (const std::size_t i : indices) {
    selected.push_back(errors[i]);
  }
  return summarize(selected);
}

GroupErrors errors_of_group(const std::string& name, const RunErrors& errors,
                            const std::vector<std::size_t>& indices) {
  return {.group = name,
          .uncalibrated = summary_of(errors.uncalibrated, indices),
          .in_sample = summary_of(errors.in_sample, indices),
          .leave_one_out = summary_of(errors.leave_one_out, indices)};
}

ObjectWriter summary_json(const ErrorSummary& summary) {
  ObjectWriter json;
  json.number("mape", summary.mean_absolute);
  json.number("median", summary.median_absolute);
  json.number("max", summary.max_absolute);
  json.number("bias", summary.bias);
  return json;
}

ObjectWriter run_json(const ValidationReport& report, std::size_t i) {
  const CostedRun& costed = report.runs.costed[i];
  ParallelConfig config = costed.run.config;
  ObjectWriter json;
  json.text("id", costed.run.id);
  json.text("group", costed.run.group);
  json.text("cluster", costed.run.cluster);
  json.text("stack", costed.run.stack);
  json.object("config", config);
  json.number("measured_s", costed.run.iteration_time.value());
  json.number("predicted_s", costed.predicted.value());
  json.number("measured_tflops_per_gpu", tflops_per_gpu(costed.run, costed.run.iteration_time));
  json.number("predicted_tflops_per_gpu", tflops_per_gpu(costed.run, costed.predicted));
  json.number("error", report.errors.uncalibrated[i]);
  json.number("error_in_sample", report.errors.in_sample[i]);
  json.number("error_leave_one_out", report.errors.leave_one_out[i]);
  return json;
}

std::string summary_columns(const ErrorSummary& summary) {
  return fmt::format("{:>6.1f} {:>6.1f} {:>6.1f}", 100.0 * summary.mean_absolute,
                     100.0 * summary.max_absolute, 100.0 * summary.bias);
}

}  // namespace

ValidationReport make_validation_report(const MeasuredRuns& runs) {
  ValidationReport report;
  report.runs = cost_runs(runs);
  report.errors = errors_of(report.runs.costed);

  std::map<std::string, std::vector<std::size_t>> by_group;
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < report.runs.costed.size(); ++i) {
    by_group[report.runs.costed[i].run.group].push_back(i);
    all.push_back(i);
  }
  for (const auto& [group, indices] : by_group) {
    report.groups.push_back(errors_of_group(group, report.errors, indices));
  }
  report.groups.push_back(errors_of_group("all", report.errors, all));
  return report;
}

std::string to_table(const ValidationReport& report) {
  std::string text =
      fmt::format("{:<24} {:>11} {:>11} {:>7} {:>7}  {:>9} {:>9}\n", "run", "measured s",
                  "predicted s", "error", "l-o-o", "TFLOP/s", "predicted");
  for (std::size_t i = 0; i < report.runs.costed.size(); ++i) {
    const CostedRun& costed = report.runs.costed[i];
    text +=
        fmt::format("{:<24} {:>11.4g} {:>11.4g} {:>+6.1f}% {:>+6.1f}%  {:>9.4g} {:>9.4g}\n",
                    costed.run.id, costed.run.iteration_time.value(), costed.predicted.value(),
                    100.0 * report.errors.uncalibrated[i], 100.0 * report.errors.leave_one_out[i],
                    tflops_per_gpu(costed.run, costed.run.iteration_time),
                    tflops_per_gpu(costed.run, costed.predicted));
  }
  text +=
      "\nerror: uncalibrated, of the closed form as it is; l-o-o: times one factor per cluster and "
      "stack,\n"
      "fitted to the other runs of that cluster and stack (leave-one-out). TFLOP/s per GPU, "
      "hardware\n"
      "FLOPs.\n";

  text += fmt::format("\n{:<24} {:>5}  {:^20}  {:^20}  {:^20}\n", "group [%]", "runs",
                      "uncalibrated", "leave-one-out", "in-sample");
  text += fmt::format("{:<24} {:>5}  {:>6} {:>6} {:>6}  {:>6} {:>6} {:>6}  {:>6} {:>6} {:>6}\n", "",
                      "", "MAPE", "max", "bias", "MAPE", "max", "bias", "MAPE", "max", "bias");
  for (const GroupErrors& group : report.groups) {
    text += fmt::format("{:<24} {:>5}  {}  {}  {}\n", group.group, group.uncalibrated.count,
                        summary_columns(group.uncalibrated), summary_columns(group.leave_one_out),
                        summary_columns(group.in_sample));
  }

  text += "\nfactors fitted to all runs above (in-sample)\n";
  for (const FittedFactor& fitted : report.errors.factors) {
    if (fitted.calibration.is_calibrated()) {
      text += fmt::format("  {} + {}: x{:.3f} on {} runs\n", fitted.cluster, fitted.stack,
                          fitted.calibration.factor, fitted.calibration.num_runs);
    } else {
      text += fmt::format("  {} + {}: none, fewer than {} runs\n", fitted.cluster, fitted.stack,
                          kFewestCalibrationRuns);
    }
  }

  if (!report.runs.skipped.empty()) {
    std::map<std::string, int> by_reason;
    for (const SkippedRun& skipped : report.runs.skipped) {
      ++by_reason[skipped.reason];
    }
    text += fmt::format("\nskipped: {} runs\n", report.runs.skipped.size());
    for (const auto& [reason, count] : by_reason) {
      text += fmt::format("  {:>5}  {}\n", count, reason);
    }
    for (const SkippedRun& skipped : report.runs.skipped) {
      text += fmt::format("  {:<28} {}\n", skipped.id, skipped.reason);
    }
  }
  return text;
}

std::string to_json(const ValidationReport& report) {
  std::vector<ObjectWriter> runs;
  for (std::size_t i = 0; i < report.runs.costed.size(); ++i) {
    runs.push_back(run_json(report, i));
  }
  std::vector<ObjectWriter> skipped;
  for (const SkippedRun& run : report.runs.skipped) {
    ObjectWriter json;
    json.text("id", run.id);
    json.text("group", run.group);
    json.text("reason", run.reason);
    skipped.push_back(std::move(json));
  }
  std::vector<ObjectWriter> groups;
  for (const GroupErrors& group : report.groups) {
    ObjectWriter json;
    json.text("group", group.group);
    json.count("runs", group.uncalibrated.count);
    json.child("uncalibrated", summary_json(group.uncalibrated));
    json.child("leave_one_out", summary_json(group.leave_one_out));
    json.child("in_sample", summary_json(group.in_sample));
    groups.push_back(std::move(json));
  }
  std::vector<ObjectWriter> factors;
  for (const FittedFactor& fitted : report.errors.factors) {
    ObjectWriter json;
    json.text("cluster", fitted.cluster);
    json.text("stack", fitted.stack);
    json.number("factor", fitted.calibration.factor);
    json.count("runs", fitted.calibration.num_runs);
    factors.push_back(std::move(json));
  }
  ObjectWriter json;
  json.text("schema", "ptdp.validation/1");
  json.text("tool_version", PTDP_VERSION);
  json.children("runs", std::move(runs));
  json.children("groups", std::move(groups));
  json.children("factors", std::move(factors));
  json.children("skipped", std::move(skipped));
  return json.dump();
}

}  // namespace ptdp
