// Reads and writes calibration files, and finds the one that suits a scenario.
#include "planner/accuracy/calibration_file.h"

#include <fmt/format.h>

#include <utility>

#include "cost_model/error.h"
#include "cost_model/measured/run_fields.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

constexpr Range kMemory = {kLeastMemory, kMostMemory, "GiB"};
constexpr Range kFormulas = {1e-9, kMostMemory, "GiB"};  // tiny models have less than any GPU shows
constexpr Range kRunTime = {1e-9, 1e9, "seconds"};

template <class Fields>
void describe(Fields& fields, Described<Fields, StackCalibration>& calibration) {
  fields.schema(kCalibrationSchema);
  fields.text("tool_version", calibration.tool_version);
  fields.name("cluster", calibration.cluster);
  fields.name("stack", calibration.stack);
  if (fields.optional("has_experts", calibration.has_experts.has_value())) {
    fields.flag("has_experts", held(calibration.has_experts));
  }
  fields.text("source", calibration.source);
  fields.objects("runs", calibration.runs);
}

/// Throws Error at `place` for a run with more memory in use than a GPU has.
void check_memory(const StackCalibration& calibration, Bytes capacity, const std::string& place) {
  for (std::size_t i = 0; i < calibration.runs.size(); ++i) {
    if (const auto& memory = calibration.runs[i].memory; memory && memory->measured > capacity) {
      throw Error(
          fmt::format("{}: runs[{}].memory_GiB: expected at most the {:.4g} of a GPU of {}, "
                      "got {:.4g}",
                      place, i, capacity.value() / kGibi, calibration.cluster,
                      memory->measured.value() / kGibi));
    }
  }
}

/// Returns whether `path` is a directory; false when it cannot be looked at.
bool names_directory(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, NamedCalibrationRun>& run) {
  if (fields.optional("id", !run.id.empty())) {
    fields.text("id", run.id);
  }
  fields.quantity("measured_s", run.run.measured, 1.0, kRunTime);
  fields.quantity("predicted_s", run.run.predicted, 1.0, kRunTime);
  fields.object("point", run.run.point);
  fields.text("job", run.run.job);
  // Both or neither.
  if (fields.optional("memory_GiB", run.memory.has_value()) ||
      fields.optional("formulas_GiB", run.memory.has_value())) {
    MemoryRun memory = run.memory.value_or(MemoryRun());
    fields.quantity("memory_GiB", memory.measured, kGibi, kMemory);
    fields.quantity("formulas_GiB", memory.formulas, kGibi, kFormulas);
    if constexpr (Fields::kIsReading) {
      memory.job = run.run.job;
      run.memory = std::move(memory);
    }
  }
}

void check_ratio(const NamedCalibrationRun& run, const std::string& place) {
  const double ratio = run.run.measured / run.run.predicted;
  if (!(ratio >= 1.0 / kMostRatio && ratio <= kMostRatio)) {
    throw Error(fmt::format(
        "{}: run {}: expected a measured time within a factor of {:.0f} of the "
        "predicted {:.4g} s, got {:.4g} s",
        place, in_quotes(run.id), kMostRatio, run.run.predicted.value(), run.run.measured.value()));
  }
}

std::vector<CalibrationRun> StackCalibration::unnamed_runs() const {
  std::vector<CalibrationRun> all;
  all.reserve(runs.size());
  for (const NamedCalibrationRun& run : runs) {
    all.push_back(run.run);
  }
  return all;
}

std::vector<MemoryRun> StackCalibration::memory_runs() const {
  std::vector<MemoryRun> all;
  all.reserve(runs.size());
  for (const NamedCalibrationRun& run : runs) {
    if (run.memory) {
      all.push_back(*run.memory);
    }
  }
  return all;
}

std::string calibration_file_name(const CalibrationScope& scope) {
  return scope.cluster + '+' + scope.stack + (scope.has_experts ? "+experts" : "") + ".json";
}

std::string to_json(const StackCalibration& calibration) {
  ObjectWriter json;
  describe(json, calibration);
  return json.dump();
}

StackCalibration parse_calibration(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  if (reader.has("factor")) {
    throw Error(place + ": factor: files of an earlier ptdp-calibrate have one; refit it");
  }
  StackCalibration calibration;
  describe(reader, calibration);
  reader.finish();
  if (calibration.tool_version != PTDP_VERSION) {
    throw Error(place + ": tool_version: predictions of " + in_quotes(calibration.tool_version) +
                " are not those of " PTDP_VERSION "; refit it with ptdp-calibrate");
  }
  if (calibration.runs.empty() || calibration.runs.size() > kMostCalibrationRuns) {
    throw Error(fmt::format("{}: runs: expected 1 to {}, got {}", place, kMostCalibrationRuns,
                            calibration.runs.size()));
  }
  for (const NamedCalibrationRun& run : calibration.runs) {
    check_ratio(run, place);
  }
  return calibration;
}

