// Tests of what is told of memory beyond the formulas.
#include "planner/answer/memory_text.h"

#include <gmock/gmock.h>

#include "cost_model/memory/memory.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Returns a belief around 2.5 GiB with one degree of freedom, where 95 % lie below 6.31375
/// deviations of 2 GiB.
MemoryBelief belief(int own_runs, int all_runs) {
  return {.support = {.num_runs = own_runs,
                      .stack_runs = own_runs,
                      .program_runs = all_runs,
                      .all_runs = all_runs},
          .expected = gibibytes(2.5),
          .deviation = gibibytes(2.0),
          .degrees = 1.0};
}

TEST(FittingText, TellsPercentWhereRunsOfTheScopeAreBehindIt) {
  const MemoryBelief own = belief(1, 87);
  EXPECT_EQ(fitting_text(0.9901, own), "fits with over 99 %");
  EXPECT_EQ(fitting_text(0.9842, own), "fits with 98 %");
  EXPECT_EQ(fitting_text(0.0099, own), "fits with under 1 %");
  EXPECT_EQ(fitting_remark(0.5, own), ", fits with 50 %");
}

// Groups that are held out fit less often than stated.
TEST(FittingText, ClaimsNoMoreThanNinetyPercentWithoutRunsOfTheScope) {
  const MemoryBelief others = belief(0, 87);
  EXPECT_EQ(fitting_text(1.0, others), "fits with over 90 %");
  EXPECT_EQ(fitting_text(0.98, others), "fits with over 90 %");
  EXPECT_EQ(fitting_text(0.9799, others), "fits with about 90 %");
  EXPECT_EQ(fitting_text(0.8999, others), "fits with about 80 %");
  EXPECT_EQ(fitting_text(0.1, others), "fits with about 10 %");
  EXPECT_EQ(fitting_text(0.0999, others), "fits with under 10 %");
  EXPECT_EQ(fitting_remark(0.5, {}), "");
}

TEST(BeyondLine, HasAmountIntervalAndSupport) {
  EXPECT_EQ(beyond_line(belief(3, 3), gibibytes(80.0), 0.0),
            "Memory beyond the formulas: +2.50 GiB, 90 % interval -10.1 .. +15.1 GiB; rests on 3 "
            "runs of this cluster and stack.\n");
  EXPECT_EQ(beyond_line({}, gibibytes(80.0), 0.05), "");
}

// A twentieth of 80 GiB is 4.
TEST(BeyondLine, SaysWhatPlansFitIntoBesideAHeadroom) {
  EXPECT_THAT(
      beyond_line(belief(3, 3), gibibytes(80.0), 0.05),
      testing::EndsWith("stack. Fitting is into the 76.00 GiB that the headroom leaves.\n"));
}

/// Runs of the cluster and stack themselves.
const Support kOwnRuns = {.num_runs = 4, .stack_runs = 6, .program_runs = 79, .all_runs = 87};

ReservedScenario reserved(double fraction, std::optional<double> probability,
                          const Support& support = kOwnRuns) {
  ReservedScenario made{
      .scenario = selene_2021("1T"), .probability = probability, .support = support};
  made.scenario.stack.reserve_fraction = fraction;
  return made;
}

// Selene has GPUs of 80 GiB.
TEST(ReserveText, SaysWhatIsReservedAndByWhat) {
  const std::string what =
      " GiB of each GPU reserved: for what is not computed (CUDA context, NCCL, gaps of the "
      "allocator)";
  const std::string by = " by 4 runs of this cluster and stack, 79 of its kind of program (--fit)";
  EXPECT_EQ(reserve_text(reserved(0.0625, std::nullopt)), "5" + what);
  EXPECT_EQ(reserve_text(reserved(0.0, std::nullopt)), "");
  EXPECT_EQ(reserve_text(reserved(0.05, 0.9)), "4" + what + ", enough with 90 %" + by);
  EXPECT_EQ(reserve_text(reserved(0.0, 0.996)), "0" + what + ", enough with over 99 %" + by);
  EXPECT_EQ(reserve_text(reserved(0.9, 0.253)),
            "72" + what + ", the most there can be, enough with 25 %" + by);
  EXPECT_EQ(reserve_text(reserved(0.05, 0.93, {.program_runs = 79, .all_runs = 87})),
            "4" + what +
                ", enough with about 90 % by no run of this stack, 79 runs of its kind of program "
                "(--fit)");
}

}  // namespace
}  // namespace ptdp
