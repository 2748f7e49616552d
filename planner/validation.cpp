#include "planner/validation.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <utility>

#include "cost_model/analytic/flops.h"
#include "cost_model/analytic/iteration.h"
#include "cost_model/error.h"
#include "cost_model/spec/catalog.h"
#include "planner/constraint.h"

namespace ptdp {
namespace {

bool is_same_job(const MeasuredRun& run, const Scenario& scenario, std::int64_t gpus) {
  return run.model == scenario.job.model &&
         run.global_batch_size == scenario.job.global_batch_size && run.config.world_size() == gpus;
}

// Whether runs on one say something about the other: names, sources, and what decides whether a
// plan fits but not how long it takes, do not matter. Nor do precision and overlap, which rows
// state themselves.
bool takes_as_long(GpuSpec a, const GpuSpec& b) {
  a.name = b.name;
  a.source = b.source;
  a.memory = b.memory;
  return a == b;
}
bool takes_as_long(ClusterSpec a, const ClusterSpec& b) {
  const bool is_like_gpu = takes_as_long(a.gpu, b.gpu);
  a.gpu = b.gpu;
  a.name = b.name;
  a.source = b.source;
  a.default_stack = b.default_stack;
  return is_like_gpu && a == b;
}
bool takes_as_long(StackSpec a, const StackSpec& b) {
  a.name = b.name;
  a.source = b.source;
  a.can_run = b.can_run;
  a.reserve_fraction = b.reserve_fraction;
  a.precision = b.precision;
  a.data_parallel_overlap = b.data_parallel_overlap;
  return a == b;
}

/// Runs of models up to so many times larger or smaller than another tell how it will run: small
/// ones are bound by launches, not by products.
constexpr double kLikeSize = 2.0;

/// Finds profiles once each; a row names them again and again.
class ProfileCache {
 public:
  const ClusterSpec& cluster_of(const MeasuredRun& run) {
    return find(clusters_, run.cluster, find_cluster);
  }
  const StackSpec& stack_of(const MeasuredRun& run) { return find(stacks_, run.stack, find_stack); }
  bool is_run_on(const MeasuredRun& run, const Scenario& scenario) {
    return takes_as_long(cluster_of(run), scenario.cluster) &&
           takes_as_long(stack_of(run), scenario.stack);
  }

  Scenario scenario_of(const MeasuredRun& run) {
    Scenario scenario{.job = {.model_name = run.id,
                              .model = run.model,
                              .global_batch_size = run.global_batch_size},
                      .cluster = cluster_of(run),
                      .stack = stack_of(run)};
    if (run.data_parallel_overlap.has_value()) {
      scenario.stack.data_parallel_overlap =
          *run.data_parallel_overlap ? DataParallelOverlap::kAlways : DataParallelOverlap::kNever;
    }
    scenario.stack = at_precision(scenario.stack, run.precision);
    return scenario;
  }

 private:
  template <class Profile>
  static const Profile& find(std::map<std::string, Profile>& cache, const std::string& name,
                             Profile (*find_profile)(const std::string&)) {
    const auto found = cache.find(name);
    return found != cache.end() ? found->second
                                : cache.emplace(name, find_profile(name)).first->second;
  }

  std::map<std::string, ClusterSpec> clusters_;
  std::map<std::string, StackSpec> stacks_;
};

/// Indices of runs by (cluster, stack).
std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> by_stack(
    const std::vector<CostedRun>& runs) {
  std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    groups[{runs[i].run.cluster, runs[i].run.stack}].push_back(i);
  }
  return groups;
}

CalibrationRun calibration_run(const CostedRun& run) {
  return {.measured = run.run.iteration_time, .predicted = run.predicted};
}

}  // namespace

Scenario scenario_of(const MeasuredRun& run) {
  return ProfileCache().scenario_of(run);
}

