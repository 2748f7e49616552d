// The shape of a transformer language model.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

enum class PositionEmbedding { kLearned, kRope, kNone };
enum class Normalization { kLayerNorm, kRmsNorm };
enum class Activation { kTanhGelu, kGelu, kRelu, kSilu, kTanh, kSquaredRelu, kQuickGelu };

inline constexpr std::array kPositionEmbeddingNames = {
    NamedValue<PositionEmbedding>{PositionEmbedding::kLearned, "learned"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kRope, "rope"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kNone, "none"}};
inline constexpr std::array kNormalizationNames = {
    NamedValue<Normalization>{Normalization::kLayerNorm, "layer-norm"},
    NamedValue<Normalization>{Normalization::kRmsNorm, "rms-norm"}};
/// These names are those of Hugging Face transformers (activations.py, ACT2FN).
inline constexpr std::array kActivationNames = {
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_new"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_pytorch_tanh"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_fast"},
    NamedValue<Activation>{Activation::kTanhGelu, "gelu_accurate"},
    NamedValue<Activation>{Activation::kGelu, "gelu"},
    NamedValue<Activation>{Activation::kGelu, "gelu_python"},
    NamedValue<Activation>{Activation::kRelu, "relu"},
    NamedValue<Activation>{Activation::kSilu, "silu"},
    NamedValue<Activation>{Activation::kSilu, "swish"},
    NamedValue<Activation>{Activation::kTanh, "tanh"},
    NamedValue<Activation>{Activation::kSquaredRelu, "relu2"},
    NamedValue<Activation>{Activation::kQuickGelu, "quick_gelu"}};

/// Models drop at this rate where nothing else is said, as GPT-2 and Megatron-LM do.
inline constexpr double kUsualDropout = 0.1;

/// A file may give these rates of dropout, epsilons of norms and deviations of initial weights.
inline constexpr Range kDropoutRange = {0.0, 0.99};
inline constexpr Range kEpsilonRange = {1e-12, 1.0};
inline constexpr Range kDeviationRange = {0.0, 1.0};

/// Training drops elements with these probabilities.
struct DropoutRates {
  double embedding;
  double attention;  ///< Drops probabilities of attention.
  double hidden;     ///< Drops what both branches of a layer add.

  /// One rate holds everywhere.
  // NOLINTNEXTLINE(google-explicit-constructor): settings take one rate as readily as three
  constexpr DropoutRates(double all = 0.0) : embedding(all), attention(all), hidden(all) {}
  friend bool operator==(const DropoutRates&, const DropoutRates&) = default;
};

/// The most layers that a model, experts that a layer, tokens that a sequence may have, and the
/// widest matrix: bounds that no model reaches.
inline constexpr int kMostModelLayers = 100'000;
inline constexpr int kMostExperts = 100'000;
inline constexpr int kLongestSequence = 100'000'000;
inline constexpr int kWidestMatrix = 10'000'000;

/// A decoder-only transformer in Megatron-LM's field names. The defaults are those of GPT-2 and
/// GPT-3; zero stands for "follows from the others" until resolved() fills it in.
struct TransformerConfig {
  int num_layers = 0;
  int hidden_size = 0;
  int num_attention_heads = 0;
  int num_query_groups = 0;  ///< Key-value heads; 0: num_attention_heads.
  int kv_channels = 0;       ///< Width of a head; 0: hidden_size / num_attention_heads.
  int ffn_hidden_size = 0;   ///< 0: 4 hidden_size.
  int vocab_size = 0;
  int seq_length = 0;              ///< Tokens per sequence in training; learned positions too.
  bool gated_linear_unit = false;  ///< Three MLP matrices instead of two.
  bool add_bias_linear = true;     ///< Biases on every linear layer.
  bool untied_embeddings = false;  ///< A logits matrix of its own.
  PositionEmbedding position_embedding = PositionEmbedding::kLearned;
  Normalization normalization = Normalization::kLayerNorm;
  /// Whether dropout is trained with; not said: with learned positions, as GPT-2 and GPT-3 were.
  std::optional<bool> dropout = {};

  // What the cost of training does not depend on, but its result does.
  DropoutRates dropout_rates = kUsualDropout;          ///< Where dropout is trained with.
  double layernorm_epsilon = 1e-5;                     ///< Added to the variance.
  double init_method_std = 0.02;                       ///< Of initial weights.
  Activation activation_func = Activation::kTanhGelu;  ///< Of an MLP that is not gated.
  bool scale_attn_weights = true;                      ///< Scores over the root of a head's width,
  bool scale_attn_by_inverse_layer_idx = false;        ///< and over a layer's number, from 1.

  // Biases of some linear layers, where add_bias_linear is off.
  bool add_qkv_bias = false;         ///< Of QKV (Qwen2); of latent attention's compressions.
  bool add_projection_bias = false;  ///< Of attention's projection.
  bool add_mlp_bias = false;

  bool qk_layernorm = false;   ///< Norms of every query and key head (Qwen3).
  int window_size = 0;         ///< Tokens that each attends to, itself included; 0: all before it.
  int first_window_layer = 0;  ///< Layers before this one attend to all.

  // Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434 section 2.1): where kv_lora_rank is
  // given. Query heads are num_attention_heads; groups and kv_channels mean nothing then.
  int q_lora_rank = 0;          ///< Width of the compressed queries; 0: they are not compressed.
  int kv_lora_rank = 0;         ///< Width of the compressed keys and values.
  int qk_head_dim = 0;          ///< Of a query or key head, without positions,
  int qk_pos_emb_head_dim = 0;  ///< and the rotary part, which all heads' keys share.
  int v_head_dim = 0;           ///< Of a value head.

