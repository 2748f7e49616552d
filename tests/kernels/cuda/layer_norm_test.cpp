// Layer norm on a GPU against that of a host in f64.
#include <map>

#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

constexpr double kNormEpsilon = 1e-5;

struct RowsOfWidth {
  std::int64_t rows = 0;
  std::int64_t h = 0;
};
// Of one element; chunks that are whole and not; rows that registers hold, twos and fours of chunks
// to a thread, and that they do not.
constexpr std::array<RowsOfWidth, 11> kGpuNormShapes = {{{1, 1},
                                                         {3, 5},
                                                         {2, 64},
                                                         {300, 8},
                                                         {7, 129},
                                                         {5, 768},
                                                         {4, 1024},
                                                         {2, 8200},
                                                         {2, 16392},
                                                         {1, 25600},
                                                         {1, 33000}}};

std::string name_of_norm(DataType type, const RowsOfWidth& shape) {
  return std::string(name_of(type)) + " " + std::to_string(shape.rows) + "x" +
         std::to_string(shape.h);
}

/// Values of a layer norm's buffers, by name.
using NormValues = std::map<std::string, Values>;

NormValues random_norm(DataType type, const RowsOfWidth& shape, unsigned seed) {
  const DataType accumulator = accumulator_of(type);
  const std::int64_t size = shape.rows * shape.h;
  NormValues values{{"x", random_values(size, seed, type)},
                    {"gamma", random_values(shape.h, seed + 1, type)},
                    {"beta", random_values(shape.h, seed + 2, type)},
                    {"dy", random_values(size, seed + 3, type)},
                    {"dx", random_values(size, seed + 4, type)},
                    {"dgamma", random_values(shape.h, seed + 5, accumulator)},
                    {"dbeta", random_values(shape.h, seed + 6, accumulator)},
                    {"mean", random_values(shape.rows, seed + 7, accumulator)},
                    {"rstd", random_values(shape.rows, seed + 8, accumulator)}};
  for (double& x : values["x"]) {
    x = rounded(3.0 + 2.0 * x, type);
  }
  for (double& rstd : values["rstd"]) {
    rstd = rounded(0.25 + std::abs(rstd), accumulator);
  }
  return values;
}

class GpuLayerNorm : public OnGpu {
 protected:
  /// Values on the GPU, `offset` elements behind a boundary.
  Buffer put(DataType type, Values values, std::int64_t offset) {
    const auto size = static_cast<std::int64_t>(values.size());
    values.insert(values.begin(), static_cast<std::size_t>(offset), 0.0);
    kept_.push_back(on_gpu(type, values));
    return kept_.back().buffer().slice(offset, size);
  }
  Buffer put_poison(DataType type, std::int64_t size, std::int64_t offset) {
    return put(type, Values(static_cast<std::size_t>(size), std::nan("")), offset);
  }

  /// y, mean and rstd.
  std::array<Values, 3> forward(DataType type, const RowsOfWidth& shape, const NormValues& in,
                                std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const Buffer y = put_poison(type, shape.rows * shape.h, offset);
    const Buffer mean = put_poison(accumulator, shape.rows, offset);
    const Buffer rstd = put_poison(accumulator, shape.rows, offset);
    gpu().layer_norm(put(type, in.at("x"), offset), put(type, in.at("gamma"), offset),
                     put(type, in.at("beta"), offset), kNormEpsilon, y, mean, rstd, shape.rows);
    return {values_of(y), values_of(mean), values_of(rstd)};
  }
  /// dx, dgamma and dbeta.
  std::array<Values, 3> backward(DataType type, const RowsOfWidth& shape, const NormValues& in,
                                 std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const Buffer dx = put(type, in.at("dx"), offset);
    const Buffer dgamma = put(accumulator, in.at("dgamma"), offset);
    const Buffer dbeta = put(accumulator, in.at("dbeta"), offset);
    gpu().layer_norm_backward(put(type, in.at("dy"), offset), put(type, in.at("x"), offset),
                              put(accumulator, in.at("mean"), offset),
                              put(accumulator, in.at("rstd"), offset),
                              put(type, in.at("gamma"), offset), dx, dgamma, dbeta, shape.rows);
    return {values_of(dx), values_of(dgamma), values_of(dbeta)};
  }

 private:
  std::vector<Tensor> kept_;
};

TEST_F(GpuLayerNorm, AgreesWithTheHostInF64) {
  for (const DataType type : kGpuTypes) {
    for (const RowsOfWidth& shape : kGpuNormShapes) {
      const std::string what = name_of_norm(type, shape);
      const NormValues in = random_norm(type, shape, 1);
      const Tensor y = poisoned(host(), kDouble, shape.rows * shape.h);
      const Tensor mean = poisoned(host(), kDouble, shape.rows);
      const Tensor rstd = poisoned(host(), kDouble, shape.rows);
      host().layer_norm(
          tensor_of(host(), kDouble, in.at("x")), tensor_of(host(), kDouble, in.at("gamma")),
          tensor_of(host(), kDouble, in.at("beta")), kNormEpsilon, y, mean, rstd, shape.rows);
      const auto found = forward(type, shape, in);
      expect_near_in_norm(found[0], read_values(y), allowed_error(type), what + ", y");
      expect_near_in_norm(found[1], read_values(mean), 1e-5, what + ", mean");
      expect_near_in_norm(found[2], read_values(rstd), 1e-5, what + ", rstd");
    }
  }
}

