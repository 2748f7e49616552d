// Times the search and validation. Goals: 1T on 3072 GPUs within 5 ms, 2^20 GPUs within 1 s, two
// million fully costed candidates per second and core, all published runs within 1 s.
#include <benchmark/benchmark.h>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "planner/answer/planning.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// Times the whole search for the 1T model. Items are candidates that fit and were costed.
void search_1t(benchmark::State& state, const char* stack) {
  const Scenario scenario = shipped_scenario("1T", "selene-a100", stack);
  const SearchOptions options{.gpus = state.range(0)};
  std::int64_t costed = 0;
  while (state.KeepRunning()) {
    const SearchResult result = search(scenario, options);
    benchmark::DoNotOptimize(result.best.data());
    costed += result.feasible;
  }
  state.SetItemsProcessed(costed);
}
BENCHMARK_CAPTURE(search_1t, megatron_lm_2021, "megatron-lm-2021")
    ->Arg(384)
    ->Arg(3072)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(search_1t, megatron_lm_2022, "megatron-lm-2022")
    ->Arg(3072)
    ->Arg(1 << 20)
    ->Unit(benchmark::kMicrosecond);

/// Times the whole search for the 1T model with every schedule, whether the stack runs it or not.
/// Goal: the whole command in 100 ms.
void search_1t_all_schedules(benchmark::State& state) {
  const Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2021");
  SearchOptions options{.gpus = 3072, .space = {.ignores_stack_support = true}};
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    options.space.schedules.push_back(schedule.value);
  }
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(search(scenario, options).best.data());
  }
}
BENCHMARK(search_1t_all_schedules)->Unit(benchmark::kMillisecond);

/// Times a search for a small model on many GPUs. Nearly every candidate fits, so this is the rate
/// of full costing with the search around it.
void search_18b(benchmark::State& state) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 5040);
  std::int64_t costed = 0;
  while (state.KeepRunning()) {
    const SearchResult result = search(scenario, {.gpus = 5040});
    benchmark::DoNotOptimize(result.best.data());
    costed += result.feasible;
  }
  state.SetItemsProcessed(costed);
}
BENCHMARK(search_18b)->Unit(benchmark::kMicrosecond);

/// Times a search for a mixture of experts of 671B: 134 million candidates, of which 5.6 million
/// fit. Goal: 1 s on two cores.
void search_671b(benchmark::State& state) {
  const Scenario scenario =
      shipped_scenario("deepseek-v3", "dgx-h100", "megatron-bridge-2025", 15360);
  std::int64_t counted = 0;
  while (state.KeepRunning()) {
    const SearchResult result = search(scenario, {.gpus = 16384, .num_threads = 2});
    benchmark::DoNotOptimize(result.best.data());
    counted += result.enumerated;
  }
  state.SetItemsProcessed(counted);
}
BENCHMARK(search_671b)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Times one candidate whose microbatch costs are known: memory of the heaviest stage, and time.
void cost_one_candidate(benchmark::State& state) {
  const Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  const ParallelConfig config{.tp = 8,
                              .pp = 64,
                              .dp = 6,
                              .vpp = 2,
                              .schedule = ScheduleKind::kInterleaved,
                              .recompute = Recompute::kSelective,
                              .sequence_parallel = true,
                              .zero_stage = 1};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(peak_memory({scenario, config}));
    benchmark::DoNotOptimize(iteration_cost({scenario, config, &costs}).total());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(cost_one_candidate);

/// Times the costs that depend on (tp, b, sequence parallelism) only: 15 matrix products.
void microbatch_costs_of_one_size(benchmark::State& state) {
  const Scenario scenario = shipped_scenario("1T", "selene-a100", "megatron-lm-2022");
  while (state.KeepRunning()) {
    benchmark::DoNotOptimize(
        microbatch_costs(scenario, {.tp = 8, .sequence_parallel = true}).layers[0].forward.total());
  }
}
BENCHMARK(microbatch_costs_of_one_size);

/// Times reading and costing every published run.
void cost_published_runs(benchmark::State& state) {
  std::int64_t costed = 0;
  while (state.KeepRunning()) {
    costed += static_cast<std::int64_t>(cost_runs(read_published_runs()).costed.size());
  }
  state.SetItemsProcessed(costed);
}
BENCHMARK(cost_published_runs)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ptdp
