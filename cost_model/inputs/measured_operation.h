// Measured times of one operation of a device over its sizes, for interpolation.
#pragma once

#include <array>
#include <cstddef>
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

/// What a device does in one call. Products have sizes m, n, k. Attention has heads (times
/// sequences), seq_length, head_size. All others have rows, width.
enum class DeviceOperation : std::uint8_t {
  kForwardProduct,         ///< C[m,n] = A[m,k]·B[n,k]ᵀ: a linear layer.
  kInputGradientProduct,   ///< C[m,n] = A[m,k]·B[k,n].
  kWeightGradientProduct,  ///< C[m,n] += A[k,m]ᵀ·B[k,n], with the sum in the accumulator type.
  kAttention,              ///< Causal attention, forward, without dropout.
  kAttentionBackward,      ///< Causal attention, backward, without dropout.
  kDropoutAttention,       ///< Causal attention, forward, with dropout of probabilities.
  kDropoutAttentionBackward,  ///< Causal attention, backward, with dropout of probabilities.
  kLayerNorm,
  kLayerNormBackward,
  /// Gradient of a norm in front of a branch, with that of the bias at the branch's end.
  kLayerNormBackwardBias,
  kRmsNorm,              ///< Norm by the root mean square, of rows or of heads.
  kRmsNormBackward,      ///< Gradient of such a norm.
  kRmsNormBackwardBias,  ///< As kLayerNormBackwardBias, by the root mean square.
  /// Sums the products of two matrices row by row, or the squares of one.
  kRowProducts,
  kBias,
  kBiasGradient,
  kBiasGelu,      ///< Adds a bias, if there is one, and applies any activation.
  kGeluBackward,  ///< Gradient of any activation without a gate.
  /// Writes or reads the input of tanh-GELU within a product, besides what the product does.
  kGeluEpilogue,
  /// Sums a bias gradient within a product, besides what the product does.
  kBiasGradientEpilogue,
  kGatedActivation,          ///< Multiplies values by activated gates; the width is the values'.
  kGatedActivationBackward,  ///< Gradient of gates and values; the width is the values'.
  kRotary,                   ///< Turns queries and keys, forth or back; a row is a head's part.
  kAdd,                      ///< Adds, as residuals without bias and dropout are.
  kScale,                    ///< Multiplies by a number.
  kSoftCap,                  ///< Caps logits.
  kBiasAdd,                  ///< Adds bias and residual.
  kBiasDropoutAdd,           ///< Adds a residual, a bias or both, with dropout.
  kSumLayerNorm,             ///< Adds a residual, maybe with a bias, and norms the sum.
  kSumRmsNorm,               ///< Adds as kSumLayerNorm does; the norm is by the root mean square.
  kDropoutSumLayerNorm,      ///< Adds with dropout, as kBiasDropoutAdd does, and norms the sum.
  kDropoutSumRmsNorm,        ///< Adds with dropout; the norm is by the root mean square.
  kDropoutBackward,          ///< Drops elements: dropout by itself, and its gradient.
  kCopy,
  kFill,
  kEmbedding,  ///< Gathers rows from a table.
  kEmbeddingGradient,
  kPositions,  ///< Adds learned positions.
  kPositionGradient,
  kCrossEntropy,          ///< Computes maxima and sums over the vocabulary.
  kCrossEntropyBackward,  ///< Computes the gradient of the logits.
  kAddSquares,            ///< Adds the squares of all gradients of a rank, for their norm; one row.
  kAdamW,                 ///< A rank's optimizer step, which clears its gradients too; one row.
};

/// Sizes of an operation, in the order of size_names(); the third is 1 for an operation with two.
using OperationSizes = std::array<double, 3>;

/// Measured times of one operation in one precision at some sizes. Operations run in a row: a time
/// lasts from the start of one to the start of the next, so it includes what starting costs.
///
/// Between the measured sizes a model is corrected:
///
///   t(x) = modeled(x) · exp( Σ w_i·ln r_i / Σ w_i ),   w_i = 1/d_i⁴
///
/// with r_i = measured/modeled at point i, and d_i the distance in log₂ of the sizes that matter.
/// It is exact at the points and positive. It never corrects by less than the smallest nor by more
/// than the largest r_i. Far from all points it is the model times the geometric mean of the r_i.
/// Points with less than 1e-4 of the largest weight are left out. Source: Shepard, "A
/// two-dimensional interpolation function for irregularly-spaced data", ACM 1968.
class MeasuredOperation {
 public:
  /// One measurement: the operation took `time` at `sizes`.
  struct Point {
    OperationSizes sizes = {1.0, 1.0, 1.0};
    Seconds time;

    friend bool operator==(const Point&, const Point&) = default;
  };

  MeasuredOperation() = default;
  /// Checks the points. Throws Error, naming `place`, unless there are 2 to 2000 points, no two
  /// with equal sizes, and neither outliers nor gaps.
  ///
  /// Let no size of point a be larger than b's. Then a is an outlier if it takes over 4 times as
  /// long as b. One of them is an outlier if the time grows from a to b over 32 times as fast as
  /// the work: the product of the sizes, with a sequence's length squared. A gap is a point that
  /// differs from every other by a factor above 64 in some size.
  MeasuredOperation(DeviceOperation operation, Precision precision, std::vector<Point> points,
                    const std::string& place);

  [[nodiscard]] DeviceOperation operation() const { return operation_; }
  [[nodiscard]] Precision precision() const { return precision_; }
  [[nodiscard]] const std::vector<Point>& points() const { return points_; }

  /// Returns the factor on the model's time at `sizes`. `model` computes the modeled time at the
  /// measured sizes. There must be points. Distances leave out the first `proportional` sizes, to
  /// which times are known to be proportional. Points that differ in these alone count as one.
  [[nodiscard]] double correction(const OperationSizes& sizes,
                                  const std::function<Seconds(const OperationSizes&)>& model,
                                  std::size_t proportional = 0) const;
  /// Returns whether some measured point is within a factor of 4 of `sizes` in every size.
  [[nodiscard]] bool covers(const OperationSizes& sizes) const;

  friend bool operator==(const MeasuredOperation&, const MeasuredOperation&) = default;

 private:
  DeviceOperation operation_ = DeviceOperation::kForwardProduct;
  Precision precision_ = Precision::kFp32;
  std::vector<Point> points_;
};

[[nodiscard]] std::string_view name_of(DeviceOperation operation);
/// Returns the keys of an operation's sizes, in their order: two or three names, such as "m".
[[nodiscard]] std::vector<std::string> size_names(DeviceOperation operation);

/// Returns a point as text for messages: "m 64, n 512, k 128, 20.8 us".
[[nodiscard]] std::string describe_point(DeviceOperation operation,
                                         const MeasuredOperation::Point& point);
/// Finds the points to leave out so that a MeasuredOperation accepts the others: no two contradict
/// each other and none lies alone. Returns their indices, ascending. It leaves out the point with
/// the most contradictions first, and among equals the slowest for its work, until none is left.
[[nodiscard]] std::vector<std::size_t> find_outliers(
    DeviceOperation operation, const std::vector<MeasuredOperation::Point>& points);

/// Returns the table of an operation in a precision, owned by `measured`; nullptr: there is none.
[[nodiscard]] const MeasuredOperation* find_measured(const std::vector<MeasuredOperation>& measured,
                                                     DeviceOperation operation,
                                                     Precision precision);

/// Reads or writes a table's JSON, with sizes and times as columns. `fields` is an ObjectReader or
/// an ObjectWriter. Reading throws Error as the constructor does.
template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredOperation>& measured);

}  // namespace ptdp
