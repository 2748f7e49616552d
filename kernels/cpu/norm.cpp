// Layer norms and RMS norms, and their gradients.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/element.h"
#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/math.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Where the vectors of rows lie: vector number n is one of `vectors` side by side in its row.
struct VectorPlaces {
  std::int64_t stride;
  std::int64_t vectors;
  std::int64_t width;

  /// Returns the offset of a vector.
  [[nodiscard]] std::int64_t operator[](std::int64_t n) const {
    return vectors == 1 ? n * stride : n / vectors * stride + n % vectors * width;
  }
};

/// Norms one vector, and returns its rstd. A layer norm subtracts its mean, which becomes `mean`.
template <bool kIsCentered, class T, class Sum = Accumulator<T>>
Sum norm_vector(const T* x, const T* gamma, Sum offset, const T* beta, Sum epsilon, T* y, Sum* mean,
                std::int64_t h) {
  const auto count = static_cast<Sum>(h);
  Sum m = 0;
  if constexpr (kIsCentered) {
    m = sum_over<Sum>(h, [=](std::int64_t i) { return widen(x[i]); }) / count;
    *mean = m;
  }
  const Sum variance = sum_over<Sum>(h,
                                     [=](std::int64_t i) {
                                       const Sum centered = widen(x[i]) - m;
                                       return centered * centered;
                                     }) /
                       count;
  const Sum r = 1 / std::sqrt(variance + epsilon);
  if (beta == nullptr) {
    for (std::int64_t i = 0; i < h; ++i) {
      y[i] = narrow<T>((widen(x[i]) - m) * r * (widen(gamma[i]) + offset));
    }
  } else {
    for (std::int64_t i = 0; i < h; ++i) {
      y[i] = narrow<T>((widen(x[i]) - m) * r * (widen(gamma[i]) + offset) + widen(beta[i]));
    }
  }
  return r;
}

void norm(Backend&, const NormCall& call) {
  const std::int64_t h = call.gamma.size;
  const std::int64_t count = call.rows * call.vectors;
  assert(call.rstd.size == count && (call.mean.empty() || call.mean.size == count));
  assert(call.beta.empty() || call.beta.size == h);
  const VectorPlaces from{call.x.stride, call.vectors, h};
  const VectorPlaces to{call.y.stride, call.vectors, h};
  visit_element_type(call.gamma.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    const T* const beta = call.beta.empty() ? nullptr : elements<T>(call.beta);
    const auto run = [&]<bool kIsCentered>() {
      for (std::int64_t n = 0; n < count; ++n) {
        elements<Sum>(call.rstd)[n] = norm_vector<kIsCentered>(
            elements<T>(call.x.elements) + from[n], elements<T>(call.gamma),
            static_cast<Sum>(call.gamma_offset), beta, static_cast<Sum>(call.epsilon),
            elements<T>(call.y.elements) + to[n],
            kIsCentered ? elements<Sum>(call.mean) + n : nullptr, h);
      }
    };
    if (call.mean.empty()) {
      run.template operator()<false>();
    } else {
      run.template operator()<true>();
    }
  });
}

void sum_and_norm(Backend& backend, const BiasDropoutAddCall& sum, const NormCall& call) {
  assert(call.vectors == 1 && call.x.elements.data == sum.y.data &&
         call.x.stride == call.gamma.size);
  backend.bias_dropout_add(sum);
  backend.norm(call);
}

/// Computes the gradient of one vector. With x̂ = (x − mean)·rstd and g = dy·(gamma + offset) it is
/// rstd·(g − Σg/h − x̂·Σ(g·x̂)/h), where an RMS norm has no Σg and no mean, and what is added, if
/// anything is. dx may be that, and else x or dy.
template <bool kIsCentered, class T, class Sum = Accumulator<T>>
void norm_vector_backward(const T* dy, const T* x, const T* gamma, Sum offset, Sum mean, Sum rstd,
                          const T* added, T* dx, std::int64_t h) {
  const auto count = static_cast<Sum>(h);
  Sum sum = 0;
  if constexpr (kIsCentered) {
    sum = sum_over<Sum>(h,
                        [=](std::int64_t i) { return widen(dy[i]) * (widen(gamma[i]) + offset); }) /
          count;
  }
  const Sum product = sum_over<Sum>(h,
                                    [=](std::int64_t i) {
                                      return widen(dy[i]) * (widen(gamma[i]) + offset) *
                                             ((widen(x[i]) - mean) * rstd);
                                    }) /
                      count;
  const auto gradient_of = [=](std::int64_t i) {
    const Sum normal = (widen(x[i]) - mean) * rstd;
    return rstd * (widen(dy[i]) * (widen(gamma[i]) + offset) - sum - normal * product);
  };
  if (added != nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < h; ++i) {
      dx[i] = narrow<T>(widen(added[i]) + gradient_of(i));
    }
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < h; ++i) {
      dx[i] = narrow<T>(gradient_of(i));
    }
  }
}

