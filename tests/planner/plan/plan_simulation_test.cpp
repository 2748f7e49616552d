// Tests of simulated plans against their predictions, and of changed schedules.
#include "planner/plan/plan_simulation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost_model/error.h"
#include "cost_model/schedule/validator/validator.h"
#include "planner/constraints/constraint.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

Plan plan_under(const Scenario& scenario, const ParallelConfig& config, double factor = 1.0) {
  return make_plan({scenario, config}, config.world_size(), 0.0, {.factor = factor});
}

/// Returns a plan of the 39B model on eight stages of six layers.
Plan plan_39b(ScheduleKind schedule = ScheduleKind::kOneFOneB, int vpp = 1, int pp = 8) {
  return plan_under(selene_2021("39B", 64), {.tp = 8,
                                             .pp = pp,
                                             .vpp = vpp,
                                             .micro_batch_size = 1,
                                             .schedule = schedule,
                                             .recompute = Recompute::kFull});
}

double relative(Seconds a, Seconds b) {
  return std::abs(a / b - 1.0);
}

TEST(PlanSimulation, IsThePredictionWithoutAPipeline) {
  const Plan plan = plan_under(selene_2021("1.7B", 16),
                               {.tp = 2, .micro_batch_size = 4, .recompute = Recompute::kFull});
  const PlanSimulation simulation = simulate_plan(plan, {});
  EXPECT_LT(relative(simulation.step, plan.predicted.iteration_time.value), 1e-9);
  EXPECT_EQ(simulation.bubble, Seconds(0.0));
  EXPECT_LT(simulation.timeline.times.not_computing() / simulation.step, 0.05);
}

// One word, one meaning: the bubble of the plan's breakdown is that of its simulation, under every
// schedule. Both simulate the passes alone, so nothing but rounding may differ.
TEST(PlanSimulation, HasTheBubbleOfThePlan) {
  const Plan before = plan_39b();
  for (const ScheduleTraits& traits : kSchedules) {
    Plan plan = before;
    ASSERT_EQ(change_schedule(plan, traits), std::nullopt) << traits.name;
    plan = plan_under(plan.scenario, plan.config, 1.25);
    const PlanSimulation simulation = simulate_plan(plan, {});
    EXPECT_NEAR(simulation.bubble / simulation.step,
                plan.predicted.breakdown.bubble / simulation.step, 1e-9)
        << traits.name;
    EXPECT_EQ(simulation.bubble > Seconds(0.0), traits.is_synchronous) << traits.name;
    EXPECT_LT(simulation.bubble, simulation.timeline.times.not_computing()) << traits.name;
  }
}

// Slower links make ranks wait longer for messages and gradients, which is no bubble.
TEST(PlanSimulation, CountsNoMessagesAsBubble) {
  Scenario slow = selene_2021("39B", 64);
  slow.cluster.nic.bandwidth = slow.cluster.nic.bandwidth / 10.0;
  const PlanSimulation usual = simulate_plan(plan_39b(), {});
  const PlanSimulation slower = simulate_plan(plan_under(slow, plan_39b().config), {});
  EXPECT_LT(relative(slower.bubble, usual.bubble), 1e-9);
  EXPECT_GT(slower.timeline.times.not_computing(), usual.timeline.times.not_computing());
}

// Where dispatch to experts runs behind another microbatch's compute, only filling and draining
// show it. The plan counts it for the first rank, the simulation for the rank that works most: up
// to what the p microbatches in flight hide.
TEST(PlanSimulation, HasTheBubbleOfThePlanButForDispatchThatOtherPassesHide) {
  Scenario scenario =
      shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-bridge-2026-cuda-graphs", 64);
  const Plan plan = plan_under(
      scenario, {.pp = 4, .dp = 8, .ep = 8, .vpp = 2, .schedule = ScheduleKind::kInterleaved},
      1.25);
  const Seconds hidden =
      1.25 * pipeline_costs({plan.scenario, plan.config}).slowest.hidden_dispatch;
  ASSERT_GT(hidden, Seconds(0.0));
  const Seconds difference = simulate_plan(plan, {}).bubble - plan.predicted.breakdown.bubble;
  EXPECT_LE(std::abs(difference.value()), 4.0 * hidden.value());
}

