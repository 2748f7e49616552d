// Tests of searches that keep to what a framework can run.
#include "planner/export/exportable.h"

#include <gtest/gtest.h>

#include "planner/search/exhaustive_search.h"
#include "planner/search/search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

const Exporter& exporter_named(std::string_view name) {
  for (const Exporter& exporter : kExporters) {
    if (exporter.name == name) {
      return exporter;
    }
  }
  throw std::invalid_argument(std::string(name));
}

// What is found are the first of all candidates, looked at one by one, that the exporter takes as a
// whole plan with its prediction and memory.
TEST(Exportable, FindsTheBestThatTheFrameworkRuns) {
  Scenario scenario = shipped_scenario("gpt2-1.5b", "selene-a100", "megatron-lm-2022", 8);
  scenario.job.model.num_layers = 8;
  scenario.stack.can_run.schedules = {ScheduleKind::kOneFOneB, ScheduleKind::kZbH1,
                                      ScheduleKind::kGPipe, ScheduleKind::kInterleaved};
  scenario.stack.can_run.recompute_methods = {RecomputeMethod::kBlock, RecomputeMethod::kEvery};
  SearchOptions options{.gpus = 8, .num_best = 5};
  options.space.schedules = scenario.stack.can_run.schedules;
  const std::vector<Candidate> all = exhaustive_search(scenario, options);
  for (const char* name : {"megatron", "torchtitan", "nanotron"}) {
    SCOPED_TRACE(name);
    const Exporter& exporter = exporter_named(name);
    std::vector<Candidate> expected;
    for (const Candidate& candidate : all) {
      const Plan plan = make_plan({scenario, candidate.config}, options.gpus, 0.0, Calibration{});
      if (exporter.find_refusals(plan).empty()) {
        expected.push_back(candidate);
      }
    }
    SearchOptions kept = options;
    kept.is_left_out = refused_by(exporter, scenario, options.gpus);
    const SearchResult found = search(scenario, kept);
    EXPECT_EQ(found.feasible, std::ssize(expected));
    EXPECT_EQ(found.violations.at(Constraint::kNotExportable), std::ssize(all) - found.feasible);
    ASSERT_EQ(found.best.size(), std::min<std::size_t>(5, expected.size()));
    for (std::size_t i = 0; i < found.best.size(); ++i) {
      EXPECT_EQ(found.best[i].config, expected[i].config);
      EXPECT_EQ(found.best[i].time, expected[i].time);
    }
  }
}

}  // namespace
}  // namespace ptdp
