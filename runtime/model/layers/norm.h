// Norms over the rows of this rank, and over the heads of queries and keys.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Statistics of the vectors of a norm's input: one each, accumulator type.
struct NormStatistics {
  Tensor mean;  ///< Means; empty for an RMS norm.
  Tensor rstd;  ///< Reciprocals of the deviation or of the root mean square.
};

/// What a norm makes of hidden states.
struct NormedRows {
  Tensor normed;  ///< The norm of this rank's rows, [r, h].
  NormStatistics statistics;
};

/// A layer norm or an RMS norm, as the model has them, of vectors of one width.
class Norm {
 public:
  /// Declares `name`.gamma and for a layer norm `name`.beta, for the hidden states of this rank's
  /// rows.
  Norm(const LayerContext& context, const std::string& name);
  /// Declares `name`.gamma, and for a layer norm `name`.beta, for the heads of all rows. With
  /// kHead all heads share one gamma of a head's width; with kAllHeads a row's `heads` heads are
  /// one vector.
  Norm(const LayerContext& context, const std::string& name, int heads);

  /// Computes y = norm(x), and returns the vectors' statistics.
  [[nodiscard]] NormStatistics forward(const VectorRows& x, const VectorRows& y) const;
  /// Computes y = norm(x) of hidden states that lie row by row.
  [[nodiscard]] NormStatistics forward(Buffer x, Buffer y) const;
  /// Computes a sum of this rank's rows, and returns its norm.
  [[nodiscard]] NormedRows forward_of_sum(const BiasDropoutAddCall& sum) const;
  /// Adds the gradients of gamma and beta to their stored ones. Replaces dx by the gradient of x
  /// and `added`, which may be empty, or dx itself. Without it dx may be x or dy. Adds the sum of
  /// `added` over rows to `added_sum`, which may be empty.
  void backward(const VectorRows& dy, const VectorRows& x, const NormStatistics& statistics,
                const VectorRows& dx, Buffer added, Buffer added_sum = {}) const;
  /// Does what the other backward() does, for hidden states that lie row by row.
  void backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx, Buffer added,
                Buffer added_sum = {}) const;

 private:
  /// Declares the weights, whose gradients belong to `group`.
  void declare(const std::string& name, GradientGroup group);
  /// Allocates the statistics of all vectors.
  [[nodiscard]] NormStatistics statistics() const;
  /// Returns the arguments of a forward pass.
  [[nodiscard]] NormCall call(const VectorRows& x, const VectorRows& y,
                              const NormStatistics& statistics) const;
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] VectorRows row_by_row(Buffer hidden) const { return {hidden, width_}; }

  const LayerContext& context_;
  bool is_of_heads_;
  std::int64_t width_;    ///< Width of a vector.
  std::int64_t vectors_;  ///< Number of vectors side by side in a row.
  StoredParameter gamma_;
  StoredParameter beta_;
};

/// A norm that takes a sum as it is made, and where its results go. Both are null where no norm
/// follows.
struct NormOfSum {
  const Norm* norm = nullptr;
  NormedRows* rows = nullptr;
};

/// Computes a sum of this rank's rows, and its norm where one follows.
void sum_branch(const LayerContext& context, const BiasDropoutAddCall& sum, const NormOfSum& next);

}  // namespace ptdp
