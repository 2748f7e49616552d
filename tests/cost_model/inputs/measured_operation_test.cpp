// Tests of measured operations: how they correct modelled times, and which points are refused.
#include "cost_model/inputs/measured_operation.h"

#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/round_trip.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using Point = MeasuredOperation::Point;
using testing::HasSubstr;

Point point(double m, double n, double k, double us) {
  return {.sizes = {m, n, k}, .time = microseconds(us)};
}

MeasuredOperation table(std::vector<Point> points) {
  return {DeviceOperation::kForwardProduct, Precision::kFp32, std::move(points), "table"};
}

/// Returns a model time of 1 ns for each multiply-add.
Seconds modelled(const OperationSizes& sizes) {
  return Seconds(1e-9 * sizes[0] * sizes[1] * sizes[2]);
}

TEST(MeasuredOperation, IsExactWhereItWasMeasured) {
  const MeasuredOperation products =
      table({point(64, 64, 64, 400), point(128, 64, 64, 500), point(64, 128, 256, 2500)});
  for (const Point& measured : products.points()) {
    const double time =
        modelled(measured.sizes).value() * products.correction(measured.sizes, modelled);
    EXPECT_NEAR(time / measured.time.value(), 1.0, 1e-12);
  }
}

// Halfway in log2 between two points their weights are equal: the geometric mean of 2 and 0.5.
TEST(MeasuredOperation, TakesTheGeometricMeanHalfwayBetweenTwoPoints) {
  const MeasuredOperation products = table({point(16, 16, 16, 8.192), point(64, 16, 16, 8.192)});
  EXPECT_NEAR(products.correction({16, 16, 16}, modelled), 2.0, 1e-12);
  EXPECT_NEAR(products.correction({64, 16, 16}, modelled), 0.5, 1e-12);
  EXPECT_NEAR(products.correction({32, 16, 16}, modelled), 1.0, 1e-12);
}

// At distances 1 and 3 (log2) weights are 81 to 1: exp((81 ln 2 + ln 0.5) / 82) = 2^(80/82).
TEST(MeasuredOperation, WeighsPointsByTheFourthPowerOfTheirDistance) {
  const MeasuredOperation products = table({point(16, 16, 16, 8.192), point(256, 16, 16, 32.768)});
  EXPECT_NEAR(products.correction({32, 16, 16}, modelled), std::pow(2.0, 80.0 / 82.0), 1e-12);
}

// Ratios 2 and 0.5 at a first size of 16 and of 1024, and 8 where the second size is four times as
// long. Without the first size two points are at the same place and count alike. Halfway to the
// third all three weigh the same: the third root of 2·0.5·8.
TEST(MeasuredOperation, LeavesOutSizesThatTimesAreProportionalTo) {
  const MeasuredOperation products =
      table({point(16, 16, 16, 8.192), point(1024, 16, 16, 131.072), point(32, 64, 16, 262.144)});
  EXPECT_NEAR(products.correction({16, 16, 16}, modelled), 2.0, 1e-12);
  EXPECT_NEAR(products.correction({16, 16, 16}, modelled, 1), 1.0, 1e-12);
  EXPECT_NEAR(products.correction({4096, 64, 16}, modelled, 1), 8.0, 1e-12);
  EXPECT_NEAR(products.correction({7, 32, 16}, modelled, 1), 2.0, 1e-12);
}

/// Returns the powers 1, base, base², ... below `end`.
std::vector<double> powers(double base, double end) {
  std::vector<double> all = {1.0};
  while (all.back() * base < end) {
    all.push_back(all.back() * base);
  }
  return all;
}

