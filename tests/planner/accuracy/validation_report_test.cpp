// Tests of the validation report as table and JSON.
#include "planner/accuracy/validation_report.h"

#include <gmock/gmock.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

CostedRun named_run(const std::string& id, const std::string& group, double ratio) {
  CostedRun run = run_of("megatron-lm-2021", group, ratio);
  run.run.id = id;
  return run;
}

/// Returns a report of two rows, a set of three that are ranked, and one row with memory. Every
/// figure is made up.
ValidationReport made_up_report() {
  ValidationReport report{.calibration = CalibrationKind::kLeaveOneOut};
  report.rows = {
      {.costed = named_run("r1", "a", 1.25),
       .calibration = {.support = {.num_runs = 5, .distance = 0.5}, .interval = {0.7, 1.3}}},
      {.costed = named_run("r2", "", 2.0),
       .calibration = {.support = {.num_runs = 6, .distance = 1.5},
                       .factor = 1.5,
                       .interval = {0.8, 1.2}},
       .is_contradicted = true}};
  const ErrorSummary errors{.count = 2,
                            .mean_absolute = 0.225,
                            .median_absolute = 0.215,
                            .p90_absolute = 0.245,
                            .max_absolute = 0.25,
                            .bias = -0.125};
  report.groups = {
      {.group = "", .errors = errors, .inside_interval = 0.5, .median_half_width = 0.2}};
  report.total = {
      .group = "all", .errors = errors, .inside_interval = 0.75, .median_half_width = 0.3};
  report.factors = {{.scope = {.cluster = "c", .stack = "s"}, .factor = 1.4, .num_rows = 4},
                    {.scope = {.cluster = "c", .stack = "t", .has_experts = true}, .num_rows = 2}};
  report.skipped = {{.id = "x", .group = "a", .reason = "no profile"},
                    {.id = "y", .group = "a", .reason = "another"},
                    {.id = "z", .group = "b", .reason = "no profile"}};
  report.ranking = {
      {.job = {.group = "g",
               .cluster = "c",
               .num_layers = 4,
               .hidden_size = 64,
               .seq_length = 32,
               .global_batch_size = 8,
               .gpus = 2},
       .all = {.rows = 3, .pairs = 3, .ordered = 2.0, .regret = 0.2, .regret_of_three = 0.1},
       .without_contradicted = RankingFigures{.rows = 2, .regret = 0.05}},
      {.job = {.group = "g", .cluster = "c", .num_layers = 5},
       .all = {.rows = 2, .pairs = 1, .ordered = 0.0, .regret = 0.4, .regret_of_three = 0.0}}};
  report.memory.rows = {{.id = "m",
                         .group = "a",
                         .stack = "s",
                         .measured = gibibytes(40.0),
                         .formulas = gibibytes(30.0),
                         .reserve = gibibytes(6.0),
                         .constant = gibibytes(12.0)}};
  report.memory.total = {
      .group = "all",
      .as_it_is = {.count = 1, .mean_absolute = 0.1, .max_absolute = 0.11, .bias = -0.12},
      .with_constant = {.count = 1, .mean_absolute = 0.05, .max_absolute = 0.06, .bias = 0.07}};
  report.memory.groups = {report.memory.total};
  report.memory.groups.front().group = "a";
  report.memory.constants = {{.stack = "s", .constant = gibibytes(12.0), .num_rows = 1}};
  return report;
}

