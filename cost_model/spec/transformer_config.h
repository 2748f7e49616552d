// The shape of a transformer language model, and how many parameters that is.
#pragma once

#include <array>
#include <cstdint>

#include "cost_model/spec/named_values.h"
#include "cost_model/spec/object_reader.h"
#include "cost_model/spec/object_writer.h"

namespace ptdp {

enum class PositionEmbedding { kLearned, kRope, kNone };
enum class Normalization { kLayerNorm, kRmsNorm };

inline constexpr std::array kPositionEmbeddingNames = {
    NamedValue<PositionEmbedding>{PositionEmbedding::kLearned, "learned"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kRope, "rope"},
    NamedValue<PositionEmbedding>{PositionEmbedding::kNone, "none"}};
inline constexpr std::array kNormalizationNames = {
    NamedValue<Normalization>{Normalization::kLayerNorm, "layer-norm"},
    NamedValue<Normalization>{Normalization::kRmsNorm, "rms-norm"}};

/// The most layers that a model, and tokens that a sequence may have.
inline constexpr int kMostModelLayers = 100'000;
inline constexpr int kLongestSequence = 100'000'000;

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
  int num_experts = 0;          ///< Per layer; 0: a dense model.
  int moe_router_topk = 0;      ///< Experts that each token visits.
  int moe_ffn_hidden_size = 0;  ///< Of one expert; 0: ffn_hidden_size.

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;
};

/// Width of all query heads together.
[[nodiscard]] constexpr std::int64_t query_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_attention_heads * model.kv_channels;
}
/// Width of all key heads together; the same for the value heads.
[[nodiscard]] constexpr std::int64_t key_width(const TransformerConfig& model) {
  return std::int64_t{1} * model.num_query_groups * model.kv_channels;
}
/// Outputs of the MLP's first linear layer: gate and value where it is gated.
[[nodiscard]] constexpr std::int64_t mlp_up_width(const TransformerConfig& model) {
  return (model.gated_linear_unit ? std::int64_t{2} : std::int64_t{1}) * model.ffn_hidden_size;
}
/// Weights of the matrices of one dense layer, without biases and norms; 12h² for GPT.
[[nodiscard]] constexpr double layer_weights(const TransformerConfig& model) {
  return static_cast<double>(2 * query_width(model) + 2 * key_width(model) + mlp_up_width(model) +
                             model.ffn_hidden_size) *
         model.hidden_size;
}
/// Whether dropout is trained with: models of GPT-2's kind, with learned positions, are; later ones
/// are not.
[[nodiscard]] constexpr bool has_dropout(const TransformerConfig& model) {
  return model.position_embedding == PositionEmbedding::kLearned;
}

/// The config with every zero that "follows from the others" replaced. Throws Error, naming
/// `place`, where the numbers contradict each other (heads that do not divide the hidden size,
/// ...).
[[nodiscard]] TransformerConfig resolved(TransformerConfig model, const std::string& place);

/// All parameters, exactly: with biases, norms and embeddings; tied embeddings counted once.
/// For GPT: 12lh² + 13lh + (V+s)h + 2h, which is SC21 (arXiv:2104.04473) eq. 2 and the final norm.
/// Throws Error above 10^18.
[[nodiscard]] std::int64_t parameter_count(const TransformerConfig& model);

/// SC21 eq. 2 as printed: P = 12lh²(1 + 13/(12h) + (V+s)/(12lh)). GPT only; leaves out the final
/// norm's 2h.
[[nodiscard]] double sc21_parameter_count(const TransformerConfig& model);

/// What of `model` the time and memory models do not cover yet, as the end of a sentence ("has 8
/// experts"); empty for dense models.
[[nodiscard]] std::string find_uncovered_feature(const TransformerConfig& model);

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, TransformerConfig& model);

}  // namespace ptdp
