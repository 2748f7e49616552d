#include "cost_model/inputs/measured_operation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iomanip>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr double kSlowestSmaller = 4.0;  // kernels for odd shapes may take some times as long
// Largest growth of the time over growth of the work. Bandwidths of a core's first cache and of
// memory are 10 apart, and all of a machine's cores may share the latter.
constexpr double kMostOverWork = 32.0;
constexpr double kWidestHole = 64.0;
constexpr double kCovered = 4.0;
constexpr std::size_t kMostPoints = 2000;
// Least weight, as a share of the largest, with which a point still matters.
constexpr double kLeastWeight = 1e-4;

constexpr std::array<NamedValue<DeviceOperation>, 43> kNames = {
    {{DeviceOperation::kForwardProduct, "forward-product"},
     {DeviceOperation::kInputGradientProduct, "input-gradient-product"},
     {DeviceOperation::kWeightGradientProduct, "weight-gradient-product"},
     {DeviceOperation::kAttention, "attention"},
     {DeviceOperation::kAttentionBackward, "attention-backward"},
     {DeviceOperation::kDropoutAttention, "dropout-attention"},
     {DeviceOperation::kDropoutAttentionBackward, "dropout-attention-backward"},
     {DeviceOperation::kLayerNorm, "layer-norm"},
     {DeviceOperation::kLayerNormBackward, "layer-norm-backward"},
     {DeviceOperation::kLayerNormBackwardBias, "layer-norm-backward-bias"},
     {DeviceOperation::kRmsNorm, "rms-norm"},
     {DeviceOperation::kRmsNormBackward, "rms-norm-backward"},
     {DeviceOperation::kRmsNormBackwardBias, "rms-norm-backward-bias"},
     {DeviceOperation::kRowProducts, "row-products"},
     {DeviceOperation::kBias, "bias"},
     {DeviceOperation::kBiasGradient, "bias-gradient"},
     {DeviceOperation::kBiasGelu, "bias-gelu"},
     {DeviceOperation::kGeluBackward, "gelu-backward"},
     {DeviceOperation::kGeluEpilogue, "gelu-epilogue"},
     {DeviceOperation::kBiasGradientEpilogue, "bias-gradient-epilogue"},
     {DeviceOperation::kGatedActivation, "gated-activation"},
     {DeviceOperation::kGatedActivationBackward, "gated-activation-backward"},
     {DeviceOperation::kRotary, "rotary"},
     {DeviceOperation::kAdd, "add"},
     {DeviceOperation::kScale, "scale"},
     {DeviceOperation::kSoftCap, "soft-cap"},
     {DeviceOperation::kBiasAdd, "bias-add"},
     {DeviceOperation::kBiasDropoutAdd, "bias-dropout-add"},
     {DeviceOperation::kSumLayerNorm, "sum-layer-norm"},
     {DeviceOperation::kSumRmsNorm, "sum-rms-norm"},
     {DeviceOperation::kDropoutSumLayerNorm, "dropout-sum-layer-norm"},
     {DeviceOperation::kDropoutSumRmsNorm, "dropout-sum-rms-norm"},
     {DeviceOperation::kDropoutBackward, "dropout-backward"},
     {DeviceOperation::kCopy, "copy"},
     {DeviceOperation::kFill, "fill"},
     {DeviceOperation::kEmbedding, "embedding"},
     {DeviceOperation::kEmbeddingGradient, "embedding-gradient"},
     {DeviceOperation::kPositions, "positions"},
     {DeviceOperation::kPositionGradient, "position-gradient"},
     {DeviceOperation::kCrossEntropy, "cross-entropy"},
     {DeviceOperation::kCrossEntropyBackward, "cross-entropy-backward"},
     {DeviceOperation::kAddSquares, "add-squares"},
     {DeviceOperation::kAdamW, "adamw"}}};

using Point = MeasuredOperation::Point;

/// Returns the squared distance in log₂ of the sizes from number `first` on.
double distance_squared(const OperationSizes& a, const OperationSizes& b, std::size_t first) {
  double sum = 0.0;
  for (std::size_t i = first; i < a.size(); ++i) {
    const double distance = std::log2(a[i] / b[i]);
    sum += distance * distance;
  }
  return sum;
}

/// Returns the largest factor between a size of `a` and the same size of `b`; at least 1.
double largest_factor(const OperationSizes& a, const OperationSizes& b) {
  double largest = 1.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, a[i] / b[i], b[i] / a[i]});
  }
  return largest;
}

bool is_no_larger(const OperationSizes& a, const OperationSizes& b) {
  return a[0] <= b[0] && a[1] <= b[1] && a[2] <= b[2];
}

/// Returns what the time grows with: the product of the sizes, with a sequence's length squared.
double work(DeviceOperation operation, const OperationSizes& sizes) {
  const bool is_attention = size_names(operation)[1] == "seq_length";
  return sizes[0] * sizes[1] * sizes[2] * (is_attention ? sizes[1] : 1.0);
}

