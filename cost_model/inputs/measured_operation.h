// Measured times of one operation of a device over its sizes, for interpolation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/text/described.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/units.h"

namespace ptdp {

/// What a device does in one call. Products have sizes m, n, k; attention heads (times sequences),
/// seq_length, head_size; all others rows, width.
enum class DeviceOperation : std::uint8_t {
  kForwardProduct,         ///< C[m,n] = A[m,k]·B[n,k]ᵀ: a linear layer.
  kInputGradientProduct,   ///< C[m,n] = A[m,k]·B[k,n].
  kWeightGradientProduct,  ///< C[m,n] += A[k,m]ᵀ·B[k,n], the sum in the accumulator type.
  kAttention,              ///< Causal, forward; without dropout.
  kAttentionBackward,
  kDropoutAttention,  ///< The same two with dropout of probabilities.
  kDropoutAttentionBackward,
  kLayerNorm,
  kLayerNormBackward,
  kBias,
  kBiasGradient,
  kBiasGelu,
  kGeluBackward,
  kBiasAdd,         ///< Bias and residual.
  kBiasDropoutAdd,  ///< The same with dropout.
  kDropoutBackward,
  kCopy,
  kFill,
  kEmbedding,  ///< Rows gathered from a table.
  kEmbeddingGradient,
  kPositions,  ///< Learned positions added.
  kPositionGradient,
  kCrossEntropy,          ///< Maxima and sums over the vocabulary.
  kCrossEntropyBackward,  ///< Gradient of the logits.
  kAddSquares,            ///< Of all gradients of a rank, for their norm; one row.
  kAdamW,                 ///< A rank's optimizer step, which clears its gradients too; one row.
};

/// Sizes of an operation in the order above; the third is 1 where there are two.
using OperationSizes = std::array<double, 3>;

/// Times of one operation in one precision at some sizes. Each is from the operation's start to the
/// next one's in a row of them, so that it contains what starting it costs.
///
/// Between the sizes a model is corrected: with r_i = measured/modelled at point i, and d_i the
/// distance in log₂ of the sizes,
///
///   t(x) = modelled(x) · exp( Σ w_i·ln r_i / Σ w_i ),   w_i = 1/d_i⁴
///
/// which is exact at the points, positive, never corrects by less than the smallest nor by more
/// than the largest r_i, and far from all points is the model times their geometric mean. Source:
/// Shepard, "A two-dimensional interpolation function for irregularly-spaced data", ACM 1968.
class MeasuredOperation {
 public:
  struct Point {
    OperationSizes sizes = {1.0, 1.0, 1.0};
    Seconds time;

    friend bool operator==(const Point&, const Point&) = default;
  };

  MeasuredOperation() = default;
  /// Throws Error, naming `place`, unless there are at least two points, all with sizes of their
  /// own, and none is an outlier: where no size of one point is larger than another point's, it
  /// takes at most 4 times as long, and the other at most 32 times as long as the product of the
  /// sizes grows (with that of a sequence squared). Nor may a point lie apart from all others by a
  /// factor above 64 in a size (a gap).
  MeasuredOperation(DeviceOperation operation, Precision precision, std::vector<Point> points,
                    const std::string& place);

  [[nodiscard]] DeviceOperation operation() const { return operation_; }
  [[nodiscard]] Precision precision() const { return precision_; }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

  /// What to multiply the model's time at `sizes` with. There must be points.
  [[nodiscard]] double correction(const OperationSizes& sizes,
                                  const std::function<Seconds(const OperationSizes&)>& model) const;
  /// Whether a measured point is within a factor of 4 in every size.
  [[nodiscard]] bool covers(const OperationSizes& sizes) const;

  friend bool operator==(const MeasuredOperation&, const MeasuredOperation&) = default;

 private:
  DeviceOperation operation_ = DeviceOperation::kForwardProduct;
  Precision precision_ = Precision::kFp32;
  std::vector<Point> points_;
};

[[nodiscard]] std::string_view name_of(DeviceOperation operation);
/// Keys of the sizes of an operation, in order.
[[nodiscard]] std::vector<std::string> size_names(DeviceOperation operation);

/// "m 64, n 512, k 128, 20.8 us".
[[nodiscard]] std::string describe_point(DeviceOperation operation,
                                         const MeasuredOperation::Point& point);
/// Places, ascending, of points to leave out so that no two of the others contradict each other and
/// none lies alone, as a MeasuredOperation has it: the one with the most contradictions first, of
/// equals the slowest for its work, until there are none.
[[nodiscard]] std::vector<std::size_t> find_outliers(
    DeviceOperation operation, const std::vector<MeasuredOperation::Point>& points);

/// The table of an operation; nullptr: there is none.
[[nodiscard]] const MeasuredOperation* find_measured(const std::vector<MeasuredOperation>& measured,
                                                     DeviceOperation operation,
                                                     Precision precision);

/// The two directions of JSON, for ObjectReader and ObjectWriter: sizes and times as columns.
template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredOperation>& measured);

}  // namespace ptdp
