// Tests of the optimizer: shares of ranks, states, norm and clipping.
#include "runtime/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace ptdp {
namespace {

// The flat buffers hold: table [0, 15), norm [15, 22), weight [22, 42), bias [42, 46).
constexpr std::int64_t kSize = 46;

Parameter matrix(const std::string& name, GradientGroup group, std::int64_t rows,
                 std::int64_t columns) {
  return {.name = name,
          .block = {.rows = rows, .columns = columns, .total_columns = columns},
          .total_rows = rows,
          .group = group};
}

ParameterStore make_store(Backend& backend, DataType type) {
  ParameterStore store;
  Parameter weight = matrix("weight", GradientGroup::kOwn, 4, 5);
  weight.decays = true;
  weight.deviation = 0.5;
  store.declare(weight);
  Parameter norm = matrix("norm", GradientGroup::kSummedOverTensor, 1, 7);
  norm.is_replicated = true;
  norm.constant = 1.0;
  store.declare(norm);
  Parameter table = matrix("table", GradientGroup::kTied, 5, 3);
  table.decays = true;
  table.deviation = 1.0;
  store.declare(table);
  store.declare(matrix("bias", GradientGroup::kOwn, 1, 4));
  store.allocate(backend, type, /*seed=*/11);
  return store;
}

bool decays(std::int64_t element) {
  return element < 15 || (element >= 22 && element < 42);
}

double gradient_of(std::int64_t element, int step) {
  return std::sin(1.3 * static_cast<double>(element) + 0.7 * step);
}

std::vector<double> values_of(Backend& backend, Buffer buffer) {
  Tensor wide(backend, DataType::kFloat64, buffer.size);
  if (buffer.type == DataType::kFloat64) {
    backend.copy(buffer, wide);
  } else {
    backend.convert(buffer, wide);
  }
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  backend.copy_out(wide, values.data());
  return values;
}

void set_values(Backend& backend, const std::vector<double>& values, Buffer to) {
  Tensor wide(backend, DataType::kFloat64, to.size);
  backend.copy_in(values.data(), wide);
  if (to.type == DataType::kFloat64) {
    backend.copy(wide, to);
  } else {
    backend.convert(wide, to);
  }
}

void set_gradients(Backend& backend, const ParameterStore& store, int step) {
  std::vector<double> gradients(kSize);
  for (std::int64_t i = 0; i < kSize; ++i) {
    gradients[i] = gradient_of(i, step);
  }
  set_values(backend, gradients, store.all_gradients());
}

AdamW settings_of(int step) {
  return {.learning_rate = 0.01 / step,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .epsilon = 1e-8,
          .weight_decay = 0.1,
          .step = step,
          .gradient_scale = 0.25};
}

/// AdamW by the textbook's algorithm, one element at a time.
class ReferenceAdamW {
 public:
  explicit ReferenceAdamW(std::vector<double> weights)
      : weights_(std::move(weights)), m_(weights_.size()), v_(weights_.size()) {}

  void step(int step) {
    const AdamW s = settings_of(step);
    for (std::int64_t i = 0; i < kSize; ++i) {
      const double g = gradient_of(i, step) * s.gradient_scale;
      m_[i] = s.beta1 * m_[i] + (1.0 - s.beta1) * g;
      v_[i] = s.beta2 * v_[i] + (1.0 - s.beta2) * g * g;
      const double m_hat = m_[i] / (1.0 - std::pow(s.beta1, step));
      const double v_hat = v_[i] / (1.0 - std::pow(s.beta2, step));
      const double decay = decays(i) ? s.weight_decay : 0.0;
      weights_[i] -=
          s.learning_rate * (m_hat / (std::sqrt(v_hat) + s.epsilon) + decay * weights_[i]);
    }
  }
  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }

 private:
  std::vector<double> weights_;
  std::vector<double> m_;
  std::vector<double> v_;
};

