// Makes, writes and reads levels.
#include "planner/accuracy/levels_file.h"

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/measured/level_fit.h"
#include "cost_model/text/files.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "planner/accuracy/memory_levels.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

constexpr Range kVariance = {kLeastVariance, 1e4};
constexpr Range kMean = {-1e3, 1e3};
constexpr Range kPrecision = {1e-6, 1e9};
constexpr std::int64_t kMostRuns = 1'000'000'000;

template <class Fields>
void describe(Fields& fields, Described<Fields, Levels>& levels) {
  fields.schema(kLevelsSchema);
  fields.object("model", levels.time.model);
  fields.objects("scopes", levels.time.scopes);
  fields.object("memory", levels.memory);
}

/// Throws Error unless each scope is there once, in the order of paths.
void check_order(const LevelSet& levels, const std::string& place) {
  const auto unordered = std::adjacent_find(
      levels.scopes.begin(), levels.scopes.end(),
      [](const LevelScope& a, const LevelScope& b) { return !(a.path < b.path); });
  if (unordered != levels.scopes.end()) {
    throw Error(place +
                ": scopes: expected each once, in the order that ptdp-calibrate --levels writes");
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, LevelSet>& levels) {
  fields.object("model", levels.model);
  fields.objects("scopes", levels.scopes);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LevelModel>& model) {
  fields.number("program", model.variances[0], kVariance);
  fields.number("stack", model.variances[1], kVariance);
  fields.number("experts", model.variances[2], kVariance);
  fields.number("cluster", model.variances[3], kVariance);
  fields.number("job", model.job, kVariance);
  fields.number("noise", model.noise, kVariance);
  fields.number("scatter", model.scatter, kVariance);
  fields.number("scatter_runs", model.scatter_runs, kVariance);
  fields.number("usual_scatter", model.usual_scatter, kVariance);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LevelScope>& scope) {
  fields.choice("program", scope.path.program, NamedValues<ProgramKind>(kProgramKindNames));
  fields.name("stack", scope.path.stack);
  fields.flag("has_experts", scope.path.has_experts);
  fields.name("cluster", scope.path.cluster);
  fields.count("num_runs", scope.num_runs, 1, kMostRuns);
  fields.number("mean", scope.mean.mean, kMean);
  fields.number("precision", scope.mean.precision, kPrecision);
}

Levels make_levels(const std::vector<CostedRun>& runs) {
  const RunsByScope by_path = runs_by_path(runs);
  const RunsByScope memory_by_path = memory_runs_by_path(memory_rows(runs));
  Levels levels;
  levels.time.model = fit_levels(by_path);
  levels.time.scopes = scopes_of(levels.time.model, by_path);
  levels.memory.model = fit_memory_levels(memory_by_path, kMemoryLevelStart);
  levels.memory.scopes = scopes_of(levels.memory.model, memory_by_path);
  return levels;
}

LevelModel fit_memory_levels(const RunsByScope& runs, const LevelModel& start) {
  return fit_levels(runs, start, kMemoryVariances);
}

std::string to_json(const Levels& levels) {
  ObjectWriter json;
  describe(json, levels);
  return json.dump();
}

namespace {

Levels read_levels(ObjectReader reader, const std::string& place) {
  Levels levels;
  describe(reader, levels);
  reader.finish();
  check_order(levels.time, place);
  check_order(levels.memory, place + ": memory");
  return levels;
}

}  // namespace

Levels parse_levels(std::string_view text, const std::string& place) {
  return read_levels(ObjectReader::from_text(text, place), place);
}

const Levels& shipped_levels() {
  static const Levels levels = [] {
    const ProfileFile file = file_of_profiles("published/levels.json");
    return read_levels(file.object(), file.path.string());
  }();
  return levels;
}

}  // namespace ptdp