// Gradients are reduced within passes, and weights gathered once, or within passes too.
TEST(PlanSimulation, IsThePredictionWhereGradientsOrWeightsAreSharded) {
  Scenario scenario = selene_2021("1.7B", 64);
  scenario.stack = find_stack("megascale-2024");
  for (const int zero : {2, 3}) {
    const Plan plan =
        plan_under(scenario, {.tp = 2, .dp = 16, .micro_batch_size = 1, .zero_stage = zero});
    const Schedule schedule = complete_schedule(plan);
    EXPECT_EQ(find_fault(schedule), std::nullopt);
    const auto count = [&](ActionKind kind) {
      return std::count_if(schedule.orders[0].begin(), schedule.orders[0].end(),
                           [kind](const Action& action) { return action.kind == kind; });
    };
    EXPECT_EQ(count(ActionKind::kReduceGradients), 0);
    EXPECT_EQ(count(ActionKind::kGatherParameters) > 0, zero == 2);
    EXPECT_LT(relative(simulate_plan(plan, {}).step, plan.predicted.iteration_time.value), 1e-9)
        << zero;
  }
}

// Both give one prediction: there are few enough microbatches to be simulated in full.
TEST(PlanSimulation, IsThePredictionOfAPipeline) {
  for (const auto& [schedule, vpp] :
       {std::pair(ScheduleKind::kOneFOneB, 1), std::pair(ScheduleKind::kInterleaved, 2)}) {
    const Plan plan = plan_39b(schedule, vpp);
    EXPECT_LT(relative(simulate_plan(plan, {}).step, plan.predicted.iteration_time.value), 1e-9)
        << vpp;
  }
}

TEST(PlanSimulation, TakesTheCalibrationsFactor) {
  const Plan plan = plan_39b();
  Plan slower = plan;
  slower.predicted.calibration_factor = 1.25;
  EXPECT_NEAR(simulate_plan(slower, {}).step / simulate_plan(plan, {}).step, 1.25, 1e-9);
}

// 1F1B holds p − r microbatches on rank r, interleaved min(mv, (v−1)p + 2(p−1−r) + 1) chunks, of
// which 2p begin the model: the plan counts them in closed form.
TEST(PlanSimulation, FindsTheMemoryThatThePlanCounts) {
  for (const Plan& plan : {plan_39b(), plan_39b(ScheduleKind::kInterleaved, 2),
                           plan_39b(ScheduleKind::kInterleaved, 3)}) {
    const PlanSimulation simulation = simulate_plan(plan, {});
    for (std::size_t rank = 0; rank < plan.memory.stages.size(); ++rank) {
      EXPECT_NEAR(simulation.memory[rank].peak / plan.memory.stages[rank].total(), 1.0, 1e-9)
          << to_string(plan.config) << ", rank " << rank;
    }
  }
}