CostedRuns cost_runs(const MeasuredRuns& runs) {
  CostedRuns result{.skipped = runs.skipped};
  ProfileCache profiles;
  for (const MeasuredRun& run : runs.runs) {
    const auto skip = [&](const std::string& reason) {
      result.skipped.push_back({run.id, run.group, reason});
    };
    try {
      const Scenario scenario = profiles.scenario_of(run);
      check(scenario);
      if (const auto violation = find_divisibility_violation(scenario, run.config)) {
        skip(std::string(text_of(*violation).description));
        continue;
      }
      result.costed.push_back({run, iteration_cost(scenario, run.config).total()});
    } catch (const Error& error) {
      skip(error.what());
    }
  }
  return result;
}

double tflops_per_gpu(const MeasuredRun& run, Seconds time) {
  return hardware_flops(run.model, run.global_batch_size, run.config.recompute).value() /
         time.value() / static_cast<double>(run.config.world_size()) / kTera;
}

MeasuredRuns read_published_runs() {
  std::vector<std::filesystem::path> files;
  const std::filesystem::path directory = profiles_directory() / "published";
  if (!std::filesystem::is_directory(directory)) {
    throw Error(directory.string() + ": expected a directory of published runs");
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".csv") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  MeasuredRuns all;
  for (const std::filesystem::path& file : files) {
    MeasuredRuns runs = read_measured_runs(CsvTable::from_file(file));
    std::move(runs.runs.begin(), runs.runs.end(), std::back_inserter(all.runs));
    std::move(runs.skipped.begin(), runs.skipped.end(), std::back_inserter(all.skipped));
  }
  return all;
}

std::vector<MeasuredRun> find_published_runs(const MeasuredRuns& published,
                                             const Scenario& scenario, std::int64_t gpus) {
  std::vector<MeasuredRun> found;
  for (const MeasuredRun& run : published.runs) {
    if (is_same_job(run, scenario, gpus)) {
      found.push_back(run);
    }
  }
  return found;
}

bool is_run_on(const MeasuredRun& run, const Scenario& scenario) {
  return ProfileCache().is_run_on(run, scenario);
}

Calibration calibrate_by_published(const MeasuredRuns& published, const Scenario& scenario,
                                   std::int64_t gpus) {
  ProfileCache profiles;
  MeasuredRuns relevant;
  for (const MeasuredRun& run : published.runs) {
    if (profiles.is_run_on(run, scenario) && !is_same_job(run, scenario, gpus)) {
      relevant.runs.push_back(run);
    }
  }
  std::vector<CalibrationRun> calibration_runs;
  double smallest = std::numeric_limits<double>::infinity();
  double largest = 0.0;
  for (const CostedRun& run : cost_runs(relevant).costed) {
    calibration_runs.push_back(calibration_run(run));
    const auto parameters = static_cast<double>(parameter_count(run.run.model));
    smallest = std::min(smallest, parameters);
    largest = std::max(largest, parameters);
  }
  const auto parameters = static_cast<double>(parameter_count(scenario.job.model));
  const bool is_like_size = smallest / kLikeSize <= parameters && parameters <= largest * kLikeSize;
  if (!is_like_size) {
    calibration_runs.clear();
  }
  return calibrate(calibration_runs);
}

RunErrors errors_of(const std::vector<CostedRun>& runs) {
  RunErrors errors;
  errors.in_sample.resize(runs.size());
  errors.leave_one_out.resize(runs.size());
  for (const CostedRun& run : runs) {
    errors.uncalibrated.push_back(run.predicted / run.run.iteration_time - 1.0);
  }
  for (const auto& [key, indices] : by_stack(runs)) {
    std::vector<CalibrationRun> group;
    for (const std::size_t i : indices) {
      group.push_back(calibration_run(runs[i]));
    }
    errors.factors.push_back({key.first, key.second, calibrate(group)});
    const double factor = errors.factors.back().calibration.factor;
    const std::vector<double> left_out = leave_one_out_errors(group);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      errors.in_sample[indices[i]] = factor * (group[i].predicted / group[i].measured) - 1.0;
      errors.leave_one_out[indices[i]] = left_out[i];
    }
  }
  return errors;
}

}  // namespace ptdp
