#include "cost_model/inputs/parameter_counts.h"

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr double kMostParameters = 1e18;

/// Counts the parameters of a model: exactly in integers, or in floating point to see whether
/// integers can hold the count.
template <class Number>
class Count {
 public:
  explicit Count(const TransformerConfig& model)
      : model_(model),
        h_(model.hidden_size),
        qkv_biases_(model.add_bias_linear || model.add_qkv_bias ? 1 : 0),
        projection_biases_(model.add_bias_linear || model.add_projection_bias ? 1 : 0),
        mlp_biases_(model.add_bias_linear || model.add_mlp_bias ? 1 : 0) {}

  struct Layer {
    Number split;
    Number replicated;
    Number experts;
    [[nodiscard]] Number total() const { return split + replicated + experts; }
  };

  [[nodiscard]] Layer layer(bool has_experts) const {
    Layer count{.split = 0, .replicated = norms_of_layer(model_) * norm(h_), .experts = 0};
    if (has_latent_attention(model_)) {
      add_latent_attention(count);
    } else {
      add_attention(count);
    }
    if (!has_experts) {
      add_mlp(count, model_.ffn_hidden_size);
      return count;
    }
    count.experts = model_.num_experts * mlp(model_.moe_ffn_hidden_size);
    count.replicated += model_.num_experts * h_;  // the router
    for (const bool has_numbers : {model_.moe_router_enable_expert_bias, model_.moe_router_bias}) {
      count.replicated += has_numbers ? model_.num_experts : 0;
    }
    if (model_.moe_shared_expert_intermediate_size > 0) {
      add_mlp(count, model_.moe_shared_expert_intermediate_size);
      count.replicated += model_.moe_shared_expert_gate ? h_ : 0;
    }
    return count;
  }

  [[nodiscard]] Number all() const {
    const Number with_experts = num_expert_layers(model_);
    const Number layers = (model_.num_layers - with_experts) * layer(false).total() +
                          (with_experts > 0 ? with_experts * layer(true).total() : 0);
    const Number positions = model_.position_embedding == PositionEmbedding::kLearned
                                 ? learned_positions(model_) * h_
                                 : 0;
    return layers + (model_.embedding_layernorm ? 2 : 1) * norm(h_) + positions +
           (model_.untied_embeddings ? 2 : 1) * model_.vocab_size * h_;
  }

  [[nodiscard]] Number mtp() const {
    const Number layer_count = layer(ptdp::has_experts(model_, model_.num_layers - 1)).total();
    return model_.mtp_num_layers * (layer_count + 2 * h_ * h_ + 3 * norm(h_));
  }

  /// Returns the parameters of the norms of queries and keys.
  [[nodiscard]] Number qk_norms() const {
    if (!model_.qk_layernorm) {
      return 0;
    }
    const Number d = model_.kv_channels;
    switch (model_.qk_layernorm_width) {
      case QkNormWidth::kHead:
        return 2 * norm(d);
      case QkNormWidth::kAllHeads:
      case QkNormWidth::kEachHead:
        return norm(model_.num_attention_heads * d) + norm(model_.num_query_groups * d);
      case QkNormWidth::kWeightless:
        return 0;
    }
    return 0;
  }

  /// Returns the parameters of an MLP of `width`: a dense one, one expert, or all shared experts
  /// together.
  [[nodiscard]] Number mlp(Number width) const {
    const Number up = model_.gated_linear_unit ? 2 * width : width;
    return h_ * up + width * h_ + mlp_biases_ * (up + h_);
  }

 private:
  [[nodiscard]] Number norm(Number width) const { return parameters_of_norm(model_) * width; }

  void add_attention(Layer& count) const {
    const Number queries = Number{1} * model_.num_attention_heads * model_.kv_channels;
    const Number keys = Number{1} * model_.num_query_groups * model_.kv_channels;
    count.split += h_ * (queries + 2 * keys) + queries * h_ + qkv_biases_ * (queries + 2 * keys);
    count.split += has_relative_positions(model_) ? h_ * keys + 2 * queries : 0;
    count.split += model_.attention_sinks ? model_.num_attention_heads : 0;
    count.replicated += projection_biases_ * h_;
    if (model_.qk_layernorm_width != QkNormWidth::kHead) {
      count.split += qk_norms();
    } else {
      count.replicated += qk_norms();
    }
  }

