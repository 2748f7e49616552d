// AdamW, the norm of gradients and initial values on a GPU.
#include "kernels/counter_random.h"
#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

/// Buffers of one backend that slices are cut from: master, m, v and gradient, and weights.
struct StepBuffers {
  std::array<Tensor, 4> states;
  Tensor weights;  ///< None where they are the master.
};

/// A slice of each of them.
struct StepPart {
  std::int64_t first = 0;
  std::int64_t size = 0;
  bool decays = true;
};

std::vector<AdamWSlice> slices_of(const StepBuffers& buffers, const std::vector<StepPart>& parts) {
  std::vector<AdamWSlice> slices;
  for (const auto& [first, size, decays] : parts) {
    const auto part = [first = first, size = size](const Tensor& all) {
      return all.buffer().slice(first, size);
    };
    slices.push_back({part(buffers.states[0]), part(buffers.states[1]), part(buffers.states[2]),
                      part(buffers.states[3]),
                      part(buffers.weights.empty() ? buffers.states[0] : buffers.weights), decays});
  }
  return slices;
}

/// Slices of any size and alignment, more than one launch takes, with elements between them that
/// belong to none.
std::vector<StepPart> many_parts() {
  std::vector<StepPart> parts;
  std::int64_t first = 0;
  for (int i = 0; i < 150; ++i) {
    const std::int64_t size = i % 50 == 7 ? 2500 : i % 9 == 0 ? 0 : 1 + 37 * i % 101;
    parts.push_back({first, size, i % 3 != 0});
    first += size + i % 5;
  }
  // At multiples of 16 bytes.
  first = (first + 15) / 16 * 16;
  for (const std::int64_t size : {1024, 4096, 5000, 4}) {
    parts.push_back({first, size, size != 4096});
    first += (size + 15) / 16 * 16;
  }
  return parts;
}

constexpr AdamW kGpuStep{.learning_rate = 0.01,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .epsilon = 1e-8,
                         .weight_decay = 0.1,
                         .step = 3,
                         .gradient_scale = 0.25};

class GpuOptimizer : public OnGpu {
 protected:
  /// Master, m, v >= 0 and gradient of a step.
  static std::array<Values, 4> random_states(std::int64_t size) {
    const auto type = DataType::kFloat32;
    std::array<Values, 4> states = {random_values(size, 1, type), random_values(size, 2, type),
                                    random_values(size, 3, type), random_values(size, 4, type)};
    for (double& v : states[2]) {
      v = std::abs(v);
    }
    return states;
  }
  /// A step of all parts on the GPU; the buffers' values afterwards, the weights' last.
  std::vector<Values> stepped_on_gpu(const std::array<Values, 4>& states, DataType weights,
                                     const std::vector<StepPart>& parts) {
    StepBuffers buffers;
    for (std::size_t i = 0; i < states.size(); ++i) {
      buffers.states[i] = on_gpu(DataType::kFloat32, states[i]);
    }
    buffers.weights = on_gpu(weights, Values(states[0].size(), 7.0));
    gpu().adamw(kGpuStep, slices_of(buffers, parts));
    return values_after(buffers, [&](const Buffer& buffer) { return values_of(buffer); });
  }
  /// The same on the host, in types of its own.
  std::vector<Values> stepped_on_host(const std::array<Values, 4>& states, DataType state,
                                      DataType weights, const std::vector<StepPart>& parts) {
    StepBuffers buffers;
    for (std::size_t i = 0; i < states.size(); ++i) {
      buffers.states[i] = tensor_of(host(), state, states[i]);
    }
    buffers.weights = tensor_of(host(), weights, Values(states[0].size(), 7.0));
    host().adamw(kGpuStep, slices_of(buffers, parts));
    return values_after(buffers, read_values);
  }
  double sum_of_squares(const Buffer& x, double before) {
    const Tensor total = on_gpu(kDouble, {before});
    gpu().add_squares(x, total);
    return values_of(total)[0];
  }

 private:
  template <class Get>
  static std::vector<Values> values_after(const StepBuffers& buffers, const Get& get) {
    std::vector<Values> values;
    for (const Tensor& state : buffers.states) {
      values.push_back(get(state));
    }
    values.push_back(get(buffers.weights));
    return values;
  }
};

constexpr std::array<const char*, 5> kNamesOfStates = {"master", "first moment", "second moment",
                                                       "gradient", "weights"};

TEST_F(GpuOptimizer, StepsAsTheHostDoesInF64) {
  const std::vector<StepPart> parts = many_parts();
  const std::int64_t size = parts.back().first + parts.back().size + 3;
  const std::array<Values, 4> states = random_states(size);
  const std::vector<Values> expected = stepped_on_host(states, kDouble, kDouble, parts);
  for (const DataType type : kGpuTypes) {
    const std::vector<Values> found = stepped_on_gpu(states, type, parts);
    for (std::size_t i = 0; i < found.size(); ++i) {
      expect_near_in_norm(found[i], expected[i], i < 4 ? 1e-5 : allowed_error(type),
                          std::string(name_of(type)) + ", " + kNamesOfStates[i]);
    }
  }
}

