// Measured runs that several threads cost.
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>

#include "cost_model/inputs/profile_files.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/profile_cache.h"

namespace ptdp {
namespace {

// Work is handed to threads row by row; rows that cannot be costed lie among the others.
TEST(CostRuns, OnSeveralThreadsAreThoseOfOne) {
  const std::filesystem::path published = PTDP_SOURCE_DIR "/profiles/published";
  MeasuredRuns runs = read_runs(
      {published / "sc21-t1.csv", published / "sc21-f12.csv", published / "megascale-moe.csv"});
  for (std::size_t i = 0; i < runs.runs.size(); i += 3) {
    runs.runs[i].cluster = "atlantis";
  }
  ProfileCache profiles;
  const CostedRuns on_one = cost_runs(runs, profiles);
  const CostedRuns on_threads = cost_runs(runs);
  EXPECT_GT(on_one.costed.size(), 10U);
  ASSERT_EQ(on_threads.costed.size(), on_one.costed.size());
  for (std::size_t i = 0; i < on_one.costed.size(); ++i) {
    EXPECT_EQ(on_threads.costed[i].run.id, on_one.costed[i].run.id);
    EXPECT_EQ(on_threads.costed[i].predicted, on_one.costed[i].predicted);
    EXPECT_EQ(on_threads.costed[i].precision, on_one.costed[i].precision);
  }
  EXPECT_GT(on_one.skipped.size(), 5U);
  ASSERT_EQ(on_threads.skipped.size(), on_one.skipped.size());
  for (std::size_t i = 0; i < on_one.skipped.size(); ++i) {
    EXPECT_EQ(on_threads.skipped[i].id, on_one.skipped[i].id);
    EXPECT_EQ(on_threads.skipped[i].reason, on_one.skipped[i].reason);
  }
}

}  // namespace
}  // namespace ptdp
