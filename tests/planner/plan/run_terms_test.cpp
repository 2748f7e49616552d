// Tests of the terms into which a run's time is split.
#include "planner/plan/run_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "cost_model/iteration/reduction_and_optimizer.h"
#include "planner/plan/plan_simulation.h"
#include "tests/planner/fake_machine.h"

namespace ptdp {
namespace {

Scenario host_of_short_sequences() {
  return host_scenario(small_model(128, 64), 16);
}

Plan plan_of(const ParallelConfig& config) {
  return make_plan({host_of_short_sequences(), config}, config.world_size(), 0.0, Calibration{});
}

ParallelConfig scheduled(ScheduleKind schedule, int vpp = 1) {
  ParallelConfig config = layout(1, 2, 1);
  config.schedule = schedule;
  config.vpp = vpp;
  return config;
}

TEST(PredictedRunTerms, AddUpToTheIteration) {
  ParallelConfig recomputing = layout(1, 2, 1);
  recomputing.recompute = Recompute::kFull;
  ParallelConfig sharded = layout(1, 1, 2);
  sharded.zero_stage = 1;
  ParallelConfig gradients = sharded;
  gradients.zero_stage = 2;
  ParallelConfig weights = sharded;
  weights.zero_stage = 3;
  for (const ParallelConfig& config : {layout(1, 1, 1), layout(2, 1, 1), layout(1, 2, 1),
                                       layout(1, 1, 2), recomputing, sharded, gradients, weights}) {
    const Plan plan = plan_of(config);
    for (int stage = 0; stage < config.pp; ++stage) {
      const RunTerms terms = predicted_run_terms(plan, stage);
      EXPECT_NEAR((terms.own() + terms[RunTerm::kBubble]) / plan.predicted.iteration_time.value,
                  1.0, 1e-12)
          << to_string(config) << " stage " << stage;
    }
  }
}

// Two microbatches per replica: each reduces, ZeRO-3 gathers in two passes what ZeRO-2 does once.
TEST(OwnRunTerms, CountWhatPassesReduceAndGather) {
  ParallelConfig config = layout(1, 1, 2);
  const auto time_of = [&](int zero, std::int64_t batch) {
    config.zero_stage = zero;
    Scenario scenario = host_of_short_sequences();
    scenario.job.global_batch_size = batch * config.micro_batch_size * config.dp;
    return own_run_terms({scenario, config}, 0)[RunTerm::kDataParallel];
  };
  EXPECT_NEAR((time_of(3, 4) / time_of(3, 2)), 2.0, 1e-9);
  const Seconds reduced = time_of(2, 3) - time_of(2, 2);
  EXPECT_GT(reduced, Seconds(0.0));
  EXPECT_GT(time_of(2, 2) - 2.0 * reduced, Seconds(0.0));
  EXPECT_GT(time_of(3, 2), time_of(2, 2));
}

// Nobody waits there for another stage. Exactly: what rounding leaves would be printed as a term.
TEST(PredictedRunTerms, HaveNoBubbleWithoutAPipeline) {
  for (const ParallelConfig& config : {layout(1, 1, 1), layout(2, 1, 1), layout(1, 1, 2)}) {
    for (int size = 1; size <= 8; size *= 2) {
      ParallelConfig sized = config;
      sized.micro_batch_size = size;
      EXPECT_EQ(predicted_run_terms(plan_of(sized), 0)[RunTerm::kBubble], Seconds(0.0))
          << to_string(sized);
    }
  }
}

// What is computed again is the forward pass of the layers, product by product.
TEST(OwnRunTerms, CountRecomputationByWhatItComputes) {
  ParallelConfig recomputing = layout(1, 1, 1);
  recomputing.recompute = Recompute::kFull;
  const RunTerms without = own_run_terms({host_of_short_sequences(), layout(1, 1, 1)}, 0);
  const RunTerms with = own_run_terms({host_of_short_sequences(), recomputing}, 0);
  const PassTime forward =
      microbatch_costs(host_of_short_sequences(), recomputing).layers[0].forward * (4.0 * 16.0);
  EXPECT_NEAR((with[RunTerm::kMatmul] - without[RunTerm::kMatmul]) / forward.matmul, 1.0, 1e-9);
  EXPECT_NEAR((with[RunTerm::kAttention] - without[RunTerm::kAttention]) / forward.attention, 1.0,
              1e-9);
  EXPECT_NEAR((with[RunTerm::kMemoryBound] - without[RunTerm::kMemoryBound]) /
                  (forward.memory_bound + forward.launch),
              1.0, 1e-9);
}

TEST(OwnRunTerms, CountTheLogitsAmongProducts) {
  const RunTerms last = own_run_terms({host_of_short_sequences(), layout(1, 2, 1)}, 1);
  const RunTerms first = own_run_terms({host_of_short_sequences(), layout(1, 2, 1)}, 0);
  const Seconds logits = microbatch_costs(host_of_short_sequences(), layout(1, 2, 1)).logits.matmul;
  EXPECT_NEAR((last[RunTerm::kMatmul] - first[RunTerm::kMatmul]) / (16.0 * logits), 1.0, 1e-9);
}

// Every placement has as many sends as the schedule that is run.
TEST(OwnRunTerms, CountTheSendsOfTheSchedule) {
  for (const ParallelConfig& config :
       {scheduled(ScheduleKind::kOneFOneB), scheduled(ScheduleKind::kInterleaved, 2),
        scheduled(ScheduleKind::kZbV, 2), scheduled(ScheduleKind::kDualPipe),
        scheduled(ScheduleKind::kZbH1)}) {
    const Plan plan = plan_of(config);
    const Schedule schedule = complete_schedule(plan);
    const PlannedJob job(plan.scenario, plan.config);
    const Seconds each = exchange_time(job, job.groups(), /*messages=*/1.0);
    for (int stage = 0; stage < 2; ++stage) {
      const auto& order = schedule.orders[static_cast<std::size_t>(stage)];
      const auto sends = std::count_if(order.begin(), order.end(), [](const Action& action) {
        return action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
      });
      EXPECT_NEAR(
          own_run_terms({host_of_short_sequences(), config}, stage)[RunTerm::kPipelineMessages] /
              each,
          static_cast<double>(sends), 1e-9)
          << to_string(config) << " stage " << stage;
    }
  }
}

// 1.25 times what each takes by itself; what is left of the iteration is the bubble.
TEST(PredictedRunTerms, AreCalibratedAsTheIterationIs) {
  const ParallelConfig config = layout(2, 2, 2);
  const Plan plan = make_plan({host_of_short_sequences(), config}, 8, 0.0,
                              {.support = {.num_runs = 3}, .factor = 1.25});
  for (int stage = 0; stage < 2; ++stage) {
    const RunTerms own = own_run_terms({host_of_short_sequences(), config}, stage);
    const RunTerms terms = predicted_run_terms(plan, stage);
    for (int term = 0; term < kNumRunTerms; ++term) {
      if (RunTerm(term) != RunTerm::kBubble) {
        EXPECT_GT(own[RunTerm(term)], Seconds(0.0)) << kRunTermNames[term];
        EXPECT_NEAR(terms[RunTerm(term)] / own[RunTerm(term)], 1.25, 1e-9) << kRunTermNames[term];
      }
    }
  }
}

// Only groups of more than one rank take time, and only a pipeline ties its ends.
TEST(OwnRunTerms, AreOfGroupsThatThereAre) {
  const auto has = [](const ParallelConfig& config, RunTerm term) {
    return own_run_terms({host_of_short_sequences(), config}, 0)[term] > Seconds(0.0);
  };
  for (const auto& [tp, pp, dp] : {std::tuple(1, 1, 1), std::tuple(2, 1, 1), std::tuple(1, 2, 1),
                                   std::tuple(1, 1, 2), std::tuple(2, 2, 2)}) {
    const ParallelConfig config = layout(tp, pp, dp);
    EXPECT_EQ(has(config, RunTerm::kTensorParallel), tp > 1) << to_string(config);
    EXPECT_EQ(has(config, RunTerm::kPipelineMessages), pp > 1) << to_string(config);
    EXPECT_EQ(has(config, RunTerm::kEmbeddingAllReduce), pp > 1) << to_string(config);
    EXPECT_EQ(has(config, RunTerm::kDataParallel), dp > 1) << to_string(config);
    EXPECT_TRUE(has(config, RunTerm::kOptimizer));
  }
  Scenario untied = host_of_short_sequences();
  untied.job.model.untied_embeddings = true;
  EXPECT_EQ(own_run_terms({untied, layout(1, 2, 1)}, 0)[RunTerm::kEmbeddingAllReduce],
            Seconds(0.0));
}

// Two more sequences of 64 tokens of 128 numbers of 4 bytes over a link; of two ranks each sends
// half where the stack scatters them, or keeps sequences apart.
TEST(SendTime, GrowsByTheBytesOfAMessage) {
  Scenario scenario = host_of_short_sequences();
  scenario.cluster.message_curve = {};
  const auto two_more = [&](int tp, bool scatters, bool sequence_parallel) {
    scenario.stack.scatter_gather = scatters;
    ParallelConfig config = layout(tp, 2, 1);
    config.sequence_parallel = sequence_parallel;
    const Seconds before = send_time({scenario, config});
    config.micro_batch_size = 3;
    return (send_time({scenario, config}) - before) *
           (scenario.cluster.nvlink.effective_bandwidth().value() / (2.0 * 64 * 128 * 4));
  };
  EXPECT_NEAR(two_more(1, true, false).value(), 1.0, 1e-9);
  EXPECT_NEAR(two_more(2, true, false).value(), 0.5, 1e-9);
  EXPECT_NEAR(two_more(2, false, false).value(), 1.0, 1e-9);
  EXPECT_NEAR(two_more(2, false, true).value(), 0.5, 1e-9);
}

}  // namespace
}  // namespace ptdp
