// Times a whole training step of one rank beside what the best library's products would take for
// its floating-point operations. Also times what the executor costs per action.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "cost_model/iteration/flops.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/forwarding_communicator.h"
#include "runtime/transport/solo_communicator.h"

namespace ptdp {
namespace {

/// Returns the rate of the fastest library on the products of a layer [FLOP/s].
double library_rate(DataType type, std::int64_t tokens, std::int64_t hidden) {
  CpuBackend backend;
  Products products(backend, best_kernels());
  const auto random = [&](std::int64_t size) {
    Tensor tensor(backend, type, size);
    backend.fill_normal(tensor, {.rows = 1, .columns = size, .total_columns = size}, 1, 1.0);
    return tensor;
  };
  const Tensor a = random(tokens * 4 * hidden);
  const Tensor b = random(4 * hidden * hidden);
  const Tensor c = random(tokens * 4 * hidden);
  double best = 0.0;
  for (const ProductEngine engine : product_engines(type)) {
    for (const Matmul& shape : {Matmul{.m = tokens, .n = 4 * hidden, .k = hidden},
                                Matmul{.m = tokens, .n = hidden, .k = 4 * hidden},
                                Matmul{.m = hidden, .n = hidden, .k = hidden}}) {
      double fastest = 1e30;
      for (int i = 0; i < 5; ++i) {
        const Event start = backend.record();
        products.multiply_by(engine, shape, a, b, c);
        fastest = std::min(fastest, backend.seconds_between(start, backend.record()));
      }
      best = std::max(best, 2.0 * static_cast<double>(shape.m * shape.n * shape.k) / fastest);
    }
  }
  return best;
}

struct StepShape {
  int num_layers = 4;
  int hidden_size = 1024;
  int seq_length = 512;
  std::int64_t sequences = 4;
  DataType type = DataType::kFloat32;
  double dropout = 0.0;
};

TrainingSettings settings_of(const StepShape& shape) {
  const TransformerConfig model = resolved({.num_layers = shape.num_layers,
                                            .hidden_size = shape.hidden_size,
                                            .num_attention_heads = shape.hidden_size / 64,
                                            .vocab_size = 50257,
                                            .seq_length = shape.seq_length},
                                           "training_benchmark");
  const ParallelConfig config{.micro_batch_size = static_cast<int>(shape.sequences)};
  const Schedule compute = find_schedule("1f1b")->generate({.num_microbatches = 1});
  return {.model = model,
          .config = config,
          .schedule = complete(compute, {}),
          .stage_layers = {shape.num_layers},
          .global_batch_size = shape.sequences,
          .type = shape.type,
          .dropout = shape.dropout};
}

/// Returns the FLOPs of a step; those of attention are of the causal half.
double causal_flops(const TrainingSettings& settings) {
  const TransformerConfig& model = settings.model;
  const double s = model.seq_length;
  const auto batch = static_cast<double>(settings.global_batch_size);
  const double whole_attention = 12.0 * batch * s * s * model.num_layers * model.hidden_size;
  return model_flops(model, settings.global_batch_size).value() - 0.5 * whole_attention;
}

/// Times a step. of_library: the step's FLOP/s, optimizer and all, over those of the library's
/// products.
void step(benchmark::State& state, const StepShape& shape) {
  const TrainingSettings settings = settings_of(shape);
  const TrainingData data =
      TrainingData::synthetic(settings.model.vocab_size, settings.model.seq_length, 1);
  CpuBackend backend;
  SoloCommunicator world(0, 1);
  Executor executor(backend, world, settings, data);
  static_cast<void>(executor.run_step());
  while (state.KeepRunning()) {
    static_cast<void>(executor.run_step());
  }
  const double rate =
      library_rate(shape.type, shape.sequences * shape.seq_length, shape.hidden_size);
  const double flops = causal_flops(settings) * static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(flops, Counter::kIsRate);
  state.counters["library"] = Counter(rate);
  state.counters["of_library"] = Counter(flops / rate, Counter::kIsRate);
  state.counters["tokens/s"] =
      Counter(static_cast<double>(state.iterations() * shape.sequences * shape.seq_length),
              Counter::kIsRate);
}

/// The communicator of one rank of a pipeline alone: what it receives is there at once, and zero.
class ZeroCommunicator final : public ForwardingCommunicator {
 public:
  ZeroCommunicator(Backend& backend, std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(std::move(inner)), backend_(backend) {}

  [[nodiscard]] std::unique_ptr<Communicator> group(std::span<const int> ranks, int tag) override {
    return std::make_unique<ZeroCommunicator>(backend_, ForwardingCommunicator::group(ranks, tag));
  }
  [[nodiscard]] Request receive(Buffer buffer, int from) override {
    backend_.fill(buffer, 0.0);
    return ForwardingCommunicator::receive(buffer, from);
  }

 private:
  Backend& backend_;
};

/// Times the executor itself on one rank of a pipeline of four with free messages. per_action is
/// the step's time outside of its actions, divided by their number.
void executor_overhead(benchmark::State& state, ScheduleKind kind) {
  const TransformerConfig model = resolved({.num_layers = 4,
                                            .hidden_size = 16,
                                            .num_attention_heads = 2,
                                            .vocab_size = 64,
                                            .seq_length = 4},
                                           "training_benchmark");
  const int microbatches = 256;
  const ParallelConfig config{.pp = 4, .schedule = kind};
  const std::string name(name_of(kind, NamedValues<ScheduleKind>(kScheduleNames)));
  const Schedule compute =
      find_schedule(name)->generate({.pp = 4, .num_microbatches = microbatches});
  const TrainingSettings settings{.model = model,
                                  .config = config,
                                  .schedule = complete(compute, {}),
                                  .stage_layers = {1, 1, 1, 1},
                                  .global_batch_size = microbatches};
  const TrainingData data = TrainingData::synthetic(model.vocab_size, model.seq_length, 1);
  CpuBackend backend;
  ZeroCommunicator world(backend, std::make_unique<SoloCommunicator>(1, 4));
  Executor executor(backend, world, settings, data);
  double beside = 0.0;
  while (state.KeepRunning()) {
    const StepRecord record = executor.run_step();
    double inside = 0.0;
    for (const Span& span : record.actions) {
      inside += (span.end - span.start).value();
    }
    beside += (record.step.end - record.step.start).value() - inside;
  }
  const auto actions = static_cast<double>(settings.schedule.orders[1].size());
  state.counters["actions"] = actions;
  state.counters["per_action"] = beside / actions / static_cast<double>(state.iterations());
}

}  // namespace

BENCHMARK_CAPTURE(step, h1024_s512_b4_f32, StepShape{})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, h1024_s512_b4_f32_dropout, StepShape{.dropout = 0.1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, h1024_s512_b4_bf16, StepShape{.type = DataType::kBFloat16})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, h512_s256_b8_f32,
                  StepShape{.hidden_size = 512, .seq_length = 256, .sequences = 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(executor_overhead, 1f1b, ScheduleKind::kOneFOneB)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(executor_overhead, zb_h1, ScheduleKind::kZbH1)->Unit(benchmark::kMillisecond);

}  // namespace ptdp