TEST(MeasuredOperation, IsPositiveAndBetweenTheRatiosOfItsPointsEverywhere) {
  const MeasuredOperation products = table({point(16, 16, 16, 6), point(64, 32, 16, 25),
                                            point(256, 64, 512, 12000), point(512, 512, 64, 9000)});
  double least = 1e9;
  double most = 0.0;
  for (const Point& measured : products.points()) {
    const double ratio = measured.time / modelled(measured.sizes);
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  for (const double m : powers(3.7, 1e6)) {
    for (const double n : powers(5.3, 1e6)) {
      for (const double k : powers(7.9, 1e6)) {
        const double correction = products.correction({m, n, k}, modelled);
        EXPECT_GE(correction, least * (1 - 1e-12));
        EXPECT_LE(correction, most * (1 + 1e-12));
      }
    }
  }
}

TEST(MeasuredOperation, IsTheModelTimesTheGeometricMeanFarAway) {
  const MeasuredOperation products = table({point(16, 16, 16, 8.192), point(64, 16, 16, 8.192)});
  // Distances of 35.86·√3 and √(33.86² + 2·35.86²): weights of 1 to 1.0767, and 2^(−0.0767/2.0767).
  EXPECT_NEAR(products.correction({1e12, 1e12, 1e12}, modelled), 0.9747, 2e-4);
}

TEST(MeasuredOperation, CoversAFactorOfFourInEverySize) {
  const MeasuredOperation products = table({point(64, 64, 64, 400), point(128, 64, 64, 500)});
  EXPECT_TRUE(products.covers({256, 64, 16}));
  EXPECT_FALSE(products.covers({256, 64, 15}));
  EXPECT_FALSE(products.covers({513, 64, 64}));
}

TEST(MeasuredOperation, RefusesWhatCannotBeMeasurementsOfOneMachine) {
  const auto message = [](std::vector<Point> points) {
    return message_of([&] { return table(std::move(points)); });
  };
  EXPECT_THAT(message({}), HasSubstr("table: expected 2 to 2000 points, got 0"));
  EXPECT_THAT(message({point(8, 8, 8, 1)}), HasSubstr("got 1"));
  EXPECT_THAT(message({point(8, 8, 8, 1), point(8, 8, 8, 1.1)}), HasSubstr("same sizes twice"));
  EXPECT_THAT(message({point(8, 8, 8, 1), point(16, 8, 8, 100)}), HasSubstr("an outlier"));
  EXPECT_THAT(message({point(8, 8, 8, 100), point(16, 8, 8, 2)}), HasSubstr("an outlier"));
  EXPECT_THAT(message({point(8, 8, 8, 1), point(8, 8, 1024, 100)}), HasSubstr("a gap"));
}

/// Returns measured copies of fp32 on a host with caches. A copy takes a start-up time and its
/// traffic at the bandwidth of the level that holds both buffers. Levels: 400 GB/s up to 32 KB, 100
/// up to 1 MB, 40 up to 16 MB, and 8 beyond (a memory that others use, too).
std::vector<Point> copies_through_caches() {
  std::vector<Point> points;
  for (int exponent = 8; exponent <= 23; exponent += 3) {
    const double width = 1 << exponent;
    const double bytes = 8.0 * width;
    const double rate = bytes <= 32768 ? 300e3 : bytes <= 1e6 ? 100e3 : bytes <= 16e6 ? 40e3 : 20e3;
    points.push_back(point(1, width, 1, 0.01 + bytes / rate));
  }
  return points;
}

MeasuredOperation copy_table(std::vector<Point> points) {
  return {DeviceOperation::kCopy, Precision::kFp32, std::move(points), "table"};
}

// 2048 elements in 0.0547 us and 8388608 in 1797 us were measured on a host: 8.02 times as much an
// element.
TEST(MeasuredOperation, AdmitsWhatCachesDoToATime) {
  EXPECT_EQ(copy_table(copies_through_caches()).points().size(), 6U);
  std::vector<Point> of_a_host = copies_through_caches();
  of_a_host[1].time = microseconds(0.0547);
  of_a_host[5].time = microseconds(1797.03);
  EXPECT_EQ(copy_table(of_a_host).points().size(), 6U);
}

TEST(MeasuredOperation, RefusesAHundredfoldTimeAnywhereInATable) {
  std::vector<Point> products;
  for (const double m : {32, 128, 512}) {
    for (const double n : {64, 256, 1024}) {
      for (const double k : {64, 256, 1024}) {
        products.push_back(point(m, n, k, 0.2 + 1e-5 * m * n * (k + 30)));  // 100 GMAC/s
      }
    }
  }
  const std::vector<Point> copies = copies_through_caches();
  for (const double factor : {100.0, 0.01}) {
    for (std::size_t i = 0; i < products.size(); ++i) {
      std::vector<Point> wrong = products;
      wrong[i].time = factor * wrong[i].time;
      EXPECT_THAT(message_of([&] { return table(wrong); }), HasSubstr("an outlier")) << i;
      EXPECT_THAT(find_outliers(DeviceOperation::kForwardProduct, wrong), testing::ElementsAre(i));
    }
    for (std::size_t i = 0; i < copies.size(); ++i) {
      std::vector<Point> wrong = copies;
      wrong[i].time = factor * wrong[i].time;
      EXPECT_THAT(message_of([&] { return copy_table(wrong); }), HasSubstr("an outlier")) << i;
    }
  }
}

TEST(FindOutliers, LeavesATableThatIsNotRefused) {
  const DeviceOperation operation = DeviceOperation::kForwardProduct;
  EXPECT_THAT(find_outliers(operation, {}), testing::IsEmpty());
  const std::vector<Point> good = {point(8, 8, 8, 1), point(16, 8, 8, 2), point(16, 16, 8, 4)};
  EXPECT_THAT(find_outliers(operation, good), testing::IsEmpty());
  // Of two points that contradict each other, the one that is slow for its work is the outlier.
  EXPECT_THAT(find_outliers(operation, {point(8, 8, 8, 1), point(16, 8, 8, 100)}),
              testing::ElementsAre(1));
  EXPECT_THAT(find_outliers(operation, {point(8, 8, 8, 100), point(16, 8, 8, 2)}),
              testing::ElementsAre(0));
  // The middle point connects the last one to the first; without it the last lies alone.
  EXPECT_THAT(find_outliers(operation, {point(8, 8, 8, 1), point(16, 8, 8, 2),
                                        point(8, 8, 512, 9000), point(8, 8, 1024, 100)}),
              testing::ElementsAre(2, 3));
}

TEST(MeasuredOperation, LetsAttentionGrowWithTheSquareOfTheSequence) {
  const MeasuredOperation attention(DeviceOperation::kAttention, Precision::kFp32,
                                    {point(2, 64, 64, 50), point(2, 2048, 64, 51200)}, "table");
  EXPECT_EQ(attention.points().size(), 2U);
}

TEST(MeasuredOperation, IsReadAsColumnsAndNamesTheColumnThatIsShort) {
  const auto read = [](const std::string& text) {
    ObjectReader reader = ObjectReader::from_text(text, "file");
    MeasuredOperation measured;
    describe(reader, measured);
    reader.finish();
    return measured;
  };
  const MeasuredOperation norms = read(
      R"({"operation": "layer-norm", "precision": "bf16", "rows": [8, 16], "width": [64, 64],
          "time_us": [1.5, 2.5]})");
  EXPECT_EQ(norms, MeasuredOperation(DeviceOperation::kLayerNorm, Precision::kBf16,
                                     {point(8, 64, 1, 1.5), point(16, 64, 1, 2.5)}, ""));
  ObjectWriter writer;
  describe(writer, norms);
  EXPECT_EQ(read(writer.dump()), norms);

  const auto message = [&](const std::string& text) {
    return message_of([&] { return read(text); });
  };
  EXPECT_THAT(message(R"({"operation": "bias", "precision": "fp32", "rows": [8, 16],
                          "width": [64], "time_us": [1, 2]})"),
              HasSubstr("file: width: expected 2 numbers, as many as of rows, got 1"));
  EXPECT_THAT(message(R"({"operation": "bias", "precision": "fp32", "rows": [8, 16],
                          "width": [64, 64], "time_us": [0, 0]})"),
              HasSubstr("time_us"));
  EXPECT_THAT(message(R"({"operation": "biass", "precision": "fp32"})"), HasSubstr("biass"));
  EXPECT_THAT(message(R"({"operation": "bias", "precision": "fp32", "m": [1, 2]})"),
              HasSubstr("rows"));
}

