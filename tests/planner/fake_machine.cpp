#include "tests/planner/fake_machine.h"

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/step_builder.h"
#include "planner/plan/plan_simulation.h"
#include "planner/plan/run_terms.h"

namespace ptdp {
namespace {

double seconds_of(const TransferTime& time) {
  return (time.latency + time.transfer).value();
}

/// Returns the actions that meet other ranks, each as long as the machine takes for it.
std::vector<ActionComparison> actions_on(const Scenario& machine, const ParallelConfig& config) {
  const StepTimes times = step_times({machine, config});
  std::vector<ActionComparison> actions;
  const auto add = [&](ActionKind kind, int stage, std::int64_t count, double seconds) {
    actions.push_back({.kind = std::string(spelling_of(kind)),
                       .stage = stage,
                       .count = count,
                       .time = {.measured = Seconds(seconds)}});
  };
  const std::int64_t microbatches = num_microbatches(machine.job.global_batch_size, config);
  for (int stage = 0; stage < config.pp; ++stage) {
    if (stage + 1 < config.pp) {
      add(ActionKind::kSendForward, stage, microbatches, send_time({machine, config}).value());
    }
    if (config.dp > 1) {
      add(ActionKind::kReduceGradients, stage, 1, seconds_of(times.reductions[stage]));
    }
  }
  return actions;
}

}  // namespace

TransformerConfig small_model(int hidden_size, int seq_length) {
  return resolved({.num_layers = 4,
                   .hidden_size = hidden_size,
                   .num_attention_heads = hidden_size / 32,
                   .vocab_size = 1024,
                   .seq_length = seq_length},
                  "test");
}

Scenario host_scenario(const TransformerConfig& model, std::int64_t batch) {
  return {.job = {.model_name = "small", .model = model, .global_batch_size = batch},
          .cluster = find_cluster("host"),
          .stack = find_stack("ptdp-cpu")};
}

double seconds_on(const Scenario& machine, const Scenario& job, const ParallelConfig& config) {
  Scenario actual = machine;
  actual.job = job.job;
  return iteration_cost({actual, config}).total().value();
}

NamedReport run_on(const Scenario& actual, const Scenario& believed, const ParallelConfig& config,
                   const std::string& name) {
  Scenario machine = actual;
  machine.job = believed.job;
  const Plan plan = make_plan({believed, config}, config.world_size(), 0.0, Calibration{});
  RunReport report{.plan = plan};
  report.execution = {.ranks = config.world_size(),
                      .requested_steps = 12,
                      .steps = 12,
                      .warm_up = 2,
                      .data = "synthetic",
                      .basis = "a test",
                      .model = believed.job.model,
                      .global_batch_size = believed.job.global_batch_size,
                      .dp = config.dp};
  report.predicted_time = plan.predicted.iteration_time;
  report.measured_time = report.fastest = report.slowest =
      Seconds(seconds_on(machine, believed, config));
  const RunTerms measured = own_run_terms({machine, config}, 0);
  const RunTerms predicted = predicted_run_terms(plan, 0);
  for (int term = 0; term < kNumRunTerms; ++term) {
    report.terms.push_back({.name = std::string(kRunTermNames[static_cast<std::size_t>(term)]),
                            .time = {predicted[RunTerm(term)], measured[RunTerm(term)]}});
  }
  report.actions = actions_on(machine, config);
  return {.name = name, .report = report};
}

ParallelConfig layout(int tp, int pp, int dp, int micro_batch_size) {
  return {.tp = tp, .pp = pp, .dp = dp, .micro_batch_size = micro_batch_size};
}

std::vector<NamedReport> campaign(const Scenario& actual, const Scenario& believed) {
  std::vector<NamedReport> runs;
  for (const int hidden_size : {64, 256}) {
    Scenario planned = believed;
    planned.job.model = small_model(hidden_size, hidden_size == 64 ? 256 : 64);
    for (const ParallelConfig& config :
         {layout(1, 1, 1, 4), layout(2, 1, 1, 2), layout(1, 2, 1), layout(1, 1, 2)}) {
      runs.push_back(
          run_on(actual, planned, config, "run" + std::to_string(runs.size()) + ".json"));
    }
  }
  return runs;
}

}  // namespace ptdp
