// Causal self-attention, the first branch of a layer.
#pragma once

#include <optional>

#include "runtime/model/layers/column_parallel_linear.h"
#include "runtime/model/layers/norm.h"
#include "runtime/model/layers/row_parallel_linear.h"
#include "runtime/model/layers/shared_key_head.h"
#include "runtime/model/layers/split_norms.h"

namespace ptdp {

/// What a microbatch keeps of the attention. A tensor that is not kept at the time is empty. A rank
/// has a queries and k keys of width d, and as many values as keys.
struct AttentionActivations {
  Tensor normed;  ///< Input of the branch: this rank's rows, [r, h].
  Tensor qkv;     ///< Queries, keys and values, [n, (a + 2k)·d]; after backward, their gradient.
  /// Keys and values of a head that ranks share, [n, 2d]; empty where none do. Norms over the heads
  /// of all ranks have normed these keys.
  Tensor shared;
  /// Queries and keys behind their norms, [n, (a + k)·d], without keys that are normed in `shared`;
  /// empty where the model has none.
  Tensor normed_qk;
  NormStatistics query_statistics;  ///< Statistics of the queries' norms.
  NormStatistics key_statistics;    ///< Statistics of the keys' norms.
  Tensor output;                    ///< Output of the attention core, [n, a·d].
  Tensor log_sum;          ///< Logarithms of the softmax sums, [b, a, s], accumulator type.
  Tensor output_gradient;  ///< Gradient of the projection's sum over ranks, [n, h].
};

/// Causal self-attention whose heads are split over the tensor-parallel group. The group's size
/// must divide the number of query heads. It must divide that of key heads, or be a multiple of it.
class SelfAttention {
 public:
  /// Declares the parameters under `name`. `layer` counts over the model.
  SelfAttention(const LayerContext& context, int layer, const std::string& name);

  /// Returns residual + the branch of activations.normed, this rank's rows. Fills in what is kept,
  /// and the norm of the result where `next` has one. `residual` may be empty where it has none.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Buffer residual,
                               AttentionActivations& activations, const NormOfSum& next) const;
  /// Computes output and log_sum from queries, keys and values again.
  void recompute_core(const Microbatch& microbatch, AttentionActivations& activations) const;
  /// Returns the gradient of the normed input, [n, h], of which own_rows() count. `dy` is the
  /// gradient of this rank's rows of the result. Releases what is not needed any more. Where weight
  /// gradients wait and activations.output_gradient is empty, the caller must put dy there.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                                AttentionActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(AttentionActivations& activations) const;
  /// Returns RowParallelLinear::bias_gradient_of_norm() of the projection.
  [[nodiscard]] Buffer bias_gradient_of_norm() const { return projection_.bias_gradient_of_norm(); }

 private:
  /// The vectors that the attention core works on.
  struct Vectors {
    VectorRows queries;
    VectorRows keys;
    VectorRows values;
    bool keys_lie_apart = false;  ///< Whether keys lie with values that ranks share, not queries.
  };
  /// Gradients of queries, keys and values.
  struct QkvGradients {
    Tensor qkv;     ///< Gradient of what is projected, [n, (a + 2k)·d].
    Tensor shared;  ///< Gradient of keys and values that ranks share, [n, 2d]; else empty.
  };

  /// Returns the shape and dropout of the attention core on this rank.
  [[nodiscard]] Attention shape(const Microbatch& microbatch) const;
  /// Returns the factor of attention's scores.
  [[nodiscard]] double scale() const;
  /// Returns the rows of keys and values, side by side, that this rank has projected.
  [[nodiscard]] VectorRows projected_keys(Buffer qkv) const;
  /// Returns queries, keys and values that this rank has projected.
  [[nodiscard]] Vectors projected_vectors(Buffer qkv) const;
  /// Returns queries as they were projected, and keys and values as they were or as ranks share
  /// them. `shared` is empty where ranks share none.
  [[nodiscard]] Vectors raw_vectors(Buffer qkv, Buffer shared) const;
  /// Returns the vectors of the core: those behind norms where there are any.
  [[nodiscard]] Vectors core_vectors(const AttentionActivations& activations) const;
  /// Computes the gradients of the core's inputs apart from these, or in their place.
  [[nodiscard]] QkvGradients core_backward(const Microbatch& microbatch, Buffer core_gradient,
                                           WeightGradients when,
                                           AttentionActivations& activations) const;
  /// Norms queries and keys over the heads of all ranks, before ranks share keys.
  void norm_split(AttentionActivations& activations) const;
  /// Turns the gradients of queries and keys behind such norms into those of qkv.
  void norm_split_backward(QkvGradients& gradients, const AttentionActivations& activations) const;
  /// Norms queries and keys, where the model does, and turns them by their positions.
  void prepare(const Microbatch& microbatch, AttentionActivations& activations) const;
  /// Turns the gradients of prepared queries and keys into that of qkv, which takes its place.
  void prepare_backward(const Microbatch& microbatch, QkvGradients gradients,
                        AttentionActivations& activations) const;
  /// Turns queries and keys by the angles of their positions, or back.
  void rotate(const Microbatch& microbatch, const Vectors& vectors, bool turns_back) const;
  /// Turns `heads` heads that lie side by side.
  void rotate(const Microbatch& microbatch, const VectorRows& vectors, int heads,
              bool turns_back) const;

  const LayerContext& context_;
  int layer_;
  int heads_;      ///< Number of query heads on this rank.
  int key_heads_;  ///< Number of key heads that this rank's queries attend to.
  std::optional<SharedKeyHead> shared_;  ///< The key head, where ranks share one.
  ColumnParallelLinear qkv_;
  RowParallelLinear projection_;
  std::optional<Norm> query_norm_;
  std::optional<Norm> key_norm_;
  std::optional<SplitNorms> split_norms_;  ///< In place of both, over the heads of several ranks.
};

}  // namespace ptdp