// The columns of an operation are named after its sizes.
TEST(MeasuredOperation, HasTheColumnsOfItsKind) {
  const std::string product = R"("m": [8, 16], "n": [32, 33], "k": [64, 65])";
  const std::string attention =
      R"("heads": [8, 16], "seq_length": [32, 33], "head_size": [64, 65])";
  const std::string rows = R"("rows": [8, 16], "width": [32, 33])";
  const std::vector<std::tuple<DeviceOperation, std::string, std::string>> operations = {
      {DeviceOperation::kForwardProduct, "forward-product", product},
      {DeviceOperation::kInputGradientProduct, "input-gradient-product", product},
      {DeviceOperation::kWeightGradientProduct, "weight-gradient-product", product},
      {DeviceOperation::kAttention, "attention", attention},
      {DeviceOperation::kAttentionBackward, "attention-backward", attention},
      {DeviceOperation::kDropoutAttention, "dropout-attention", attention},
      {DeviceOperation::kDropoutAttentionBackward, "dropout-attention-backward", attention},
      {DeviceOperation::kLayerNorm, "layer-norm", rows},
      {DeviceOperation::kLayerNormBackward, "layer-norm-backward", rows},
      {DeviceOperation::kLayerNormBackwardBias, "layer-norm-backward-bias", rows},
      {DeviceOperation::kBias, "bias", rows},
      {DeviceOperation::kBiasGradient, "bias-gradient", rows},
      {DeviceOperation::kBiasGelu, "bias-gelu", rows},
      {DeviceOperation::kGeluBackward, "gelu-backward", rows},
      {DeviceOperation::kGeluEpilogue, "gelu-epilogue", rows},
      {DeviceOperation::kBiasGradientEpilogue, "bias-gradient-epilogue", rows},
      {DeviceOperation::kBiasAdd, "bias-add", rows},
      {DeviceOperation::kBiasDropoutAdd, "bias-dropout-add", rows},
      {DeviceOperation::kSumLayerNorm, "sum-layer-norm", rows},
      {DeviceOperation::kSumRmsNorm, "sum-rms-norm", rows},
      {DeviceOperation::kDropoutSumLayerNorm, "dropout-sum-layer-norm", rows},
      {DeviceOperation::kDropoutSumRmsNorm, "dropout-sum-rms-norm", rows},
      {DeviceOperation::kDropoutBackward, "dropout-backward", rows},
      {DeviceOperation::kCopy, "copy", rows},
      {DeviceOperation::kFill, "fill", rows},
      {DeviceOperation::kEmbedding, "embedding", rows},
      {DeviceOperation::kEmbeddingGradient, "embedding-gradient", rows},
      {DeviceOperation::kPositions, "positions", rows},
      {DeviceOperation::kPositionGradient, "position-gradient", rows},
      {DeviceOperation::kCrossEntropy, "cross-entropy", rows},
      {DeviceOperation::kCrossEntropyBackward, "cross-entropy-backward", rows},
      {DeviceOperation::kAddSquares, "add-squares", rows},
      {DeviceOperation::kAdamW, "adamw", rows}};
  for (const auto& [operation, name, columns] : operations) {
    EXPECT_EQ(name_of(operation), name);
    const double last = columns == rows ? 1.0 : 64.0;
    std::string text = R"({"operation": ")";
    text.append(name).append(R"(", "precision": "fp16", )").append(columns);
    text.append(R"(, "time_us": [1.5, 2.5]})");
    EXPECT_EQ(parse<MeasuredOperation>(text),
              MeasuredOperation(
                  operation, Precision::kFp16,
                  {point(8, 32, last, 1.5), point(16, 33, columns == rows ? 1.0 : 65.0, 2.5)}, ""));
  }
  EXPECT_EQ(describe_point(DeviceOperation::kAttention, point(8, 1024, 64, 20.8)),
            "heads 8, seq_length 1024, head_size 64, 20.8 us");
  EXPECT_EQ(describe_point(DeviceOperation::kAdamW, point(1, 123456789, 1, 20.5)),
            "rows 1, width 123456789, 20.5 us");
}

