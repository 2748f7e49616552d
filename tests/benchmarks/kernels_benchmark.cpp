// Times the host's operations on one core, each beside what the core could do: multiply-adds in
// registers for products and attention, copying for what moves memory.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"
#include "tests/benchmarks/processor_peak.h"

namespace ptdp {
namespace {

constexpr std::array<DataType, 4> kTypes = {DataType::kFloat64, DataType::kFloat32,
                                            DataType::kBFloat16, DataType::kFloat16};

/// Returns a buffer of small numbers.
Tensor random_tensor(Backend& backend, DataType type, std::int64_t size) {
  Tensor tensor(backend, type, size);
  backend.fill_normal(tensor, {.rows = 1, .columns = size, .total_columns = size}, 1, 1.0);
  return tensor;
}

/// Counts multiply-adds per second, and their share of what vectors of the accumulator's type
/// allow. bf16 products may exceed 1, because their instructions make twice as many.
void count_flops(benchmark::State& state, DataType type, double flops) {
  static const double peak_f64 = peak_flops<double>();
  static const double peak_f32 = peak_flops<float>();
  const double peak = type == DataType::kFloat64 ? peak_f64 : peak_f32;
  using benchmark::Counter;
  const double total = flops * static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = Counter(total, Counter::kIsRate);
  state.counters["peak"] = Counter(peak);
  state.counters["of_peak"] = Counter(total / peak, Counter::kIsRate);
}

/// Counts bytes read and written per second, and their share of a copy's.
void count_bytes(benchmark::State& state, std::int64_t bytes) {
  static const double copy = copy_bandwidth();
  using benchmark::Counter;
  const double total = static_cast<double>(bytes) * static_cast<double>(state.iterations());
  state.counters["B/s"] = Counter(total, Counter::kIsRate);
  state.counters["copy"] = Counter(copy);
  state.counters["of_copy"] = Counter(total / copy, Counter::kIsRate);
}

void product(benchmark::State& state, ProductEngine engine, DataType type, const Matmul& shape,
             DataType c_type) {
  CpuBackend backend;
  Products products(backend, best_kernels());
  const Tensor a = random_tensor(backend, type, shape.m * shape.k);
  const Tensor b = random_tensor(backend, type, shape.k * shape.n);
  const Tensor c = random_tensor(backend, c_type, shape.m * shape.n);
  while (state.KeepRunning()) {
    products.multiply_by(engine, shape, a, b, c);
  }
  count_flops(state, type, 2.0 * static_cast<double>(shape.m * shape.n * shape.k));
}

/// Registers the three products of a linear layer, and small ones of ranks of a shrunk plan.
void register_products() {
  for (const DataType type : kTypes) {
    for (const ProductEngine engine : product_engines(type)) {
      const std::string name =
          "product/" + std::string(name_of(type)) + "/" + std::string(name_of(engine)) + "/";
      const auto add = [&](const std::string& form, const Matmul& shape, DataType c_type) {
        benchmark::RegisterBenchmark((name + form).c_str(), product, engine, type, shape, c_type);
      };
      for (const std::int64_t n : {16, 64, 512, 1024, 2048}) {
        const std::string size = std::to_string(n);
        add("forward/" + size, {.m = n, .n = n, .k = n, .transposes_b = true}, type);
        add("input_gradient/" + size, {.m = n, .n = n, .k = n}, type);
        add("weight_gradient/" + size,
            {.m = n, .n = n, .k = n, .transposes_a = true, .accumulates = true},
            accumulator_of(type));
      }
    }
  }
}

/// A kind of attention that is timed.
struct TimedAttention {
  std::int64_t key_heads = 8;
  std::int64_t window = 0;  ///< Keys that a query sees; 0: all before it.
  double dropout = 0.0;
};

/// Times attention with s = 1024 and 8 heads of 64. Causal, it has half of the products of all
/// pairs, and fewer with a window.
void attention(benchmark::State& state, DataType type, bool is_backward,
               const TimedAttention& kind) {
  CpuBackend backend;
  constexpr std::int64_t s = 1024;
  constexpr std::int64_t heads = 8;
  constexpr std::int64_t d = 64;
  const Attention shape{.seq_length = s,
                        .heads = heads,
                        .key_heads = kind.key_heads,
                        .total_heads = heads,
                        .head_size = d,
                        .scale = 0.125,
                        .window = kind.window,
                        .dropout = {.probability = kind.dropout, .key = 1}};
  const std::int64_t row = (heads + 2 * kind.key_heads) * d;
  const Tensor qkv = random_tensor(backend, type, s * row);
  const Tensor dqkv(backend, type, s * row);
  const Tensor out = random_tensor(backend, type, s * heads * d);
  const Tensor log_sum(backend, accumulator_of(type), s * heads);
  const auto part = [&](const Tensor& of, std::int64_t vectors) {
    return VectorRows{of.buffer().slice(vectors * d, s * row - vectors * d), row};
  };
  const std::int64_t values = heads + kind.key_heads;
  const AttentionCall forward{shape, part(qkv, 0), part(qkv, heads), part(qkv, values),
                              out,   log_sum};
  const AttentionBackwardCall backward{
      shape,   forward.q, forward.k,     forward.v,         out,
      log_sum, out,       part(dqkv, 0), part(dqkv, heads), part(dqkv, values)};
  backend.attention(forward);
  while (state.KeepRunning()) {
    if (is_backward) {
      backend.attention_backward(backward);
    } else {
      backend.attention(forward);
    }
  }
  const double seen = kind.window == 0 ? 0.5 * s : static_cast<double>(kind.window);
  count_flops(state, type, (is_backward ? 5.0 : 2.0) * 2.0 * d * seen * s * heads);
}

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kWidth = 1024;

/// Times a norm of kRows rows: of whole rows, or of heads of 128 side by side. Without means it is
/// an RMS norm.
void norm(benchmark::State& state, DataType type, bool is_centered, std::int64_t vectors,
          bool is_backward) {
  CpuBackend backend;
  const DataType sum = accumulator_of(type);
  const std::int64_t h = kWidth / vectors;
  const Tensor x = random_tensor(backend, type, kRows * kWidth);
  const Tensor y = random_tensor(backend, type, kRows * kWidth);
  const Tensor dx = random_tensor(backend, type, kRows * kWidth);
  const Tensor gamma = random_tensor(backend, type, h);
  const Tensor dgamma = random_tensor(backend, sum, h);
  const Tensor dbeta = random_tensor(backend, sum, h);
  const Tensor mean(backend, sum, kRows * vectors);
  const Tensor rstd(backend, sum, kRows * vectors);
  const NormCall forward{.x = {x, kWidth},
                         .gamma = gamma,
                         .beta = is_centered ? gamma.buffer() : Buffer{},
                         .epsilon = 1e-5,
                         .y = {y, kWidth},
                         .mean = is_centered ? mean.buffer() : Buffer{},
                         .rstd = rstd,
                         .rows = kRows,
                         .vectors = vectors};
  const NormBackwardCall backward{.dy = {y, kWidth},
                                  .x = {x, kWidth},
                                  .mean = forward.mean,
                                  .rstd = rstd,
                                  .gamma = gamma,
                                  .dx = {dx, kWidth},
                                  .added = dx,
                                  .dgamma = dgamma,
                                  .dbeta = is_centered ? dbeta.buffer() : Buffer{},
                                  .rows = kRows,
                                  .vectors = vectors};
  backend.norm(forward);
  while (state.KeepRunning()) {
    if (is_backward) {
      backend.norm_backward(backward);
    } else {
      backend.norm(forward);
    }
  }
  count_bytes(state, (is_backward ? 4 : 2) * x.buffer().bytes());
}

/// Times the sums and the norm of rows of which a rank has kWidth of twice as many columns.
void split_norm(benchmark::State& state, DataType type, bool is_backward) {
  CpuBackend backend;
  const DataType sum = accumulator_of(type);
  const Tensor x = random_tensor(backend, type, kRows * kWidth);
  const Tensor y = random_tensor(backend, type, kRows * kWidth);
  const Tensor dx = random_tensor(backend, type, kRows * kWidth);
  const Tensor gamma = random_tensor(backend, type, kWidth);
  const Tensor dgamma = random_tensor(backend, sum, kWidth);
  const Tensor sums(backend, sum, kRows);
  const Tensor rstd(backend, sum, kRows);
  const VectorRows rows{x, kWidth};
  const auto run = [&] {
    if (is_backward) {
      backend.row_products({.a = {y, kWidth},
                            .b = rows,
                            .weights = gamma,
                            .sums = sums,
                            .width = kWidth,
                            .rows = kRows});
      backend.split_norm_backward({.dy = {y, kWidth},
                                   .x = rows,
                                   .rstd = rstd,
                                   .gamma = gamma,
                                   .products = sums,
                                   .whole_width = 2 * kWidth,
                                   .dx = {dx, kWidth},
                                   .dgamma = dgamma,
                                   .rows = kRows});
    } else {
      backend.row_products({.a = rows, .b = rows, .sums = sums, .width = kWidth, .rows = kRows});
      backend.split_norm({.x = rows,
                          .gamma = gamma,
                          .epsilon = 1e-5,
                          .squares = sums,
                          .whole_width = 2 * kWidth,
                          .y = {y, kWidth},
                          .rstd = rstd,
                          .rows = kRows});
    }
  };
  backend.fill(rstd, 1.0);
  while (state.KeepRunning()) {
    run();
  }
  count_bytes(state, (is_backward ? 5 : 3) * x.buffer().bytes());
}

/// Times an activation behind a bias, or of gates and values without one.
void activation(benchmark::State& state, DataType type, ActivationKind kind, bool is_gated,
                bool is_backward) {
  CpuBackend backend;
  const std::int64_t in_row = is_gated ? 2 * kWidth : kWidth;
  const Tensor x = random_tensor(backend, type, kRows * in_row);
  const Tensor dx = random_tensor(backend, type, kRows * in_row);
  const Tensor y = random_tensor(backend, type, kRows * kWidth);
  const Tensor bias(backend, type, in_row);
  backend.fill(bias, 0.0);
  while (state.KeepRunning()) {
    if (is_backward) {
      backend.activation_backward(
          {.kind = kind, .is_gated = is_gated, .x = x, .dy = y, .dx = dx, .rows = kRows});
    } else {
      backend.activation({.kind = kind,
                          .is_gated = is_gated,
                          .x = x,
                          .bias = is_gated ? Buffer{} : bias.buffer(),
                          .y = y,
                          .rows = kRows});
    }
  }
  // A bias is written back to x, as the gradient of a gated activation is to dx.
  const bool touches_x_twice = is_backward || !is_gated;
  count_bytes(state, (touches_x_twice ? 2 : 1) * x.buffer().bytes() + y.buffer().bytes());
}

/// Times the rotation of heads of 128.
void rotate(benchmark::State& state, DataType type) {
  CpuBackend backend;
  constexpr std::int64_t d = 128;
  const Tensor x = random_tensor(backend, type, kRows * kWidth);
  // Cosines 1 and sines 0 keep the numbers as they are.
  std::vector<double> table(kRows * d, 0.0);
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = i % d < d / 2 ? 1.0 : 0.0;
  }
  const Tensor wide(backend, DataType::kFloat64, kRows * d);
  const Tensor angles(backend, accumulator_of(type), kRows * d);
  backend.copy_in(table.data(), wide);
  backend.convert(wide, angles);
  while (state.KeepRunning()) {
    backend.rotate({.x = {x, kWidth},
                    .angles = angles,
                    .heads = kWidth / d,
                    .head_size = d,
                    .width = d,
                    .range = {.seq_length = kRows, .runs = {{{0, kRows}, {}}}},
                    .rows = kRows});
  }
  count_bytes(state, 2 * x.buffer().bytes());
}

void bias_dropout_add(benchmark::State& state, DataType type, double probability) {
  CpuBackend backend;
  const Tensor x = random_tensor(backend, type, kRows * kWidth);
  const Tensor residual = random_tensor(backend, type, kRows * kWidth);
  const Tensor bias = random_tensor(backend, type, kWidth);
  while (state.KeepRunning()) {
    backend.bias_dropout_add({.x = x,
                              .bias = bias,
                              .residual = residual,
                              .dropout = {.probability = probability, .key = 1},
                              .range = {.seq_length = kRows, .runs = {{{0, kRows}, {}}}},
                              .y = x,
                              .rows = kRows});
  }
  count_bytes(state, 3 * x.buffer().bytes());
}

void bias_gradient(benchmark::State& state, DataType type) {
  CpuBackend backend;
  const Tensor dy = random_tensor(backend, type, kRows * kWidth);
  const Tensor gradient = random_tensor(backend, accumulator_of(type), kWidth);
  while (state.KeepRunning()) {
    backend.bias_gradient(dy, gradient, kRows);
  }
  count_bytes(state, dy.buffer().bytes());
}

/// Times maxima, sums and gradients of the logits of 64 tokens and 50k words.
void cross_entropy(benchmark::State& state, DataType type) {
  CpuBackend backend;
  constexpr std::int64_t tokens = 64;
  const VocabShard shard{.width = 50304, .num_valid = 50257};
  const Tensor logits = random_tensor(backend, type, tokens * shard.width);
  const Tensor targets(backend, DataType::kInt32, tokens);
  backend.fill(targets, 7.0);
  const Tensor maxima(backend, accumulator_of(type), tokens);
  const Tensor sums(backend, accumulator_of(type), 2 * tokens);
  while (state.KeepRunning()) {
    backend.row_maxima(logits, shard, maxima, tokens);
    backend.softmax_sums(logits, shard, targets, maxima, sums, tokens);
    backend.cross_entropy_backward({.logits = logits,
                                    .shard = shard,
                                    .targets = targets,
                                    .maxima = maxima,
                                    .sums = sums,
                                    .scale = 1.0,
                                    .rows = tokens});
  }
  count_bytes(state, 4 * logits.buffer().bytes());
}

void adamw(benchmark::State& state, DataType type) {
  CpuBackend backend;
  const DataType sum = accumulator_of(type);
  constexpr std::int64_t size = 4 << 20U;
  const Tensor master = random_tensor(backend, sum, size);
  const Tensor m(backend, sum, size);
  const Tensor v(backend, sum, size);
  backend.fill(m, 0.0);
  backend.fill(v, 0.0);
  const Tensor gradient = random_tensor(backend, sum, size);
  const Tensor weights(backend, type, size);
  while (state.KeepRunning()) {
    const AdamWSlice slice{master, m, v, gradient, weights};
    backend.adamw({.learning_rate = 1e-3}, {&slice, 1});
  }
  count_bytes(state, 7 * master.buffer().bytes() + weights.buffer().bytes());
}

void add_squares(benchmark::State& state, DataType type) {
  CpuBackend backend;
  const Tensor x = random_tensor(backend, type, 4 << 20U);
  const Tensor total = random_tensor(backend, DataType::kFloat64, 1);
  while (state.KeepRunning()) {
    backend.add_squares(x, total);
  }
  count_bytes(state, x.buffer().bytes());
}

void fill_normal(benchmark::State& state, DataType type) {
  CpuBackend backend;
  const Tensor x(backend, type, 1 << 16U);
  while (state.KeepRunning()) {
    backend.fill_normal(x, {.rows = 256, .columns = 256, .total_columns = 256}, 1, 0.02);
  }
  count_bytes(state, x.buffer().bytes());
}

void register_loops() {
  for (const DataType type : kTypes) {
    const std::string of = "/" + std::string(name_of(type));
    const auto add = [](const std::string& name, auto function, auto... arguments) {
      benchmark::RegisterBenchmark(name.c_str(), function, arguments...)
          ->Unit(benchmark::kMillisecond);
    };
    for (const bool is_backward : {false, true}) {
      const std::string pass = (is_backward ? "_backward" : "") + of;
      add("attention" + pass, attention, type, is_backward, TimedAttention{});
      add("attention_dropout" + pass, attention, type, is_backward, TimedAttention{.dropout = 0.1});
      add("grouped_attention" + pass, attention, type, is_backward, TimedAttention{.key_heads = 2});
      add("windowed_attention" + pass, attention, type, is_backward, TimedAttention{.window = 128});
      add("layer_norm" + pass, norm, type, true, 1, is_backward);
      add("rms_norm" + pass, norm, type, false, 1, is_backward);
      add("rms_norm_of_heads" + pass, norm, type, false, kWidth / 128, is_backward);
      add("split_norm" + pass, split_norm, type, is_backward);
      add("gelu" + pass, activation, type, ActivationKind::kTanhGelu, false, is_backward);
      add("swiglu" + pass, activation, type, ActivationKind::kSilu, true, is_backward);
    }
    add("rotate" + of, rotate, type);
    add("bias_dropout_add" + of, bias_dropout_add, type, 0.1);
    add("bias_add" + of, bias_dropout_add, type, 0.0);
    add("bias_gradient" + of, bias_gradient, type);
    add("cross_entropy" + of, cross_entropy, type);
    add("adamw" + of, adamw, type);
    add("fill_normal" + of, fill_normal, type);
  }
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32}) {
    benchmark::RegisterBenchmark(("add_squares/" + std::string(name_of(type))).c_str(), add_squares,
                                 type);
  }
}

}  // namespace
}  // namespace ptdp

int main(int argc, char** argv) {
  ptdp::register_products();
  ptdp::register_loops();
  benchmark::AddCustomContext("loops", std::string(ptdp::best_kernels().name));
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
