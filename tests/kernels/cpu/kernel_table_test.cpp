// Tests that every instruction set gives the same bits, except for products, which fuse
// multiply-adds where they can.
#include "kernels/cpu/kernel_table.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

constexpr std::int64_t kRows = 12;
constexpr std::int64_t kWidth = 203;
constexpr Dropout kLoopDropout{.probability = 0.25, .key = 5};
constexpr TokenRange kLoopRange{
    .first_sample = 1, .first_position = 2, .batch = 3, .seq_length = 7};

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

 private:
  Tensor of(DataType type, std::int64_t size) {
    return tensor_of(*backend_, type, random_values(size, ++seed_));
  }

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
  backend.bias_gelu(x, bias, y, kRows);
  backend.gelu_backward(x, y, y);
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
  backend.dropout_backward(y, kLoopDropout, kLoopRange, x, kRows);
  backend.maximum(x, y);
  return {read_values(x), read_values(y), read_values(gradient)};
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
  const Tensor mean = buffers.sums_by_row();
  const Tensor rstd = buffers.sums_by_row();
  backend.layer_norm({.x = x,
                      .gamma = gamma,
                      .beta = beta,
                      .epsilon = 1e-5,
                      .y = y,
                      .mean = mean,
                      .rstd = rstd,
                      .rows = kRows});
  backend.layer_norm_backward({.dy = y,
                               .x = x,
                               .mean = mean,
                               .rstd = rstd,
                               .gamma = gamma,
                               .dx = dx,
                               .dgamma = dgamma,
                               .dbeta = dbeta,
                               .rows = kRows});
  return {read_values(y),  read_values(mean),   read_values(rstd),
          read_values(dx), read_values(dgamma), read_values(dbeta)};
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
  for (const Operation operation : {elementwise_results, norm_results, embedding_results,
                                    cross_entropy_results, optimizer_results}) {
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
TEST(KernelTable, AreThereForAllButSevenOperations) {
  for (const KernelTable* const loops : runnable_kernels()) {
    EXPECT_EQ(num_null(*loops), 7) << loops->name;
  }
}

TEST(KernelTable, RunOnAnyProcessorWithTheBaselineOnes) {
  EXPECT_EQ(runnable_kernels().front()->name, "baseline");
  EXPECT_EQ(&best_kernels(), runnable_kernels().back());
}

}  // namespace
}  // namespace ptdp