/// Returns the weights after three steps of d ranks that share the work; each element is its
/// owner's.
std::vector<double> weights_after_steps(DataType type, int d, int num_buckets) {
  std::vector<double> weights(kSize, std::nan(""));
  for (int rank = 0; rank < d; ++rank) {
    CpuBackend backend;
    ParameterStore store = make_store(backend, type);
    Optimizer optimizer(backend, {{.store = &store,
                                   .num_buckets = num_buckets,
                                   .group_size = d,
                                   .group_rank = rank,
                                   .shards_states = true}});
    for (int step = 1; step <= 3; ++step) {
      set_gradients(backend, store, step);
      optimizer.step(settings_of(step));
    }
    for (const OwnedSlice& slice : optimizer.owned_slices(0)) {
      const auto own = values_of(backend, slice.weights);
      for (std::int64_t i = 0; i < slice.range.count; ++i) {
        EXPECT_TRUE(std::isnan(weights[slice.range.first + i])) << "two owners";
        weights[slice.range.first + i] = own[i];
      }
    }
  }
  return weights;
}

bool equals(const Part& part, std::int64_t first, std::int64_t count) {
  return part.first == first && part.count == count;
}

// The tied 15 by themselves; of the other 31, thirds: 10, 10 and 11.
TEST(ReductionRanges, KeepTheTiedTableApartAndCutTheRestEqually) {
  CpuBackend backend;
  const ParameterStore store = make_store(backend, DataType::kFloat64);
  const auto first = reduction_ranges(store, 0, 3);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(equals(first[0], 0, 15));
  EXPECT_TRUE(equals(first[1], 15, 10));
  const auto second = reduction_ranges(store, 1, 3);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(equals(second[0], 25, 10));
  const auto third = reduction_ranges(store, 2, 3);
  ASSERT_EQ(third.size(), 1U);
  EXPECT_TRUE(equals(third[0], 35, 11));
}

TEST(ReductionRanges, CoverEveryElementOnce) {
  CpuBackend backend;
  const ParameterStore store = make_store(backend, DataType::kFloat64);
  for (const int num_buckets : {1, 2, 5, 31, 64}) {
    std::vector<int> covered(kSize);
    for (int bucket = 0; bucket < num_buckets; ++bucket) {
      for (const Part& range : reduction_ranges(store, bucket, num_buckets)) {
        EXPECT_GT(range.count, 0);
        for (std::int64_t i = 0; i < range.count; ++i) {
          ++covered[range.first + i];
        }
      }
    }
    EXPECT_EQ(covered, std::vector<int>(kSize, 1)) << num_buckets << " buckets";
  }
}

TEST(Optimizer, StepsAsTheTextbookDoes) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kFloat64);
  ReferenceAdamW reference(values_of(backend, store.all_weights()));
  Optimizer optimizer(backend, {{.store = &store}});
  for (int step = 1; step <= 5; ++step) {
    set_gradients(backend, store, step);
    optimizer.step(settings_of(step));
    reference.step(step);
  }
  const auto weights = values_of(backend, store.all_weights());
  for (std::int64_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(weights[i], reference.weights()[i], 1e-14) << "element " << i;
  }
}

TEST(Optimizer, GivesTheSameBitsHoweverStatesAreSharded) {
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16}) {
    const auto whole = weights_after_steps(type, 1, 1);
    for (const int d : {2, 3, 7, 40}) {
      for (const int num_buckets : {1, 4}) {
        EXPECT_EQ(weights_after_steps(type, d, num_buckets), whole)
            << name_of(type) << ", d = " << d << ", " << num_buckets << " buckets";
      }
    }
  }
}

TEST(Optimizer, UpdatesEverythingWhereStatesAreNotSharded) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kFloat64);
  const Optimizer optimizer(backend, {{.store = &store, .group_size = 4, .group_rank = 2}});
  std::int64_t count = 0;
  for (const OwnedSlice& slice : optimizer.owned_slices(0)) {
    count += slice.range.count;
  }
  EXPECT_EQ(count, kSize);
}