// What a search lets through must not run out of memory in its simulation. The closed form counts
// chunks in flight without a look at the order, so that it may be above.
TEST(PlanSimulation, HoldsNoMoreThanThePlanCounts) {
  struct Row {
    const char* model;
    const char* cluster;
    const char* stack;
    std::int64_t batch;
    ParallelConfig config;
  };
  const std::vector<Row> rows = {
      {"39B", "dgx-h100", "megatron-core-2025", 32, {.tp = 8, .sequence_parallel = true}},
      {"llama-3.1-405b", "grand-teton-h100", "meta-llama3", 64, {.tp = 8, .zero_stage = 2}},
      {"gpt2-774m", "host", "ptdp-cpu", 32, {.tp = 2}},
      {"deepseek-v3", "dgx-h100", "megatron-bridge-2025", 64, {.ep = 8}}};
  int num_plans = 0;
  for (const Row& row : rows) {
    Scenario scenario =
        with_every_schedule(shipped_scenario(row.model, row.cluster, row.stack, row.batch));
    scenario.cluster.gpu.memory = Bytes(1e15);
    scenario.stack.can_run.uneven_layers = true;
    for (const int pp : {2, 4, 8}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        ParallelConfig config = row.config;
        config.pp = pp;
        config.dp = row.config.ep;
        config.recompute = recompute;
        const int layers = scenario.job.model.num_layers;
        config.layers_per_stage.assign(static_cast<std::size_t>(pp), layers / pp);
        config.layers_per_stage.back() += layers % pp;
        if (layers % pp == 0) {
          config.layers_per_stage.clear();
        }
        const Plan base = plan_under(scenario, config);
        for (const ScheduleTraits& generator : kSchedules) {
          Plan plan = base;
          if (change_schedule(plan, generator)) {
            continue;
          }
          const PlanSimulation simulation = simulate_plan(plan, {});
          for (std::size_t rank = 0; rank < simulation.memory.size(); ++rank) {
            EXPECT_LE(simulation.memory[rank].peak / plan.memory.stages[rank].total(), 1.0 + 1e-9)
                << row.model << ", " << row.stack << ", rank " << rank << " of "
                << to_string(plan.config);
          }
          ++num_plans;
        }
      }
    }
  }
  EXPECT_GT(num_plans, 300);
}

// A comparison says of a schedule what a search says that is pinned to it.
TEST(ScheduleComparisons, JudgeMemoryAsTheirPlansDo) {
  Scenario scenario = selene_2021("39B", 64);
  const ParallelConfig config{
      .tp = 8, .pp = 8, .micro_batch_size = 1, .recompute = Recompute::kNone};
  scenario.cluster.gpu.memory = peak_memory({scenario, config});
  const Plan plan = plan_under(scenario, config);
  int num_misfits = 0;
  for (const ScheduleComparison& row : compare_schedules(plan, {})) {
    Plan other = plan;
    const auto* const generator =
        std::ranges::find(kSchedules, row.schedule, &ScheduleTraits::name);
    ASSERT_EQ(change_schedule(other, *generator), std::nullopt) << row.schedule;
    EXPECT_EQ(row.fits,
              !find_memory_violation({other.scenario, other.config}, scenario.cluster.gpu.memory))
        << row.schedule;
    EXPECT_LE(row.peak_memory / row.planned_memory, 1.0 + 1e-9) << row.schedule;
    num_misfits += row.fits ? 0 : 1;
  }
  EXPECT_GT(num_misfits, 0);
}

TEST(PlanSimulation, WalksThroughASoundSchedule) {
  for (const ScheduleTraits& generator : kSchedules) {
    Plan plan = plan_39b();
    const auto conflict = change_schedule(plan, generator);
    ASSERT_EQ(conflict, std::nullopt) << generator.name << ": " << *conflict;
    const PlanSimulation simulation = simulate_plan(plan, {});
    const auto fault = find_fault(simulation.schedule);
    EXPECT_FALSE(fault.has_value()) << generator.name << ": " << fault->message();
    EXPECT_LE(static_cast<double>(num_actions(simulation.schedule)),
              num_step_actions(plan) + 100.0 * plan.config.pp);
  }
}

TEST(PlanSimulation, AddsUpToItsCriticalPath) {
  const PlanSimulation simulation = simulate_plan(plan_39b(), {});
  Seconds sum;
  for (const Seconds term : simulation.critical_path.terms) {
    sum += term;
  }
  EXPECT_LT(relative(sum, simulation.timeline.times.makespan()), 1e-9);
}

