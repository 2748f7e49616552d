// Tests of predicted memory against reported memory.
#include "planner/accuracy/memory_validation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/validation_report.h"
#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

/// Returns runs of `stack` that measured `gib` GiB more than the formulas.
std::vector<CostedRun> runs_beyond(const std::string& stack, const std::vector<double>& gib) {
  std::vector<CostedRun> runs;
  for (const double beyond : gib) {
    CostedRun run = run_of(stack, "group", 1.0);
    Scenario scenario = scenario_of(run.run);
    scenario.stack.reserve_fraction = 0.0;
    run.run.memory = peak_memory({scenario, run.run.config}) + Bytes(beyond * kGibi);
    runs.push_back(run);
  }
  return runs;
}

// For 1, 2 and 4 GiB the medians of the other rows are 3, 2.5 and 1.5; that of all rows is 2.
TEST(MemoryReport, LeavesEachRowOutOfItsConstant) {
  const std::vector<CostedRun> runs = runs_beyond("megatron-lm-2021", {1.0, 2.0, 4.0});
  const MemoryReport report = make_memory_report(runs);
  ASSERT_EQ(report.rows.size(), 3U);
  const std::vector<double> constants = {3.0, 2.5, 1.5};
  for (std::size_t i = 0; i < 3; ++i) {
    const ValidatedMemory& row = report.rows[i];
    EXPECT_NEAR(row.constant->value(), constants[i] * kGibi, 1.0);
    EXPECT_DOUBLE_EQ(row.error_with_constant(),
                     (row.formulas + *row.constant) / row.measured - 1.0);
    EXPECT_DOUBLE_EQ(row.error(), (row.formulas + row.reserve) / row.measured - 1.0);
  }
  ASSERT_EQ(report.constants.size(), 1U);
  EXPECT_NEAR(report.constants[0].constant.value(), 2.0 * kGibi, 1.0);
  ASSERT_EQ(report.groups.size(), 1U);
  EXPECT_EQ(report.groups[0].as_it_is.count, 3);
}

// Selene's A100 has 80 GiB, of which the stack of 2021 reserves a share.
TEST(MemoryReport, TakesTheStacksReserveOfASingleRow) {
  const MemoryReport report = make_memory_report(runs_beyond("megatron-lm-2021", {1.0}));
  const ValidatedMemory& row = report.rows.at(0);
  EXPECT_FALSE(row.constant.has_value());
  EXPECT_EQ(row.reserve, Bytes(80.0 * kGibi) * find_stack("megatron-lm-2021").reserve_fraction);
  EXPECT_EQ(row.error_with_constant(), row.error());
}

TEST(MemoryReport, LeavesOutRowsWithoutMemory) {
  EXPECT_TRUE(make_memory_report({run_of("megatron-lm-2021", "group", 1.0)}).rows.empty());
}

/// Returns a belief with the tails of Cauchy's distribution, whose quantiles are tan(π(p − 1/2)).
MemoryBelief cauchy(double expected, double deviation) {
  return {.support = {.all_runs = 2},
          .expected = gibibytes(expected),
          .deviation = gibibytes(deviation),
          .degrees = 1.0};
}

// The first row is expected to have 8 GiB beyond 40, and has 10: (40 + 8)/50 is 4 % too little,
// two deviations off. Those of 90 and 95 % are 3.078 and 6.314. The second row is expected to have
// 14 beyond 30, and has 10: 10 % too much, eight deviations off, below all stated quantiles. The
// third row counts in nothing.
TEST(SummaryOf, CountsTheRowsOfWhichSomethingIsKnown) {
  const std::vector<ValidatedMemory> rows = {
      {.measured = gibibytes(50.0), .formulas = gibibytes(40.0), .by_others = cauchy(8.0, 1.0)},
      {.measured = gibibytes(40.0), .formulas = gibibytes(30.0), .by_others = cauchy(14.0, 0.5)},
      {.measured = gibibytes(70.0), .formulas = gibibytes(30.0), .reserve = gibibytes(5.0)}};
  std::vector<const ValidatedMemory*> all;
  all.reserve(rows.size());
  for (const ValidatedMemory& row : rows) {
    all.push_back(&row);
  }
  const std::optional<MemoryBeliefs> found = summary_of(all, &ValidatedMemory::by_others);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->errors.count, 2);
  EXPECT_NEAR(found->errors.mean_absolute, 0.07, 1e-12);
  EXPECT_NEAR(found->errors.bias, 0.03, 1e-12);
  EXPECT_NEAR(found->errors.max_absolute, 0.1, 1e-12);
  EXPECT_EQ(found->inside, 0.5);
  EXPECT_NEAR(found->half_width, 0.75 * 6.31375, 1e-4);  // the middle of 1 and 0.5 deviations
  EXPECT_THAT(found->fitted, testing::ElementsAre(0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0));
  EXPECT_FALSE(summary_of(all, &ValidatedMemory::by_other_groups).has_value());
}

