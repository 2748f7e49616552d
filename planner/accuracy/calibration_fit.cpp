// Fits a factor for each cluster, stack and kind of model, and writes calibration files.
#include "planner/accuracy/calibration_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the scope of a calibration that this program makes, which knows its kind of model.
CalibrationScope scope_of(const StackCalibration& calibration) {
  return {.cluster = calibration.cluster,
          .stack = calibration.stack,
          .has_experts = calibration.has_experts.value_or(false)};
}

constexpr std::int64_t kNoJob = 0;  // a number of GPUs that no run has: none is left out

/// Returns the errors of the runs at `indices` under the calibrations.
ErrorSummary errors_under(const std::vector<CostedRun>& runs,
                          const std::vector<Calibration>& calibrations,
                          const std::vector<std::size_t>& indices) {
  std::vector<double> errors;
  errors.reserve(indices.size());
  for (const std::size_t i : indices) {
    errors.push_back(calibrations[i].factor * (runs[i].predicted / runs[i].run.iteration_time) -
                     1.0);
  }
  return to_text(errors);
}

StackCalibration calibration_of(const std::vector<CostedRun>& runs,
                                const std::vector<std::size_t>& indices, const Scenario& scenario,
                                const std::string& source) {
  StackCalibration calibration{.cluster = scenario.cluster.name,
                               .stack = scenario.stack.name,
                               .has_experts = has_experts(scenario.job.model),
                               .source = source};
  for (const std::size_t i : indices) {
    calibration.runs.push_back({.id = runs[i].run.id, .run = calibration_run(runs[i])});
  }
  if (indices.size() > kMostCalibrationRuns) {
    throw Error(fmt::format("{}: {} runs; at most {} make a factor", text_of(scope_of(scenario)),
                            indices.size(), kMostCalibrationRuns));
  }
  return calibration;
}

/// Throws Error when a run's cluster or stack differs from that of the first run under that name.
void check_alike(const std::vector<CostedRun>& runs, const std::vector<std::size_t>& indices,
                 const Scenario& scenario) {
  for (const std::size_t i : indices) {
    const bool is_alike = runs[i].scenario == runs[indices.front()].scenario ||
                          (takes_as_long(scenario_of(runs[i]).cluster, scenario.cluster) &&
                           takes_as_long(scenario_of(runs[i]).stack, scenario.stack));
    if (!is_alike) {
      throw Error(runs[i].run.source + ": its " + scenario.cluster.name + " or " +
                  scenario.stack.name + " differs from that of " +
                  runs[indices.front()].run.source + "; expected runs of one machine");
    }
  }
}

/// Throws Error when two refits would have the same file name.
void check_names(const std::vector<StackFit>& refits) {
  std::set<std::string> names;
  for (const StackFit& refit : refits) {
    if (!names.insert(calibration_file_name(scope_of(refit.calibration))).second) {
      throw Error("two clusters or stacks are called " + text_of(scope_of(refit.calibration)));
    }
  }
}

std::string refit_row(const StackFit& refit) {
  const StackCalibration& calibration = refit.calibration;
  const std::string scope = text_of(scope_of(calibration));
  const std::string old_factor =
      refit.shipped.is_calibrated() ? fmt::format("x{:.3f}", refit.shipped.factor) : "none";
  const std::string old_columns =
      fmt::format("{:<48} {:>5}  {:>8} {:>6.1f}", scope, calibration.runs.size(), old_factor,
                  100.0 * refit.shipped_errors.mean_absolute);
  if (!refit.is_fitted()) {
    return old_columns + fmt::format("  none: fewer than {} runs\n", kFewestCalibrationRuns);
  }
  return old_columns + fmt::format("  {:>8} {:>9.1f} {:>13.1f}\n",
                                   fmt::format("x{:.3f}", calibration.fit().factor),
                                   100.0 * refit.in_sample.mean_absolute,
                                   100.0 * refit.leave_one_out.mean_absolute);
}

/// Returns whether `path` is `directory` or lies in it.
bool is_within(const fs::path& path, const fs::path& directory) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  if (error) {
    return false;
  }
  const fs::path relative = canonical.lexically_relative(fs::canonical(directory));
  return !relative.empty() && *relative.begin() != "..";
}

/// Returns why no file is written.
std::string too_few_runs(const std::vector<StackFit>& refits) {
  std::string text;
  for (const StackFit& refit : refits) {
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", refit.calibration.runs.size(),
                        text_of(scope_of(refit.calibration)));
  }
  return fmt::format(
      "{}nothing to write: expected {} runs of one cluster and stack that can be costed, got {}",
      refits.empty() ? "" : refits.front().calibration.source + ": ", kFewestCalibrationRuns,
      text.empty() ? "none" : text);
}

}  // namespace

std::vector<StackFit> refit(const std::vector<CostedRun>& runs, const std::string& source) {
  const MeasuredRuns published = read_published_runs();
  const auto shipped = calibrations_of(runs, CalibrationKind::kShipped);
  const auto scale = calibrations_of(runs, CalibrationKind::kScale);
  const auto leave_one_out = calibrations_of(runs, CalibrationKind::kLeaveOneOut);
  std::vector<StackFit> refits;
  for (const auto& [scope, indices] : by_scope(runs)) {
    const Scenario scenario = scenario_of(runs[indices.front()]);
    check_alike(runs, indices, scenario);
    refits.push_back(
        {.calibration = calibration_of(runs, indices, scenario, source),
         .shipped = fit_leaving_out_job(published_runs_on(published, scenario), scenario, kNoJob),
         .shipped_errors = errors_under(runs, shipped, indices),
         .in_sample = errors_under(runs, scale, indices),
         .leave_one_out = errors_under(runs, leave_one_out, indices)});
  }
  check_names(refits);
  return refits;
}

std::string to_text(const std::vector<StackFit>& refits, const std::vector<SkippedRun>& skipped) {
  std::string text =
      fmt::format("{:<48} {:>5}  {:^15}  {:^32}\n{:<48} {:>5}  {:>8} {:>6}  {:>8} {:>9} {:>13}\n",
                  "mean absolute errors in %", "", "shipped", "refitted", "cluster + stack", "runs",
                  "factor", "error", "factor", "in-sample", "leave-one-out");
  for (const StackFit& refit : refits) {
    text += refit_row(refit);
  }
  if (!skipped.empty()) {
    text += tally_of_skipped(skipped);
  }
  return text;
}

std::vector<FileContent> calibration_files(const fs::path& directory,
                                           const std::vector<StackFit>& refits) {
  if (is_within(directory, profiles_directory())) {
    throw Error(directory.string() + ": lies in the shipped profiles; expected another directory");
  }
  std::vector<FileContent> files;
  for (const StackFit& refit : refits) {
    if (refit.is_fitted()) {
      const StackCalibration& calibration = refit.calibration;
      files.push_back(
          {directory / calibration_file_name(scope_of(calibration)), to_json(calibration)});
    }
  }
  if (files.empty()) {
    throw Error(too_few_runs(refits));
  }
  return files;
}

void write_calibrations(const fs::path& directory, const std::vector<StackFit>& refits) {
  const std::vector<FileContent> files = calibration_files(directory, refits);
  std::error_code error;
  const bool is_new = fs::create_directories(directory, error);
  if (error) {
    throw Error(directory.string() + ": cannot make the directory: " + error.message(),
                ExitStatus::kOutputFailed);
  }
  try {
    write_files_atomically(files);
  } catch (const Error&) {
    if (is_new) {
      fs::remove(directory, error);  // fails if the directory is not empty
    }
    throw;
  }
}

}  // namespace ptdp