/// Returns why two points cannot both be right, given that `a` is no larger; empty if they can.
std::string contradiction(DeviceOperation operation, const Point& a, const Point& b) {
  if (a.sizes == b.sizes) {
    return "the same sizes twice";
  }
  if (is_no_larger(a.sizes, b.sizes)) {
    if (a.time > kSlowestSmaller * b.time) {
      return "an outlier: the smaller one takes over 4 times as long";
    }
    if (b.time > kMostOverWork * work(operation, b.sizes) / work(operation, a.sizes) * a.time) {
      return "an outlier: the time grows over 32 times as fast as the work";
    }
  }
  return "";
}

bool is_too_far(const Point& a, const Point& b) {
  return largest_factor(a.sizes, b.sizes) > kWidestHole;
}

bool is_contradiction(DeviceOperation operation, const Point& a, const Point& b) {
  return !contradiction(operation, a, b).empty() || !contradiction(operation, b, a).empty();
}

/// Returns the point of `kept` that contradicts the most others, or `kept.end()` if none does.
/// Among equals it is the slowest for its work: what disturbs a measurement prolongs it.
std::vector<std::size_t>::iterator find_worst(DeviceOperation operation,
                                              const std::vector<Point>& points,
                                              std::vector<std::size_t>& kept) {
  auto worst = kept.end();
  std::pair<std::ptrdiff_t, double> most = {1, 0.0};
  for (auto point = kept.begin(); point != kept.end(); ++point) {
    const auto count = std::count_if(kept.begin(), kept.end(), [&](std::size_t other) {
      return other != *point && is_contradiction(operation, points[*point], points[other]);
    });
    const std::pair<std::ptrdiff_t, double> badness = {
        count, points[*point].time.value() / work(operation, points[*point].sizes)};
    if (badness > most) {
      most = badness;
      worst = point;
    }
  }
  return worst;
}

void check_pair(DeviceOperation operation, const Point& a, const Point& b,
                const std::string& place) {
  if (const std::string why = contradiction(operation, a, b); !why.empty()) {
    throw Error(place + ": " + why + ": " + describe_point(operation, a) + "; " +
                describe_point(operation, b));
  }
}

void check(DeviceOperation operation, const std::vector<Point>& points, const std::string& place) {
  if (points.size() < 2 || points.size() > kMostPoints) {
    throw Error(place + ": expected 2 to " + std::to_string(kMostPoints) + " points, got " +
                std::to_string(points.size()));
  }
  for (const Point& point : points) {
    bool is_alone = true;
    for (const Point& other : points) {
      if (&other == &point) {
        continue;
      }
      check_pair(operation, point, other, place);
      is_alone = is_alone && is_too_far(point, other);
    }
    if (is_alone) {
      throw Error(place + ": a gap of more than a factor of 64 around " +
                  describe_point(operation, point));
    }
  }
}

}  // namespace

MeasuredOperation::MeasuredOperation(DeviceOperation operation, Precision precision,
                                     std::vector<Point> points, const std::string& place)
    : operation_(operation), precision_(precision), points_(std::move(points)) {
  check(operation_, points_, place);
}

double MeasuredOperation::correction(const OperationSizes& sizes,
                                     const std::function<Seconds(const OperationSizes&)>& model,
                                     std::size_t proportional) const {
  assert(!points_.empty());
  double nearest = std::numeric_limits<double>::infinity();
  std::vector<double> distances;
  distances.reserve(points_.size());
  for (const Point& point : points_) {
    distances.push_back(distance_squared(point.sizes, sizes, proportional));
    nearest = std::min(nearest, distances.back());
  }
  double weights = 0.0;
  double sum = 0.0;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    // Weights relative to the nearest point's. At a measured point all others have weight 0.
    const double ratio = distances[i] == nearest ? 1.0 : nearest / distances[i];
    const double weight = ratio * ratio;
    if (weight >= kLeastWeight) {
      weights += weight;
      sum += weight * std::log(points_[i].time / model(points_[i].sizes));
    }
  }
  return std::exp(sum / weights);
}

bool MeasuredOperation::covers(const OperationSizes& sizes) const {
  return std::any_of(points_.begin(), points_.end(), [&](const Point& point) {
    return largest_factor(point.sizes, sizes) <= kCovered;
  });
}

std::string_view name_of(DeviceOperation operation) {
  return name_of(operation, NamedValues<DeviceOperation>(kNames));
}

