// Computes gradients by central differences.
#pragma once

#include <functional>

#include "tests/kernels/tested_backend.h"

namespace ptdp {

/// Returns ∂loss/∂x for each element of x. With a step of 1e-5 and values of order 1 both errors
/// stay far below 1e-6: the third derivative's (1e-11) and the rounding of f64 (1e-10).
inline Values numeric_gradient(const Values& x, const std::function<double(const Values&)>& loss) {
  constexpr double step = 1e-5;
  Values gradient(x.size());
  Values moved = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + step;
    const double above = loss(moved);
    moved[i] = x[i] - step;
    const double below = loss(moved);
    moved[i] = x[i];
    gradient[i] = (above - below) / (2.0 * step);
  }
  return gradient;
}

/// Expects the gradient at x that a backend found in its widest type to be that of the definition.
inline void expect_gradient(const Values& found, const Values& x,
                            const std::function<double(const Values&)>& loss,
                            const std::string& what) {
  const double tolerance = widest_type() == kDouble ? 1e-6 : 1e-5;
  expect_close(found, numeric_gradient(x, loss), tolerance, 1.0, what);
}

/// Returns Σ a·b: a loss whose gradient with respect to a is b.
inline double dot(const Values& a, const Values& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

}  // namespace ptdp
