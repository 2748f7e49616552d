// Norms of every kind for tests: what to try, their inputs, and their definitions in f64.
#pragma once

#include <cstdint>
#include <ostream>
#include <vector>

#include "tests/kernels/tested_backend.h"

namespace ptdp {

inline constexpr double kNormEpsilon = 1e-5;
/// What lies between the vectors of a row and the next row.
inline constexpr double kBetweenRows = 7.0;

struct NormKind {
  std::int64_t rows = 0;
  std::int64_t vectors = 1;
  std::int64_t h = 0;
  std::int64_t gap = 0;  ///< Elements between the vectors of a row and the next row.
  bool is_centered = false;
  bool has_beta = false;
  double gamma_offset = 0.0;

  [[nodiscard]] std::int64_t count() const { return rows * vectors; }
  [[nodiscard]] std::int64_t stride() const { return vectors * h + gap; }
};

inline std::ostream& operator<<(std::ostream& out, const NormKind& kind) {
  return out << kind.rows << "x" << kind.vectors << "x" << kind.h << " gap " << kind.gap
             << (kind.is_centered ? " centered" : "") << (kind.has_beta ? " beta" : "")
             << " offset " << kind.gamma_offset;
}

/// Returns norms of whole rows, in a block's registers or not, and of the heads of queries and keys
/// beside values: of whole chunks of 16 bytes in every type, in f32 only, and of none; each of one
/// lane, of many lanes, of several chunks to a lane, and of more vectors than a grid takes.
inline std::vector<NormKind> norm_kinds() {
  std::vector<NormKind> kinds;
  for (const std::int64_t h : {1, 8, 33, 64, 129, 768, 1024, 2048, 8200, 16392}) {
    kinds.push_back({.rows = 3, .h = h});
    kinds.push_back({.rows = 2, .h = h, .gap = 16, .has_beta = true, .gamma_offset = 1.0});
  }
  for (const std::int64_t h : {4, 5, 20, 64, 80, 128, 256}) {
    kinds.push_back({.rows = 7, .vectors = 5, .h = h, .gap = 2 * h});
    kinds.push_back({.rows = 5, .vectors = 3, .h = h, .gap = 3, .gamma_offset = 1.0});
    kinds.push_back(
        {.rows = 5, .vectors = 2, .h = h, .gap = 8, .is_centered = true, .has_beta = true});
  }
  kinds.push_back({.rows = 4, .h = 264, .is_centered = true});  // a layer norm without a shift
  kinds.push_back({.rows = 4, .h = 96, .is_centered = true, .has_beta = true, .gamma_offset = 1.0});
  kinds.push_back({.rows = 3, .vectors = 2, .h = 1032, .gap = 8, .is_centered = true});
  kinds.push_back({.rows = 3, .vectors = 2, .h = 16392, .gap = 8, .has_beta = true});
  kinds.push_back({.rows = 900, .vectors = 9, .h = 8, .gap = 8});
  kinds.push_back({.rows = 0, .vectors = 3, .h = 8});
  return kinds;
}

/// Returns rows of vectors with what lies between them.
inline Values spread(const NormKind& kind, const Values& vectors) {
  Values rows;
  for (std::int64_t row = 0; row < kind.rows; ++row) {
    const auto begin = vectors.begin() + row * kind.vectors * kind.h;
    rows.insert(rows.end(), begin, begin + kind.vectors * kind.h);
    rows.insert(rows.end(), kind.gap, kBetweenRows);
  }
  return rows;
}

/// Returns whether a norm of the kind may sum what is added to dx: of rows that lie one after the
/// other, of one vector each.
inline bool sums_added(const NormKind& kind) {
  return kind.vectors == 1 && kind.gap == 0;
}

/// The inputs of both passes, exact in a type, and what gradients are added to.
struct KindInputs {
  KindInputs(DataType type, const NormKind& kind)
      : x(random_values(kind.count() * kind.h, 1, type)),
        gamma(random_values(kind.h, 2, type)),
        beta(kind.has_beta ? random_values(kind.h, 3, type) : Values()),
        dy(random_values(kind.count() * kind.h, 4, type)),
        dx(random_values(kind.count() * kind.h, 5, type)),
        dgamma(random_values(kind.h, 6, accumulator_of(type))),
        dbeta(kind.has_beta ? random_values(kind.h, 7, accumulator_of(type)) : Values()),
        added_sum(sums_added(kind) ? random_values(kind.h, 8, accumulator_of(type)) : Values()) {
    for (double& value : x) {
      value = rounded(0.5 + 2.0 * value, type);
    }
  }

  Values x, gamma, beta, dy, dx, dgamma, dbeta, added_sum;
};

/// The results of the forward pass.
struct Normed {
  Values y, mean, rstd;

  bool operator==(const Normed&) const = default;
};
/// The results of the backward pass.
struct NormedGradients {
  Values dx, dgamma, dbeta, added_sum;

  bool operator==(const NormedGradients&) const = default;
};

/// Returns the norms of x by their definition.
[[nodiscard]] Normed naive_kind(const NormKind& kind, const Values& x, const Values& gamma,
                                const Values& beta);
/// Returns the gradients, with statistics that need not be those of x. dx is added to `before`,
/// whose rows are summed.
[[nodiscard]] NormedGradients naive_kind_gradients(const NormKind& kind, const KindInputs& in,
                                                   const Normed& normed, const Values& before);

}  // namespace ptdp