std::vector<std::string> size_names(DeviceOperation operation) {
  switch (operation) {
    case DeviceOperation::kForwardProduct:
    case DeviceOperation::kInputGradientProduct:
    case DeviceOperation::kWeightGradientProduct:
      return {"m", "n", "k"};
    case DeviceOperation::kAttention:
    case DeviceOperation::kAttentionBackward:
    case DeviceOperation::kDropoutAttention:
    case DeviceOperation::kDropoutAttentionBackward:
      return {"heads", "seq_length", "head_size"};
    case DeviceOperation::kLayerNorm:
    case DeviceOperation::kLayerNormBackward:
    case DeviceOperation::kLayerNormBackwardBias:
    case DeviceOperation::kRmsNorm:
    case DeviceOperation::kRmsNormBackward:
    case DeviceOperation::kRmsNormBackwardBias:
    case DeviceOperation::kRowProducts:
    case DeviceOperation::kBias:
    case DeviceOperation::kBiasGradient:
    case DeviceOperation::kBiasGelu:
    case DeviceOperation::kGeluBackward:
    case DeviceOperation::kGeluEpilogue:
    case DeviceOperation::kBiasGradientEpilogue:
    case DeviceOperation::kGatedActivation:
    case DeviceOperation::kGatedActivationBackward:
    case DeviceOperation::kRotary:
    case DeviceOperation::kAdd:
    case DeviceOperation::kScale:
    case DeviceOperation::kSoftCap:
    case DeviceOperation::kBiasAdd:
    case DeviceOperation::kBiasDropoutAdd:
    case DeviceOperation::kSumLayerNorm:
    case DeviceOperation::kSumRmsNorm:
    case DeviceOperation::kDropoutSumLayerNorm:
    case DeviceOperation::kDropoutSumRmsNorm:
    case DeviceOperation::kDropoutBackward:
    case DeviceOperation::kCopy:
    case DeviceOperation::kFill:
    case DeviceOperation::kEmbedding:
    case DeviceOperation::kEmbeddingGradient:
    case DeviceOperation::kPositions:
    case DeviceOperation::kPositionGradient:
    case DeviceOperation::kCrossEntropy:
    case DeviceOperation::kCrossEntropyBackward:
    case DeviceOperation::kAddSquares:
    case DeviceOperation::kAdamW:
      break;
  }
  return {"rows", "width"};
}

std::string describe_point(DeviceOperation operation, const MeasuredOperation::Point& point) {
  std::ostringstream text;
  text << std::setprecision(15);
  const std::vector<std::string> names = size_names(operation);
  for (std::size_t i = 0; i < names.size(); ++i) {
    text << names[i] << ' ' << point.sizes[i] << ", ";
  }
  text << point.time.value() / kMicro << " us";
  return text.str();
}

std::vector<std::size_t> find_outliers(DeviceOperation operation,
                                       const std::vector<MeasuredOperation::Point>& points) {
  std::vector<std::size_t> outliers;
  std::vector<std::size_t> kept(points.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  const auto leave_out = [&](std::vector<std::size_t>::iterator point) {
    outliers.push_back(*point);
    kept.erase(point);
  };
  for (auto worst = find_worst(operation, points, kept); worst != kept.end();
       worst = find_worst(operation, points, kept)) {
    leave_out(worst);
  }
  const auto is_alone = [&](std::size_t point) {
    return kept.size() > 1 && std::all_of(kept.begin(), kept.end(), [&](std::size_t other) {
             return other == point || is_too_far(points[point], points[other]);
           });
  };
  for (auto alone = std::find_if(kept.begin(), kept.end(), is_alone); alone != kept.end();
       alone = std::find_if(kept.begin(), kept.end(), is_alone)) {
    leave_out(alone);
  }
  std::sort(outliers.begin(), outliers.end());
  return outliers;
}

const MeasuredOperation* find_measured(const std::vector<MeasuredOperation>& measured,
                                       DeviceOperation operation, Precision precision) {
  const auto found = std::find_if(
      measured.begin(), measured.end(), [operation, precision](const MeasuredOperation& entry) {
        return entry.operation() == operation && entry.precision() == precision;
      });
  return found == measured.end() ? nullptr : &*found;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MeasuredOperation>& measured) {
  DeviceOperation operation = measured.operation();
  Precision precision = measured.precision();
  fields.choice("operation", operation, NamedValues<DeviceOperation>(kNames));
  fields.choice("precision", precision, NamedValues<Precision>(kPrecisionNames));
  std::vector<Point> points = measured.points();
  const std::vector<std::string> names = size_names(operation);
  for (std::size_t i = 0; i <= names.size(); ++i) {
    const bool is_time = i == names.size();
    const std::string key = is_time ? "time_us" : names[i];
    std::vector<double> column;
    column.reserve(points.size());
    for (const Point& point : points) {
      column.push_back(is_time ? point.time.value() / kMicro : point.sizes[i]);
    }
    fields.numbers(key, column, is_time ? Range{1e-4, 1e12} : Range{1.0, 1e12});
    if constexpr (Fields::kIsReading) {
      if (i == 0) {
        points.assign(column.size(), Point{});
      } else if (column.size() != points.size()) {
        throw Error(fields.place_of(key) + ": expected " + std::to_string(points.size()) +
                    " numbers, as many as of " + names[0] + ", got " +
                    std::to_string(column.size()));
      }
      for (std::size_t row = 0; row < column.size(); ++row) {
        if (is_time) {
          points[row].time = Seconds(column[row] * kMicro);
        } else {
          points[row].sizes[i] = column[row];
        }
      }
    }
  }
  if constexpr (Fields::kIsReading) {
    measured =
        MeasuredOperation(operation, precision, std::move(points), fields.place_of("time_us"));
  }
}
template void describe(ObjectReader&, MeasuredOperation&);
template void describe(ObjectWriter&, const MeasuredOperation&);

}  // namespace ptdp
