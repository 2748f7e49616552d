// What the readers of a Hugging Face configuration share: the types of models, and its keys.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "cost_model/error.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"

namespace ptdp::huggingface {

/// Types of models that config.json files are read of, by their configuration classes.
enum class ModelType : std::uint8_t {
  kGpt2,
  kGptBigCode,
  kGptNeox,
  kOpt,
  kBloom,
  kMpt,
  kFalcon,
  kLlama,
  kMistral,
  kMixtral,
  kQwen2,
  kQwen2Moe,
  kQwen3,
  kQwen3Moe,
  kDeepseekV2,
  kDeepseekV3,
  kGptOss,
  kNemotron,
  kGemma,
  kGemma2,
  kGemma3,
  kPhi3,
  kOlmo2,
  kOlmoe,
  kGranite,
  kGraniteMoe,
  kStarcoder2,
  kStableLm,
  kCohere,
  kCohere2,
  kSmolLm3,
  kGlm4,
  kGlm4Moe,
  kExaone4,
  kSeedOss,
  kErnie45,
  kMiniMaxM2,
  kLlama4,
  kDbrx
};
inline constexpr std::array kModelTypes = {
    NamedValue<ModelType>{ModelType::kGpt2, "gpt2"},
    NamedValue<ModelType>{ModelType::kGptBigCode, "gpt_bigcode"},
    NamedValue<ModelType>{ModelType::kGptNeox, "gpt_neox"},
    NamedValue<ModelType>{ModelType::kOpt, "opt"},
    NamedValue<ModelType>{ModelType::kBloom, "bloom"},
    NamedValue<ModelType>{ModelType::kMpt, "mpt"},
    NamedValue<ModelType>{ModelType::kFalcon, "falcon"},
    NamedValue<ModelType>{ModelType::kLlama, "llama"},
    NamedValue<ModelType>{ModelType::kMistral, "mistral"},
    NamedValue<ModelType>{ModelType::kMixtral, "mixtral"},
    NamedValue<ModelType>{ModelType::kQwen2, "qwen2"},
    NamedValue<ModelType>{ModelType::kQwen2Moe, "qwen2_moe"},
    NamedValue<ModelType>{ModelType::kQwen3, "qwen3"},
    NamedValue<ModelType>{ModelType::kQwen3Moe, "qwen3_moe"},
    NamedValue<ModelType>{ModelType::kDeepseekV2, "deepseek_v2"},
    NamedValue<ModelType>{ModelType::kDeepseekV3, "deepseek_v3"},
    NamedValue<ModelType>{ModelType::kDeepseekV3, "kimi_k2"},  // by DeepSeek-V3's own classes
    NamedValue<ModelType>{ModelType::kGptOss, "gpt_oss"},
    NamedValue<ModelType>{ModelType::kNemotron, "nemotron"},
    NamedValue<ModelType>{ModelType::kGemma, "gemma"},
    NamedValue<ModelType>{ModelType::kGemma2, "gemma2"},
    NamedValue<ModelType>{ModelType::kGemma3, "gemma3_text"},
    NamedValue<ModelType>{ModelType::kGemma3, "gemma3"},
    NamedValue<ModelType>{ModelType::kPhi3, "phi3"},
    NamedValue<ModelType>{ModelType::kOlmo2, "olmo2"},
    NamedValue<ModelType>{ModelType::kOlmoe, "olmoe"},
    NamedValue<ModelType>{ModelType::kGranite, "granite"},
    NamedValue<ModelType>{ModelType::kGraniteMoe, "granitemoe"},
    NamedValue<ModelType>{ModelType::kStarcoder2, "starcoder2"},
    NamedValue<ModelType>{ModelType::kStableLm, "stablelm"},
    NamedValue<ModelType>{ModelType::kCohere, "cohere"},
    NamedValue<ModelType>{ModelType::kCohere2, "cohere2"},
    NamedValue<ModelType>{ModelType::kSmolLm3, "smollm3"},
    NamedValue<ModelType>{ModelType::kGlm4, "glm4"},
    NamedValue<ModelType>{ModelType::kGlm4Moe, "glm4_moe"},
    NamedValue<ModelType>{ModelType::kExaone4, "exaone4"},
    NamedValue<ModelType>{ModelType::kSeedOss, "seed_oss"},
    NamedValue<ModelType>{ModelType::kErnie45, "ernie4_5"},
    NamedValue<ModelType>{ModelType::kMiniMaxM2, "minimax_m2"},
    NamedValue<ModelType>{ModelType::kLlama4, "llama4_text"},
    NamedValue<ModelType>{ModelType::kLlama4, "llama4"},
    NamedValue<ModelType>{ModelType::kDbrx, "dbrx"}};

[[nodiscard]] inline bool is_one_of(ModelType type, std::initializer_list<ModelType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// Returns a number in the fewest digits that read back as it, for messages.
[[nodiscard]] inline std::string in_digits(double value) {
  std::array<char, 40> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), written.ptr};
}

/// Reads the keys of a config.json. Does not own the reader. Throws Error for a value that is
/// malformed or out of range.
class Keys {
 public:
  explicit Keys(ObjectReader& reader) : reader_(reader) {}