// Each bound is tested exactly at it and just beyond it. Attention's work grows with the square of
// the sequence.
TEST(MeasuredOperation, SaysWhichTwoPointsContradictEachOther) {
  const auto message = [](DeviceOperation operation, std::vector<Point> points) {
    return message_of(
        [&] { return MeasuredOperation(operation, Precision::kFp32, std::move(points), "table"); });
  };
  const DeviceOperation product = DeviceOperation::kForwardProduct;
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 8, 8, 1.5)}),
            "table: the same sizes twice: m 8, n 8, k 8, 1 us; m 8, n 8, k 8, 1.5 us");
  EXPECT_EQ(message(product, {point(8, 8, 8, 4), point(16, 8, 8, 1)}), "nothing was thrown");
  EXPECT_EQ(
      message(product, {point(16, 8, 8, 1), point(8, 8, 8, 4.01)}),
      "table: an outlier: the smaller one takes over 4 times as long: m 8, n 8, k 8, 4.01 us; "
      "m 16, n 8, k 8, 1 us");
  // Neither point is smaller than the other in all sizes.
  EXPECT_EQ(message(product, {point(8, 16, 8, 1), point(16, 8, 8, 100)}), "nothing was thrown");
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 16, 8, 63.9)}), "nothing was thrown");
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 16, 8, 64.1)}),
            "table: an outlier: the time grows over 32 times as fast as the work: m 8, n 8, k 8, 1 "
            "us; m 8, n 16, k 8, 64.1 us");
  const DeviceOperation attention = DeviceOperation::kAttention;
  EXPECT_EQ(message(attention, {point(8, 8, 8, 1), point(8, 16, 8, 127.9)}), "nothing was thrown");
  EXPECT_EQ(message(attention, {point(8, 8, 8, 1), point(8, 8, 16, 64.1)}),
            "table: an outlier: the time grows over 32 times as fast as the work: heads 8, "
            "seq_length 8, head_size 8, 1 us; heads 8, seq_length 8, head_size 16, 64.1 us");
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 512, 8, 64)}), "nothing was thrown");
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 513, 8, 64)}),
            "table: a gap of more than a factor of 64 around m 8, n 8, k 8, 1 us");
  // The third lies alone.
  EXPECT_EQ(message(product, {point(8, 8, 8, 1), point(8, 16, 8, 2), point(8, 8, 1024, 90)}),
            "table: a gap of more than a factor of 64 around m 8, n 8, k 1024, 90 us");
}

