// Tests what is said where GPUs begin a run with less memory than its plan leaves them.
#include "runtime/run/start_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kGigabyte = 1024.0 * 1024.0 * 1024.0;

/// What three ranks on two pipeline ranks take of GPUs of 80 GiB, of which 4 are reserved. A rank
/// with a negative number has no plan.
using Taken = std::array<double, 3>;

struct Told {
  std::array<std::string, 3> notes;
  std::array<std::string, 3> refusals;
};

Told told_of(const Taken& gibibytes) {
  const PlannedMemory planned{.peaks = {Bytes(60 * kGigabyte), Bytes(70 * kGigabyte)},
                              .reserve = Bytes(4 * kGigabyte),
                              .device = Bytes(80 * kGigabyte)};
  Told told;
  on_ranks(3, CollectiveAlgorithm::kRing, [&](const TestRank& rank) {
    const auto number = static_cast<std::size_t>(rank.all.rank());
    try {
      const bool is_planned = gibibytes[number] >= 0.0;
      told.notes[number] =
          compare_start_memory(is_planned ? std::optional(planned) : std::nullopt,
                               Bytes(std::abs(gibibytes[number]) * kGigabyte), number == 0 ? 0 : 1,
                               {.world = rank.all, .backend = rank.backend});
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      told.refusals[number] = error.what();
    }
  });
  return told;
}

TEST(StartMemory, IsNotTalkedOfWithinTheReserve) {
  const Told told = told_of({4.0, 0.0, 3.999});
  EXPECT_EQ(told.notes, (std::array<std::string, 3>{}));
  EXPECT_EQ(told.refusals, (std::array<std::string, 3>{}));
}

TEST(StartMemory, IsToldOnceForTheRankThatTookMost) {
  Told told = told_of({1.0, 3.0, 5.25});
  EXPECT_EQ(told.notes[0],
            "5.25 GiB of the GPU of rank 2 were taken at start-up by the driver, NCCL, other "
            "libraries and other programs: expected at most the 4.00 GiB that the plan reserves");
  EXPECT_EQ(told.notes[1] + told.notes[2], "");
  EXPECT_EQ(told.refusals, (std::array<std::string, 3>{}));
  told = told_of({4.5, 10.0, 5.25});  // 70 + 10 GiB fit just so
  EXPECT_THAT(told.notes[0], AllOf(HasSubstr("10.00 GiB of the GPU of rank 1 were taken"),
                                   HasSubstr("(3 ranks took more than reserved")));
  EXPECT_EQ(told.refusals, (std::array<std::string, 3>{}));
}

// As a machine with GPUs of another kind than the plan's.
TEST(StartMemory, IsNotComparedOnARankWithoutAPlan) {
  const Told told = told_of({-100.0, 4.5, -100.0});
  EXPECT_THAT(told.notes[0], HasSubstr("4.50 GiB of the GPU of rank 1 were taken"));
  EXPECT_EQ(told.refusals, (std::array<std::string, 3>{}));
}

// 20 GiB are left beside the first stage, and 10 beside the second.
TEST(StartMemory, IsRefusedOnTheRanksWhosePeakDoesNotFitAnyMore) {
  const Told told = told_of({19.0, 10.5, 5.0});
  EXPECT_EQ(told.refusals[0] + told.refusals[2], "");
  EXPECT_THAT(told.refusals[1],
              AllOf(HasSubstr("10.50 GiB of its GPU's 80.00 GiB were taken at start-up"),
                    HasSubstr("(the plan reserves 4.00 GiB): expected at most 10.00 GiB, since "
                              "the plan's peak is 70.00 GiB")));
}

}  // namespace
}  // namespace ptdp