// Also: what lies between the slices stays as it was.
TEST_F(GpuOptimizer, GivesTheBitsThatTheHostGivesInF32) {
  const std::vector<StepPart> parts = many_parts();
  const std::int64_t size = parts.back().first + parts.back().size + 3;
  const std::array<Values, 4> states = random_states(size);
  for (const DataType type : kGpuTypes) {
    const std::vector<Values> expected = stepped_on_host(states, DataType::kFloat32, type, parts);
    const std::vector<Values> found = stepped_on_gpu(states, type, parts);
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i] == expected[i]) << name_of(type) << ", " << kNamesOfStates[i];
    }
  }
}

// By hand: 1 − 0.1·(2/2 + 0.5·1) = 0.85 with decay, 1 − 0.1 = 0.9 without.
TEST_F(GpuOptimizer, MayWriteTheWeightsToTheMaster) {
  const auto f32 = DataType::kFloat32;
  const StepBuffers buffers{{on_gpu(f32, {1.0, 1.0}), on_gpu(f32, {0.0, 0.0}),
                             on_gpu(f32, {0.0, 0.0}), on_gpu(f32, {2.0, 2.0})},
                            {}};
  gpu().adamw({.learning_rate = 0.1, .epsilon = 0.0, .weight_decay = 0.5},
              slices_of(buffers, {{0, 1, true}, {1, 1, false}}));
  expect_close(values_of(buffers.states[0]), {0.85, 0.9}, 1e-6, 1.0, "weights");
}

TEST_F(GpuOptimizer, OfNoSlicesDoesNothing) {
  gpu().adamw(kGpuStep, {});
  gpu().adamw(kGpuStep, std::array{AdamWSlice{}});
  gpu().synchronize();
}

TEST_F(GpuOptimizer, SumsSquaresInF64AndAddsThemToTheTotal) {
  // Sums of equal powers of two are exact in any order.
  for (const std::int64_t size : {1, 31, 257, 1025, 5001, 300'000}) {
    const Tensor x = on_gpu(DataType::kFloat32, Values(static_cast<std::size_t>(size), 0.03125));
    EXPECT_EQ(sum_of_squares(x, 1.0), 1.0 + static_cast<double>(size) * 0.03125 * 0.03125);
  }
  EXPECT_EQ(sum_of_squares(on_gpu(DataType::kFloat32, {0x1p100}), 0.0), 0x1p200);
  EXPECT_EQ(sum_of_squares(Buffer(), 5.0), 5.0);
}

TEST_F(GpuOptimizer, SumsSquaresOfAnySliceToTheSameBits) {
  constexpr std::int64_t size = 12'345;
  const Values values = random_values(size, 5, DataType::kFloat32);
  double expected = 0.0;
  for (const double x : values) {
    expected += x * x;
  }
  const double found = sum_of_squares(on_gpu(DataType::kFloat32, values), 0.0);
  EXPECT_NEAR(found, expected, 1e-12 * expected);
  Values shifted = values;
  shifted.insert(shifted.begin(), 3, std::nan(""));
  shifted.push_back(std::nan(""));
  const Tensor all = on_gpu(DataType::kFloat32, shifted);
  EXPECT_EQ(sum_of_squares(all.buffer().slice(3, size), 0.0), found);
}

TEST_F(GpuOptimizer, ShowsInTheSumOfSquaresWhatIsNotFinite) {
  constexpr std::size_t size = 3000;
  for (const double fault :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{1777}, size - 1}) {
      Values x(size, 1.0);
      x[place] = fault;
      EXPECT_FALSE(std::isfinite(sum_of_squares(on_gpu(DataType::kFloat32, x), 0.0)));
    }
  }
}

TEST_F(GpuOptimizer, FillsABlockWithTheHostsVariates) {
  constexpr std::uint64_t key = 0x1234567890ABCDEF;
  const MatrixBlock block{.first_row = 1'000'000'007,
                          .first_column = 5,
                          .rows = 37,
                          .columns = 21,
                          .total_columns = 50};
  const std::int64_t size = block.rows * block.columns;
  for (const DataType type : kWorkingTypes) {
    const Tensor x = poisoned_on_gpu(type, size + 1);
    gpu().fill_normal(x.buffer().slice(1, size), block, key, 0.02);
    const Values found = values_of(x.buffer().slice(1, size));
    // One more unit in the last place where the host's log or cos rounded to the other side.
    const double allowed = type == kDouble ? 1e-12 : 2.0 * rounding_of(type);
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t number = (block.first_row + i / block.columns) * block.total_columns +
                                  block.first_column + i % block.columns;
      const double expected =
          rounded(0.02 * random_normal(key, static_cast<std::uint64_t>(number)), type);
      ASSERT_NEAR(found[static_cast<std::size_t>(i)], expected,
                  std::max(allowed * std::abs(expected), 0x1p-24))
          << name_of(type) << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace ptdp
