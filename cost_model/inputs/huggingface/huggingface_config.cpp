#include "cost_model/inputs/huggingface/huggingface_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_keys.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

using huggingface::Keys;
using huggingface::ModelType;
using huggingface::TypeTraits;

/// What becomes of keys that nobody knows.
enum class UnknownKeys { kRefused, kReported };

constexpr const char* kWayOut = "; describe it as ptdp.model/1 (profiles/README.md)";

/// A type of models that TransformerConfig cannot say, and what it has.
struct UnreadType {
  std::string_view name;
  std::string_view needs;
};
constexpr std::string_view kDeltaNet = "gated delta net layers";
constexpr std::string_view kStateSpaces = "state space layers";
constexpr std::string_view kLogitBiases = "biases of logits";
constexpr std::string_view kIndexer = "sparse attention by an indexer";
constexpr std::string_view kEncoder = "an encoder";
constexpr std::array kUnreadTypes = {UnreadType{"qwen3_next", kDeltaNet},
                                     UnreadType{"qwen3_5", kDeltaNet},
                                     UnreadType{"qwen3_5_moe", kDeltaNet},
                                     UnreadType{"kimi_linear", kDeltaNet},
                                     UnreadType{"mamba", kStateSpaces},
                                     UnreadType{"mamba2", kStateSpaces},
                                     UnreadType{"falcon_mamba", kStateSpaces},
                                     UnreadType{"falcon_h1", kStateSpaces},
                                     UnreadType{"jamba", kStateSpaces},
                                     UnreadType{"bamba", kStateSpaces},
                                     UnreadType{"granitemoehybrid", kStateSpaces},
                                     UnreadType{"nemotron_h", kStateSpaces},
                                     UnreadType{"zamba", kStateSpaces},
                                     UnreadType{"zamba2", kStateSpaces},
                                     UnreadType{"lfm2", "convolutions among its layers"},
                                     UnreadType{"rwkv", "recurrent layers"},
                                     UnreadType{"recurrent_gemma", "recurrent layers"},
                                     UnreadType{"minimax", "lightning attention"},
                                     UnreadType{"deepseek_v32", kIndexer},
                                     UnreadType{"glm_moe_dsa", kIndexer},
                                     UnreadType{"gemma3n", "embeddings of its own in each layer"},
                                     UnreadType{"olmo", "norms without weights"},
                                     UnreadType{"gptj", kLogitBiases},
                                     UnreadType{"codegen", kLogitBiases},
                                     UnreadType{"phi", kLogitBiases},
                                     UnreadType{"t5", kEncoder},
                                     UnreadType{"mt5", kEncoder},
                                     UnreadType{"bart", kEncoder},
                                     UnreadType{"whisper", kEncoder},
                                     UnreadType{"bert", kEncoder},
                                     UnreadType{"roberta", kEncoder}};

/// Returns the type that a file names. Throws Error, with what it has or with those that are read,
/// for one that is not read.
ModelType read_type(const Keys& keys) {
  std::string name;
  keys.reader().text("model_type", name);
  const NamedValues<ModelType> types(huggingface::kModelTypes);
  if (const auto type = find_value(name, types)) {
    return *type;
  }
  const auto* const unread =
      std::find_if(kUnreadTypes.begin(), kUnreadTypes.end(),
                   [&name](const UnreadType& type) { return type.name == name; });
  if (unread != kUnreadTypes.end()) {
    keys.refuse("model_type", in_quotes(name) + " has " + std::string(unread->needs) +
                                  ", which are not read" + kWayOut);
  }
  const std::vector<std::string> names = names_of(types);
  std::string known;
  for (const std::string& type : names) {
    known += (known.empty() ? "" : ", ") + type;
  }
  keys.refuse("model_type", "expected one of " + known + ", got " + in_quotes(name) +
                                did_you_mean(name, names) + kWayOut);
}

TransformerConfig read_gpt2(const Keys& keys) {
  return {.num_layers = keys.size("n_layer", kMostModelLayers),
          .hidden_size = keys.size("n_embd"),
          .num_attention_heads = keys.size("n_head"),
          .ffn_hidden_size = keys.size_or("n_inner", 0),
          .vocab_size = keys.size("vocab_size"),
          .seq_length = keys.size_or("n_positions", 1024, kLongestSequence),
          .untied_embeddings = !keys.flag_or("tie_word_embeddings", true)};
}

/// Reads the sizes, whose keys most types spell alike.
TransformerConfig read_sizes(const Keys& keys, const TypeTraits& traits) {
  const auto size_of = [&keys](const std::string& key, int usual) {
    return usual == 0 ? keys.size(key) : keys.size_or(key, usual);
  };
  return {
      .num_layers = keys.size("num_hidden_layers", kMostModelLayers),
      .hidden_size = keys.size("hidden_size"),
      .num_attention_heads = size_of("num_attention_heads", traits.heads),
      .ffn_hidden_size = keys.size("intermediate_size"),
      .vocab_size = size_of("vocab_size", traits.vocab_size),
      .seq_length = keys.size_or("max_position_embeddings", traits.seq_length, kLongestSequence),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", traits.tied_embeddings),
      .position_embedding = PositionEmbedding::kRope};
}

