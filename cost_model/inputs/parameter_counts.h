// Parameters of a model, counted exactly: by layer, and by how tensor and expert parallelism split
// them.
#pragma once

#include <cstdint>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Parameters of one layer, by who holds them. A tensor-parallel rank has 1/tp of what is split and
/// all of what is replicated. Experts are split over expert parallelism.
struct LayerParameters {
  /// Matrices that tensor parallelism splits by heads or MLP columns, and biases of columns.
  std::int64_t split = 0;
  /// Norms, biases of rows, router and the compression of latent attention: on every rank in full.
  std::int64_t replicated = 0;
  std::int64_t experts = 0;  ///< All experts of the layer but the shared ones.

  [[nodiscard]] std::int64_t total() const { return split + replicated + experts; }
  friend bool operator==(const LayerParameters&, const LayerParameters&) = default;
};

/// Counts the parameters of a layer with experts or with a dense MLP. By matrix, in a model of
/// width h with a heads of width d, g groups of keys and an MLP of width f:
///
///   attention         h(a + 2g)d + adh; with relative positions also had for their keys, and
///                     two vectors of ad that are added to queries, one for each kind of scores
///   latent attention  queries h·q + q·a(n + r), or h·a(n + r) where q = 0; h(c + r) and
///                     c·a(n + v) for keys and values; avh; norms of q and of c. q and c are the
///                     ranks, n and r the widths of heads without and with positions, v of values
///   MLP               2hf, gated 3hf; each expert as many, and a router of h per expert
///
/// With add_bias_linear every matrix has biases. Latent attention then has them on its compressions
/// and the projection; experts have them, the router has none. There are two norms of h weights,
/// four with norms before and behind branches, or one that both branches share; LayerNorm has as
/// many biases, unless layernorm_bias says none. With qk_layernorm there are norms of a query and
/// of a key head too, or of all of a rank's heads. No count overflows if the model is countable
/// (is_countable()).
///
/// Source: the modeling code of the types of kModelTypes (huggingface_fields.h) in Hugging Face
/// transformers.
[[nodiscard]] LayerParameters layer_parameters(const TransformerConfig& model, bool has_experts);

/// Returns whether the model has at most 10^18 parameters, modules that predict more tokens
/// included. Parameters and what is computed from them can then be counted exactly.
[[nodiscard]] bool is_countable(const TransformerConfig& model);

/// Counts all parameters exactly, with biases, norms and embeddings. Tied embeddings count once;
/// modules that predict more tokens do not count. For GPT: 12lh² + 13lh + (V+s)h + 2h, which is
/// SC21 (arXiv:2104.04473) eq. 2 and the final norm. Throws Error above 10^18.
[[nodiscard]] std::int64_t parameter_count(const TransformerConfig& model);

/// Counts the parameters that each token meets: all but the experts that it does not visit. Throws
/// Error as parameter_count() does.
[[nodiscard]] std::int64_t active_parameter_count(const TransformerConfig& model);

/// Counts the parameters of the modules that predict more tokens. A module has two norms, a matrix
/// of 2h to h, a layer like the model's last, and one more norm. Embedding and logits are the
/// model's and do not count. Source: DeepSeek-V3 (arXiv:2412.19437) section 2.2 and its
/// README_WEIGHTS.
[[nodiscard]] std::int64_t mtp_parameter_count(const TransformerConfig& model);

/// Counts the parameters of the norms of queries and keys in a layer; 0 without such norms.
[[nodiscard]] std::int64_t qk_norm_parameters(const TransformerConfig& model);

/// Weights of a layer's matrices, without biases and norms, by who holds them.
struct LayerWeights {
  double split = 0.0;       ///< Weights that tensor parallelism splits.
  double replicated = 0.0;  ///< Compression of latent attention, router: on every rank in full.
  double experts = 0.0;     ///< All experts of the layer but the shared ones.

  [[nodiscard]] double total() const { return split + replicated + experts; }
};
/// Counts the weights of the matrices of a layer with experts or with a dense MLP.
[[nodiscard]] LayerWeights layer_matrices(const TransformerConfig& model, bool has_experts);

/// Returns the weights of the matrix that projects relative positions to keys; 0 without such
/// positions. No token meets it.
[[nodiscard]] double position_weights(const TransformerConfig& model);

/// Returns the weights of a dense layer's matrices that a token meets; 12h² for GPT.
[[nodiscard]] double layer_weights(const TransformerConfig& model);

/// Returns the weights of a layer's matrices that a token meets, logits not counted. In a layer
/// with experts these include the experts that it visits, the shared experts and the router.
[[nodiscard]] double active_layer_weights(const TransformerConfig& model, bool has_experts);

/// Returns SC21 eq. 2 as printed: P = 12lh²(1 + 13/(12h) + (V+s)/(12lh)). It holds for GPT only and
/// leaves out the final norm's 2h.
[[nodiscard]] double sc21_parameter_count(const TransformerConfig& model);

}  // namespace ptdp
