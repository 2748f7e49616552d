// Softmax and cross-entropy over a rank's columns of the logits.
#include <algorithm>
#include <cassert>
#include <limits>

#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Returns the number of the shard's columns that do not pad.
std::int64_t valid_width(const VocabShard& shard) {
  return std::clamp<std::int64_t>(shard.num_valid - shard.first, 0, shard.width);
}

void row_maxima(Backend&, Buffer logits, const VocabShard& shard, Buffer maxima,
                std::int64_t rows) {
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

void softmax_sums(Backend&, Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
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

void cross_entropy_backward(Backend&, const CrossEntropyBackwardCall& call) {
  const VocabShard& shard = call.shard;
  assert(call.logits.size == call.rows * shard.width && call.maxima.size == call.rows);
  assert(call.sums.size == 2 * call.rows);
  const std::int64_t width = valid_width(shard);
  visit_element_type(call.logits.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const auto factor = static_cast<Sum>(call.scale);
    const auto per_square =
        static_cast<Sum>(call.soft_cap == 0.0 ? 0.0 : 1.0 / (call.soft_cap * call.soft_cap));
    for (std::int64_t row = 0; row < call.rows; ++row) {
      T* const x = elements<T>(call.logits) + row * shard.width;
      const Sum most = elements<Sum>(call.maxima)[row];
      const Sum per_sum = factor / elements<Sum>(call.sums)[row];
      const std::int64_t target = elements<std::int32_t>(call.targets)[row] - shard.first;
      const bool has_target = target >= 0 && target < width;
      const Sum of_target = has_target ? static_cast<Sum>(widen(x[target])) : Sum{0};
      if (call.soft_cap == 0.0) {
        for (std::int64_t c = 0; c < width; ++c) {
          x[c] = narrow<T>(exponential(static_cast<Sum>(widen(x[c])) - most) * per_sum);
        }
      } else {
        for (std::int64_t c = 0; c < width; ++c) {
          const auto y = static_cast<Sum>(widen(x[c]));
          x[c] = narrow<T>(exponential(y - most) * per_sum * (1 - y * y * per_square));
        }
      }
      std::fill(x + width, x + shard.width, T{});
      if (has_target) {
        x[target] = narrow<T>((exponential(of_target - most) * per_sum - factor) *
                              (1 - of_target * of_target * per_square));
      }
    }
  });
}

}  // namespace

void add_cross_entropy_loops(KernelTable& loops) {
  loop_of<&Backend::row_maxima>(loops) = row_maxima;
  loop_of<&Backend::softmax_sums>(loops) = softmax_sums;
  loop_of<&Backend::cross_entropy_backward>(loops) = cross_entropy_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
