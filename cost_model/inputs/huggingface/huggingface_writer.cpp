#include "cost_model/inputs/huggingface/huggingface_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

using huggingface::is_one_of;
using huggingface::ModelType;
using huggingface::TypeTraits;
using Json = nlohmann::ordered_json;

/// Types of dense models, whose files are written.
constexpr std::array kWrittenTypes = {
    ModelType::kLlama,      ModelType::kMistral, ModelType::kQwen2,   ModelType::kQwen3,
    ModelType::kGemma,      ModelType::kGemma2,  ModelType::kPhi3,    ModelType::kOlmo2,
    ModelType::kGranite,    ModelType::kGpt2,    ModelType::kGptNeox, ModelType::kNemotron,
    ModelType::kStarcoder2, ModelType::kStableLm};

/// Keys that say which tokens have a meaning. All but the class of a tokenizer are numbers or
/// lists.
constexpr std::array kTokenKeys = {"bos_token_id", "eos_token_id", "pad_token_id",
                                   "unk_token_id", "sep_token_id", "tokenizer_class"};

std::string type_name(ModelType type) {
  return std::string(name_of(type, NamedValues<ModelType>(huggingface::kModelTypes)));
}

ModelType written_type(std::string_view name) {
  const auto type = find_value(name, NamedValues<ModelType>(huggingface::kModelTypes));
  std::string known;
  for (const ModelType written : kWrittenTypes) {
    if (type == written) {
      return written;
    }
    known += (known.empty() ? "" : ", ") + type_name(written);
  }
  throw Error("type of a config.json: expected one of " + known + ", got " + in_quotes(name));
}

/// Returns a number as JSON has it, whole numbers as such.
Json whole_or_real(double value) {
  const double whole = std::round(value);
  constexpr double most = 1e15;
  return whole == value && std::abs(value) < most ? Json(static_cast<std::int64_t>(value))
                                                  : Json(value);
}

Json cap_or_null(double cap) {
  return cap == 0.0 ? Json(nullptr) : Json(cap);
}

/// Returns whether a layer has the model's window, however long the sequence is.
bool is_windowed(const TransformerConfig& model, int layer) {
  return model.window_size > 0 && layer >= model.first_window_layer &&
         (model.window_attn_skip_freq == 0 || (layer + 1) % model.window_attn_skip_freq != 0);
}

void write_sizes(const TransformerConfig& model, ModelType type, const TypeTraits& traits,
                 Json& file) {
  file["vocab_size"] = model.vocab_size;
  if (type == ModelType::kGpt2) {
    file["n_layer"] = model.num_layers;
    file["n_embd"] = model.hidden_size;
    file["n_inner"] = model.ffn_hidden_size;
    file["n_head"] = model.num_attention_heads;
    file["n_positions"] = model.seq_length;
  } else {
    file["num_hidden_layers"] = model.num_layers;
    file["hidden_size"] = model.hidden_size;
    file["intermediate_size"] = model.ffn_hidden_size;
    file["num_attention_heads"] = model.num_attention_heads;
    file["max_position_embeddings"] = model.seq_length;
    if (type != ModelType::kGptNeox) {
      file["num_key_value_heads"] = model.num_query_groups;
    }
  }
  const bool is_usual_head =
      traits.head == 0 && model.kv_channels * model.num_attention_heads == model.hidden_size;
  if (traits.has_head_key && !is_usual_head) {
    file["head_dim"] = model.kv_channels;
  }
  file["tie_word_embeddings"] = !model.untied_embeddings;
}

void write_biases(const TransformerConfig& model, ModelType type, Json& file) {
  if (is_one_of(type, {ModelType::kLlama, ModelType::kGranite, ModelType::kNemotron})) {
    file["mlp_bias"] = model.add_bias_linear || model.add_mlp_bias;
  }
  if (is_one_of(type, {ModelType::kLlama, ModelType::kQwen3, ModelType::kGemma, ModelType::kGemma2,
                       ModelType::kOlmo2, ModelType::kGranite, ModelType::kGptNeox,
                       ModelType::kNemotron})) {
    file["attention_bias"] = model.add_bias_linear || model.add_qkv_bias;
  } else if (type == ModelType::kStarcoder2) {
    file["use_bias"] = model.add_bias_linear;
  } else if (type == ModelType::kStableLm) {
    file["use_qkv_bias"] = model.add_qkv_bias;
  }
}