  // Mixture of experts.
  int num_experts = 0;                          ///< Per layer; 0: a dense model.
  int moe_router_topk = 0;                      ///< Experts that each token visits.
  int moe_ffn_hidden_size = 0;                  ///< Of one expert; 0: ffn_hidden_size.
  int moe_shared_expert_intermediate_size = 0;  ///< Of all that every token visits, together.
  bool moe_shared_expert_gate = false;          ///< Their output is weighted (Qwen2-MoE).
  bool moe_router_enable_expert_bias = false;   ///< A number per expert that balances the load.
  int moe_router_num_groups = 0;                ///< Groups of experts; 0: no groups.
  int moe_router_group_topk = 0;                ///< Groups that a token's experts may be in.
  int first_dense_layers = 0;                   ///< Without experts; from this layer on
  int moe_layer_freq = 1;                       ///< every n-th has them.

  /// Tokens of an expert over the mean: each is given room for so many, drops more and pads fewer.
  /// 0: it takes all that come (dropless), and the fullest rank has moe_load_imbalance times the
  /// mean.
  double moe_expert_capacity_factor = 0.0;
  double moe_load_imbalance = 1.0;

  /// Modules that predict one more token each (DeepSeek-V3, arXiv:2412.19437 section 2.2).
  int mtp_num_layers = 0;

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

/// Whether attention is latent.
[[nodiscard]] constexpr bool has_latent_attention(const TransformerConfig& model) {
  return model.kv_lora_rank > 0;
}
/// Width of a query or key head, and of a value head.
[[nodiscard]] constexpr int query_head_width(const TransformerConfig& model) {
  return has_latent_attention(model) ? model.qk_head_dim + model.qk_pos_emb_head_dim
                                     : model.kv_channels;
}
[[nodiscard]] constexpr int value_head_width(const TransformerConfig& model) {
  return has_latent_attention(model) ? model.v_head_dim : model.kv_channels;
}
/// Width of all query heads together.
[[nodiscard]] constexpr std::int64_t query_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_attention_heads * query_head_width(model);
}
/// Width of all heads' outputs together, which the projection takes.
[[nodiscard]] constexpr std::int64_t context_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_attention_heads * value_head_width(model);
}
/// Width of all key heads together; the same for the value heads. Not of latent attention.
[[nodiscard]] constexpr std::int64_t key_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_query_groups * model.kv_channels;
}
/// Outputs of the MLP's first linear layer: gate and value where it is gated.
[[nodiscard]] constexpr std::int64_t mlp_up_width(const TransformerConfig& model) {
  return (model.gated_linear_unit ? std::int64_t{2} : std::int64_t{1}) * model.ffn_hidden_size;
}
/// Whether any layer's tokens attend to fewer than the sequence has.
[[nodiscard]] constexpr bool has_window(const TransformerConfig& model) {
  return model.window_size > 0 && model.window_size < model.seq_length &&
         model.first_window_layer < model.num_layers;
}
/// Tokens that one attends to in a layer that may have the window: of the sequence or the window,
/// or on average of those before it, s/2 as all count it; w − w²/(2s) with a window of w.
[[nodiscard]] constexpr double attended_tokens(const TransformerConfig& model, bool is_causal) {
  const double s = model.seq_length;
  const double w = has_window(model) ? model.window_size : s;
  return is_causal ? w - w * w / (2.0 * s) : w;
}
/// Whether any layer has experts.
[[nodiscard]] constexpr bool has_experts(const TransformerConfig& model) {
  return model.num_experts > 0;
}
/// Whether a layer (from 0) has them.
[[nodiscard]] constexpr bool has_experts(const TransformerConfig& model, int layer) {
  return model.num_experts > 0 && layer >= model.first_dense_layers &&
         (layer - model.first_dense_layers) % model.moe_layer_freq == 0;
}
/// Tokens that the experts of the busiest rank work on, over the mean of all.
[[nodiscard]] constexpr double expert_load(const TransformerConfig& model) {
  return model.moe_expert_capacity_factor > 0.0 ? model.moe_expert_capacity_factor
                                                : model.moe_load_imbalance;
}
/// Of the first `layers` layers, and of all.
[[nodiscard]] int num_expert_layers(const TransformerConfig& model, int layers);
[[nodiscard]] int num_expert_layers(const TransformerConfig& model);
/// Whether dropout is trained with.
[[nodiscard]] constexpr bool has_dropout(const TransformerConfig& model) {
  return model.dropout.value_or(model.position_embedding == PositionEmbedding::kLearned);
}
/// Returns the rates that the model is trained with: 0 where it is trained without dropout.
[[nodiscard]] constexpr DropoutRates dropout_rates(const TransformerConfig& model) {
  return has_dropout(model) ? model.dropout_rates : DropoutRates(0.0);
}

/// The config with every zero that "follows from the others" replaced. Throws Error, naming
/// `place`, where the numbers contradict each other (heads that do not divide the hidden size,
/// ...), and above 10^18 parameters, which nothing can count then.
[[nodiscard]] TransformerConfig resolved(TransformerConfig model, const std::string& place);

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, TransformerConfig>& model);

/// Describes the rates of a run: `dropout`, and two keys more where not all are equal.
template <class Fields>
void describe_dropout(Fields& fields, Described<Fields, DropoutRates>& rates);

}  // namespace ptdp
