// Softmax and cross-entropy over a rank's columns of the logits.
#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Columns of the shard that do not pad.
std::int64_t valid_width(const VocabShard& shard) {
  return std::clamp<std::int64_t>(shard.num_valid - shard.first, 0, shard.width);
}

void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima, std::int64_t rows) {
  assert(logits.size == rows * shard.width && maxima.size == rows);
  visit_element_type(logits.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const x = elements<T>(logits) + row * shard.width;
      elements<Sum>(maxima)[row] = maximum_over<Sum>(
          valid_width(shard), [=](std::int64_t c) { return static_cast<Sum>(widen(x[c])); });
    }
  });
}

void softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                  Buffer sums, std::int64_t rows) {
  assert(logits.size == rows * shard.width && maxima.size == rows && sums.size == 2 * rows);
  const std::int64_t width = valid_width(shard);
  visit_element_type(logits.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const x = elements<T>(logits) + row * shard.width;
      const Sum most = elements<Sum>(maxima)[row];
      const std::int64_t target = elements<std::int32_t>(targets)[row] - shard.first;
      elements<Sum>(sums)[row] = sum_over<Sum>(
          width, [=](std::int64_t c) { return exponential(static_cast<Sum>(widen(x[c])) - most); });
      elements<Sum>(sums)[rows + row] =
          target >= 0 && target < width ? static_cast<Sum>(widen(x[target])) - most : Sum{0};
    }
  });
}

void cross_entropy_backward(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                            Buffer sums, double scale, std::int64_t rows) {
  assert(logits.size == rows * shard.width && maxima.size == rows && sums.size == 2 * rows);
  const std::int64_t width = valid_width(shard);
  visit_element_type(logits.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const auto factor = static_cast<Sum>(scale);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const x = elements<T>(logits) + row * shard.width;
      const Sum most = elements<Sum>(maxima)[row];
      const Sum per_sum = factor / elements<Sum>(sums)[row];
      const std::int64_t target = elements<std::int32_t>(targets)[row] - shard.first;
      const bool has_target = target >= 0 && target < width;
      const Sum of_target = has_target ? static_cast<Sum>(widen(x[target])) : Sum{0};
      for (std::int64_t c = 0; c < width; ++c) {
        x[c] = narrow<T>(exponential(static_cast<Sum>(widen(x[c])) - most) * per_sum);
      }
      std::fill(x + width, x + shard.width, T{});
      if (has_target) {
        x[target] = narrow<T>(exponential(of_target - most) * per_sum - factor);
      }
    }
  });
}

}  // namespace

void add_cross_entropy_loops(Loops& loops) {
  loops.row_maxima = row_maxima;
  loops.softmax_sums = softmax_sums;
  loops.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
