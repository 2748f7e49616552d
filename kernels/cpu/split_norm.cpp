// RMS norms of rows that are split over ranks, by sums over whole rows, and products row by row,
// which such sums consist of.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

void row_products(Backend&, const RowProductsCall& call) {
  assert(call.sums.size == call.rows);
  assert(call.weights.empty() || call.weights.size == call.width);
  visit_element_type(call.a.elements.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const weights = call.weights.empty() ? nullptr : elements<T>(call.weights);
    const auto offset = static_cast<Sum>(call.weights_offset);
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const T* const a = elements<T>(call.a.elements) + row * call.a.stride;
      const T* const b = elements<T>(call.b.elements) + row * call.b.stride;
      elements<Sum>(call.sums)[row] =
          weights == nullptr
              ? sum_over<Sum>(call.width, [=](std::int64_t i) { return widen(a[i]) * widen(b[i]); })
              : sum_over<Sum>(call.width, [=](std::int64_t i) {
                  return widen(a[i]) * (widen(weights[i]) + offset) * widen(b[i]);
                });
    }
  });
}

void split_norm(Backend&, const SplitNormCall& call) {
  const std::int64_t width = call.gamma.size;
  assert(call.squares.size == call.rows && call.rstd.size == call.rows);
  visit_element_type(call.gamma.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const gamma = elements<T>(call.gamma);
    const auto offset = static_cast<Sum>(call.gamma_offset);
    const auto epsilon = static_cast<Sum>(call.epsilon);
    for (std::int64_t row = 0; row < call.rows; ++row) {
      const T* const x = elements<T>(call.x.elements) + row * call.x.stride;
      T* const y = elements<T>(call.y.elements) + row * call.y.stride;
      const Sum mean_square = elements<Sum>(call.squares)[row] / static_cast<Sum>(call.whole_width);
      const Sum rstd = 1 / std::sqrt(mean_square + epsilon);
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) {
        y[i] = narrow<T>(widen(x[i]) * rstd * (widen(gamma[i]) + offset));
      }
      elements<Sum>(call.rstd)[row] = rstd;
    }
  });
}

/// Computes the gradients of all rows. Blocks of them are summed into dgamma before dx may replace
/// what they are formed of. The scratch holds 2·w numbers.
template <class T>
void split_norm_gradients(const SplitNormBackwardCall& call, Accumulator<T>* scratch) {
  using Sum = Accumulator<T>;
  const std::int64_t width = call.gamma.size;
  const T* const gamma = elements<T>(call.gamma);
  const auto offset = static_cast<Sum>(call.gamma_offset);
  const auto whole = static_cast<Sum>(call.whole_width);
  const auto dy_of = [&](std::int64_t row) {
    return elements<T>(call.dy.elements) + row * call.dy.stride;
  };
  const auto x_of = [&](std::int64_t row) {
    return elements<T>(call.x.elements) + row * call.x.stride;
  };
  const Sum* const rstd = elements<Sum>(call.rstd);
  ColumnSums<Sum> of_gamma(width, scratch, scratch + width);
  for (std::int64_t first = 0; first < call.rows; first += kRowBlock) {
    const std::int64_t end = std::min(call.rows, first + kRowBlock);
    of_gamma.add_block(first, end, [=](std::int64_t row, std::int64_t c) {
      return static_cast<Sum>(widen(dy_of(row)[c]) * (widen(x_of(row)[c]) * rstd[row]));
    });
    for (std::int64_t row = first; row < end; ++row) {
      const T* const dy = dy_of(row);
      const T* const x = x_of(row);
      T* const dx = elements<T>(call.dx.elements) + row * call.dx.stride;
      const Sum r = rstd[row];
      const Sum of_normal = elements<Sum>(call.products)[row] * r / whole;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < width; ++i) {
        const Sum normal = widen(x[i]) * r;
        dx[i] = narrow<T>(r * (widen(dy[i]) * (widen(gamma[i]) + offset) - normal * of_normal));
      }
    }
  }
  of_gamma.add_to(elements<Sum>(call.dgamma));
}

void split_norm_backward(Backend& memory, const SplitNormBackwardCall& call) {
  assert(call.rstd.size == call.rows && call.products.size == call.rows);
  assert(call.dgamma.size == call.gamma.size);
  const Tensor scratch(memory, call.dgamma.type, 2 * call.gamma.size);
  visit_element_type(call.gamma.type, [&]<class T>(T) {
    split_norm_gradients<T>(call, elements<Accumulator<T>>(scratch.buffer()));
  });
}

}  // namespace

void add_split_norm_loops(KernelTable& loops) {
  loop_of<&Backend::row_products>(loops) = row_products;
  loop_of<&Backend::split_norm>(loops) = split_norm;
  loop_of<&Backend::split_norm_backward>(loops) = split_norm_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
