// Tests of models written as a config.json: what is read again, and what is refused.
#include "cost_model/inputs/huggingface/huggingface_writer.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TransformerConfig read_written(const std::string& text) {
  ObjectReader reader = ObjectReader::from_text(text, "config.json");
  return read_huggingface_config(reader);
}

std::string file_of(const std::string& type, const std::string& more) {
  return R"({"model_type": ")" + type +
         R"(", "num_hidden_layers": 6, "hidden_size": 64, "num_attention_heads": 4,
             "intermediate_size": 96, "vocab_size": 128, "max_position_embeddings": 512)" +
         (more.empty() ? "" : ", " + more) + "}";
}

/// A llama-like model that all types of rotary positions can say nothing more of.
TransformerConfig plain() {
  return read_written(file_of("llama", R"("num_key_value_heads": 2)"));
}

// config.json → model → config.json → an equal model, of every type and of keys away from their
// defaults.
TEST(HuggingFaceWriter, WritesWhatIsReadAgain) {
  const std::string llama3 = R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 256})";
  const std::string yarn = R"("rope_scaling": {"rope_type": "yarn", "factor": 3.0, "beta_fast": 16,
      "beta_slow": 2, "original_max_position_embeddings": 100, "attention_factor": 1.25})";
  const std::vector<std::pair<std::string, std::string>> files = {
      {"llama", ""},
      {"llama", R"("num_key_value_heads": 2, "head_dim": 32, "rope_theta": 500000.0, )" + llama3},
      {"llama", R"("attention_bias": true, "rms_norm_eps": 1e-4, "initializer_range": 0.01)"},
      {"llama", R"("mlp_bias": true, "hidden_act": "gelu", "tie_word_embeddings": true)"},
      {"llama", R"("mlp_bias": true, "attention_bias": true, "attention_dropout": 0.1)"},
      {"mistral", R"("num_key_value_heads": 2)"},
      {"mistral", R"("num_key_value_heads": 2, "sliding_window": null, )" + yarn},
      {"qwen2", R"("num_key_value_heads": 2, "rope_theta": 1e6)"},
      {"qwen2", R"("num_key_value_heads": 2, "use_sliding_window": true, "sliding_window": 8,
                   "max_window_layers": 3)"},
      {"qwen3", R"("num_key_value_heads": 2, "attention_bias": true)"},
      {"qwen3", R"("num_key_value_heads": 2, "use_sliding_window": true, "sliding_window": 8,
                   "head_dim": 16, "layer_types": ["full_attention", "sliding_attention",
                   "full_attention", "sliding_attention", "sliding_attention",
                   "full_attention"])"},
      {"gemma", R"("num_key_value_heads": 1)"},
      {"gemma2", R"("num_key_value_heads": 2)"},
      {"gemma2", R"("num_key_value_heads": 2, "query_pre_attn_scalar": 144, "head_dim": 32,
                    "attn_logit_softcapping": null, "final_logit_softcapping": 20.5)"},
      {"gemma2", R"("num_key_value_heads": 2, "layer_types": ["full_attention", "full_attention",
                    "full_attention", "full_attention", "full_attention", "full_attention"])"},
      {"phi3", ""},
      {"phi3", R"("partial_rotary_factor": 0.5, "sliding_window": 100, "resid_pdrop": 0.1)"},
      {"phi3", R"("original_max_position_embeddings": 128, "rope_scaling": {"type": "longrope",
                  "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                  "long_factor": [1, 2, 3, 4, 5, 6, 7, 8]})"},
      {"llama", R"("rope_scaling": {"rope_type": "longrope", "factor": 3.0,
                   "original_max_position_embeddings": 100, "attention_factor": 1.5,
                   "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                   "long_factor": [1, 2, 3, 4, 5, 6, 7, 8]})"},
      {"olmo2", R"("rope_theta": 500000)"},
      {"granite", R"("attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
                     "logits_scaling": 6.0, "residual_multiplier": 0.22)"},
      {"gpt_neox", ""},
      {"gpt_neox", R"("use_parallel_residual": false, "rotary_pct": 1.0, "rotary_emb_base": 5000,
                      "attention_bias": false, "hidden_dropout": 0.1, "hidden_act": "gelu_fast")"},
      {"nemotron", R"("num_key_value_heads": 2, "head_dim": 32, "mlp_bias": true)"},
      {"starcoder2", R"("num_key_value_heads": 4, "embedding_dropout": 0.1)"},
      {"stablelm", R"("num_key_value_heads": 4, "use_qkv_bias": true)"}};
  for (const auto& [type, keys] : files) {
    const TransformerConfig model = read_written(file_of(type, keys));
    EXPECT_EQ(read_written(huggingface_config(model, type)), model) << type << ' ' << keys;
  }
  const TransformerConfig gpt2 =
      read_written(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_inner": 20,
          "vocab_size": 4, "n_positions": 16, "activation_function": "relu", "attn_pdrop": 0.0,
          "scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": true})");
  EXPECT_EQ(read_written(huggingface_config(gpt2, "gpt2")), gpt2);
}

