// The first layer of the model: token table, positions, dropout.
#pragma once

#include <optional>

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Rows of the vocabulary that this rank holds, padded to a multiple of 128·t.
[[nodiscard]] VocabShard vocab_shard(const LayerContext& context);
/// Declares a matrix with a row for each token, [V'/t, h] of it here.
[[nodiscard]] StoredParameter declare_vocab_matrix(const LayerContext& context,
                                                   const std::string& name, GradientGroup group);

/// Each rank looks up the tokens of its rows of the table; the sum over ranks has them all. Source:
/// Shoeybi et al. (arXiv:1909.08053), section 3.
class VocabParallelEmbedding {
 public:
  /// `table` as by declare_vocab_matrix. Declares embedding.position.weight where positions are
  /// learned.
  VocabParallelEmbedding(const LayerContext& context, StoredParameter table);

  /// This rank's rows.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch) const;
  /// `gradient` is that of forward's result, and becomes what weight_gradients takes.
  void backward(const Microbatch& microbatch, Buffer gradient) const;
  /// The table's is added to `table_gradient`, which may be the table's own.
  void weight_gradients(const Microbatch& microbatch, Buffer gradient, Buffer table_gradient) const;

 private:
  const LayerContext& context_;
  StoredParameter table_;
  std::optional<StoredParameter> positions_;
};

}  // namespace ptdp