// The elasticity of a rank is the derivative of the step by its factor.
TEST(PlanSimulation, SaysWhatASlowRankCosts) {
  const Plan plan = plan_39b();
  const PlanSimulation simulation = simulate_plan(plan, {});
  constexpr double slower = 1e-5;
  double largest = 0.0;
  for (int rank = 0; rank < plan.config.pp; ++rank) {
    const Seconds step =
        simulate_plan(plan, {.stragglers = {{.rank = rank, .factor = 1.0 + slower}}}).step;
    EXPECT_NEAR((step / simulation.step - 1.0) / slower, simulation.elasticities[rank], 0.02)
        << rank;
    largest = std::max(largest, simulation.elasticities[rank]);
  }
  EXPECT_GT(largest, 0.3);  // the last stage has the logits and paces the others
}

TEST(PlanSimulation, IsTheSameForTheSameSeed) {
  const Plan plan = plan_39b();
  const auto step = [&](double sigma, std::uint64_t seed) {
    return simulate_plan(plan, {.jitter = {.sigma = sigma, .seed = seed}}).step;
  };
  EXPECT_EQ(step(0.1, 7), step(0.1, 7));
  EXPECT_NE(step(0.1, 7), step(0.1, 8));
  EXPECT_GT(step(0.1, 7), step(0.0, 7));  // a pipeline waits for whoever is late
}

