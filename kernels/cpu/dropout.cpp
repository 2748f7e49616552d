// Dropout on activations, forward and backward.
#include <algorithm>
#include <array>
#include <cassert>

#include "kernels/cpu/dropout_mask.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Returns the number, in the global batch, of the first element of a row.
std::uint64_t first_element(const TokenRange& range, std::int64_t row, std::int64_t width) {
  return static_cast<std::uint64_t>(
      (range.sample_of(row) * range.seq_length + range.position_of(row)) * width);
}

/// Calls `function`(row, first, count, mask) for pieces of all rows. `first` counts from the row's
/// start. The mask has the factor of each element; it is `scale` when nothing is dropped.
template <class Sum, class Function>
void visit_masked(const Dropout& dropout, double scale, const TokenRange& range, std::int64_t rows,
                  std::int64_t width, const Function& function) {
  constexpr std::int64_t longest = 512;
  std::array<Sum, longest> mask{};
  std::fill(mask.begin(), mask.end(), static_cast<Sum>(scale));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < width; c += longest) {
      const std::int64_t count = std::min(longest, width - c);
      if (dropout.probability > 0.0) {
        fill_mask(dropout, first_element(range, row, width) + static_cast<std::uint64_t>(c), count,
                  mask.data(), scale);
      }
      function(row, c, count, mask.data());
    }
  }
}

void bias_dropout_add(Backend&, const BiasDropoutAddCall& call) {
  if (call.rows == 0) {
    return;
  }
  const std::int64_t width = call.x.size / call.rows;
  assert(call.x.size == call.y.size && call.x.size == call.rows * width);
  assert(call.bias.empty() || call.bias.size == width);
  assert(call.residual.empty() || call.residual.size == call.x.size);
  visit_element_type(call.x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    visit_masked<Sum>(call.dropout, call.scale, call.range, call.rows, width,
                      [&](std::int64_t row, std::int64_t c, std::int64_t count, const Sum* mask) {
                        const std::int64_t first = row * width + c;
                        const T* const from = elements<T>(call.x) + first;
                        T* const to = elements<T>(call.y) + first;
                        const T* const b = call.bias.empty() ? nullptr : elements<T>(call.bias) + c;
                        const T* const r =
                            call.residual.empty() ? nullptr : elements<T>(call.residual) + first;
                        for (std::int64_t i = 0; i < count; ++i) {
                          const Sum sum = widen(from[i]) + (b != nullptr ? widen(b[i]) : Sum{0});
                          to[i] = narrow<T>((r != nullptr ? widen(r[i]) : Sum{0}) + sum * mask[i]);
                        }
                      });
  });
}

void dropout_backward(Backend&, Buffer dy, const Dropout& dropout, double scale,
                      const TokenRange& range, Buffer dx, std::int64_t rows) {
  if (rows == 0) {
    return;
  }
  const std::int64_t width = dy.size / rows;
  assert(dy.size == dx.size && dy.size == rows * width);
  visit_element_type(dy.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    visit_masked<Sum>(dropout, scale, range, rows, width,
                      [&](std::int64_t row, std::int64_t c, std::int64_t count, const Sum* mask) {
                        const T* const from = elements<T>(dy) + row * width + c;
                        T* const to = elements<T>(dx) + row * width + c;
                        for (std::int64_t i = 0; i < count; ++i) {
                          to[i] = narrow<T>(widen(from[i]) * mask[i]);
                        }
                      });
  });
}

}  // namespace

void add_dropout_loops(KernelTable& loops) {
  loop_of<&Backend::bias_dropout_add>(loops) = bias_dropout_add;
  loop_of<&Backend::dropout_backward>(loops) = dropout_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