  void add_latent_attention(Layer& count) const {
    const Number heads = model_.num_attention_heads;
    const Number queries = heads * (model_.qk_head_dim + model_.qk_pos_emb_head_dim);
    const Number q = model_.q_lora_rank;
    const Number c = model_.kv_lora_rank;
    if (model_.q_lora_rank > 0) {
      count.replicated += h_ * q + qkv_biases_ * q + norm(q);
      count.split += q * queries;
    } else {
      count.split += h_ * queries;
    }
    const Number compressed = c + model_.qk_pos_emb_head_dim;
    count.replicated += h_ * compressed + qkv_biases_ * compressed + norm(c);
    count.split += c * heads * (model_.qk_head_dim + model_.v_head_dim);
    count.split += heads * model_.v_head_dim * h_;
    count.replicated += projection_biases_ * h_;
  }

  void add_mlp(Layer& count, Number width) const {
    count.split += mlp(width) - mlp_biases_ * h_;
    count.replicated += mlp_biases_ * h_;
  }

  const TransformerConfig& model_;
  Number h_;
  Number qkv_biases_;
  Number projection_biases_;
  Number mlp_biases_;
};

LayerWeights attention_weights(const TransformerConfig& model) {
  const double h = model.hidden_size;
  const auto queries = static_cast<double>(query_width(model));
  const auto context = static_cast<double>(context_width(model));
  if (!has_latent_attention(model)) {
    return {.split = h * (queries + 2.0 * static_cast<double>(key_width(model))) + context * h +
                     position_weights(model)};
  }
  const double q = model.q_lora_rank;
  const double c = model.kv_lora_rank;
  const double keys_and_values =
      1.0 * model.num_attention_heads * (model.qk_head_dim + model.v_head_dim);
  return {.split = (q > 0.0 ? q : h) * queries + c * keys_and_values + context * h,
          .replicated = h * q + h * (c + model.qk_pos_emb_head_dim)};
}

double mlp_weights(const TransformerConfig& model, int width) {
  return (model.gated_linear_unit ? 3.0 : 2.0) * model.hidden_size * width;
}

}  // namespace

LayerParameters layer_parameters(const TransformerConfig& model, bool has_experts) {
  const auto count = Count<std::int64_t>(model).layer(has_experts);
  return {.split = count.split, .replicated = count.replicated, .experts = count.experts};
}

bool is_countable(const TransformerConfig& model) {
  // The estimate bounds every term of the sum, so the exact one cannot overflow.
  const Count<double> estimate(model);
  return estimate.all() + estimate.mtp() <= kMostParameters;
}

std::int64_t parameter_count(const TransformerConfig& model) {
  if (!is_countable(model)) {
    throw Error("the model has more than 1e18 parameters");
  }
  return Count<std::int64_t>(model).all();
}

std::int64_t active_parameter_count(const TransformerConfig& model) {
  const std::int64_t idle = model.num_experts - model.moe_router_topk;
  return parameter_count(model) - num_expert_layers(model) * idle *
                                      Count<std::int64_t>(model).mlp(model.moe_ffn_hidden_size);
}

std::int64_t mtp_parameter_count(const TransformerConfig& model) {
  return Count<std::int64_t>(model).mtp();
}

std::int64_t qk_norm_parameters(const TransformerConfig& model) {
  return Count<std::int64_t>(model).qk_norms();
}

LayerWeights layer_matrices(const TransformerConfig& model, bool has_experts) {
  LayerWeights weights = attention_weights(model);
  if (!has_experts) {
    weights.split += mlp_weights(model, model.ffn_hidden_size);
    return weights;
  }
  weights.split += mlp_weights(model, model.moe_shared_expert_intermediate_size);
  weights.replicated +=
      1.0 * model.hidden_size * (model.num_experts + (model.moe_shared_expert_gate ? 1 : 0));
  weights.experts = model.num_experts * mlp_weights(model, model.moe_ffn_hidden_size);
  return weights;
}

double position_weights(const TransformerConfig& model) {
  return has_relative_positions(model)
             ? 1.0 * model.hidden_size * static_cast<double>(key_width(model))
             : 0.0;
}

double layer_weights(const TransformerConfig& model) {
  return active_layer_weights(model, /*has_experts=*/false);
}

double active_layer_weights(const TransformerConfig& model, bool has_experts) {
  const LayerWeights weights = layer_matrices(model, has_experts);
  const double visited =
      model.num_experts > 0 ? 1.0 * model.moe_router_topk / model.num_experts : 0.0;
  return weights.split - position_weights(model) + weights.replicated + visited * weights.experts;
}

double sc21_parameter_count(const TransformerConfig& model) {
  const double l = model.num_layers;
  const double h = model.hidden_size;
  const double s = model.seq_length;
  const double vocab = model.vocab_size;
  return 12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + (vocab + s) / (12.0 * l * h));
}

}  // namespace ptdp