TEST(PlanSimulation, RefusesARankThatThereIsNot) {
  try {
    (void)simulate_plan(plan_39b(), {.stragglers = {{.rank = 8, .factor = 2.0}}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--slow: expected a rank of the pipeline, 0 to 7, got 8");
  }
}

TEST(ScheduleComparisons, HaveARowForEverySchedule) {
  const Plan plan = plan_39b();
  const std::vector<ScheduleComparison> rows = compare_schedules(plan, {});
  ASSERT_EQ(rows.size(), kSchedules.size());
  std::map<std::string, ScheduleComparison> by_name;
  for (const ScheduleComparison& row : rows) {
    EXPECT_EQ(row.conflict, "") << row.schedule;
    by_name[row.schedule] = row;
  }
  EXPECT_EQ(by_name["1f1b"].step, simulate_plan(plan, {}).step);
  EXPECT_TRUE(by_name["1f1b"].is_run_by_stack);
  EXPECT_FALSE(by_name["zb-h1"].is_run_by_stack);
  EXPECT_LT(by_name["zb-h2"].bubble, by_name["zb-h1"].bubble);
  EXPECT_LT(by_name["zb-h1"].bubble, by_name["1f1b"].bubble);
  EXPECT_LT(by_name["v-min"].peak_memory, by_name["v-half"].peak_memory);
  EXPECT_LT(by_name["v-half"].peak_memory, by_name["1f1b"].peak_memory);
  EXPECT_LT(by_name["1f1b"].peak_memory, by_name["gpipe"].peak_memory);
  EXPECT_TRUE(by_name["pipedream"].changes_semantics);
  EXPECT_FALSE(by_name["gpipe"].changes_semantics);
}

// A plan for 1F1B is given the searched schedule of its own stages: with ZB-H1's memory and ZB-H2's
// it is no slower than these, in the simulation of the whole step.
TEST(ScheduleChanges, SearchAScheduleForThePlansDurations) {
  const auto changed = [](Plan plan, const char* schedule) {
    EXPECT_EQ(change_schedule(plan, *find_schedule(schedule)), std::nullopt);
    return plan;
  };
  const auto step_of = [](const Plan& plan) { return simulate_plan(plan, {}).step; };
  const Plan plan = plan_39b();
  const Plan large = changed(plan, "zb-auto");
  EXPECT_EQ(large.config.memory_limit, 15);  // 2 pp - 1: it fits
  ASSERT_EQ(large.schedule.ticks.size(), 8U);
  EXPECT_GT(large.schedule.ticks[1].input_gradient, large.schedule.ticks[1].forward);
  EXPECT_LE(step_of(large), step_of(changed(plan, "zb-h2")));
  Plan small = large;
  small.config.memory_limit = 8;
  small.schedule = schedule_recipe({small.scenario, small.config});
  EXPECT_LE(step_of(small), step_of(changed(plan, "zb-h1")));
  // A zb-auto plan keeps its memory limit; another schedule has none.
  EXPECT_EQ(changed(small, "zb-auto").config.memory_limit, 8);
  EXPECT_EQ(changed(small, "zb-h1").config.memory_limit, std::nullopt);
  // If ZB-H2's memory does not fit, the searched schedule has ZB-H1's.
  Plan tight = plan;
  const Bytes between = (changed(plan, "zb-h1").memory.peak() + large.memory.peak()) / 2.0;
  tight.memory_headroom = 1.0 - between / plan.scenario.cluster.gpu.memory;
  EXPECT_EQ(changed(tight, "zb-auto").config.memory_limit, 8);
}

// Nine microbatches on four ranks: groups of four would leave one over, a group of nine does not.
TEST(ScheduleComparisons, FindTheGroupSizeThatAnInterleavedScheduleTakes) {
  Plan plan = plan_under(selene_2021("39B", 9),
                         {.tp = 8, .pp = 4, .micro_batch_size = 1, .recompute = Recompute::kFull});
  EXPECT_EQ(change_schedule(plan, *find_schedule("interleaved")), std::nullopt);
  EXPECT_FALSE(find_fault(simulate_plan(plan, {}).schedule).has_value());
}

// In steady state PipeDream has no bubble. It takes m times what the busiest rank does for a
// microbatch, and after each of the 64 the optimizer with its reductions. With two versions of the
// weights the optimizer runs once.
TEST(PlanSimulation, PacesStalePipelinesByTheirBusiestRank) {
  for (const auto& [schedule, updates] :
       {std::pair("pipedream", 64), std::pair("pipedream-2bw", 1)}) {
    Plan plan = plan_39b();
    const Seconds one_update = iteration_cost({plan.scenario, plan.config}).optimizer;
    ASSERT_EQ(change_schedule(plan, *find_schedule(schedule)), std::nullopt);
    const PlanSimulation simulation = simulate_plan(plan, {});
    const CostBreakdown cost = iteration_cost({plan.scenario, plan.config});
    EXPECT_NEAR(simulation.step / cost.total(), 1.0, 1e-9) << schedule;
    EXPECT_EQ(cost.bubble, Seconds(0.0)) << schedule;
    EXPECT_NEAR(cost.optimizer / one_update, updates, 1e-9) << schedule;
  }
}

// Half of the time for which reductions run beside backward passes is lost to these: once, whether
// the passes are said to be slower or the reductions to be longer.
TEST(PlanSimulation, CountsWhatReductionsSlowDownOnceInStalePipelines) {
  Scenario scenario = selene_2021("39B", 64);
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kAlways;
  scenario.stack.overlap_slowdown = 0.5;
  const Plan plan = plan_under(scenario, {.tp = 8,
                                          .pp = 8,
                                          .dp = 4,
                                          .micro_batch_size = 1,
                                          .schedule = ScheduleKind::kPipeDream2Bw,
                                          .recompute = Recompute::kFull});
  EXPECT_LT(relative(simulate_plan(plan, {}).step, plan.predicted.iteration_time.value), 1e-9);
}

// Seven stages: DualPipe needs an even number; 39B's 48 layers are no multiple of seven.
TEST(ScheduleComparisons, SayWhyAScheduleCannotBe) {
  Plan plan = plan_39b(ScheduleKind::kOneFOneB, 1, 3);
  const auto conflict = change_schedule(plan, *find_schedule("dualpipe"));
  EXPECT_THAT(conflict.value_or(""), testing::HasSubstr("pp an even number, got 3"));
  Plan sixteen = plan_39b(ScheduleKind::kOneFOneB, 1, 16);
  EXPECT_EQ(change_schedule(sixteen, *find_schedule("zb-v")).value_or(""),
            "expects layers that 32 stages divide, got 48");
  EXPECT_EQ(sixteen.config, plan_39b(ScheduleKind::kOneFOneB, 1, 16).config);
}

}  // namespace
}  // namespace ptdp
