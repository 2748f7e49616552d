// Times the simulator. Goals: 50 million actions per second on one core, 5 million with contention.
// With messages, p = 64, m = 512, v = 2 within 2 ms, and p = 1024, m = 4096 within 500 ms.
#include <benchmark/benchmark.h>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/simulation/analysis/critical_path.h"
#include "cost_model/simulation/engine/step_simulator.h"

namespace ptdp {
namespace {

Schedule schedule_of(const benchmark::State& state) {
  const ScheduleShape shape{.pp = static_cast<int>(state.range(0)),
                            .vpp = static_cast<int>(state.range(2)),
                            .num_microbatches = static_cast<int>(state.range(1))};
  return shape.vpp > 1 ? interleaved(shape) : one_f_one_b(shape);
}

/// Times passes alone. Items are actions; arguments p, m, v, and whether messages take time.
void simulate_schedule(benchmark::State& state) {
  const Schedule schedule = schedule_of(state);
  // Every stage has its own length, so that nothing happens at the same time by construction.
  std::vector<StageDurations> durations;
  durations.reserve(static_cast<std::size_t>(num_stages(schedule)));
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    durations.push_back(
        stage_durations(Seconds(1.0 + 0.001 * (stage % 7)), Seconds(1.2), Seconds(0.8)));
  }
  const Seconds latency(state.range(3) != 0 ? 0.01 : 0.0);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(simulate(schedule, durations, latency).makespan());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(simulate_schedule)
    ->Args({8, 64, 1, 0})
    ->Args({64, 512, 1, 0})
    ->Args({64, 512, 2, 0})
    ->Args({64, 512, 2, 1})
    ->Args({1024, 4096, 1, 0})
    ->Args({1024, 4096, 1, 1})
    ->Unit(benchmark::kMicrosecond);

/// Returns times with stages of their own lengths, and messages within nodes of 8 ranks and between
/// them.
StepTimes step_times_of(const Schedule& schedule) {
  StepTimes times;
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    times.stages.push_back(
        stage_durations(Seconds(1.0 + 0.001 * (stage % 7)), Seconds(1.2), Seconds(0.8)));
  }
  times.within_node = {Seconds(0.001), Seconds(0.01)};
  times.across_nodes = {Seconds(0.002), Seconds(0.05)};
  for (int rank = 0; rank < schedule.pp; ++rank) {
    times.node_of.push_back(rank / 8);
  }
  times.reductions = {{Seconds(0.01), Seconds(0.1)}};
  times.optimizer = {Seconds(1.0)};
  return times;
}

/// Times complete steps. Items are actions, sends and receives included; arguments p, m, v.
void simulate_complete_step(benchmark::State& state) {
  const Schedule schedule = complete(schedule_of(state), {.gradient_buckets = {4}});
  const StepTimes times = step_times_of(schedule);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(simulate_step_times(schedule, times).makespan());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(simulate_complete_step)
    ->Args({8, 64, 1})
    ->Args({64, 512, 2})
    ->Args({1024, 4096, 1})
    ->Unit(benchmark::kMicrosecond);

void simulate_step_with_spans(benchmark::State& state) {
  const Schedule schedule = complete(schedule_of(state), {.gradient_buckets = {4}});
  const StepTimes times = step_times_of(schedule);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(simulate_step(schedule, times).times.makespan());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(simulate_step_with_spans)
    ->Args({64, 512, 2})
    ->Args({1024, 4096, 1})
    ->Unit(benchmark::kMicrosecond);

/// Times steps whose messages share links. Arguments p, m, v, and a message's time in percent of a
/// forward pass: the longer it is, the more messages share links.
void simulate_contended_step(benchmark::State& state) {
  const Schedule schedule = complete(schedule_of(state), {.gradient_buckets = {4}});
  StepTimes times = step_times_of(schedule);
  times.across_nodes.transfer = Seconds(0.01 * static_cast<double>(state.range(3)));
  times.within_node.transfer = times.across_nodes.transfer;
  times.shares_links = true;
  times.overlap_slowdown = 0.1;
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(simulate_step_times(schedule, times).makespan());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(simulate_contended_step)
    ->Args({8, 64, 1, 5})
    ->Args({64, 512, 2, 5})
    ->Args({64, 512, 2, 80})
    ->Args({1024, 1024, 1, 5})
    ->Args({1024, 1024, 1, 80})
    ->Unit(benchmark::kMicrosecond);

/// Times the walk back along the critical path alone.
void find_critical_path(benchmark::State& state) {
  const Schedule schedule = complete(schedule_of(state), {.gradient_buckets = {4}});
  const StepTimes times = step_times_of(schedule);
  const Timeline timeline = simulate_step(schedule, times);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(critical_path(schedule, times, timeline).steps.size());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(find_critical_path)->Args({64, 512, 2})->Unit(benchmark::kMicrosecond);

void generate_schedule(benchmark::State& state) {
  std::int64_t actions = 0;
  while (state.KeepRunning()) {
    actions += num_actions(schedule_of(state));
  }
  state.SetItemsProcessed(actions);
}
BENCHMARK(generate_schedule)->Args({64, 512, 2, 0})->Unit(benchmark::kMicrosecond);

void validate_schedule(benchmark::State& state) {
  const Schedule schedule = schedule_of(state);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(find_fault(schedule).has_value());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(validate_schedule)->Args({64, 512, 2, 0})->Unit(benchmark::kMicrosecond);

const StepActions& whole_step() {
  static const StepActions step{.gradient_buckets = {4}, .gathers_parameters = true};
  return step;
}

void complete_schedule(benchmark::State& state) {
  const Schedule schedule = schedule_of(state);
  std::int64_t actions = 0;
  while (state.KeepRunning()) {
    actions += num_actions(complete(schedule, whole_step()));
  }
  state.SetItemsProcessed(actions);
}
BENCHMARK(complete_schedule)
    ->Args({64, 512, 2, 0})
    ->Args({1024, 4096, 1, 0})
    ->Unit(benchmark::kMillisecond);

void validate_complete_schedule(benchmark::State& state) {
  const Schedule schedule = complete(schedule_of(state), whole_step());
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(find_fault(schedule).has_value());
  }
  state.SetItemsProcessed(state.iterations() * num_actions(schedule));
}
BENCHMARK(validate_complete_schedule)
    ->Args({64, 512, 2, 0})
    ->Args({1024, 4096, 1, 0})
    ->Unit(benchmark::kMillisecond);

/// Times the search for zb-auto. Arguments p, m and the memory limit; stages are uneven, so that
/// the search uses its budget.
void search_zb_auto(benchmark::State& state) {
  ScheduleShape shape{.pp = static_cast<int>(state.range(0)),
                      .num_microbatches = static_cast<int>(state.range(1)),
                      .message_ticks = 10,
                      .memory_limit = static_cast<int>(state.range(2))};
  for (int rank = 0; rank < shape.pp; ++rank) {
    shape.ticks.push_back({1000 + 7 * (rank % 5), 1200 - 11 * (rank % 7), 800 + 13 * (rank % 3)});
  }
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(find_schedule("zb-auto")->generate(shape).orders.data());
  }
}
BENCHMARK(search_zb_auto)
    ->Args({8, 64, 8})
    ->Args({8, 64, 15})
    ->Args({64, 512, 64})
    ->Args({64, 512, 127})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ptdp
