// Cross-entropy on a GPU against that of a host in f64.
#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

constexpr double kLossScale = 0.125;

/// Logits whose columns `ranks` share equally.
struct LossShape {
  std::int64_t rows = 0;
  std::int64_t padded = 0;  ///< Columns of all ranks together.
  std::int64_t valid = 0;
  int ranks = 1;
};
constexpr std::array<LossShape, 9> kLossShapes = {{{1, 1, 1, 1},
                                                   {3, 5, 5, 1},
                                                   {4, 32, 29, 2},
                                                   {5, 128, 100, 4},
                                                   {2, 256, 3, 4},
                                                   {7, 1030, 1025, 2},
                                                   {3, 4096, 4096, 1},
                                                   {2, 9000, 8999, 1},
                                                   {2, 50304, 50257, 2}}};

/// What ranks find together.
struct LossValues {
  Values maxima;
  Values sums;
  double loss = 0.0;
  Values gradient;

  bool operator==(const LossValues&) const = default;
};

/// Runs all ranks on one backend: `put` makes a buffer there, `get` reads one.
template <class Put, class Get>
LossValues loss_of(Backend& backend, const LossShape& shape, DataType type, const Values& logits,
                   const Values& targets, const Put& put, const Get& get) {
  const DataType accumulator = accumulator_of(type);
  const std::int64_t width = shape.padded / shape.ranks;
  const double none = -std::numeric_limits<double>::infinity();
  const auto rows = static_cast<std::size_t>(shape.rows);
  const Buffer ids = put(DataType::kInt32, targets);
  const Buffer maxima = put(accumulator, Values(rows, none));
  const Buffer sums = put(accumulator, Values(2 * rows, 0.0));
  const Buffer own_maxima = put(accumulator, Values(rows, std::nan("")));
  const Buffer own_sums = put(accumulator, Values(2 * rows, std::nan("")));
  std::vector<Buffer> parts;
  std::vector<VocabShard> shards;
  for (std::int64_t first = 0; first < shape.padded; first += width) {
    Values part;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto begin = logits.begin() + row * shape.padded + first;
      part.insert(part.end(), begin, begin + width);
    }
    parts.push_back(put(type, part));
    shards.push_back({.first = first, .width = width, .num_valid = shape.valid});
    backend.row_maxima(parts.back(), shards.back(), own_maxima, shape.rows);
    backend.maximum(own_maxima, maxima);
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    backend.softmax_sums(parts[rank], shards[rank], ids, maxima, own_sums, shape.rows);
    backend.add(own_sums, sums);
  }
  const Buffer total = put(kDouble, {2.0});
  backend.add_losses(sums, total, shape.rows);
  LossValues found{get(maxima), get(sums), get(total)[0], {}};
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    backend.cross_entropy_backward(parts[rank], shards[rank], ids, maxima, sums, kLossScale,
                                   shape.rows);
    const Values own = get(parts[rank]);
    found.gradient.insert(found.gradient.end(), own.begin(), own.end());
  }
  return found;
}

class GpuCrossEntropy : public OnGpu {
 protected:
  /// On the GPU, buffers `offset` elements behind a boundary.
  LossValues found(const LossShape& shape, DataType type, const Values& logits,
                   std::int64_t offset = 0) {
    std::vector<Tensor> kept;
    const auto put = [&](DataType of, Values values) {
      const auto size = static_cast<std::int64_t>(values.size());
      values.insert(values.begin(), static_cast<std::size_t>(offset), 0.0);
      kept.push_back(on_gpu(of, values));
      return kept.back().buffer().slice(offset, size);
    };
    return loss_of(gpu(), shape, type, logits, targets_of(shape), put,
                   [&](const Buffer& buffer) { return values_of(buffer); });
  }
  /// In f64.
  LossValues expected(const LossShape& shape, const Values& logits) {
    std::vector<Tensor> kept;
    const auto put = [&](DataType of, const Values& values) {
      kept.push_back(tensor_of(host(), of, values));
      return kept.back().buffer();
    };
    return loss_of(host(), shape, kDouble, logits, targets_of(shape), put, read_values);
  }
  /// Columns that pad hold what would show in every sum.
  static Values logits_of(const LossShape& shape, DataType type, unsigned seed) {
    Values logits = random_values(shape.rows * shape.padded, seed, type);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto column = static_cast<std::int64_t>(i) % shape.padded;
      logits[i] = rounded(2.0 * logits[i], type);
      if (column >= shape.valid) {
        logits[i] = column % 2 == 0 ? std::nan("") : 1e4;
      }
    }
    return logits;
  }

 private:
  static Values targets_of(const LossShape& shape) {
    Values targets;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      targets.push_back(static_cast<double>((7919 * row + shape.valid - 1) % shape.valid));
    }
    return targets;
  }
};