void write_window(const TransformerConfig& model, ModelType type, Json& file) {
  const bool has_any = model.window_size > 0;
  if (is_one_of(type, {ModelType::kMistral, ModelType::kPhi3, ModelType::kStarcoder2})) {
    file["sliding_window"] = has_any ? Json(model.window_size) : Json(nullptr);
    return;
  }
  if (is_one_of(type, {ModelType::kQwen2, ModelType::kQwen3})) {
    file["use_sliding_window"] = has_any;
    file["max_window_layers"] = has_any ? model.first_window_layer : model.num_layers;
  } else if (type != ModelType::kGemma2) {
    return;
  }
  // Gemma2's class makes the mask of a window whether a layer has one or not.
  file["sliding_window"] = has_any                      ? Json(model.window_size)
                           : type == ModelType::kGemma2 ? Json(model.seq_length)
                                                        : Json(nullptr);
  Json types = Json::array();
  for (int layer = 0; layer < model.num_layers; ++layer) {
    types.push_back(is_windowed(model, layer) ? "sliding_attention" : "full_attention");
  }
  file["layer_types"] = std::move(types);
}

/// Writes LongRoPE as transformers 4 and 5 read it: versions of 4 refuse a phi3 with more keys than
/// three, and know the factor from both sequences alone.
void write_longrope(const TransformerConfig& model, Json& file) {
  const RotaryEmbedding& rotary = model.rotary;
  Json scaling = {{"type", "longrope"},
                  {"short_factor", rotary.short_factors},
                  {"long_factor", rotary.long_factors}};
  if (rotary.factor != std::max(1.0 * model.seq_length / rotary.original_seq_length, 1.0)) {
    scaling["factor"] = rotary.factor;
  }
  if (rotary.attention_factor != 0.0) {
    scaling["attention_factor"] = rotary.attention_factor;
  }
  file["original_max_position_embeddings"] = rotary.original_seq_length;
  file["rope_scaling"] = std::move(scaling);
}

void write_positions(const TransformerConfig& model, const TypeTraits& traits, Json& file) {
  const RotaryEmbedding& rotary = model.rotary;
  file[traits.rotary_base_key] = rotary.base;
  if (!traits.rotary_percent_key.empty()) {
    file[traits.rotary_percent_key] = rotary.percent;
  }
  if (rotary.scaling == RopeScaling::kLongRope) {
    write_longrope(model, file);
    return;
  }
  Json scaling;
  if (rotary.scaling != RopeScaling::kNone) {
    scaling["rope_type"] = name_of(rotary.scaling, NamedValues<RopeScaling>(kRopeScalingNames));
    scaling["factor"] = rotary.factor;
  }
  if (rotary.scaling == RopeScaling::kLlama3 || rotary.scaling == RopeScaling::kYarn) {
    scaling["original_max_position_embeddings"] = rotary.original_seq_length;
  }
  if (rotary.scaling == RopeScaling::kLlama3) {
    scaling["low_freq_factor"] = rotary.low_freq_factor;
    scaling["high_freq_factor"] = rotary.high_freq_factor;
  } else if (rotary.scaling == RopeScaling::kYarn) {
    scaling["beta_fast"] = rotary.beta_fast;
    scaling["beta_slow"] = rotary.beta_slow;
    if (rotary.attention_factor != 0.0) {
      scaling["attention_factor"] = rotary.attention_factor;
    }
  }
  file["rope_scaling"] = std::move(scaling);
}

