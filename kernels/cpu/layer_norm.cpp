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

void layer_norm(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y, Buffer mean,
                Buffer rstd, std::int64_t rows) {
  const std::int64_t h = gamma.size;
  assert(x.size == rows * h && y.size == x.size && beta.size == h);
  assert(mean.size == rows && rstd.size == rows);
  visit_element_type(x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    for (std::int64_t row = 0; row < rows; ++row) {
      norm_row(elements<T>(x) + row * h, elements<T>(gamma), elements<T>(beta),
               static_cast<Sum>(epsilon), elements<T>(y) + row * h, elements<Sum>(mean) + row,
               elements<Sum>(rstd) + row, h);
    }
  });
}

/// With x̂ = (x − mean)·rstd and g = dy·gamma: dx += rstd·(g − Σg/h − x̂·Σ(g·x̂)/h).
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

void layer_norm_backward(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma, Buffer dx,
                         Buffer dgamma, Buffer dbeta, std::int64_t rows, Buffer scratch) {
  const std::int64_t h = gamma.size;
  assert(x.size == rows * h && dy.size == x.size && dx.size == x.size);
  assert(dgamma.size == h && dbeta.size == h && mean.size == rows && rstd.size == rows);
  visit_element_type(x.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const from = elements<T>(x);
    const T* const gradient = elements<T>(dy);
    const Sum* const m = elements<Sum>(mean);
    const Sum* const r = elements<Sum>(rstd);
    ColumnSums<Sum> of_gamma(h, elements<Sum>(scratch));
    ColumnSums<Sum> of_beta(h, elements<Sum>(scratch) + 2 * h);
    for (std::int64_t first = 0; first < rows; first += kRowBlock) {
      const std::int64_t end = std::min(rows, first + kRowBlock);
      for (std::int64_t row = first; row < end; ++row) {
        norm_row_backward(gradient + row * h, from + row * h, elements<T>(gamma), m[row], r[row],
                          elements<T>(dx) + row * h, h);
      }
      of_gamma.add_block(first, end, [=](std::int64_t row, std::int64_t c) {
        return static_cast<Sum>(widen(gradient[row * h + c]) *
                                ((widen(from[row * h + c]) - m[row]) * r[row]));
      });
      of_beta.add_block(first, end, [=](std::int64_t row, std::int64_t c) {
        return static_cast<Sum>(widen(gradient[row * h + c]));
      });
    }
    of_gamma.add_to(elements<Sum>(dgamma));
    of_beta.add_to(elements<Sum>(dbeta));
  });
}

}  // namespace

void add_layer_norm_loops(Loops& loops) {
  loops.layer_norm = layer_norm;
  loops.layer_norm_backward = layer_norm_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