TEST_F(GpuCrossEntropy, AgreesWithTheHostInF64) {
  for (const DataType type : kGpuTypes) {
    for (const LossShape& shape : kLossShapes) {
      const std::string what = std::string(name_of(type)) + ", width " +
                               std::to_string(shape.padded) + ", ranks " +
                               std::to_string(shape.ranks);
      const Values logits = logits_of(shape, type, 1);
      const LossValues right = expected(shape, logits);
      const LossValues on_device = found(shape, type, logits);
      EXPECT_EQ(on_device.maxima, right.maxima) << what;
      expect_near_in_norm(on_device.sums, right.sums, 1e-5, what + ", sums");
      EXPECT_NEAR(on_device.loss, right.loss, 1e-5 * right.loss) << what;
      expect_near_in_norm(on_device.gradient, right.gradient, allowed_error(type),
                          what + ", gradient");
    }
  }
}

TEST_F(GpuCrossEntropy, GivesTheSameBitsAgainAndAtAnyAlignment) {
  for (const DataType type : kGpuTypes) {
    for (const LossShape& shape :
         {LossShape{3, 1024, 1021, 2}, LossShape{2, 9000, 8999, 1}, LossShape{3, 77, 70, 1}}) {
      const Values logits = logits_of(shape, type, 2);
      const LossValues first = found(shape, type, logits);
      for (const std::int64_t offset : {0, 1, 2}) {
        EXPECT_EQ(found(shape, type, logits, offset), first)
            << name_of(type) << ", width " << shape.padded << ", offset " << offset;
      }
    }
  }
}

TEST_F(GpuCrossEntropy, DoesNotOverflowForLargeLogits) {
  const LossShape shape{.rows = 1, .padded = 4, .valid = 4, .ranks = 2};
  for (const DataType type : kGpuTypes) {
    // The target is the last; bf16 holds these exactly.
    const LossValues on_device = found(shape, type, {1000.0, -1000.0, 0.0, 992.0});
    // log(1 + e^-8) + 8, and the total that was there.
    EXPECT_NEAR(on_device.loss, 2.0 + 8.0 + std::log1p(std::exp(-8.0)), 1e-4) << name_of(type);
    EXPECT_NEAR(on_device.gradient[0], kLossScale, 1e-3) << name_of(type);
    EXPECT_NEAR(on_device.gradient[3], -kLossScale, 1e-3) << name_of(type);
  }
}

TEST_F(GpuCrossEntropy, ShowsWhatIsNotANumber) {
  const LossShape shape{.rows = 3, .padded = 1000, .valid = 1000};
  for (const DataType type : kGpuTypes) {
    for (const std::size_t place : {1000U, 1333U, 1999U}) {
      Values logits = logits_of(shape, type, 3);
      logits[place] = std::nan("");
      const LossValues on_device = found(shape, type, logits);
      EXPECT_TRUE(std::isnan(on_device.maxima[1])) << name_of(type) << ", " << place;
      EXPECT_FALSE(std::isnan(on_device.maxima[0]) || std::isnan(on_device.maxima[2]));
      EXPECT_TRUE(std::isnan(on_device.loss));
    }
  }
}

TEST_F(GpuCrossEntropy, OfNoRowsAddsNothing) {
  const LossShape shape{.rows = 0, .padded = 8, .valid = 8};
  EXPECT_EQ(found(shape, DataType::kBFloat16, {}).loss, 2.0);
}

TEST_F(GpuCrossEntropy, SumsTheLossesOfManyRowsInF64) {
  constexpr std::int64_t num_rows = 70'001;
  Values sums(num_rows, 1.0);
  Values of_targets = random_values(num_rows, 4, DataType::kFloat32);
  double expected = 1e6;
  for (std::size_t row = 0; row < num_rows; ++row) {
    sums[row] = rounded(1.0 + std::abs(of_targets[row]), DataType::kFloat32);
    expected += std::log(sums[row]) - of_targets[row];
  }
  sums.insert(sums.end(), of_targets.begin(), of_targets.end());
  const Tensor total = on_gpu(kDouble, {1e6});
  gpu().add_losses(on_gpu(DataType::kFloat32, sums), total, num_rows);
  EXPECT_NEAR(values_of(total)[0], expected, 1e-12 * expected);
}

}  // namespace
}  // namespace ptdp