  /// Returns whether `key` is there and not null.
  [[nodiscard]] bool has(const std::string& key) const { return reader_.has_value(key); }
  /// Returns a number from 1 to `most` that must be there.
  [[nodiscard]] int size(const std::string& key, std::int64_t most = kWidestMatrix) const {
    int value = 0;
    reader_.count(key, value, 1, most);
    return value;
  }
  /// Returns a number from 1 to `most`, or `usual` if the key is absent or null.
  [[nodiscard]] int size_or(const std::string& key, int usual,
                            std::int64_t most = kWidestMatrix) const {
    return has(key) ? size(key, most) : usual;
  }
  /// Returns a number from 0 to `most`: 0 for null, `usual` if the key is absent.
  [[nodiscard]] int nullable(const std::string& key, int usual,
                             std::int64_t most = kWidestMatrix) const {
    if (!reader_.has(key)) {
      return usual;
    }
    return has(key) ? count(key, most) : 0;
  }
  /// Returns a number from 0 to `most` that must be there.
  [[nodiscard]] int count(const std::string& key, std::int64_t most = kWidestMatrix) const {
    int value = 0;
    reader_.count(key, value, 0, most);
    return value;
  }
  /// Returns a number from 0 to `most`, or `usual` if the key is absent or null.
  [[nodiscard]] int count_or(const std::string& key, int usual,
                             std::int64_t most = kWidestMatrix) const {
    return has(key) ? count(key, most) : usual;
  }
  /// Marks keys as read without looking at their values, so that none counts as unknown.
  template <class Names>
  void pass_over(const Names& names) const {
    for (const char* key : names) {
      static_cast<void>(reader_.has(key));
    }
  }
  [[nodiscard]] bool flag_or(const std::string& key, bool usual) const {
    bool value = usual;
    if (has(key)) {
      reader_.flag(key, value);
    }
    return value;
  }
  [[nodiscard]] double number_or(const std::string& key, double usual, const Range& range) const {
    double value = usual;
    if (has(key)) {
      reader_.number(key, value, range);
    }
    return value;
  }
  /// Returns a number within `range`: 0 for null, `usual` if the key is absent.
  [[nodiscard]] double nullable_number(const std::string& key, double usual,
                                       const Range& range) const {
    return reader_.has(key) && !has(key) ? 0.0 : number_or(key, usual, range);
  }
  /// Returns the first of several names of one key that the file has, or else the first name.
  [[nodiscard]] std::string spelling_of(std::initializer_list<const char*> names) const {
    const auto* const found = std::find_if(names.begin(), names.end(),
                                           [this](const char* name) { return reader_.has(name); });
    return found == names.end() ? *names.begin() : *found;
  }
  /// Throws Error, ending in `what`, if the key has a value other than `usual`.
  void expect(const std::string& key, bool usual, const std::string& what) const {
    if (flag_or(key, usual) != usual) {
      refuse(key, "expected " + std::string(usual ? "true" : "false") + ": " + what);
    }
  }
  /// Throws Error, ending in `what`, if the key has a number other than `usual`.
  void expect_number(const std::string& key, double usual, const std::string& what) const {
    const double found = number_or(key, usual, {-1e9, 1e9});
    if (found != usual) {
      refuse(key, "expected " + in_digits(usual) + ": " + what + ", got " + in_digits(found));
    }
  }
  /// Throws Error that names the key and says `why`.
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    throw Error(reader_.place_of(key) + ": " + why);
  }
  [[nodiscard]] ObjectReader& reader() const { return reader_; }

 private:
  ObjectReader& reader_;
};

/// Returns the activation that a key names, or `usual` if the key is absent or null.
[[nodiscard]] inline Activation activation_or(const Keys& keys, const std::string& key,
                                              Activation usual) {
  if (keys.has(key)) {
    keys.reader().choice(key, usual, NamedValues<Activation>(kActivationNames));
  }
  return usual;
}

/// Returns the model of a type whose configuration spells most keys in a way of its own, dropout
/// included; nullopt for other types.
[[nodiscard]] std::optional<TransformerConfig> read_own_spelling(const Keys& keys, ModelType type);
/// Sets which linear layers have biases.
void read_biases(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets the numbers and widths of heads, and their norms. Sizes must be set before.
void read_heads(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets the window, the layers that have it, and those that turn nothing. Sizes must be set before.
void read_window(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets the angles of rotary positions. Sizes and heads must be set before; seq_length must be the
/// longest sequence that the model takes. Throws Error for a scaling that TransformerConfig lacks.
void read_rotary(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets what decides the result of training beside shapes and positions: epsilons, activations,
/// norms, caps and multipliers. Sizes and heads must be set before.
void read_numerics(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets the rates of dropout.
void read_dropout(const Keys& keys, ModelType type, TransformerConfig& model);
/// Sets what `model` has of experts: number, widths, router, and the layers that have them. Sizes
/// and heads must be set before. Leaves a model without experts as it is.
void read_experts(const Keys& keys, ModelType type, TransformerConfig& model);

}  // namespace ptdp::huggingface
