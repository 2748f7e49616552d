// Times whole training steps of one rank, of a GPT and of a Llama, beside what libraries' products
// would take for their floating-point operations. Also times what the executor costs per action.
#include <benchmark/benchmark.h>

#include <memory>
#include <span>
#include <string>
#include <utility>

#include "cost_model/iteration/flops.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/executor/executor.h"
#include "runtime/launch/launch.h"
#include "runtime/transport/forwarding_communicator.h"
#include "runtime/transport/solo_communicator.h"
#include "tests/benchmarks/product_rates.h"

namespace ptdp {
namespace {

/// A model and the work of a step.
struct StepShape {
  TransformerConfig model;
  std::int64_t sequences = 4;
  DataType type = DataType::kFloat32;
  double dropout = 0.0;
};

/// Returns a GPT of four layers, with heads of 64.
TransformerConfig gpt(int hidden, int seq_length) {
  return resolved({.num_layers = 4,
                   .hidden_size = hidden,
                   .num_attention_heads = hidden / 64,
                   .vocab_size = 50257,
                   .seq_length = seq_length},
                  "training_benchmark");
}

/// Returns a Llama of four layers: RMS norms, rotary positions, heads of 64, four of which share
/// keys, and gated MLPs of 2.75 times the hidden size.
TransformerConfig llama(int hidden, int seq_length) {
  return resolved({.num_layers = 4,
                   .hidden_size = hidden,
                   .num_attention_heads = hidden / 64,
                   .num_query_groups = hidden / 256,
                   .ffn_hidden_size = hidden / 4 * 11,
                   .vocab_size = 32000,
                   .seq_length = seq_length,
                   .gated_linear_unit = true,
                   .add_bias_linear = false,
                   .untied_embeddings = true,
                   .position_embedding = PositionEmbedding::kRope,
                   .normalization = Normalization::kRmsNorm},
                  "training_benchmark");
}

TrainingSettings settings_of(const StepShape& shape) {
  const ParallelConfig config{.micro_batch_size = static_cast<int>(shape.sequences)};
  const Schedule compute = find_schedule("1f1b")->generate({.num_microbatches = 1});
  return {.model = shape.model,
          .config = config,
          .schedule = complete(compute, {}),
          .stage_layers = {shape.model.num_layers},
          .global_batch_size = shape.sequences,
          .type = shape.type,
          .dropout = shape.dropout};
}

/// Times a step. of_fastest, of_products and of_openblas are the step's FLOP/s, optimizer and all,
/// over the rates of ProductRates. Attention counts its causal half. All are in seconds of the
/// core.
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
  const std::int64_t tokens = shape.sequences * shape.model.seq_length;
  const ProductRates rates = product_rates(shape.model, tokens, shape.type);
  const double flops = causal_model_flops(shape.model, shape.sequences).value() *
                       static_cast<double>(state.iterations());
  using benchmark::Counter;
  state.counters["FLOP/s"] = Counter(flops, Counter::kIsRate);
  state.counters["of_fastest"] = Counter(flops / rates.fastest, Counter::kIsRate);
  state.counters["of_products"] = Counter(flops / rates.chosen, Counter::kIsRate);
  if (rates.open_blas > 0.0) {
    state.counters["openblas"] = Counter(rates.open_blas);
    state.counters["of_openblas"] = Counter(flops / rates.open_blas, Counter::kIsRate);
  }
  state.counters["fastest"] = Counter(rates.fastest);
  state.counters["products"] = Counter(rates.chosen);
  state.counters["tokens/s"] =
      Counter(static_cast<double>(state.iterations() * tokens), Counter::kIsRate);
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

BENCHMARK_CAPTURE(step, gpt_h1024_s512_b4_f32, StepShape{.model = gpt(1024, 512)})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, llama_h1024_s512_b4_f32, StepShape{.model = llama(1024, 512)})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt_h1024_s512_b1_f32, StepShape{.model = gpt(1024, 512), .sequences = 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, llama_h1024_s512_b1_f32,
                  StepShape{.model = llama(1024, 512), .sequences = 1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt_h1024_s512_b4_f32_dropout,
                  StepShape{.model = gpt(1024, 512), .dropout = 0.1})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt_h1024_s512_b4_bf16,
                  StepShape{.model = gpt(1024, 512), .type = DataType::kBFloat16})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, llama_h1024_s512_b4_bf16,
                  StepShape{.model = llama(1024, 512), .type = DataType::kBFloat16})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(step, gpt_h512_s256_b8_f32, StepShape{.model = gpt(512, 256), .sequences = 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(executor_overhead, 1f1b, ScheduleKind::kOneFOneB)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(executor_overhead, zb_h1, ScheduleKind::kZbH1)->Unit(benchmark::kMillisecond);

}  // namespace ptdp