/// Computes the gradients of all vectors. Blocks of them are summed into dgamma, dbeta and the sum
/// of what is added before dx may replace what they are formed of. The scratch holds 4·h numbers.
template <bool kIsCentered, class T>
void norm_gradients(const NormBackwardCall& call, Accumulator<T>* scratch) {
  using Sum = Accumulator<T>;
  const std::int64_t h = call.gamma.size;
  const std::int64_t count = call.rows * call.vectors;
  const VectorPlaces of_x{call.x.stride, call.vectors, h};
  const VectorPlaces of_dy{call.dy.stride, call.vectors, h};
  const VectorPlaces of_dx{call.dx.stride, call.vectors, h};
  const T* const from = elements<T>(call.x.elements);
  const T* const gradient = elements<T>(call.dy.elements);
  const Sum* const m = kIsCentered ? elements<Sum>(call.mean) : nullptr;
  const Sum* const r = elements<Sum>(call.rstd);
  const T* const added = call.added.empty() ? nullptr : elements<T>(call.added);
  ColumnSums<Sum> of_gamma(h, scratch, scratch + 3 * h);
  ColumnSums<Sum> of_beta(h, scratch + h, scratch + 3 * h);
  ColumnSums<Sum> of_added(h, scratch + 2 * h, scratch + 3 * h);
  for (std::int64_t first = 0; first < count; first += kRowBlock) {
    const std::int64_t end = std::min(count, first + kRowBlock);
    of_gamma.add_block(first, end, [=](std::int64_t n, std::int64_t c) {
      const Sum mean = kIsCentered ? m[n] : Sum{0};
      return static_cast<Sum>(widen(gradient[of_dy[n] + c]) *
                              ((widen(from[of_x[n] + c]) - mean) * r[n]));
    });
    if (!call.dbeta.empty()) {
      of_beta.add_block(first, end, [=](std::int64_t n, std::int64_t c) {
        return static_cast<Sum>(widen(gradient[of_dy[n] + c]));
      });
    }
    if (!call.added_sum.empty()) {
      of_added.add_block(first, end, [=](std::int64_t n, std::int64_t c) {
        return static_cast<Sum>(widen(added[of_dx[n] + c]));
      });
    }
    for (std::int64_t n = first; n < end; ++n) {
      norm_vector_backward<kIsCentered>(
          gradient + of_dy[n], from + of_x[n], elements<T>(call.gamma),
          static_cast<Sum>(call.gamma_offset), kIsCentered ? m[n] : Sum{0}, r[n],
          added == nullptr ? nullptr : added + of_dx[n], elements<T>(call.dx.elements) + of_dx[n],
          h);
    }
  }
  of_gamma.add_to(elements<Sum>(call.dgamma));
  if (!call.dbeta.empty()) {
    of_beta.add_to(elements<Sum>(call.dbeta));
  }
  if (!call.added_sum.empty()) {
    of_added.add_to(elements<Sum>(call.added_sum));
  }
}

void norm_backward(Backend& memory, const NormBackwardCall& call) {
  const std::int64_t h = call.gamma.size;
  [[maybe_unused]] const std::int64_t count = call.rows * call.vectors;
  assert(call.dgamma.size == h && (call.dbeta.empty() || call.dbeta.size == h));
  assert(call.added_sum.empty() || (call.added_sum.size == h && !call.added.empty() &&
                                    call.vectors == 1 && call.dx.stride == h));
  assert(call.rstd.size == count && (call.mean.empty() || call.mean.size == count));
  const Tensor scratch(memory, call.dgamma.type, 4 * h);
  visit_element_type(call.gamma.type, [&]<class T>(T) {
    auto* const numbers = elements<Accumulator<T>>(scratch.buffer());
    if (call.mean.empty()) {
      norm_gradients<false, T>(call, numbers);
    } else {
      norm_gradients<true, T>(call, numbers);
    }
  });
}

}  // namespace

void add_norm_loops(KernelTable& loops) {
  loop_of<&Backend::norm>(loops) = norm;
  loop_of<&Backend::sum_and_norm>(loops) = sum_and_norm;
  loop_of<&Backend::norm_backward>(loops) = norm_backward;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