// The second of two ranks owns 8 of 15 and 16 of 31 elements: two moments of each in f64, and with
// masters beside bf16 three values in f32.
TEST(Optimizer, HoldsStatesOfItsOwnPartAlone) {
  for (const auto& [type, bytes] :
       {std::pair{DataType::kFloat64, 24 * 16}, std::pair{DataType::kFloat32, 24 * 8},
        std::pair{DataType::kBFloat16, 24 * 12}, std::pair{DataType::kFloat16, 24 * 12}}) {
    CpuBackend backend;
    ParameterStore store = make_store(backend, type);
    const std::int64_t before = backend.bytes_in_use();
    const Optimizer optimizer(
        backend, {{.store = &store, .group_size = 2, .group_rank = 1, .shards_states = true}});
    EXPECT_EQ(backend.bytes_in_use() - before, bytes) << name_of(type);
  }
}

// Two stages that hold the table, two tensor ranks that hold the norm, three data ranks: all of
// them add up where states are sharded, else those of each replica.
TEST(Optimizer, CountsEveryElementOfTheModelOnceInTheNorm) {
  double expected = 0.0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const double square = gradient_of(i, 1) * gradient_of(i, 1);
    const bool is_tied = i < 15;
    const bool is_replicated = i >= 15 && i < 22;
    expected += square * (is_tied ? 1 : 2) * (is_replicated ? 1 : 2);
  }
  for (const bool shards_states : {false, true}) {
    CpuBackend backend;
    Tensor total(backend, DataType::kFloat64, 1);
    backend.fill(total, 0.0);
    for (int rank = 0; rank < 12; rank += shards_states ? 1 : 3) {
      ParameterStore store = make_store(backend, DataType::kFloat64);
      Optimizer optimizer(backend, {{.store = &store,
                                     .num_buckets = 2,
                                     .group_size = 3,
                                     .group_rank = rank % 3,
                                     .shards_states = shards_states,
                                     .counts_tied = rank / 6 == 0,
                                     .counts_replicated = rank / 3 % 2 == 0}});
      set_gradients(backend, store, 1);
      optimizer.add_squares(total);
    }
    EXPECT_NEAR(values_of(backend, total)[0], expected, 1e-12 * expected);
  }
}

// Two ranks hold the same stage and do not shard it: one counts, and both save their half.
TEST(Optimizer, SavesWhatAnotherRankCounts) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kFloat64);
  set_gradients(backend, store, 1);
  const Tensor total(backend, DataType::kFloat64, 1);
  backend.fill(total, 0.0);
  std::vector<int> saved(kSize);
  for (const int rank : {0, 1}) {
    Optimizer optimizer(
        backend, {{.store = &store, .group_size = 2, .group_rank = rank, .counts = rank == 0}});
    for (const OwnedSlice& slice : optimizer.saved_slices(0)) {
      for (std::int64_t i = 0; i < slice.range.count; ++i) {
        ++saved[slice.range.first + i];
      }
    }
    const double before = values_of(backend, total)[0];
    optimizer.add_squares(total);
    EXPECT_EQ(values_of(backend, total)[0] > before, rank == 0);
  }
  EXPECT_EQ(saved, std::vector<int>(kSize, 1));
}

// With two ranks and three buckets the first saves [0, 7), [15, 20), [25, 30) and [35, 40) of the
// four parameters' slices.
TEST(Optimizer, SavesRunsOfOneParameterEachAndNoneThatIsEmpty) {
  for (const bool shards_states : {false, true}) {
    std::vector<int> saved(kSize);
    for (const int rank : {0, 1}) {
      CpuBackend backend;
      ParameterStore store = make_store(backend, DataType::kFloat32);
      const Optimizer optimizer(backend, {{.store = &store,
                                           .num_buckets = 3,
                                           .group_size = 2,
                                           .group_rank = rank,
                                           .shards_states = shards_states}});
      const std::vector<double> weights = values_of(backend, store.all_weights());
      for (const OwnedSlice& slice : optimizer.saved_slices(0)) {
        ASSERT_GT(slice.range.count, 0);
        const Parameter& parameter = store.parameters()[slice.parameter];
        EXPECT_GE(slice.range.first, parameter.first);
        EXPECT_LE(slice.range.first + slice.range.count, parameter.first + parameter.size());
        for (const Buffer& buffer :
             {slice.weights, slice.gradient, slice.master, slice.moment1, slice.moment2}) {
          EXPECT_EQ(buffer.size, slice.range.count);
        }
        const std::vector<double> own = values_of(backend, slice.master);
        for (std::int64_t i = 0; i < slice.range.count; ++i) {
          EXPECT_EQ(own[i], weights[slice.range.first + i]);
          ++saved[slice.range.first + i];
        }
      }
    }
    EXPECT_EQ(saved, std::vector<int>(kSize, 1));
  }
}

