// Tests of levels: against statsmodels and scipy, and by hand.
#include "cost_model/measured/levels.h"

#include <gmock/gmock.h>

#include <cmath>

#include "cost_model/measured/level_fit.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(PTDP_SOURCE_DIR) / "tests/golden";

/// Runs that statsmodels fitted (make_levels_golden.py), and what it found.
struct Golden {
  RunsByScope runs;
  std::map<std::string, double> found;  ///< By "what name".
};

double number_of(const std::string& text) {
  return std::stod(text);
}

/// Returns the kind of program that stands for "p0" to "p3": there are four.
ProgramKind program_of(const std::string& name) {
  return static_cast<ProgramKind>(std::stoi(name.substr(1)));
}

Golden read_golden() {
  Golden golden;
  const CsvTable runs = CsvTable::from_file(kGolden / "levels_runs.csv");
  for (std::size_t row = 0; row < runs.num_rows(); ++row) {
    golden
        .runs[{.program = program_of(runs.text(row, "program")),
               .stack = runs.text(row, "stack"),
               .has_experts = runs.text(row, "experts") == "1",
               .cluster = runs.text(row, "cluster")}]
        .push_back({.value = number_of(runs.text(row, "log_ratio")), .job = runs.text(row, "job")});
  }
  const CsvTable fit = CsvTable::from_file(kGolden / "levels_fit.csv");
  for (std::size_t row = 0; row < fit.num_rows(); ++row) {
    golden.found[fit.text(row, "what") + ' ' + fit.text(row, "name")] =
        number_of(fit.text(row, "value"));
  }
  return golden;
}

std::string name_of(const LevelPath& path) {
  std::string name = "p" + std::to_string(static_cast<int>(path.program));
  for (const std::string& part :
       {path.stack, std::string(path.has_experts ? "1" : "0"), path.cluster}) {
    name += '/' + part;
  }
  return name;
}

/// The generator's prior of the scatter.
constexpr LevelModel kStart = {.variances = {0.01, 0.01, 0.01, 0.01},
                               .job = 0.5,
                               .noise = 0.5,
                               .scatter = 0.05,
                               .scatter_runs = 2.0};

TEST(FitVariances, FindsThoseOfStatsmodels) {
  const Golden golden = read_golden();
  LevelModel model = kStart;
  fit_variances(statistics_of(model, golden.runs), model);
  const std::map<std::string, double> fitted = {{"program", model.variances[0]},
                                                {"stack", model.variances[1]},
                                                {"experts", model.variances[2]},
                                                {"cluster", model.variances[3]},
                                                {"job", model.job},
                                                {"noise", model.noise}};
  for (const auto& [name, variance] : fitted) {
    const double expected = golden.found.at("variance " + name);
    EXPECT_NEAR(variance, expected, 0.02 * expected) << name;  // where statsmodels stops
  }
}

TEST(LevelPrior, WithItsOwnRunsIsThePredictionOfStatsmodels) {
  const Golden golden = read_golden();
  LevelModel model = kStart;
  fit_variances(statistics_of(model, golden.runs), model);
  std::vector<LevelScope> scopes;
  for (const auto& [path, runs] : golden.runs) {
    scopes.push_back({path, static_cast<int>(runs.size()), ScopeSums(model, runs).scope_mean()});
  }
  for (const LevelScope& scope : scopes) {
    const Belief known = level_prior(model, scopes, scope.path).mean.with(scope.mean);
    EXPECT_NEAR(known.mean, golden.found.at("scope " + name_of(scope.path)), 5e-4)
        << name_of(scope.path);
  }
}

TEST(FitScatter, FindsThePriorOfScipy) {
  const Golden golden = read_golden();
  LevelModel model = kStart;
  fit_scatter(golden.runs, model);
  EXPECT_NEAR(model.scatter, golden.found.at("scatter w0"), 1e-4);
  EXPECT_NEAR(model.scatter_runs, golden.found.at("scatter v"), 1e-2);
}

}  // namespace
}  // namespace ptdp
