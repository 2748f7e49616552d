// Tests of predicted memory against reported memory.
#include "planner/accuracy/memory_validation.h"

#include <gmock/gmock.h>

#include <algorithm>

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

// What ptdp-validate promises of the shipped rows, each with the constant of the others: the
// median of their errors, not tuned to any.
TEST(PublishedMemory, IsTheFormulasAndOneConstantForEachStack) {
  const MemoryReport report = make_memory_report(costed_published_runs().costed);
  ASSERT_GE(report.rows.size(), 79U);
  EXPECT_LE(report.total.with_constant.mean_absolute, 0.06);
}

}  // namespace
}  // namespace ptdp
