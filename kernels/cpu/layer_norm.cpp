// Layer norm and its gradients.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Computes the layer norm of one row, with its mean and rstd.
template <class T>
void norm_row(const T* x, const T* gamma, const T* beta, Accumulator<T> epsilon, T* y,
              Accumulator<T>* mean, Accumulator<T>* rstd, std::int64_t h) {
  using Sum = Accumulator<T>;
  const auto count = static_cast<Sum>(h);
  const Sum m = sum_over<Sum>(h, [=](std::int64_t i) { return widen(x[i]); }) / count;
  const Sum variance = sum_over<Sum>(h,
                                     [=](std::int64_t i) {
                                       const Sum centred = widen(x[i]) - m;
                                       return centred * centred;
                                     }) /
                       count;
  const Sum r = 1 / std::sqrt(variance + epsilon);
  for (std::int64_t i = 0; i < h; ++i) {
    y[i] = narrow<T>((widen(x[i]) - m) * r * widen(gamma[i]) + widen(beta[i]));
  }
  *mean = m;
  *rstd = r;
}

void layer_norm(Backend&, const LayerNormCall& call) {
  const std::int64_t h = call.gamma.size;
  assert(call.x.size == call.rows * h && call.y.size == call.x.size && call.beta.size == h);
  assert(call.mean.size == call.rows && call.rstd.size == call.rows);
  visit_element_type(call.x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    for (std::int64_t row = 0; row < call.rows; ++row) {
      norm_row(elements<T>(call.x) + row * h, elements<T>(call.gamma), elements<T>(call.beta),
               static_cast<Sum>(call.epsilon), elements<T>(call.y) + row * h,
               elements<Sum>(call.mean) + row, elements<Sum>(call.rstd) + row, h);
    }
  });
}

/// Adds the gradient of one row. With x̂ = (x − mean)·rstd and g = dy·gamma: dx += rstd·(g − Σg/h −
/// x̂·Σ(g·x̂)/h).
template <class T>
void norm_row_backward(const T* dy, const T* x, const T* gamma, Accumulator<T> mean,
                       Accumulator<T> rstd, T* dx, std::int64_t h) {
  using Sum = Accumulator<T>;
  const auto count = static_cast<Sum>(h);
  const Sum sum =
      sum_over<Sum>(h, [=](std::int64_t i) { return widen(dy[i]) * widen(gamma[i]); }) / count;
  const Sum product =
      sum_over<Sum>(h,
                    [=](std::int64_t i) {
                      return widen(dy[i]) * widen(gamma[i]) * ((widen(x[i]) - mean) * rstd);
                    }) /
      count;
  for (std::int64_t i = 0; i < h; ++i) {
    const Sum normal = (widen(x[i]) - mean) * rstd;
    const Sum gradient = widen(dy[i]) * widen(gamma[i]) - sum - normal * product;
    dx[i] = narrow<T>(widen(dx[i]) + rstd * gradient);
  }
}

void layer_norm_backward(Backend& memory, const LayerNormBackwardCall& call) {
  const std::int64_t h = call.gamma.size;
  assert(call.x.size == call.rows * h && call.dy.size == call.x.size);
  assert(call.dx.size == call.x.size && call.dgamma.size == h && call.dbeta.size == h);
  assert(call.mean.size == call.rows && call.rstd.size == call.rows);
  const Tensor scratch(memory, call.dgamma.type, 4 * h);
  visit_element_type(call.x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const from = elements<T>(call.x);
    const T* const gradient = elements<T>(call.dy);
    const Sum* const m = elements<Sum>(call.mean);
    const Sum* const r = elements<Sum>(call.rstd);
    ColumnSums<Sum> of_gamma(h, elements<Sum>(scratch.buffer()));
    ColumnSums<Sum> of_beta(h, elements<Sum>(scratch.buffer()) + 2 * h);
    for (std::int64_t first = 0; first < call.rows; first += kRowBlock) {
      const std::int64_t end = std::min(call.rows, first + kRowBlock);
      for (std::int64_t row = first; row < end; ++row) {
        norm_row_backward(gradient + row * h, from + row * h, elements<T>(call.gamma), m[row],
                          r[row], elements<T>(call.dx) + row * h, h);
      }
      of_gamma.add_block(first, end, [=](std::int64_t row, std::int64_t c) {
        return static_cast<Sum>(widen(gradient[row * h + c]) *
                                ((widen(from[row * h + c]) - m[row]) * r[row]));
      });
      of_beta.add_block(first, end, [=](std::int64_t row, std::int64_t c) {
        return static_cast<Sum>(widen(gradient[row * h + c]));
      });
    }
    of_gamma.add_to(elements<Sum>(call.dgamma));
    of_beta.add_to(elements<Sum>(call.dbeta));
  });
}

}  // namespace

void add_layer_norm_loops(KernelTable& loops) {
  loop_of<&Backend::layer_norm>(loops) = layer_norm;
  loop_of<&Backend::layer_norm_backward>(loops) = layer_norm_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
