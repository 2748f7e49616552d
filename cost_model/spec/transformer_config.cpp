#include "cost_model/spec/transformer_config.h"

#include <string>

#include "cost_model/error.h"

namespace ptdp {
namespace {

// Bounds that no model reaches and that keep every product below 2^63.
constexpr int kWidest = 10'000'000;
constexpr int kMostExperts = 100'000;
constexpr double kMostParameters = 1e18;

/// The sum behind parameter_count, in floating point or exactly.
template <class Number>
Number count_parameters(const TransformerConfig& model) {
  const Number h = model.hidden_size;
  const Number queries = Number{1} * model.num_attention_heads * model.kv_channels;
  const Number keys = Number{1} * model.num_query_groups * model.kv_channels;
  const Number biases = model.add_bias_linear ? 1 : 0;
  const Number norm = model.normalization == Normalization::kLayerNorm ? 2 * h : h;

  const Number attention =
      h * (queries + 2 * keys) + queries * h + biases * (queries + 2 * keys + h);
  const bool has_experts = model.num_experts > 0;
  const Number ffn = has_experts ? model.moe_ffn_hidden_size : model.ffn_hidden_size;
  const Number up = model.gated_linear_unit ? 2 * ffn : ffn;
  const Number mlp = h * up + ffn * h + biases * (up + h);
  const Number mlps = has_experts ? model.num_experts * (mlp + h) : mlp;  // + h: the router

  const Number logits = Number{1} * model.vocab_size * h;
  const Number positions =
      model.position_embedding == PositionEmbedding::kLearned ? model.seq_length * h : 0;
  return model.num_layers * (attention + mlps + 2 * norm) + norm + positions +
         (model.untied_embeddings ? 2 : 1) * logits;
}

}  // namespace

TransformerConfig resolved(TransformerConfig model, const std::string& place) {
  const auto refuse = [&place](const std::string& why) { throw Error(place + ": " + why); };
  if (model.num_query_groups == 0) {
    model.num_query_groups = model.num_attention_heads;
  }
  if (model.num_attention_heads % model.num_query_groups != 0) {
    refuse("num_query_groups " + std::to_string(model.num_query_groups) +
           " does not divide num_attention_heads " + std::to_string(model.num_attention_heads));
  }
  if (model.kv_channels == 0) {
    if (model.hidden_size % model.num_attention_heads != 0) {
      refuse("num_attention_heads " + std::to_string(model.num_attention_heads) +
             " does not divide hidden_size " + std::to_string(model.hidden_size) +
             "; give kv_channels if that is meant");
    }
    model.kv_channels = model.hidden_size / model.num_attention_heads;
  }
  if (model.ffn_hidden_size == 0) {
    if (model.hidden_size > kWidest / 4) {
      refuse("hidden_size " + std::to_string(model.hidden_size) +
             " is too wide for the usual ffn_hidden_size of four times that");
    }
    model.ffn_hidden_size = 4 * model.hidden_size;
  }
  if (model.num_experts == 0 && (model.moe_router_topk != 0 || model.moe_ffn_hidden_size != 0)) {
    refuse("moe_router_topk and moe_ffn_hidden_size need num_experts");
  }
  if (model.num_experts != 0) {
    if (model.moe_router_topk == 0) {
      refuse("num_experts needs moe_router_topk, the experts each token visits");
    }
    if (model.moe_router_topk > model.num_experts) {
      refuse("moe_router_topk " + std::to_string(model.moe_router_topk) + " exceeds num_experts " +
             std::to_string(model.num_experts));
    }
    if (model.moe_ffn_hidden_size == 0) {
      model.moe_ffn_hidden_size = model.ffn_hidden_size;
    }
  }
  return model;
}

std::int64_t parameter_count(const TransformerConfig& model) {
  // The estimate bounds every term of the sum, so the exact one cannot overflow.
  if (count_parameters<double>(model) > kMostParameters) {
    throw Error("the model has more than 1e18 parameters");
  }
  return count_parameters<std::int64_t>(model);
}

double sc21_parameter_count(const TransformerConfig& model) {
  const double l = model.num_layers;
  const double h = model.hidden_size;
  const double s = model.seq_length;
  const double vocab = model.vocab_size;
  return 12.0 * l * h * h * (1.0 + 13.0 / (12.0 * h) + (vocab + s) / (12.0 * l * h));
}

std::string find_uncovered_feature(const TransformerConfig& model) {
  if (model.num_experts > 0) {
    return "has " + std::to_string(model.num_experts) + " experts";
  }
  return "";
}

template <class Fields>
void describe(Fields& fields, TransformerConfig& model) {
  const auto optional_count = [&fields](const std::string& key, int& value, int most) {
    if (fields.optional(key, value != 0)) {
      fields.count(key, value, 1, most);
    }
  };
  const auto optional_flag = [&fields](const std::string& key, bool& value, bool usual) {
    if (fields.optional(key, value != usual)) {
      fields.flag(key, value);
    }
  };
  fields.count("num_layers", model.num_layers, 1, kMostModelLayers);
  fields.count("hidden_size", model.hidden_size, 1, kWidest);
  fields.count("num_attention_heads", model.num_attention_heads, 1, kWidest);
  optional_count("num_query_groups", model.num_query_groups, kWidest);
  optional_count("kv_channels", model.kv_channels, kWidest);
  optional_count("ffn_hidden_size", model.ffn_hidden_size, kWidest);
  fields.count("vocab_size", model.vocab_size, 1, kWidest);
  fields.count("seq_length", model.seq_length, 1, kLongestSequence);
  optional_flag("gated_linear_unit", model.gated_linear_unit, false);
  optional_flag("add_bias_linear", model.add_bias_linear, true);
  optional_flag("untied_embeddings", model.untied_embeddings, false);
  if (fields.optional("position_embedding",
                      model.position_embedding != PositionEmbedding::kLearned)) {
    fields.choice("position_embedding", model.position_embedding,
                  NamedValues<PositionEmbedding>(kPositionEmbeddingNames));
  }
  if (fields.optional("normalization", model.normalization != Normalization::kLayerNorm)) {
    fields.choice("normalization", model.normalization,
                  NamedValues<Normalization>(kNormalizationNames));
  }
  optional_count("num_experts", model.num_experts, kMostExperts);
  optional_count("moe_router_topk", model.moe_router_topk, kMostExperts);
  optional_count("moe_ffn_hidden_size", model.moe_ffn_hidden_size, kWidest);
}
template void describe(ObjectReader&, TransformerConfig&);
template void describe(ObjectWriter&, TransformerConfig&);

}  // namespace ptdp