// 1 s predicted for 1.25, within 0.7 to 1.3; 1.5 for 2, not within 1.2 to 1.8. Of a sequence of 32
// tokens by two layers of 64 and 128 words SC21's eq. (3) has
// 72 · 32 · 2 · 64² · (1 + 32/(6 · 64) + 128/(12 · 2 · 64)) = 22020096 FLOPs.
TEST(ValidationTable, ShowsEachRowBesideItsInterval) {
  const std::string text = to_text(made_up_report());
  EXPECT_THAT(text, HasSubstr("\nr1                                 1.25          1  -20.0%"
                              "         0.7        1.3  1.762e-05 2.202e-05\n"
                              "r2                                    2        1.5  -25.0%"
                              "         1.2        1.8  1.101e-05 1.468e-05  outside  contradicts "
                              "itself\n\n"));
  EXPECT_THAT(text, HasSubstr("\n(none)                       2    22.5    21.5    24.5    25.0"
                              "   -12.5        50     20.0\n"
                              "all                          2    22.5    21.5    24.5    25.0"
                              "   -12.5        75     30.0\n\n"));
  EXPECT_THAT(
      text, HasSubstr("\nfactors for other jobs by all runs above, which test nothing (in-sample)\n"
                      "  c + s: x1.400, 4 runs\n"
                      "  c + t, experts: x1.000, 2 runs\n\n"));
  EXPECT_THAT(text, testing::EndsWith("\nskipped: 3 runs\n"
                                      "      1  another\n"
                                      "      2  no profile\n"
                                      "  x                            no profile\n"
                                      "  y                            another\n"
                                      "  z                            no profile\n"));
}

// 2 of 3 and 0 of 1 pairs; mean regrets of 20 and 40 %, and of 10 and 0 % for three. Without those
// that contradict themselves there is one set, and no pair that counts.
TEST(ValidationTable, RanksByJobAndGroup) {
  EXPECT_THAT(
      to_text(made_up_report()),
      HasSubstr("\ng: 4 x 64, 32, 8, 2                                  3      3       67    20.0"
                "    10.0       2      0        -     5.0     0.0\n"
                "g: 5 x 0, 0, 0, 0                                    2      1        0    40.0"
                "     0.0\n"
                "g: mean regret of 2                                  5      4       50    30.0"
                "     5.0       2      0        -     5.0     0.0\ng: largest "));
  EXPECT_THAT(to_text(made_up_report()),
              testing::ContainsRegex("\ng: largest +40.0 +10.0 +5.0 +0.0\n\n"));
  ValidationReport without = made_up_report();
  without.ranking.clear();
  EXPECT_THAT(to_text(without), Not(HasSubstr("regret")));
}

// 36 and 42 GiB for 40.
TEST(ValidationTable, ShowsMemoryWithReserveAndWithConstant) {
  const std::string text = to_text(made_up_report());
  EXPECT_THAT(text, HasSubstr("\nm                                                40.0       36.0"
                              "  -10.0%     +5.0%\n\n"));
  EXPECT_THAT(text, HasSubstr("\na                            1    10.0    11.0   -12.0      5.0"
                              "     6.0    +7.0\n"
                              "all                          1    10.0    11.0   -12.0      5.0"
                              "     6.0    +7.0\n"
                              "  s: +12.0 GiB beyond the formulas on 1 run\n"));
}