// Three rows of one group: nothing is known of it by others, and no figure stands for that.
TEST(MemoryReport, SaysNothingByOtherGroupsWhereThereAreNone) {
  ValidationReport report;
  report.memory = make_memory_report(runs_beyond("megatron-lm-2021", {1.0, 2.0, 4.0}));
  EXPECT_TRUE(report.memory.total.by_others.has_value());
  EXPECT_FALSE(report.memory.rows.at(0).by_other_groups.has_value());
  EXPECT_FALSE(report.memory.groups.at(0).by_other_groups.has_value());
  EXPECT_FALSE(report.memory.held_out.has_value());
  const std::string text = to_text(report);
  EXPECT_THAT(text, testing::ContainsRegex("\nall  .*    none\n"));
  EXPECT_THAT(text,
              testing::HasSubstr(
                  "\nmean over groups held out: none, no other group says anything of these\n"));
  EXPECT_THAT(text, testing::HasSubstr("\n  mean over groups             none\n"));
  const nlohmann::json memory = nlohmann::json::parse(to_json(report)).at("memory");
  EXPECT_EQ(memory.at("total").at("by_others").at("n"), 3);
  EXPECT_FALSE(memory.at("total").contains("by_other_groups"));
  EXPECT_FALSE(memory.at("groups").at(0).contains("by_other_groups"));
  EXPECT_FALSE(memory.contains("held_out"));
}

// A single row: nothing is known of it by anything.
TEST(MemoryReport, SaysNothingOfASingleRow) {
  const MemoryReport report = make_memory_report(runs_beyond("megatron-lm-2021", {1.0}));
  EXPECT_FALSE(report.rows.at(0).by_others.has_value());
  EXPECT_FALSE(report.total.by_others.has_value());
}

// Groups count alike: a row of 4 GiB beyond the formulas is expected at 1 by the other group, whose
// four rows of 1 GiB are expected at 4.
TEST(MemoryReport, HoldsGroupsOutThatCountAlike) {
  std::vector<CostedRun> runs = runs_beyond("megatron-lm-2021", {4.0, 1.0, 1.0, 1.0, 1.0});
  runs[0].run.group = "other";
  const MemoryReport report = make_memory_report(runs);
  ASSERT_TRUE(report.held_out.has_value());
  EXPECT_EQ(report.held_out->errors.count, 5);
  const ValidatedMemory& one = report.rows[0];
  const ValidatedMemory& four = report.rows[1];
  EXPECT_NEAR(one.by_other_groups->expected.value() / kGibi, 1.0, 1e-9);
  EXPECT_NEAR(four.by_other_groups->expected.value() / kGibi, 4.0, 1e-9);
  EXPECT_NEAR(report.held_out->errors.bias,
              0.5 * (gibibytes(-3.0) / one.measured + gibibytes(3.0) / four.measured), 1e-9);
}

// What ptdp-validate promises of the shipped rows, each with the constant of the others: the
// median of their errors, not tuned to any.
TEST(PublishedMemory, IsTheFormulasAndOneConstantForEachStack) {
  const MemoryReport report = make_memory_report(costed_published_runs().costed);
  ASSERT_GE(report.rows.size(), 79U);
  EXPECT_LE(report.total.with_constant.mean_absolute, 0.06);
}

}  // namespace
}  // namespace ptdp