TEST_F(GpuLayerNorm, AddsTheGradientsOfTheHostInF64) {
  for (const DataType type : kGpuTypes) {
    for (const RowsOfWidth& shape : kGpuNormShapes) {
      const std::string what = name_of_norm(type, shape);
      const NormValues in = random_norm(type, shape, 2);
      const auto on_host = [&](const char* name) {
        return tensor_of(host(), kDouble, in.at(name));
      };
      const Tensor dx = on_host("dx");
      const Tensor dgamma = on_host("dgamma");
      const Tensor dbeta = on_host("dbeta");
      host().layer_norm_backward(on_host("dy"), on_host("x"), on_host("mean"), on_host("rstd"),
                                 on_host("gamma"), dx, dgamma, dbeta, shape.rows);
      const auto found = backward(type, shape, in);
      expect_near_in_norm(found[0], read_values(dx), allowed_error(type), what + ", dx");
      expect_near_in_norm(found[1], read_values(dgamma), 1e-5, what + ", dgamma");
      expect_near_in_norm(found[2], read_values(dbeta), 1e-5, what + ", dbeta");
    }
  }
}

// More rows than blocks, so that a block has several.
TEST_F(GpuLayerNorm, AddsTheGradientsOfManyRows) {
  constexpr RowsOfWidth shape{2500, 8};
  const NormValues in = random_norm(DataType::kBFloat16, shape, 3);
  const auto found = backward(DataType::kBFloat16, shape, in);
  // Of beta's it is the sum.
  Values expected = in.at("dbeta");
  for (std::size_t i = 0; i < in.at("dy").size(); ++i) {
    expected[i % expected.size()] += in.at("dy")[i];
  }
  expect_near_in_norm(found[2], expected, 1e-5, "dbeta");
  const RowsOfWidth last{1, shape.h};
  NormValues of_last = in;
  for (const char* const name : {"x", "dy", "dx", "mean", "rstd"}) {
    Values& values = of_last.at(name);
    values.erase(values.begin(),
                 values.end() - static_cast<std::ptrdiff_t>(values.size()) / shape.rows);
  }
  const Values alone = backward(DataType::kBFloat16, last, of_last)[0];
  EXPECT_EQ(Values(found[0].end() - shape.h, found[0].end()), alone);
}

TEST_F(GpuLayerNorm, GivesTheSameBitsAgainAndAtAnyAlignment) {
  for (const DataType type : kGpuTypes) {
    for (const RowsOfWidth& shape :
         {RowsOfWidth{5, 776}, RowsOfWidth{300, 72}, RowsOfWidth{2, 8256}, RowsOfWidth{3, 77}}) {
      const std::string what = name_of_norm(type, shape);
      const NormValues in = random_norm(type, shape, 4);
      const auto y = forward(type, shape, in);
      const auto gradients = backward(type, shape, in);
      for (const std::int64_t offset : {0, 1, 4}) {
        EXPECT_EQ(forward(type, shape, in, offset), y) << what << ", offset " << offset;
        EXPECT_EQ(backward(type, shape, in, offset), gradients) << what << ", offset " << offset;
      }
    }
  }
}

TEST_F(GpuLayerNorm, IsAccurateFarFromZero) {
  constexpr RowsOfWidth shape{1, 1000};
  NormValues in = random_norm(DataType::kFloat32, shape, 5);
  for (double& x : in["x"]) {
    x = rounded(1e4 + x, DataType::kFloat32);
  }
  double mean = 0.0;
  for (const double x : in["x"]) {
    mean += x / 1000.0;
  }
  double variance = 0.0;
  for (const double x : in["x"]) {
    variance += (x - mean) * (x - mean) / 1000.0;
  }
  const Values found = forward(DataType::kFloat32, shape, in)[2];
  EXPECT_NEAR(found[0], 1.0 / std::sqrt(variance + kNormEpsilon), 1e-5);
}

TEST_F(GpuLayerNorm, OfNoRowsDoesNothing) {
  constexpr RowsOfWidth shape{0, 16};
  const NormValues in = random_norm(DataType::kBFloat16, shape, 6);
  forward(DataType::kBFloat16, shape, in);
  const auto found = backward(DataType::kBFloat16, shape, in);
  EXPECT_EQ(found[1], in.at("dgamma"));
  EXPECT_EQ(found[2], in.at("dbeta"));
}

}  // namespace
}  // namespace ptdp