TEST(ValidationTable, SaysHowItWasCalibrated) {
  ValidationReport report = made_up_report();
  const auto title = [&](CalibrationKind kind) {
    report.calibration = kind;
    const std::string text = to_text(report);
    // Factors mean nothing where none was asked for.
    EXPECT_EQ(text.find("factors for") < text.size(), kind != CalibrationKind::kNone);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_THAT(title(CalibrationKind::kNone), HasSubstr("not calibrated"));
  EXPECT_THAT(title(CalibrationKind::kShipped), HasSubstr("as ptdp-plan does"));
  EXPECT_THAT(title(CalibrationKind::kLeaveOneOut), HasSubstr("(leave-one-out)"));
  EXPECT_THAT(title(CalibrationKind::kLeaveOneGroupOut), HasSubstr("not of the group"));
  EXPECT_THAT(title(CalibrationKind::kScale), HasSubstr("in-sample"));
}

TEST(ValidationJson, HoldsEachFigureUnderItsName) {
  using Json = nlohmann::json;
  const Json json = Json::parse(to_json(made_up_report()));
  EXPECT_EQ(json["calibration"], "leave-one-out");
  EXPECT_EQ(json["in_sample"], false);
  const Json& row = json["rows"][1];
  EXPECT_EQ(row["id"], "r2");
  EXPECT_EQ(row["measured_s"], 2.0);
  EXPECT_EQ(row["predicted_s"], 1.5);
  EXPECT_NEAR(row["interval_s"][0], 1.2, 1e-12);
  EXPECT_NEAR(row["interval_s"][1], 1.8, 1e-12);
  EXPECT_EQ(row["error_pct"], -25.0);
  EXPECT_NEAR(row["measured_tflops_per_gpu"], 22020096e-12 / 2.0, 1e-12);
  EXPECT_NEAR(row["predicted_tflops_per_gpu"], 22020096e-12 / 1.5, 1e-12);
  EXPECT_EQ(row["calibration_factor"], 1.5);
  EXPECT_EQ(row["calibration_runs"], 6);
  EXPECT_EQ(row["distance"], 1.5);
  EXPECT_EQ(row["contradicted"], true);
  EXPECT_EQ(json["rows"][0]["contradicted"], false);
  EXPECT_EQ(json["total"], (Json{{"n", 2},
                                 {"mape_pct", 22.5},
                                 {"median_pct", 21.5},
                                 {"p90_pct", 24.5},
                                 {"max_pct", 25.0},
                                 {"bias_pct", -12.5},
                                 {"inside_interval_pct", 75.0},
                                 {"median_half_width_pct", 30.0}}));
  EXPECT_EQ(json["groups"][0]["inside_interval_pct"], 50.0);
  EXPECT_EQ(
      json["factors"][0],
      (Json{{"cluster", "c"}, {"stack", "s"}, {"has_experts", false}, {"n", 4}, {"factor", 1.4}}));
  EXPECT_EQ(
      json["factors"][1],
      (Json{{"cluster", "c"}, {"stack", "t"}, {"has_experts", true}, {"n", 2}, {"factor", 1.0}}));
  EXPECT_EQ(json["skipped"][1], (Json{{"id", "y"}, {"group", "a"}, {"reason", "another"}}));
  const Json& set = json["ranking"][0];
  EXPECT_EQ(set["layers"], 4);
  EXPECT_EQ(set["hidden"], 64);
  EXPECT_EQ(set["seq"], 32);
  EXPECT_EQ(set["gbs"], 8);
  EXPECT_EQ(set["gpus"], 2);
  EXPECT_NEAR(set["pair_accuracy"], 2.0 / 3.0, 1e-12);
  EXPECT_EQ(set["regret_pct"], 20.0);
  EXPECT_EQ(set["regret_top3_pct"], 10.0);
  EXPECT_EQ(set["without_contradicted"],
            (Json{{"rows", 2}, {"pairs", 0}, {"regret_pct", 5.0}, {"regret_top3_pct", 0.0}}));
  EXPECT_FALSE(json["ranking"][1].contains("without_contradicted"));
  const Json& all = json["ranking_groups"][0]["all"];
  EXPECT_EQ(all["sets"], 2);
  EXPECT_EQ(all["rows"], 5);
  EXPECT_EQ(all["pairs"], 4);
  EXPECT_EQ(all["pair_accuracy"], 0.5);
  EXPECT_NEAR(all["mean_regret_pct"], 30.0, 1e-9);
  EXPECT_NEAR(all["max_regret_pct"], 40.0, 1e-9);
  EXPECT_NEAR(all["mean_regret_top3_pct"], 5.0, 1e-9);
  EXPECT_NEAR(all["max_regret_top3_pct"], 10.0, 1e-9);
  EXPECT_FALSE(json["ranking_groups"][0]["without_contradicted"].contains("pair_accuracy"));
  const Json& memory = json["memory"]["rows"][0];
  EXPECT_EQ(memory["measured_GiB"], 40.0);
  EXPECT_EQ(memory["formulas_GiB"], 30.0);
  EXPECT_EQ(memory["reserve_GiB"], 6.0);
  EXPECT_EQ(memory["constant_GiB"], 12.0);
  EXPECT_NEAR(memory["error_pct"], -10.0, 1e-9);
  EXPECT_NEAR(memory["error_with_constant_pct"], 5.0, 1e-9);
  EXPECT_EQ(json["memory"]["total"]["as_it_is"],
            (Json{{"mape_pct", 10.0}, {"max_pct", 11.0}, {"bias_pct", -12.0}}));
  EXPECT_EQ(json["memory"]["total"]["with_constant"],
            (Json{{"mape_pct", 5.0}, {"max_pct", 6.0}, {"bias_pct", 7.0}}));
  EXPECT_EQ(json["memory"]["constants"][0],
            (Json{{"stack", "s"}, {"n", 1}, {"constant_GiB", 12.0}}));
}

// Group a is off by -20 % three times, b by +25 and +100 %. Of 1 s the interval without calibration
// is 0.92 to 1.42, half of which is 0.25: 1.25 s lie in it, 0.8 and 0.5 s do not.
TEST(ValidationReport, SummarisesErrorsByGroup) {
  CostedRuns runs;
  for (const auto& [group, measured] : std::vector<std::pair<const char*, double>>{
           {"b", 0.8}, {"a", 1.25}, {"a", 1.25}, {"b", 0.5}, {"a", 1.25}}) {
    runs.costed.push_back(named_run("row", group, measured));
  }
  runs.skipped = {{.id = "x", .group = "a", .reason = "no profile"}};
  const ValidationReport report = make_validation_report(runs, CalibrationKind::kNone);
  ASSERT_EQ(report.groups.size(), 2U);
  const GroupErrors& a = report.groups[0];
  const GroupErrors& b = report.groups[1];
  EXPECT_EQ(a.group, "a");
  EXPECT_EQ(a.errors.count, 3);
  EXPECT_NEAR(a.errors.bias, -0.2, 1e-12);
  EXPECT_EQ(a.inside_interval, 1.0);
  EXPECT_NEAR(a.median_half_width, 0.25, 1e-12);
  EXPECT_EQ(b.errors.count, 2);
  EXPECT_NEAR(b.errors.mean_absolute, 0.625, 1e-12);
  EXPECT_NEAR(b.errors.p90_absolute, 0.925, 1e-12);  // nine tenths of the way from 0.25 to 1
  EXPECT_NEAR(b.errors.max_absolute, 1.0, 1e-12);
  EXPECT_EQ(b.inside_interval, 0.0);
  EXPECT_EQ(report.total.errors.count, 5);
  EXPECT_NEAR(report.total.errors.bias, 0.13, 1e-12);
  EXPECT_NEAR(report.total.errors.median_absolute, 0.2, 1e-12);
  EXPECT_NEAR(report.total.inside_interval, 0.6, 1e-12);
  ASSERT_EQ(report.factors.size(), 1U);
  EXPECT_EQ(report.factors[0].num_rows, 5);
  // By hand: no other scope draws on the mean of the only one.
  EXPECT_NEAR(std::log(report.factors[0].factor),
              (3.0 * std::log(1.25) + std::log(0.8) + std::log(0.5)) / 5.0, 1e-9);
  EXPECT_EQ(report.skipped.size(), 1U);
  EXPECT_EQ(report.rows[0].costed.run.group, "b");  // as they came
}

// Without calibration the first is predicted fastest; a factor of 3 makes it the slowest.
TEST(RankRows, OrdersRowsByTheirCalibratedTimes) {
  ValidationReport report;
  report.rows = {{.costed = named_run("a", "g", 2.0)}, {.costed = named_run("b", "g", 1.0)}};
  report.rows[0].costed.predicted = Seconds(1.0);
  report.rows[1].costed.predicted = Seconds(1.5);
  report.rows[1].is_contradicted = true;
  EXPECT_EQ(rank_rows(report).at(0).all.pair_accuracy(), 0.0);
  report.rows[0].calibration.factor = 3.0;
  const RankedSet set = rank_rows(report).at(0);
  EXPECT_EQ(set.all.pair_accuracy(), 1.0);
  EXPECT_FALSE(set.without_contradicted.has_value());  // one row is left
}

}  // namespace
}  // namespace ptdp
