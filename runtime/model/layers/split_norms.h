// Norms of queries and keys that reach over the heads of all tensor-parallel ranks.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// RMS norms of a token's queries and of its keys, over all heads of the model (OLMo 2). Each rank
/// of a tensor-parallel group has an equal part of a row's elements, and of the weights. A norm
/// needs one number of each row from all ranks: Σ x² forward, Σ dy·g·x backward, with g the
/// weights. Queries and keys share the message.
class SplitNorms {
 public:
  /// Rows of this rank's queries and keys, [n, (all queries)/t] and [n, (all keys)/t].
  struct Vectors {
    VectorRows queries;
    VectorRows keys;
  };
  /// The rstd of each row, [n], accumulator type.
  struct Statistics {
    Buffer queries;
    Buffer keys;
  };

  /// Declares `name`.query_norm.gamma and `name`.key_norm.gamma, split over the group. The model
  /// must have RMS norms.
  SplitNorms(const LayerContext& context, const std::string& name);

  /// Returns the sums of squares of whole rows, [2, n], of queries and of keys. 1 all-reduce of 2n
  /// accumulators.
  [[nodiscard]] Tensor squares(const Vectors& x) const;
  /// Computes y = norm(x) of queries, and returns the rstd of each row.
  [[nodiscard]] Tensor norm_queries(const VectorRows& x, const Tensor& squares,
                                    const VectorRows& y) const;
  /// Computes y = norm(x) of keys, and returns the rstd of each row.
  [[nodiscard]] Tensor norm_keys(const VectorRows& x, const Tensor& squares,
                                 const VectorRows& y) const;
  /// Adds the gradients of the weights to their stored ones, and computes those of x, dx, which may
  /// be dy or x. 1 all-reduce of 2n accumulators.
  void backward(const Vectors& dy, const Vectors& x, const Statistics& rstd,
                const Vectors& dx) const;

 private:
  /// The norm of queries or of keys.
  struct Norm {
    StoredParameter gamma;         ///< This rank's weights.
    std::int64_t whole_width = 0;  ///< Elements of a row over all ranks.
  };

  [[nodiscard]] Norm declare(const std::string& name, std::int64_t whole_width) const;
  [[nodiscard]] Tensor forward(const Norm& norm, const VectorRows& x, Buffer squares,
                               const VectorRows& y) const;
  /// Computes this rank's part of the numbers that a backward pass needs of rows.
  void write_products(const Norm& norm, const VectorRows& dy, const VectorRows& x,
                      Buffer products) const;
  void backward(const Norm& norm, const VectorRows& dy, const VectorRows& x, Buffer rstd,
                Buffer products, const VectorRows& dx) const;
  /// Returns the numbers of queries (0) or keys (1) in `sums`, [2, n].
  [[nodiscard]] Buffer half(const Tensor& sums, int which) const;

  const LayerContext& context_;
  Norm queries_;
  Norm keys_;
};

}  // namespace ptdp