CalibrationSource CalibrationSource::parse(const std::string& text, const std::string& place) {
  static const std::vector<std::string> words = {"none", "shipped"};
  if (text == words[0]) {
    return none();
  }
  if (text == words[1]) {
    return shipped();
  }
  CalibrationSource source(Kind::kFiles);
  source.path_ = text;
  const bool is_path = text.find('/') != std::string::npos || text.ends_with(".json") ||
                       names_directory(source.path_);
  if (!is_path) {
    throw Error(place + ": expected none, shipped, a directory or a file of ptdp-calibrate, got " +
                in_quotes(text) + did_you_mean(text, words));
  }
  return source;
}

std::vector<std::filesystem::path> CalibrationSource::files(const Scenario& scenario) const {
  if (kind_ != Kind::kFiles) {
    return {};
  }
  if (!names_directory(path_)) {
    return {path_};
  }
  CalibrationScope scope = scope_of(scenario);
  std::vector<std::filesystem::path> files = {path_ / calibration_file_name(scope)};
  scope.has_experts = false;  // a file of any model has this name, too
  files.push_back(path_ / calibration_file_name(scope));
  return files;
}

std::optional<StackCalibration> CalibrationSource::find_file(const Scenario& scenario) const {
  const CalibrationScope scope = scope_of(scenario);
  for (const std::filesystem::path& file : files(scenario)) {
    std::error_code error;
    if (names_directory(path_) && !std::filesystem::exists(file, error)) {
      continue;
    }
    StackCalibration calibration = parse_calibration(read_file(file), file.string());
    if (calibration.cluster == scope.cluster && calibration.stack == scope.stack &&
        calibration.has_experts.value_or(has_experts(scenario.job.model)) ==
            has_experts(scenario.job.model)) {
      check_memory(calibration, scenario.cluster.gpu.memory, file.string());
      return calibration;
    }
  }
  return std::nullopt;
}

CalibrationFit CalibrationSource::fit(const Scenario& scenario, std::int64_t gpus,
                                      const PublishedRuns& published) const {
  if (kind_ == Kind::kFiles) {
    if (const std::optional<StackCalibration> found = find_file(scenario)) {
      return calibrate_by_own(found->unnamed_runs(), scenario, gpus);
    }
    throw Error(path_.string() + (names_directory(path_) ? ": a directory without a" : ": no") +
                " calibration of " + text_of(scope_of(scenario)) +
                as_typed("; ptdp-calibrate writes one, or use --calibration none"));
  }
  return fit_if_known(scenario, gpus, published);
}

CalibrationFit CalibrationSource::fit(const Scenario& scenario, std::int64_t gpus) const {
  return fit(scenario, gpus, published());
}

CalibrationFit CalibrationSource::fit_if_known(const Scenario& scenario, std::int64_t gpus,
                                               const PublishedRuns& published) const {
  switch (kind_) {
    case Kind::kNone:
      return {};
    case Kind::kShipped:
      return calibrate_by_published(published, scenario, gpus);
    case Kind::kFiles:
      if (const std::optional<StackCalibration> found = find_file(scenario)) {
        return calibrate_by_own(found->unnamed_runs(), scenario, gpus);
      }
  }
  return {};
}

const PublishedRuns& CalibrationSource::published() const {
  static const PublishedRuns none;
  return kind_ == Kind::kShipped ? published_runs() : none;
}

ReservedScenario CalibrationSource::with_own_reserve(const Scenario& scenario,
                                                     std::int64_t gpus) const {
  const MemoryBelief own = kind_ == Kind::kFiles ? memory(scenario, gpus, {}) : MemoryBelief();
  return own.support.num_runs > 0 ? with_reserve(scenario, own)
                                  : ReservedScenario{.scenario = scenario};
}

ReservedScenario CalibrationSource::reserved_for(double probability, const Scenario& scenario,
                                                 std::int64_t gpus) const {
  return with_reserve(scenario, memory(scenario, gpus, published()), probability);
}

MemoryBelief CalibrationSource::memory(const Scenario& scenario, std::int64_t gpus,
                                       const PublishedRuns& published) const {
  switch (kind_) {
    case Kind::kNone:
      break;
    case Kind::kShipped:
      return published_memory(published, scenario, gpus);
    case Kind::kFiles:
      if (const std::optional<StackCalibration> found = find_file(scenario)) {
        return own_memory(found->memory_runs(), scenario, gpus);
      }
  }
  return {};
}

}  // namespace ptdp
