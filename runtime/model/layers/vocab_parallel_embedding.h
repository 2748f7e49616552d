// The first layer of the model: token table, positions, dropout.
#pragma once

#include <optional>

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Returns the rows of the vocabulary that this rank holds. The vocabulary is padded to a multiple
/// of 128·t.
[[nodiscard]] VocabShard vocab_shard(const LayerContext& context);
/// Declares a matrix with a row for each token, of which this rank holds [V'/t, h].
[[nodiscard]] StoredParameter declare_vocab_matrix(const LayerContext& context,
                                                   const std::string& name, GradientGroup group);

/// The embedding of tokens, split by rows of the table. Each rank looks up the tokens of its rows;
/// the sum over ranks has all of them. Source: Shoeybi et al. (arXiv:1909.08053), section 3.
class VocabParallelEmbedding {
 public:
  /// Declares embedding.position.weight when positions are learned. `table` comes from
  /// declare_vocab_matrix().
  VocabParallelEmbedding(const LayerContext& context, StoredParameter table);

  /// Returns the embedded tokens, this rank's rows.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch) const;
  /// Turns `gradient` from that of forward()'s result into the one that weight_gradients() takes.
  void backward(const Microbatch& microbatch, Buffer gradient) const;
  /// Adds the table's gradient to `table_gradient`, which may be the stored one, and adds the
  /// positions' gradient to the stored one.
  /// `gradient` may be changed.
  void weight_gradients(const Microbatch& microbatch, Buffer gradient, Buffer table_gradient) const;

 private:
  const LayerContext& context_;
  StoredParameter table_;
  std::optional<StoredParameter> positions_;
};

}  // namespace ptdp
