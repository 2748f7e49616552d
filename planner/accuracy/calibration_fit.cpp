// Fits the runs of each cluster, stack and kind of model, and writes calibration files.
#include "planner/accuracy/calibration_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "planner/accuracy/memory_levels.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/accuracy/published_runs.h"
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

/// Returns the errors of the runs at `indices` under calibrations in that order.
ErrorSummary errors_under(const std::vector<CostedRun>& runs,
                          const std::vector<std::size_t>& indices,
                          const std::vector<Calibration>& calibrations) {
  std::vector<double> errors;
  errors.reserve(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const CostedRun& run = runs[indices[i]];
    errors.push_back(calibrations[i].factor * (run.predicted / run.run.iteration_time) - 1.0);
  }
  return summarized(errors);
}

StackCalibration calibration_of(const std::vector<CostedRun>& runs,
                                const std::vector<std::size_t>& indices, const Scenario& scenario,
                                const std::string& source) {
  StackCalibration calibration{.cluster = scenario.cluster.name,
                               .stack = scenario.stack.name,
                               .has_experts = has_experts(scenario.job.model),
                               .source = source};
  ProfileCache profiles;
  for (const std::size_t i : indices) {
    calibration.runs.push_back({.id = runs[i].run.id,
                                .run = calibration_run(runs[i]),
                                .memory = memory_run(runs[i], profiles)});
    check_ratio(calibration.runs.back(), source);
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
  const auto columns = [](const Calibration& calibration, const ErrorSummary& errors) {
    return fmt::format(
        "  {:>8} {:>6.1f} {:>6.1f}",
        calibration.is_calibrated() ? fmt::format("x{:.3f}", calibration.factor) : "none",
        100.0 * calibration.interval.half_width(), 100.0 * errors.mean_absolute);
  };
  return fmt::format("{:<48} {:>5}{}{} {:>13.1f}\n", text_of(scope_of(refit.calibration)),
                     refit.calibration.runs.size(), columns(refit.before, refit.shipped_errors),
                     columns(refit.after, refit.in_sample),
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

/// Returns the errors of memory with what is expected of each run, in their order; a run of which
/// nothing is known has the formulas alone.
ErrorSummary memory_errors(const std::vector<MemoryRun>& runs,
                           const std::vector<MemoryBelief>& beliefs) {
  std::vector<double> errors;
  errors.reserve(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    errors.push_back((runs[i].formulas + beliefs[i].expected) / runs[i].measured - 1.0);
  }
  return summarized(errors);
}

/// Returns what is shipped for the job of each run that has measured memory.
std::vector<MemoryBelief> shipped_memory(const std::vector<CostedRun>& runs,
                                         const std::vector<std::size_t>& indices,
                                         const PublishedRuns& published) {
  std::map<std::string, MemoryBelief> by_job;
  std::vector<MemoryBelief> beliefs;
  for (const std::size_t i : indices) {
    const MeasuredRun& run = runs[i].run;
    if (!run.memory) {
      continue;
    }
    const std::int64_t gpus = run.config.world_size();
    const auto [found, is_new] =
        by_job.try_emplace(job_name(run.model, run.global_batch_size, gpus));
    if (is_new) {
      found->second = published_memory(published, scenario_of(runs[i]), gpus);
    }
    beliefs.push_back(found->second);
  }
  return beliefs;
}

std::optional<StackMemoryFit> memory_fit(const std::vector<CostedRun>& runs,
                                         const std::vector<std::size_t>& indices,
                                         const StackCalibration& calibration,
                                         const Scenario& scenario, const PublishedRuns& published) {
  const std::vector<MemoryRun> own = calibration.memory_runs();
  if (own.empty()) {
    return std::nullopt;
  }
  return StackMemoryFit{
      .num_runs = static_cast<int>(own.size()),
      .before = published_memory(published, scenario, kNoJob),
      .after = own_memory(own, scenario, kNoJob),
      .shipped_errors = memory_errors(own, shipped_memory(runs, indices, published)),
      .leave_one_out = memory_errors(own, leave_own_memory_out(own, scenario))};
}

std::string memory_row(const StackFit& refit) {
  const StackMemoryFit& memory = *refit.memory;
  const auto columns = [](const MemoryBelief& belief, const ErrorSummary& errors) {
    return belief.is_known()
               ? fmt::format("  {:>+8.1f} {:>6.1f} {:>6.1f}", belief.expected.value() / kGibi,
                             belief.half_width().value() / kGibi, 100.0 * errors.mean_absolute)
               : fmt::format("  {:>8} {:>6} {:>6.1f}", "none", "", 100.0 * errors.mean_absolute);
  };
  return fmt::format("{:<48} {:>5}{}{}\n", text_of(scope_of(refit.calibration)), memory.num_runs,
                     columns(memory.before, memory.shipped_errors),
                     columns(memory.after, memory.leave_one_out));
}

/// Returns what lies beyond the formulas of memory, with what that rests on; empty where no run has
/// measured memory.
std::string memory_table(const std::vector<StackFit>& refits) {
  std::string rows;
  for (const StackFit& refit : refits) {
    if (refit.memory) {
      rows += memory_row(refit);
      rows += "  rests on ";
      rows += to_text(refit.memory->after.support);
      rows += '\n';
    }
  }
  return rows.empty() ? ""
                      : fmt::format(
                            "\n{:<48} {:>5}  {:^22}  {:^22}\n{:<48} {:>5}  {:>8} {:>6} "
                            "{:>6}  {:>8} {:>6} {:>6}\n",
                            "memory beyond the formulas in GiB, with 90 %", "", "shipped",
                            "with these runs", "intervals, and mean absolute errors in %", "runs",
                            "beyond", "+-", "error", "beyond", "+-", "error") +
                            rows + "errors with these runs: leave-one-out\n";
}

/// Fits the runs at `indices`, which are all of one scope.
StackFit fit_of(const std::vector<CostedRun>& runs, const std::vector<std::size_t>& indices,
                const PublishedRuns& published, const std::vector<Calibration>& shipped,
                const std::string& source) {
  const Scenario scenario = scenario_of(runs[indices.front()]);
  check_alike(runs, indices, scenario);
  StackFit fit{.calibration = calibration_of(runs, indices, scenario, source)};
  const std::vector<CalibrationRun> own = fit.calibration.unnamed_runs();
  const CalibrationPoint& point = own.front().point;
  fit.before = calibrate_by_published(published, scenario, kNoJob).at(point);
  fit.after = calibrate_by_own(own, scenario, kNoJob).at(point);
  std::vector<Calibration> shipped_of_scope;
  shipped_of_scope.reserve(indices.size());
  for (const std::size_t i : indices) {
    shipped_of_scope.push_back(shipped[i]);
  }
  fit.shipped_errors = errors_under(runs, indices, shipped_of_scope);
  fit.in_sample =
      errors_under(runs, indices, own_calibrations(own, scenario, CalibrationKind::kScale));
  fit.leave_one_out =
      errors_under(runs, indices, own_calibrations(own, scenario, CalibrationKind::kLeaveOneOut));
  fit.memory = memory_fit(runs, indices, fit.calibration, scenario, published);
  return fit;
}

}  // namespace

std::vector<StackFit> refit(const std::vector<CostedRun>& runs, const std::string& source) {
  const PublishedRuns& published = published_runs();
  const auto shipped = calibrations_of(runs, CalibrationKind::kShipped);
  std::vector<StackFit> refits;
  for (const auto& [scope, indices] : by_scope(runs)) {
    refits.push_back(fit_of(runs, indices, published, shipped, source));
  }
  check_names(refits);
  return refits;
}

std::string to_text(const std::vector<StackFit>& refits, const std::vector<SkippedRun>& skipped) {
  std::string text = fmt::format(
      "{:<48} {:>5}  {:^22}  {:^36}\n{:<48} {:>5}  {:>8} {:>6} {:>6}  {:>8} {:>6} {:>6} {:>13}\n",
      "mean absolute errors and 90 % intervals in %", "", "shipped", "with these runs",
      "cluster + stack", "runs", "factor", "+-", "error", "factor", "+-", "error", "leave-one-out");
  for (const StackFit& refit : refits) {
    text += refit_row(refit);
  }
  text += "\nfactor and +-: for another job of the size of the first run\n";
  text += memory_table(refits);
  if (!skipped.empty()) {
    text += tally_of_skipped(skipped);
  }
  return text;
}

std::vector<FileContent> calibration_files(const fs::path& directory,
                                           const std::vector<StackFit>& refits) {
  const std::optional<fs::path> profiles = profiles_directory();
  if (profiles && is_within(directory, *profiles)) {
    throw Error(directory.string() + ": lies in the shipped profiles; expected another directory");
  }
  if (refits.empty()) {
    throw Error("nothing to write: expected runs that can be costed, got none");
  }
  std::vector<FileContent> files;
  files.reserve(refits.size());
  for (const StackFit& refit : refits) {
    files.push_back({directory / calibration_file_name(scope_of(refit.calibration)),
                     to_json(refit.calibration)});
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