void write_numerics(const TransformerConfig& model, ModelType type, const TypeTraits& traits,
                    Json& file) {
  // The tanh form has two names: GPT-2's class has the first by itself, newer ones the second.
  file[traits.activation_key] =
      type != ModelType::kGpt2 && activation_of(model) == Activation::kTanhGelu
          ? "gelu_pytorch_tanh"
          : name_of(activation_of(model), NamedValues<Activation>(kActivationNames));
  if (type == ModelType::kGemma) {
    file["hidden_activation"] = file[traits.activation_key];
  }
  file[traits.epsilon_key] = model.layernorm_epsilon;
  file["initializer_range"] = model.init_method_std;
  const DropoutRates rates = dropout_rates(model);
  file[traits.attention_dropout_key] = rates.attention;
  if (!traits.hidden_dropout_key.empty()) {
    file[traits.hidden_dropout_key] = rates.hidden;
  }
  if (!traits.embedding_dropout_key.empty()) {
    file[traits.embedding_dropout_key] = rates.embedding;
  }
}

/// Writes what single types have.
void write_own_keys(const TransformerConfig& model, ModelType type, Json& file) {
  const double scalar =
      model.query_pre_attn_scalar == 0.0 ? model.kv_channels : model.query_pre_attn_scalar;
  if (type == ModelType::kGpt2) {
    file["scale_attn_weights"] = model.scale_attn_weights;
    file["scale_attn_by_inverse_layer_idx"] = model.scale_attn_by_inverse_layer_idx;
  } else if (type == ModelType::kGptNeox) {
    file["use_parallel_residual"] = model.parallel_residual;
  } else if (type == ModelType::kGemma2) {
    file["query_pre_attn_scalar"] = whole_or_real(scalar);
    file["attn_logit_softcapping"] = cap_or_null(model.attn_logit_softcapping);
    file["final_logit_softcapping"] = cap_or_null(model.final_logit_softcapping);
  } else if (type == ModelType::kGranite) {
    file["embedding_multiplier"] = model.embedding_multiplier;
    file["logits_scaling"] = as_written(1.0 / model.logits_multiplier);
    file["residual_multiplier"] = model.residual_multiplier;
    file["attention_multiplier"] = as_written(1.0 / std::sqrt(scalar));
  }
}

/// Returns the model without values that mean nothing in it, as a reader would have left them.
TransformerConfig meaningful(TransformerConfig model) {
  if (model.activation_func == usual_activation(model.gated_linear_unit)) {
    model.activation_func = std::nullopt;
  }
  const DropoutRates rates = dropout_rates(model);
  const bool drops = rates != DropoutRates(0.0);
  model.dropout = std::nullopt;
  model.dropout_rates = drops ? rates : kUsualDropoutRates;
  if (drops != has_dropout(model)) {
    model.dropout = drops;
  }
  if (model.query_pre_attn_scalar == model.kv_channels) {
    model.query_pre_attn_scalar = 0.0;
  }
  RotaryEmbedding rotary = {.base = model.rotary.base,
                            .percent = model.rotary.percent,
                            .scaling = model.rotary.scaling,
                            .interleaved = model.rotary.interleaved,
                            .window_base = model.rotary.window_base,
                            .no_rope_freq = model.rotary.no_rope_freq};
  if (rotary.scaling != RopeScaling::kNone) {
    rotary.factor = model.rotary.factor;
  }
  if (rotary.scaling != RopeScaling::kNone && rotary.scaling != RopeScaling::kLinear) {
    rotary.original_seq_length = model.rotary.original_seq_length;
  }
  if (rotary.scaling == RopeScaling::kLlama3) {
    rotary.low_freq_factor = model.rotary.low_freq_factor;
    rotary.high_freq_factor = model.rotary.high_freq_factor;
  } else if (rotary.scaling == RopeScaling::kYarn) {
    rotary.beta_fast = model.rotary.beta_fast;
    rotary.beta_slow = model.rotary.beta_slow;
    rotary.attention_factor = model.rotary.attention_factor;
  } else if (rotary.scaling == RopeScaling::kLongRope) {
    rotary.attention_factor = model.rotary.attention_factor;
    rotary.short_factors = model.rotary.short_factors;
    rotary.long_factors = model.rotary.long_factors;
  }
  model.rotary = rotary;
  return model;
}

