// Measures and simulates what running messages, reductions and gathers beside compute gains over a
// slow link. The link takes no processor time: the ranks sleep while it is busy.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/measured/quantile.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/engine/step_simulator.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/forwarding_communicator.h"

namespace ptdp {
namespace {

constexpr double kLinkBytesPerSecond = 1e9;
constexpr int kSteps = 7;
constexpr int kBuckets = 8;

void occupy_link(double bytes) {
  std::this_thread::sleep_for(std::chrono::duration<double>(bytes / kLinkBytesPerSecond));
}

/// A communicator whose sends and collectives first take the time of a slow link, collectives as
/// long as their bytes.
class SlowLink final : public ForwardingCommunicator {
 public:
  explicit SlowLink(std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)) {}

  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return std::make_unique<SlowLink>(ForwardingCommunicator::group(ranks, tag));
  }
  [[nodiscard]] Request send(Buffer buffer, int to) override {
    occupy_link(static_cast<double>(buffer.bytes()));
    return ForwardingCommunicator::send(buffer, to);
  }
  void all_reduce(Buffer whole, Reduction reduction) override {
    take_turn(2.0, whole);
    ForwardingCommunicator::all_reduce(whole, reduction);
  }
  void reduce_scatter(Buffer whole) override {
    take_turn(1.0, whole);
    ForwardingCommunicator::reduce_scatter(whole);
  }
  void all_gather(Buffer whole) override {
    take_turn(1.0, whole);
    ForwardingCommunicator::all_gather(whole);
  }

 private:
  void take_turn(double passes, const Buffer& whole) {
    if (size() > 1) {
      occupy_link(passes * static_cast<double>(whole.bytes()) * (size() - 1) / size());
    }
  }
};

struct Case {
  ParallelConfig config;
  int microbatches = 4;
  MessageMode messages = MessageMode::kBlocking;
  DataMode data = DataMode::kBlocking;
};

TrainingSettings settings_of(const Case& what) {
  const TransformerConfig model = resolved({.num_layers = 16,
                                            .hidden_size = 256,
                                            .num_attention_heads = 4,
                                            .vocab_size = 512,
                                            .seq_length = 128,
                                            .untied_embeddings = true},
                                           "overlap_benchmark");
  const std::string name(name_of(what.config.schedule, NamedValues<ScheduleKind>(kScheduleNames)));
  const Schedule compute = find_schedule(name)->generate(
      {.pp = what.config.pp, .vpp = what.config.vpp, .num_microbatches = what.microbatches});
  const int stages = what.config.pp * what.config.vpp;
  const bool has_replicas = what.config.dp > 1;
  return {
      .model = model,
      .config = what.config,
      .schedule = complete(
          compute, {.gradient_buckets = has_replicas ? std::vector{kBuckets} : std::vector<int>{},
                    .gathers_parameters = has_replicas && what.config.zero_stage > 0}),
      .stage_layers = std::vector<int>(static_cast<std::size_t>(stages), 16 / stages),
      .global_batch_size =
          std::int64_t{1} * what.microbatches * what.config.dp * what.config.micro_batch_size,
      .messages = what.messages,
      .data = what.data};
}

/// Returns the records of all ranks' steps.
std::vector<RankRecord> run(const Case& what) {
  const TrainingSettings settings = settings_of(what);
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, 1);
  const auto ranks = static_cast<int>(what.config.world_size());
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks));
  run_ranks(
      {.size = ranks, .make_backend = [] { return std::make_unique<CpuBackend>(); }},
      [&](Communicator& world, Backend& backend) {
        std::vector<int> all(static_cast<std::size_t>(world.size()));
        std::iota(all.begin(), all.end(), 0);
        SlowLink slow(world.group(all, 0));
        Executor executor(backend, slow, settings, data);
        for (int step = 0; step < kSteps; ++step) {
          records[static_cast<std::size_t>(world.rank())].steps.push_back(executor.run_step());
        }
      });
  return records;
}

double step_time(const std::vector<RankRecord>& records) {
  std::vector<double> times;
  for (const StepRecord& step : records.front().steps) {
    times.push_back((step.step.end - step.step.start).value());
  }
  return median(std::move(times));
}

/// Returns the simulator's time of a step with the durations that a run measured [s].
double simulated_time(const Case& what, const std::vector<RankRecord>& measured) {
  const TrainingSettings settings = settings_of(what);
  const Schedule& schedule = settings.schedule;
  std::map<std::pair<ActionKind, int>, std::vector<double>> durations;
  for (std::size_t rank = 0; rank < measured.size(); ++rank) {
    const auto& order = schedule.orders[rank / static_cast<std::size_t>(what.config.dp)];
    for (const StepRecord& step : measured[rank].steps) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        durations[{order[i].kind, order[i].stage}].push_back(
            (step.actions[i].end - step.actions[i].start).value());
      }
    }
  }
  const auto typical = [&](ActionKind kind, int stage) {
    const auto found = durations.find({kind, stage});
    return Seconds(found == durations.end() ? 0.0 : median(found->second));
  };
  StepTimes times{.messages = what.messages, .data = what.data};
  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    const Seconds backward = typical(ActionKind::kBackward, stage);
    times.stages.push_back({.forward = typical(ActionKind::kForward, stage), .backward = backward});
    times.reductions.push_back({.transfer = typical(ActionKind::kReduceGradients, stage)});
    times.gathers.push_back({.transfer = typical(ActionKind::kGatherParameters, stage)});
  }
  times.within_node.transfer = typical(ActionKind::kSendForward, 0);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    times.optimizer.push_back(typical(ActionKind::kOptimizer, rank));
  }
  return simulate_step(schedule, times).times.makespan().value();
}

/// Times a run with and without overlap. `gain` is the time without over the time with; the
/// simulated gain uses the actions measured without overlap.
void overlap(benchmark::State& state, const Case& with) {
  Case without = with;
  without.messages = MessageMode::kBlocking;
  without.data =
      with.data == DataMode::kOverlapped ? DataMode::kBlockingGathers : DataMode::kBlocking;
  if (with.config.zero_stage == 0) {
    without.data = DataMode::kBlocking;
  }
  double time = 0.0;
  double blocking = 0.0;
  std::vector<RankRecord> measured;
  while (state.KeepRunning()) {
    measured = run(without);
    blocking = step_time(measured);
    time = step_time(run(with));
  }
  state.counters["without_ms"] = 1e3 * blocking;
  state.counters["with_ms"] = 1e3 * time;
  state.counters["gain"] = blocking / time;
  state.counters["simulated_gain"] =
      simulated_time(without, measured) / simulated_time(with, measured);
}

}  // namespace

BENCHMARK_CAPTURE(overlap, reductions, Case{.config = {.dp = 2}, .data = DataMode::kOverlapped})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(overlap, gathers,
                  Case{.config = {.dp = 2, .zero_stage = 1}, .data = DataMode::kOverlapped})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(overlap, messages_interleaved,
                  Case{.config = {.pp = 2,
                                  .vpp = 4,
                                  .micro_batch_size = 2,
                                  .schedule = ScheduleKind::kInterleaved},
                       .microbatches = 8,
                       .messages = MessageMode::kOverlapped})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(overlap, messages_gpipe,
                  Case{.config = {.pp = 2, .micro_batch_size = 2, .schedule = ScheduleKind::kGPipe},
                       .microbatches = 8,
                       .messages = MessageMode::kOverlapped})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace ptdp