/// Reads a model of a type whose keys are those of most types.
TransformerConfig read_usual_spelling(const Keys& keys, ModelType type) {
  const TypeTraits traits = huggingface::traits_of(type);
  const bool is_gpt2 = type == ModelType::kGpt2 || type == ModelType::kGptBigCode;
  TransformerConfig model = is_gpt2 ? read_gpt2(keys) : read_sizes(keys, traits);
  model.gated_linear_unit = traits.gated_linear_unit;
  model.normalization = traits.normalization;
  huggingface::read_biases(keys, type, model);
  huggingface::read_heads(keys, type, model);
  huggingface::read_window(keys, type, model);
  huggingface::read_rotary(keys, type, model);
  huggingface::read_numerics(keys, type, model);
  huggingface::read_experts(keys, type, model);
  if (type == ModelType::kDeepseekV3 || type == ModelType::kGlm4Moe) {
    model.mtp_num_layers = keys.count_or(
        keys.spelling_of({"num_nextn_predict_layers", "num_mtp_layers"}), 0, kMostModelLayers);
  }
  huggingface::read_dropout(keys, type, model);
  return model;
}

/// Passes over keys that all types may have, and ends the reading of an object. Returns what became
/// of keys that nobody knows.
std::vector<std::string> finish(const Keys& keys, UnknownKeys unknown) {
  ObjectReader& reader = keys.reader();
  keys.expect("add_cross_attention", false, "a decoder alone");
  keys.expect("is_encoder_decoder", false, "a decoder alone");
  keys.expect("is_causal", true, "a token attends to those before it");
  if (keys.has("pruned_heads")) {
    reader.child("pruned_heads").finish();
  }
  keys.pass_over(kPassedOverKeys);
  if (unknown == UnknownKeys::kRefused) {
    reader.finish();
    return {};
  }
  std::vector<std::string> warnings =
      reader.finish_but_for([](const std::string& key) { return !may_say_shape(key); });
  for (std::string& warning : warnings) {
    warning += ": unknown key, ignored";
  }
  return warnings;
}

HuggingfaceModel read_model(ObjectReader& reader, ModelType type, UnknownKeys unknown) {
  const Keys keys(reader);
  auto own = huggingface::read_own_spelling(keys, type);
  TransformerConfig model = own ? std::move(*own) : read_usual_spelling(keys, type);
  HuggingfaceModel read;
  read.warnings = finish(keys, unknown);
  read.config = resolved(std::move(model), reader.place() + ", in Megatron-LM's names");
  return read;
}

/// Reads the part of a model that reads text, which a file of a model that sees has as an object.
HuggingfaceModel read_text_part(ObjectReader& reader, ModelType type, UnknownKeys unknown) {
  const Keys keys(reader);
  ObjectReader text = reader.child("text_config");
  if (const Keys nested(text); nested.has("model_type") && read_type(nested) != type) {
    nested.refuse("model_type",
                  "expected the part of a " +
                      std::string(name_of(type, NamedValues<ModelType>(huggingface::kModelTypes))) +
                      " that reads text");
  }
  HuggingfaceModel read = read_model(text, type, unknown);
  const bool is_tied = keys.flag_or("tie_word_embeddings", !read.config.untied_embeddings);
  if (is_tied == read.config.untied_embeddings) {
    keys.refuse("tie_word_embeddings", "expected what " + text.place() + " has");
  }
  keys.pass_over(std::array{"boi_token_id", "boi_token_index", "eoi_token_id", "eoi_token_index",
                            "image_token_id", "image_token_index", "initializer_range",
                            "mm_tokens_per_image", "vision_config"});
  for (std::string& warning : finish(keys, unknown)) {
    read.warnings.push_back(std::move(warning));
  }
  read.assumptions.emplace_back(
      "model: the part of its config.json that reads text; vision_config is left out");
  return read;
}

HuggingfaceModel read(ObjectReader& reader, UnknownKeys unknown) {
  const Keys keys(reader);
  const ModelType type = read_type(keys);
  const bool may_see = huggingface::is_one_of(type, {ModelType::kGemma3, ModelType::kLlama4});
  return may_see && keys.has("text_config") ? read_text_part(reader, type, unknown)
                                            : read_model(reader, type, unknown);
}

}  // namespace

bool is_huggingface_config(ObjectReader& reader) {
  return !reader.has("schema") && reader.has("model_type");
}

TransformerConfig read_huggingface_config(ObjectReader& reader) {
  return read(reader, UnknownKeys::kRefused).config;
}

HuggingfaceModel read_huggingface_model(ObjectReader& reader) {
  return read(reader, UnknownKeys::kReported);
}

}  // namespace ptdp