// What means nothing in a model is no reason to refuse it.
TEST(HuggingFaceWriter, LeavesOutWhatMeansNothing) {
  TransformerConfig model = plain();
  model.activation_func = Activation::kSilu;
  model.dropout = false;
  model.rotary.low_freq_factor = 2.0;
  model.query_pre_attn_scalar = 16.0;
  EXPECT_EQ(huggingface_config(model, "llama"), huggingface_config(plain(), "llama"));
}

// Files have the names that AutoModelForCausalLM looks for, and those of transformers 4.
TEST(HuggingFaceWriter, HasTheKeysOfTransformers) {
  TransformerConfig model = plain();
  model.rotary.base = 12345.0;
  const auto file = nlohmann::json::parse(huggingface_config(model, "llama"));
  EXPECT_EQ(file["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(file["rope_theta"], 12345.0);
  EXPECT_TRUE(file["rope_scaling"].is_null());
  EXPECT_EQ(file["max_position_embeddings"], 512);
  EXPECT_EQ(file["hidden_act"], "silu");
  EXPECT_TRUE(file.at("pad_token_id").is_null());
}

// Llama's class has a default for eos_token_id, so that a key that is absent stays absent.
TEST(HuggingFaceWriter, TakesTokensOfAnother) {
  const std::string text = with_tokens_of(
      R"({"model_type": "llama", "bos_token_id": 128000, "pad_token_id": null, "hidden_size": 7,
          "eos_token_id": [128001, 128009], "tokenizer_class": "PreTrainedTokenizerFast"})",
      huggingface_config(plain(), "llama"));
  const auto file = nlohmann::json::parse(text);
  EXPECT_EQ(file["bos_token_id"], 128000);
  EXPECT_EQ(file["eos_token_id"].dump(), "[128001,128009]");
  EXPECT_TRUE(file.at("pad_token_id").is_null());
  EXPECT_EQ(file["tokenizer_class"], "PreTrainedTokenizerFast");
  EXPECT_EQ(file["hidden_size"], 64);
  EXPECT_EQ(read_written(text), plain());
  const auto without =
      nlohmann::json::parse(with_tokens_of("{}", huggingface_config(plain(), "llama")));
  EXPECT_FALSE(without.contains("eos_token_id"));
  EXPECT_EQ(message_of([] { (void)with_tokens_of("[]", "{}"); }),
            "tokens of a config.json: expected two JSON objects");
}

TEST(HuggingFaceWriter, RefusesWhatATypeCannotSay) {
  const auto refusal = [](const std::string& type, const auto& change) {
    TransformerConfig model = plain();
    change(model);
    return message_of([&] { (void)huggingface_config(model, type); });
  };
  const auto nothing = [](TransformerConfig& /*model*/) {};
  EXPECT_EQ(refusal("llama", [](TransformerConfig& model) { model.qk_layernorm = true; }),
            "model: qk_layernorm: a config.json of the type llama cannot say it: expected no such "
            "key, got true");
  EXPECT_EQ(refusal("qwen3", nothing),
            "model: qk_layernorm: a config.json of the type qwen3 cannot say it: expected true, "
            "got no such key");
  EXPECT_EQ(refusal("qwen2", nothing),
            "model: add_qkv_bias: a config.json of the type qwen2 cannot say it: expected true, "
            "got no such key");
  EXPECT_EQ(refusal("llama", [](TransformerConfig& model) { model.final_logit_softcapping = 30; }),
            "model: final_logit_softcapping: a config.json of the type llama cannot say it: "
            "expected no such key, got 30.0");
  EXPECT_EQ(refusal("llama", [](TransformerConfig& model) { model.rotary.percent = 0.5; }),
            "model: rotary_percent: a config.json of the type llama cannot say it: expected no "
            "such key, got 0.5");
  EXPECT_EQ(refusal("llama", [](TransformerConfig& model) { model.window_size = 8; }),
            "model: window_size: a config.json of the type llama cannot say it: expected no such "
            "key, got 8");
  EXPECT_THAT(refusal("gpt2", nothing), HasSubstr("model: "));
  EXPECT_EQ(refusal("phi3",
                    [](TransformerConfig& model) { model.rotary.scaling = RopeScaling::kLinear; }),
            "model: rope_scaling: a config.json of the type phi3 cannot say it: expected none or "
            "longrope, got linear");
  EXPECT_EQ(refusal("llama", [](TransformerConfig& model) { model.num_attention_heads = 6; }),
            "model: hidden_size: a config.json of the type llama cannot say it: expected a "
            "multiple of num_attention_heads, 6, got 64");
  EXPECT_THAT(refusal("mixtral", nothing),
              HasSubstr("type of a config.json: expected one of llama, mistral, qwen2, qwen3, "));
  TransformerConfig gemma2 = read_written(file_of("gemma2", ""));
  gemma2.query_pre_attn_scalar = 100.5;
  EXPECT_EQ(message_of([&] { (void)huggingface_config(gemma2, "gemma2"); }),
            "model: query_pre_attn_scalar: a config.json of the type gemma2 cannot say it: "
            "expected a whole number, got 100.5");
}

}  // namespace
}  // namespace ptdp