TEST(Optimizer, LeavesGradientsAtZero) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kBFloat16);
  Optimizer optimizer(backend,
                      {{.store = &store, .group_size = 3, .group_rank = 1, .shards_states = true}});
  const std::vector<double> zeros(kSize);
  set_gradients(backend, store, 1);
  optimizer.step(settings_of(1));
  EXPECT_EQ(values_of(backend, store.all_gradients()), zeros);
  set_gradients(backend, store, 2);
  const auto weights = values_of(backend, store.all_weights());
  optimizer.zero_gradients();
  EXPECT_EQ(values_of(backend, store.all_gradients()), zeros);
  EXPECT_EQ(values_of(backend, store.all_weights()), weights);
}

// 100 steps of 1e-5 are far below the spacing of bf16 around 1, which is 2^-7.
TEST(Optimizer, KeepsWhatBFloat16WouldLoseInItsMasters) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kBFloat16);
  ParameterStore exact = make_store(backend, DataType::kFloat64);
  Optimizer optimizer(backend, {{.store = &store}});
  const OwnedSlice norm = optimizer.owned_slices(0)[1];
  ASSERT_EQ(norm.range.first, 15);

  const auto table = optimizer.owned_slices(0)[0];
  const auto masters = values_of(backend, table.master);
  const auto initial = values_of(backend, exact.all_weights());
  for (std::int64_t i = 0; i < 15; ++i) {
    EXPECT_EQ(masters[i], static_cast<double>(static_cast<float>(initial[i])));
  }

  for (int step = 1; step <= 100; ++step) {
    backend.fill(store.all_gradients(), 1.0);
    optimizer.step({.learning_rate = 1e-5, .step = step});
  }
  EXPECT_NEAR(values_of(backend, norm.master)[0], 1.0 - 1e-3, 1e-5);
  EXPECT_EQ(values_of(backend, norm.weights)[0], 1.0);
}

TEST(Optimizer, RoundsMastersIntoWeights) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kBFloat16);
  Optimizer optimizer(backend, {{.store = &store}});
  for (const OwnedSlice& slice : optimizer.owned_slices(0)) {
    backend.fill(slice.master, 1.00390625);  // 1 + 2^-8, halfway between 1 and 1 + 2^-7
  }
  optimizer.round_masters();
  EXPECT_EQ(values_of(backend, store.all_weights()), std::vector<double>(kSize, 1.0));
}

TEST(Clipping, ScalesNormsAboveTheLimitDownToIt) {
  EXPECT_EQ(clipping_coefficient(0.5, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clipping_coefficient(4.0, 1.0), 1.0 / 4.000001);
  EXPECT_EQ(clipping_coefficient(1e9, 0.0), 1.0);
  EXPECT_EQ(clipping_coefficient(0.0, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(clipping_coefficient(1.0, 1.0), 1.0 / 1.000001);  // the norm is the limit
  EXPECT_EQ(clipping_coefficient(0.999998, 1.0), 1.0);
}

// Gradients that carry a scale of 8 and have the norm 32, so 4 without it.
TEST(Clipping, TakesTheLossScaleOutFirst) {
  EXPECT_DOUBLE_EQ(gradient_scale(1024.0, 1.0, 8.0), 1.0 / 4.000001 / 8.0);
  EXPECT_DOUBLE_EQ(gradient_scale(1024.0, 5.0, 8.0), 1.0 / 8.0);
}

}  // namespace
}  // namespace ptdp