Json described(const TransformerConfig& model) {
  ObjectWriter writer;
  describe(writer, model);
  return Json::parse(writer.dump());
}

/// Returns the first field in which a model differs from what its file says.
std::optional<UnsaidField> first_difference(const TransformerConfig& model,
                                            const TransformerConfig& said) {
  if (meaningful(model) == said) {
    return std::nullopt;
  }
  const Json ours = described(meaningful(model));
  const Json theirs = described(said);
  const auto shown = [](const Json& object, const std::string& key) {
    return object.contains(key) ? object[key].dump() : std::string("no such key");
  };
  for (const Json& object : {ours, theirs}) {
    for (const auto& [key, value] : object.items()) {
      if (shown(ours, key) != shown(theirs, key)) {
        return UnsaidField{key, shown(ours, key), shown(theirs, key)};
      }
    }
  }
  return std::nullopt;
}

/// Returns a field whose value the type's class refuses.
std::optional<UnsaidField> refused_by_class(const TransformerConfig& model, ModelType type) {
  if (model.hidden_size % model.num_attention_heads != 0 &&
      is_one_of(type, {ModelType::kLlama, ModelType::kGemma2})) {
    return UnsaidField{
        "hidden_size", std::to_string(model.hidden_size),
        "a multiple of num_attention_heads, " + std::to_string(model.num_attention_heads)};
  }
  const double scalar = model.query_pre_attn_scalar;
  if (type == ModelType::kGemma2 && scalar != std::round(scalar)) {
    return UnsaidField{"query_pre_attn_scalar", huggingface::in_digits(scalar), "a whole number"};
  }
  if (type == ModelType::kPhi3 && model.rotary.scaling != RopeScaling::kNone &&
      model.rotary.scaling != RopeScaling::kLongRope) {
    return UnsaidField{
        "rope_scaling",
        std::string(name_of(model.rotary.scaling, NamedValues<RopeScaling>(kRopeScalingNames))),
        "none or longrope"};
  }
  return std::nullopt;
}

std::string written(const TransformerConfig& model, ModelType type) {
  const TypeTraits traits = huggingface::traits_of(type);
  Json file;
  file["model_type"] = type_name(type);
  file["architectures"] = Json::array({traits.language_model});
  // The defaults of the classes are tokens of other vocabularies, and a padding token's row of the
  // embedding would not be trained.
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    file[key] = nullptr;
  }
  write_sizes(model, type, traits, file);
  write_biases(model, type, file);
  write_window(model, type, file);
  if (type != ModelType::kGpt2) {
    write_positions(model, traits, file);
  }
  write_numerics(model, type, traits, file);
  write_own_keys(model, type, file);
  return file.dump(2) + "\n";
}

}  // namespace

std::optional<UnsaidField> unsaid_in_huggingface_config(const TransformerConfig& model,
                                                        std::string_view type_text) {
  const ModelType type = written_type(type_text);
  if (auto refused = refused_by_class(model, type)) {
    return refused;
  }
  ObjectReader reader = ObjectReader::from_text(
      written(model, type), "model as a config.json of the type " + type_name(type));
  return first_difference(model, read_huggingface_config(reader));
}

std::string huggingface_config(const TransformerConfig& model, std::string_view type) {
  if (const auto unsaid = unsaid_in_huggingface_config(model, type)) {
    throw Error("model: " + unsaid->field + ": a config.json of the type " + std::string(type) +
                " cannot say it: expected " + unsaid->expected + ", got " + unsaid->found);
  }
  return written(model, written_type(type));
}

std::string with_tokens_of(std::string_view original, std::string_view config) {
  const Json from = Json::parse(original, nullptr, /*allow_exceptions=*/false);
  Json to = Json::parse(config, nullptr, /*allow_exceptions=*/false);
  if (!from.is_object() || !to.is_object()) {
    throw Error("tokens of a config.json: expected two JSON objects");
  }
  for (const char* key : kTokenKeys) {
    if (from.contains(key)) {
      to[key] = from[key];
    } else {
      to.erase(key);
    }
  }
  return to.dump(2) + "\n";
}

}  // namespace ptdp
