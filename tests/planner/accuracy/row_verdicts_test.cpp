// Checks that validation and a search pinned to what published rows ran judge these rows alike.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/stack_spec.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/partial_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/constraints/constraint.h"
#include "planner/explain/explain.h"

namespace ptdp {
namespace {

/// Returns every run of the shipped rows. Rows that leave fields out count once for every value
/// that these may have had.
std::vector<CostedRun> shipped_runs() {
  CostedRuns runs = cost_runs(read_published_runs());
  complete_partial_runs(runs);
  std::vector<CostedRun> all = std::move(runs.costed);
  for (const PartialRun& partial : runs.partial) {
    all.insert(all.end(), partial.completions.begin(), partial.completions.end());
  }
  return all;
}

SearchResult search_for(const Scenario& scenario, const ParallelConfig& config) {
  return search(scenario, {.gpus = config.world_size(),
                           .space = parse_partial_config(to_string(config), "row"),
                           .num_best = 1,
                           .wants_front = false});
}

/// Returns the scenario with a stack that runs `config`. Rows tell what somebody ran, whatever the
/// profile of their stack lists.
Scenario with_what_was_run(Scenario scenario, const ParallelConfig& config) {
  scenario = with_every_schedule(std::move(scenario));
  StackCapabilities& can_run = scenario.stack.can_run;
  can_run.recompute.push_back(config.recompute);
  can_run.recompute_methods.push_back(config.recompute_method);
  can_run.recompute_modules = config.recompute_modules;
  can_run.zero_stages.push_back(config.zero_stage);
  can_run.rank_orders.push_back(config.rank_order);
  can_run.offload.push_back(config.offload);
  can_run.sequence_parallel = true;
  can_run.context_parallel = true;
  can_run.hybrid_sharding = true;
  can_run.kept_weights = true;
  can_run.expert_parallel = true;
  can_run.uneven_layers = true;
  can_run.interleaved_min_stages = 2;
  return scenario;
}

/// Whether a row fits into its GPUs.
enum class Verdict { kFits, kDoesNot };

/// Asks the search in the words in which validation prints the row.
Verdict expect_judged_alike(const CostedRun& run) {
  const ParallelConfig& config = run.run.config;
  const Scenario scenario = with_what_was_run(scenario_of(run), config);
  const auto violation =
      find_memory_violation({scenario, config}, usable_memory(scenario.cluster.gpu, 0.0));
  const SearchResult result = search_for(scenario, config);
  EXPECT_EQ(result.enumerated, 1);
  EXPECT_EQ(result.best.empty(), violation.has_value());
  if (violation) {
    EXPECT_EQ(result.violations.begin()->first, *violation);
    EXPECT_TRUE(result.shortfall.has_value());
    if (result.shortfall) {
      EXPECT_EQ(to_string(result.shortfall->config), to_string(config));
    }
    return Verdict::kDoesNot;
  }
  if (!result.best.empty()) {
    EXPECT_EQ(to_string(result.best.front().config), to_string(config));
  }
  return Verdict::kFits;
}

/// What a stack as it is shipped cannot run is the one thing that the search adds.
void expect_refused_for_its_stack_alone(const CostedRun& run) {
  const ParallelConfig& config = run.run.config;
  const Scenario scenario = scenario_of(run);
  const SearchResult result = search_for(scenario, config);
  const auto violation =
      find_violation({scenario, config}, usable_memory(scenario.cluster.gpu, 0.0));
  EXPECT_EQ(result.enumerated, 1);
  EXPECT_EQ(violation.has_value(), result.best.empty());
  if (violation && !result.violations.empty()) {
    EXPECT_EQ(result.violations.begin()->first, *violation);
  }
}

// One test, since costing the rows takes most of its time.
TEST(ShippedRows, AreJudgedAlikeByValidationAndSearchAndRefusedForTheirStackAlone) {
  int num_fitting = 0;
  int num_misfits = 0;
  for (const CostedRun& run : shipped_runs()) {
    SCOPED_TRACE(run.run.id + ": " + to_string(run.run.config));
    ++(expect_judged_alike(run) == Verdict::kFits ? num_fitting : num_misfits);
    expect_refused_for_its_stack_alone(run);
  }
  RecordProperty("fitting", num_fitting);
  RecordProperty("misfits", num_misfits);
  EXPECT_GT(num_fitting, 0);
  EXPECT_GT(num_misfits, 0);
}

}  // namespace
}  // namespace ptdp
