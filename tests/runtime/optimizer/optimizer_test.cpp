// Tests of the optimizer: shares of ranks, states, norm and clipping.
#include "runtime/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"

namespace ptdp {
namespace {

// Parameters in the order of the flat buffers, without padding: table [0, 1500), norm [1500, 1570),
// weight [1570, 3570), bias [3570, 3610).
constexpr std::int64_t kTable = 1500;
constexpr std::int64_t kWeight = 1570;
constexpr std::int64_t kBias = 3570;
constexpr std::int64_t kSize = 3610;

Parameter matrix(const std::string& name, GradientGroup group, std::int64_t rows,
                 std::int64_t columns) {
  return {.name = name,
          .block = {.rows = rows, .columns = columns, .total_columns = columns},
          .total_rows = rows,
          .group = group};
}

/// Returns a store whose ranges `sharers` ranks can share.
ParameterStore make_store(Backend& backend, DataType type, int sharers = 1) {
  ParameterStore store;
  Parameter weight = matrix("weight", GradientGroup::kOwn, 40, 50);
  weight.decays = true;
  weight.deviation = 0.5;
  store.declare(weight);
  Parameter norm = matrix("norm", GradientGroup::kSummedOverTensor, 1, 70);
  norm.is_replicated = true;
  norm.constant = 1.0;
  store.declare(norm);
  Parameter table = matrix("table", GradientGroup::kTied, 50, 30);
  table.decays = true;
  table.deviation = 1.0;
  store.declare(table);
  store.declare(matrix("bias", GradientGroup::kOwn, 1, 40));
  store.allocate(backend, type, /*seed=*/11, {.group_size = sharers});
  return store;
}

/// Returns the place of an element in the flat buffers of `sharers` ranks: the table is padded to a
/// multiple of 64 elements for each of several.
std::int64_t place_of(std::int64_t element, int sharers) {
  const std::int64_t a = sharers > 1 ? std::int64_t{64} * sharers : 1;
  return element < kTable ? element : (kTable + a - 1) / a * a + element - kTable;
}

/// Returns the values of all elements from those of a flat buffer.
std::vector<double> elements_of(const std::vector<double>& flat, int sharers) {
  std::vector<double> elements(kSize);
  for (std::int64_t i = 0; i < kSize; ++i) {
    elements[i] = flat[place_of(i, sharers)];
  }
  return elements;
}

/// Returns a flat buffer of `size` elements with the values of all elements, and `padding`.
std::vector<double> flat_of(const std::vector<double>& elements, std::int64_t size, int sharers,
                            double padding) {
  std::vector<double> flat(static_cast<std::size_t>(size), padding);
  for (std::int64_t i = 0; i < kSize; ++i) {
    flat[place_of(i, sharers)] = elements[i];
  }
  return flat;
}

bool decays(std::int64_t element) {
  return element < kTable || (element >= kWeight && element < kBias);
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

/// Sets the gradients of a step. Padding gets numbers that would spoil all that they get into.
void set_gradients(Backend& backend, const ParameterStore& store, int step) {
  std::vector<double> gradients(kSize);
  for (std::int64_t i = 0; i < kSize; ++i) {
    gradients[i] = gradient_of(i, step);
  }
  set_values(backend, flat_of(gradients, store.size(), store.shards().group_size, std::nan("")),
             store.all_gradients());
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
  std::vector<double> weights;
  for (int rank = 0; rank < d; ++rank) {
    CpuBackend backend;
    ParameterStore store = make_store(backend, type, d);
    weights.resize(static_cast<std::size_t>(store.size()), std::nan(""));
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
  return elements_of(weights, d);
}

TEST(Optimizer, StepsAsTheTextbookDoes) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kFloat64);
  ReferenceAdamW reference(elements_of(values_of(backend, store.all_weights()), 1));
  Optimizer optimizer(backend, {{.store = &store}});
  for (int step = 1; step <= 5; ++step) {
    set_gradients(backend, store, step);
    optimizer.step(settings_of(step));
    reference.step(step);
  }
  const auto flat = values_of(backend, store.all_weights());
  const auto weights = elements_of(flat, 1);
  for (std::int64_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(weights[i], reference.weights()[i], 1e-14) << "element " << i;
  }
  EXPECT_EQ(flat, flat_of(weights, store.size(), 1, 0.0)) << "padding is 0, and stays so";
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

// The second of two ranks owns 768 of 1536 and 1088 of 2176 elements, padding included: two moments
// of each in f64, and with masters beside bf16 three values in f32.
TEST(Optimizer, HoldsStatesOfItsOwnPartAlone) {
  for (const auto& [type, bytes] :
       {std::pair{DataType::kFloat64, 1856 * 16}, std::pair{DataType::kFloat32, 1856 * 8},
        std::pair{DataType::kBFloat16, 1856 * 12}, std::pair{DataType::kFloat16, 1856 * 12}}) {
    CpuBackend backend;
    ParameterStore store = make_store(backend, type, 2);
    const std::int64_t before = backend.bytes_in_use();
    const Optimizer optimizer(
        backend, {{.store = &store, .group_size = 2, .group_rank = 1, .shards_states = true}});
    EXPECT_EQ(backend.bytes_in_use() - before, bytes) << name_of(type);
    EXPECT_EQ(optimizer.state_bytes(0), bytes) << name_of(type);
  }
}

// States lie one after the other as the parts do, so that a slice's states begin where its weights
// do within 64 elements.
TEST(Optimizer, LaysStatesOutAsTheirWeightsLie) {
  for (const int d : {1, 3}) {
    CpuBackend backend;
    ParameterStore store = make_store(backend, DataType::kBFloat16, d);
    const Optimizer optimizer(backend, {{.store = &store,
                                         .num_buckets = 3,
                                         .group_size = d,
                                         .group_rank = d - 1,
                                         .shards_states = d > 1}});
    const auto slices = optimizer.owned_slices(0);
    ASSERT_GE(slices.size(), 4U);
    const auto place = [&](const Buffer& state, const Buffer& first) {
      return (static_cast<const std::byte*>(state.data) -
              static_cast<const std::byte*>(first.data)) /
             bytes_of(state.type);
    };
    for (const OwnedSlice& slice : slices) {
      const std::int64_t within = (slice.range.first - slices[0].range.first) % 64;
      EXPECT_EQ(place(slice.master, slices[0].master) % 64, within);
      EXPECT_EQ(place(slice.moment1, slices[0].moment1) % 64, within);
      EXPECT_EQ(place(slice.moment2, slices[0].moment2) % 64, within);
    }
  }
}

// Two stages that hold the table, two tensor ranks that hold the norm, three data ranks: all of
// them add up where states are sharded, else those of each replica.
TEST(Optimizer, CountsEveryElementOfTheModelOnceInTheNorm) {
  double expected = 0.0;
  for (std::int64_t i = 0; i < kSize; ++i) {
    const double square = gradient_of(i, 1) * gradient_of(i, 1);
    const bool is_tied = i < kTable;
    const bool is_replicated = i >= kTable && i < kWeight;
    expected += square * (is_tied ? 1 : 2) * (is_replicated ? 1 : 2);
  }
  for (const bool shards_states : {false, true}) {
    CpuBackend backend;
    Tensor total(backend, DataType::kFloat64, 1);
    backend.fill(total, 0.0);
    for (int rank = 0; rank < 12; rank += shards_states ? 1 : 3) {
      ParameterStore store = make_store(backend, DataType::kFloat64, shards_states ? 3 : 1);
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

/// Expects that every element of a parameter was counted once, and padding never.
void expect_parameters_once(const std::vector<int>& counted, int sharers) {
  const std::vector<double> once =
      flat_of(std::vector<double>(kSize, 1.0), std::ssize(counted), sharers, 0.0);
  EXPECT_TRUE(std::equal(counted.begin(), counted.end(), once.begin(), once.end()));
}

// Two ranks hold the same stage and do not shard it: one counts, and both save their half.
TEST(Optimizer, SavesWhatAnotherRankCounts) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kFloat64);
  set_gradients(backend, store, 1);
  const Tensor total(backend, DataType::kFloat64, 1);
  backend.fill(total, 0.0);
  std::vector<int> saved(static_cast<std::size_t>(store.size()));
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
  expect_parameters_once(saved, 1);
}

// With two ranks and three buckets the first saves four of eight parts of the parameters' slices.
TEST(Optimizer, SavesRunsOfOneParameterEachAndNoneThatIsEmpty) {
  for (const bool shards_states : {false, true}) {
    const int sharers = shards_states ? 2 : 1;
    std::vector<int> saved;
    for (const int rank : {0, 1}) {
      CpuBackend backend;
      ParameterStore store = make_store(backend, DataType::kFloat32, sharers);
      saved.resize(static_cast<std::size_t>(store.size()));
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
    expect_parameters_once(saved, sharers);
  }
}

TEST(Optimizer, LeavesGradientsAtZero) {
  CpuBackend backend;
  ParameterStore store = make_store(backend, DataType::kBFloat16, 3);
  Optimizer optimizer(backend,
                      {{.store = &store, .group_size = 3, .group_rank = 1, .shards_states = true}});
  const std::vector<double> zeros(static_cast<std::size_t>(store.size()));
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
  ASSERT_EQ(norm.range.first, place_of(kTable, 1));

  const auto table = optimizer.owned_slices(0)[0];
  const auto masters = values_of(backend, table.master);
  const auto initial = values_of(backend, exact.all_weights());
  for (std::int64_t i = 0; i < kTable; ++i) {
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
  EXPECT_EQ(values_of(backend, store.all_weights()),
            flat_of(std::vector<double>(kSize, 1.0), store.size(), 1, 0.0));
}

}  // namespace
}  // namespace ptdp
