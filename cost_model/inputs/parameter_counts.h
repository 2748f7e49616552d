// How many numbers a model learns, exactly, and how layers and degrees of parallelism split them.
#pragma once

#include <cstdint>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Parameters of one layer, by who holds them. A tensor-parallel rank has 1/tp of what is split and
/// all of what is replicated; experts are split over expert parallelism.
struct LayerParameters {
  std::int64_t split = 0;       ///< Matrices between heads or MLP columns, and biases of columns.
  std::int64_t replicated = 0;  ///< Norms, biases of rows, router, compression of latent attention.
  std::int64_t experts = 0;     ///< All experts of the layer but the shared ones.

  [[nodiscard]] std::int64_t total() const { return split + replicated + experts; }
  friend bool operator==(const LayerParameters&, const LayerParameters&) = default;
};

/// Of a layer with experts or with a dense MLP. By matrix, h wide, with a heads of width d, g
/// groups of keys and an MLP of width f:
///
///   attention         h(a + 2g)d + adh
///   latent attention  queries h·q + q·a(n + r), or h·a(n + r) where q = 0; h(c + r) and
///                     c·a(n + v) for keys and values; avh; norms of q and of c. With q and c the
///                     ranks, n and r the widths of heads without and with positions, v of values
///   MLP               2hf, gated 3hf; experts the same each, a router of h per expert
///
/// Biases go with every matrix where add_bias_linear is set; latent attention has them on its
/// compressions and the projection, experts on theirs and not on the router. Two norms of h
/// weights, LayerNorm with as many biases; with qk_layernorm norms of a query and of a key head.
/// Source: the modelling code of gpt2, gpt_neox, llama, mixtral, qwen2, qwen2_moe, qwen3,
/// qwen3_moe, nemotron and deepseek_v3 in Hugging Face transformers. Every count below 2^63 where
/// the model's is.
[[nodiscard]] LayerParameters layer_parameters(const TransformerConfig& model, bool has_experts);

/// Whether there are no more than 10^18 parameters, so that they and what is computed of them can
/// be counted exactly.
[[nodiscard]] bool is_countable(const TransformerConfig& model);

/// All parameters, exactly: with biases, norms and embeddings; tied embeddings counted once;
/// without modules that predict more tokens. For GPT: 12lh² + 13lh + (V+s)h + 2h, which is SC21
/// (arXiv:2104.04473) eq. 2 and the final norm. Throws Error above 10^18.
[[nodiscard]] std::int64_t parameter_count(const TransformerConfig& model);

/// Those that each token meets: all but the experts that it does not visit.
[[nodiscard]] std::int64_t active_parameter_count(const TransformerConfig& model);

/// Of the modules that predict more tokens, embedding and logits not counted, which are the
/// model's: of each two norms, a matrix of 2h to h, a layer as the model's last and a norm. Source:
/// DeepSeek-V3 (arXiv:2412.19437) section 2.2 and its README_WEIGHTS.
[[nodiscard]] std::int64_t mtp_parameter_count(const TransformerConfig& model);

/// Weights of the matrices of a layer, without biases and norms, by who holds them.
struct LayerWeights {
  double split = 0.0;       ///< Over tensor parallelism.
  double replicated = 0.0;  ///< Compression of latent attention, router.
  double experts = 0.0;     ///< All experts of the layer but the shared ones.

  [[nodiscard]] double total() const { return split + replicated + experts; }
};
[[nodiscard]] LayerWeights layer_matrices(const TransformerConfig& model, bool has_experts);

/// All of a dense layer; 12h² for GPT.
[[nodiscard]] double layer_weights(const TransformerConfig& model);

/// Weights of the matrices of a layer that a token meets, its logits left out: of experts those
/// that it visits, the shared ones and the router.
[[nodiscard]] double active_layer_weights(const TransformerConfig& model, bool has_experts);

/// SC21 eq. 2 as printed: P = 12lh²(1 + 13/(12h) + (V+s)/(12lh)). GPT only; leaves out the final
/// norm's 2h.
[[nodiscard]] double sc21_parameter_count(const TransformerConfig& model);

}  // namespace ptdp
