// Tests that every instruction set gives the same bits, except for products, which fuse
// multiply-adds where they can.
#include "kernels/cpu/kernel_table.h"

#include <gtest/gtest.h>

#include <array>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

constexpr std::int64_t kRows = 12;
constexpr std::int64_t kWidth = 203;
constexpr Dropout kLoopDropout{.probability = 0.25, .key = 5};
constexpr TokenRange kLoopRange{
    .first_sample = 1, .batch = 3, .seq_length = 7, .runs = {{{4, 2}, {1, 2}}}};

/// Buffers of one type and of its accumulator, by size.
class Buffers {
 public:
  Buffers(Backend& backend, DataType type) : backend_(&backend), type_(type) {}
  [[nodiscard]] Tensor matrix() { return of(type_, kRows * kWidth); }
  [[nodiscard]] Tensor row() { return of(type_, kWidth); }
  [[nodiscard]] Tensor sums_by_row() { return of(accumulator_of(type_), kRows); }
  [[nodiscard]] Tensor sums_by_column() { return of(accumulator_of(type_), kWidth); }
  [[nodiscard]] Tensor sums(std::int64_t size) { return of(accumulator_of(type_), size); }
  [[nodiscard]] Tensor ids() {
    Values values(kRows);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i * i % 5);
    }
    return tensor_of(*backend_, DataType::kInt32, values);
  }
  [[nodiscard]] Tensor of(DataType type, std::int64_t size) {
    return tensor_of(*backend_, type, random_values(size, ++seed_));
  }

 private:
  Backend* backend_;
  DataType type_;
  unsigned seed_ = 0;
};

/// Runs an operation and returns what it left in its buffers.
using Operation = std::vector<Values> (*)(Backend&, DataType);

std::vector<Values> elementwise_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  const Tensor y = buffers.matrix();
  const Tensor bias = buffers.row();
  const Tensor gradient = buffers.sums_by_column();
  backend.soft_cap(x, 3.0);
  backend.add(x, y);
  backend.scale(y, 0.3);
  backend.add_bias(y, bias, kRows);
  backend.bias_gradient(y, gradient, kRows);
  backend.bias_dropout_add({.x = x,
                            .bias = bias,
                            .residual = y,
                            .dropout = kLoopDropout,
                            .range = kLoopRange,
                            .y = y,
                            .rows = kRows});
  backend.dropout_backward(y, kLoopDropout, 0.5, kLoopRange, x, kRows);
  backend.maximum(x, y);
  return {read_values(x), read_values(y), read_values(gradient)};
}

constexpr std::array<ActivationKind, 7> kLoopActivations = {
    ActivationKind::kTanhGelu, ActivationKind::kGelu, ActivationKind::kRelu,
    ActivationKind::kSilu,     ActivationKind::kTanh, ActivationKind::kSquaredRelu,
    ActivationKind::kQuickGelu};

std::vector<Values> activation_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  std::vector<Values> results;
  for (const ActivationKind kind : kLoopActivations) {
    for (const bool is_gated : {false, true}) {
      // Gated rows take the width of two.
      const std::int64_t rows = is_gated ? kRows / 2 : kRows;
      const Tensor x = buffers.matrix();
      const Tensor y = buffers.of(type, rows * kWidth);
      const Tensor bias = buffers.of(type, kRows / rows * kWidth);
      backend.activation(
          {.kind = kind, .is_gated = is_gated, .x = x, .bias = bias, .y = y, .rows = rows});
      results.push_back(read_values(x));
      results.push_back(read_values(y));
      backend.activation_backward(
          {.kind = kind, .is_gated = is_gated, .x = x, .dy = y, .dx = x, .rows = rows});
      results.push_back(read_values(x));
    }
  }
  return results;
}

std::vector<Values> rotary_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  backend.rotate({.x = {x, kWidth},
                  .angles = buffers.sums(kLoopRange.seq_length * 40),
                  .heads = 4,
                  .head_size = 50,
                  .width = 40,
                  .range = kLoopRange,
                  .rows = kRows});
  return {read_values(x)};
}

std::vector<Values> norm_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  const Tensor y = buffers.matrix();
  const Tensor dx = buffers.matrix();
  const Tensor gamma = buffers.row();
  const Tensor beta = buffers.row();
  const Tensor dgamma = buffers.sums_by_column();
  const Tensor dbeta = buffers.sums_by_column();
  const Tensor added_sum = buffers.sums_by_column();
  const Tensor mean = buffers.sums_by_row();
  const Tensor rstd = buffers.sums_by_row();
  backend.norm({.x = {x, kWidth},
                .gamma = gamma,
                .beta = beta,
                .epsilon = 1e-5,
                .y = {y, kWidth},
                .mean = mean,
                .rstd = rstd,
                .rows = kRows});
  backend.norm_backward({.dy = {y, kWidth},
                         .x = {x, kWidth},
                         .mean = mean,
                         .rstd = rstd,
                         .gamma = gamma,
                         .dx = {dx, kWidth},
                         .added = dx,
                         .dgamma = dgamma,
                         .dbeta = dbeta,
                         .added_sum = added_sum,
                         .rows = kRows});
  return {read_values(y),      read_values(mean),  read_values(rstd),     read_values(dx),
          read_values(dgamma), read_values(dbeta), read_values(added_sum)};
}