TEST(MeasuredOperation, HasAtMostTwoThousandPoints) {
  std::vector<Point> points;
  points.reserve(2001);
  for (int i = 0; i < 2000; ++i) {
    points.push_back(point(64 + i, 64, 64, 64 + i));
  }
  EXPECT_EQ(table(points).points().size(), 2000U);
  points.push_back(point(2064, 64, 64, 2064));
  EXPECT_EQ(message_of([&] { return table(points); }),
            "table: expected 2 to 2000 points, got 2001");
}

TEST(FindMeasured, FindsTheTableOfBothOperationAndPrecision) {
  const std::vector<Point> points = {point(8, 8, 1, 1), point(16, 8, 1, 2)};
  const std::vector<MeasuredOperation> measured = {
      {DeviceOperation::kBias, Precision::kFp32, points, ""},
      {DeviceOperation::kCopy, Precision::kBf16, points, ""},
      {DeviceOperation::kBias, Precision::kBf16, points, ""}};
  EXPECT_EQ(find_measured(measured, DeviceOperation::kBias, Precision::kFp32), measured.data());
  EXPECT_EQ(find_measured(measured, DeviceOperation::kBias, Precision::kBf16), &measured[2]);
  EXPECT_EQ(find_measured(measured, DeviceOperation::kCopy, Precision::kFp32), nullptr);
  EXPECT_EQ(find_measured({}, DeviceOperation::kCopy, Precision::kFp32), nullptr);
}

}  // namespace
}  // namespace ptdp
