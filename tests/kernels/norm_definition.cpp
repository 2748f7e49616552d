// Optimized, as what it is compared with is.
#include "tests/kernels/norm_definition.h"

#include <cmath>

namespace ptdp {

Normed naive_kind(const NormKind& kind, const Values& x, const Values& gamma, const Values& beta) {
  Normed normed{Values(x.size()), Values(kind.is_centered ? kind.count() : 0),
                Values(kind.count())};
  for (std::int64_t n = 0; n < kind.count(); ++n) {
    const double* const from = x.data() + n * kind.h;
    long double sum = 0.0L;
    long double squares = 0.0L;
    for (std::int64_t c = 0; c < kind.h; ++c) {
      sum += from[c];
    }
    const double mean = kind.is_centered ? static_cast<double>(sum / kind.h) : 0.0;
    for (std::int64_t c = 0; c < kind.h; ++c) {
      squares += (from[c] - mean) * (from[c] - mean);
    }
    normed.rstd[n] = 1.0 / std::sqrt(static_cast<double>(squares / kind.h) + kNormEpsilon);
    if (kind.is_centered) {
      normed.mean[n] = mean;
    }
    for (std::int64_t c = 0; c < kind.h; ++c) {
      normed.y[n * kind.h + c] =
          (from[c] - mean) * normed.rstd[n] * (gamma[c] + kind.gamma_offset) +
          (beta.empty() ? 0.0 : beta[c]);
    }
  }
  return normed;
}

NormedGradients naive_kind_gradients(const NormKind& kind, const KindInputs& in,
                                     const Normed& normed, const Values& before) {
  NormedGradients gradients{before, in.dgamma, in.dbeta, in.added_sum};
  for (std::int64_t n = 0; n < kind.count(); ++n) {
    const auto normal = [&](std::int64_t c) {
      return (in.x[n * kind.h + c] - (kind.is_centered ? normed.mean[n] : 0.0)) * normed.rstd[n];
    };
    long double sum = 0.0L;
    long double product = 0.0L;
    for (std::int64_t c = 0; c < kind.h; ++c) {
      const double dy = in.dy[n * kind.h + c];
      sum += dy * (in.gamma[c] + kind.gamma_offset);
      product += dy * (in.gamma[c] + kind.gamma_offset) * normal(c);
      gradients.dgamma[c] += dy * normal(c);
      if (kind.has_beta) {
        gradients.dbeta[c] += dy;
      }
    }
    for (std::int64_t c = 0; c < static_cast<std::int64_t>(in.added_sum.size()); ++c) {
      gradients.added_sum[c] += before[n * kind.h + c];
    }
    for (std::int64_t c = 0; c < kind.h; ++c) {
      const double dnormal = in.dy[n * kind.h + c] * (in.gamma[c] + kind.gamma_offset);
      const long double centered = kind.is_centered ? sum / kind.h : 0.0L;
      gradients.dx[n * kind.h + c] +=
          normed.rstd[n] * static_cast<double>(dnormal - centered - normal(c) * product / kind.h);
    }
  }
  return gradients;
}

}  // namespace ptdp