/// An RMS norm of four vectors side by side in rows, whose gradients replace its input.
std::vector<Values> strided_norm_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  const Tensor y = buffers.matrix();
  const Tensor gamma = buffers.of(type, 50);
  const Tensor dgamma = buffers.sums(50);
  const Tensor rstd = buffers.sums(4 * kRows);
  backend.norm({.x = {x, kWidth},
                .gamma = gamma,
                .gamma_offset = 1.0,
                .epsilon = 1e-5,
                .y = {y, kWidth},
                .rstd = rstd,
                .rows = kRows,
                .vectors = 4});
  backend.norm_backward({.dy = {y, kWidth},
                         .x = {x, kWidth},
                         .rstd = rstd,
                         .gamma = gamma,
                         .gamma_offset = 1.0,
                         .dx = {x, kWidth},
                         .dgamma = dgamma,
                         .rows = kRows,
                         .vectors = 4});
  return {read_values(y), read_values(rstd), read_values(x), read_values(dgamma)};
}

/// An RMS norm of the second half of rows, by sums over all of them.
std::vector<Values> split_norm_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  const Tensor y = buffers.matrix();
  const Tensor gamma = buffers.of(type, 100);
  const Tensor dgamma = buffers.sums(100);
  const Tensor squares = buffers.sums_by_row();
  const Tensor products = buffers.sums_by_row();
  const Tensor rstd = buffers.sums_by_row();
  const VectorRows part{x.buffer().slice(100, x.buffer().size - 100), kWidth};
  backend.row_products(
      {.a = {x, kWidth}, .b = {x, kWidth}, .sums = squares, .width = kWidth, .rows = kRows});
  backend.split_norm({.x = part,
                      .gamma = gamma,
                      .gamma_offset = 1.0,
                      .epsilon = 1e-5,
                      .squares = squares,
                      .whole_width = kWidth,
                      .y = {y, kWidth},
                      .rstd = rstd,
                      .rows = kRows});
  backend.row_products({.a = {y, kWidth},
                        .b = part,
                        .weights = gamma,
                        .weights_offset = 1.0,
                        .sums = products,
                        .width = 100,
                        .rows = kRows});
  backend.split_norm_backward({.dy = {y, kWidth},
                               .x = part,
                               .rstd = rstd,
                               .gamma = gamma,
                               .products = products,
                               .whole_width = kWidth,
                               .dx = part,
                               .dgamma = dgamma,
                               .rows = kRows});
  return {read_values(squares),  read_values(y), read_values(rstd),
          read_values(products), read_values(x), read_values(dgamma)};
}

std::vector<Values> embedding_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor x = buffers.matrix();
  const Tensor table = buffers.matrix();
  const Tensor gradient = buffers.sums(kRows * kWidth);
  backend.embedding(buffers.ids(), table, 1, x);
  backend.add_positions(x, table, kLoopRange, kRows);
  backend.embedding_gradient(buffers.ids(), x, 1, gradient);
  backend.position_gradient(x, gradient, kLoopRange, kRows);
  return {read_values(x), read_values(gradient)};
}

std::vector<Values> cross_entropy_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const VocabShard shard{.first = 0, .width = kWidth, .num_valid = kWidth - 3};
  const Tensor logits = buffers.matrix();
  const Tensor maxima = buffers.sums_by_row();
  const Tensor sums = buffers.sums(2 * kRows);
  backend.row_maxima(logits, shard, maxima, kRows);
  backend.softmax_sums(logits, shard, buffers.ids(), maxima, sums, kRows);
  backend.cross_entropy_backward({.logits = logits,
                                  .shard = shard,
                                  .targets = buffers.ids(),
                                  .maxima = maxima,
                                  .sums = sums,
                                  .scale = 0.1,
                                  .soft_cap = 4.0,
                                  .rows = kRows});
  return {read_values(logits), read_values(maxima), read_values(sums)};
}

std::vector<Values> optimizer_results(Backend& backend, DataType type) {
  Buffers buffers(backend, type);
  const Tensor master = buffers.sums_by_column();
  const Tensor m = buffers.sums_by_column();
  const Tensor v = buffers.sums_by_column();
  const Tensor weights = buffers.row();
  const Tensor total = tensor_of(backend, DataType::kFloat64, {0.0});
  backend.fill(v, 0.25);
  const AdamWSlice slice{master, m, v, m, weights};
  backend.adamw({.learning_rate = 0.1, .weight_decay = 0.1, .step = 3}, {&slice, 1});
  backend.add_squares(master, total);
  return {read_values(master), read_values(m), read_values(v), read_values(weights),
          read_values(total)};
}

TEST(KernelTable, GiveTheSameBitsWithEveryInstructionSet) {
  for (const Operation operation :
       {elementwise_results, activation_results, rotary_results, norm_results, strided_norm_results,
        split_norm_results, embedding_results, cross_entropy_results, optimizer_results}) {
    for (const DataType type : kWorkingTypes) {
      CpuBackend baseline(*runnable_kernels().front());
      const std::vector<Values> expected = operation(baseline, type);
      for (const KernelTable* const loops : runnable_kernels()) {
        CpuBackend backend(*loops);
        EXPECT_EQ(operation(backend, type), expected) << loops->name << ' ' << name_of(type);
      }
    }
  }
}

template <class Context, auto... kOperations>
int num_null(const TableOfOperations<Context, kOperations...>& table) {
  return (0 + ... +
          static_cast<int>(
              static_cast<const OperationEntry<Context, kOperations>&>(table).function == nullptr));
}

// Three copies, matmul, add_losses, adamw and fill_normal are the backend's own.
TEST(KernelTable, AreThereForAllButEightOperations) {
  for (const KernelTable* const loops : runnable_kernels()) {
    EXPECT_EQ(num_null(*loops), 8) << loops->name;
  }
}

TEST(KernelTable, RunOnAnyProcessorWithTheBaselineOnes) {
  EXPECT_EQ(runnable_kernels().front()->name, "baseline");
  EXPECT_EQ(&best_kernels(), runnable_kernels().back());
}

}  // namespace
}  // namespace ptdp
