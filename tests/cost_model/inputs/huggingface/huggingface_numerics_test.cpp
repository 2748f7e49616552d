// Tests of what a config.json says of the result of training: angles, norms, caps, multipliers.
#include <gmock/gmock.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TransformerConfig read_numerics_of(const std::string& type, const std::string& more) {
  ObjectReader reader = ObjectReader::from_text(
      R"({"model_type": ")" + type +
          R"(", "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 32,
              "num_key_value_heads": 32, "intermediate_size": 96, "vocab_size": 64,
              "max_position_embeddings": 4096)" +
          (more.empty() ? "" : ", " + more) + "}",
      "config.json");
  if (type == "gpt_neox") {
    static_cast<void>(reader.has("num_key_value_heads"));
  }
  return read_huggingface_config(reader);
}

std::string refusal_of_numerics(const std::string& type, const std::string& more) {
  return message_of([&] { read_numerics_of(type, more); });
}

// The configuration classes of transformers 5.12.1, of a file that has sizes alone.
TEST(HuggingFaceNumerics, HaveTheDefaultsOfEachType) {
  struct Row {
    std::string type;
    double epsilon;
    double deviation;
    double base;
    double percent;
    Activation activation;
    bool is_zero_centered;
    bool is_tied;
  };
  const std::vector<Row> rows = {
      {"gpt_neox", 1e-5, 0.02, 1e4, 0.25, Activation::kGelu, false, false},
      {"llama", 1e-6, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"mistral", 1e-6, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"mixtral", 1e-5, 0.02, 1e6, 1.0, Activation::kSilu, false, false},
      {"qwen2", 1e-6, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"qwen3", 1e-6, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"nemotron", 1e-5, 0.0134, 1e4, 0.5, Activation::kSquaredRelu, true, false},
      {"gemma", 1e-6, 0.02, 1e4, 1.0, Activation::kTanhGelu, true, true},
      {"gemma2", 1e-6, 0.02, 1e4, 1.0, Activation::kTanhGelu, true, true},
      {"phi3", 1e-5, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"olmo2", 1e-5, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"granite", 1e-6, 0.02, 1e4, 1.0, Activation::kSilu, false, false},
      {"starcoder2", 1e-5, 0.018042, 1e4, 1.0, Activation::kTanhGelu, false, true},
      {"stablelm", 1e-5, 0.02, 1e4, 0.25, Activation::kSilu, false, false}};
  for (const Row& row : rows) {
    const TransformerConfig model = read_numerics_of(row.type, "");
    EXPECT_EQ(model.layernorm_epsilon, row.epsilon) << row.type;
    EXPECT_EQ(model.init_method_std, row.deviation) << row.type;
    EXPECT_EQ(model.rotary.base, row.base) << row.type;
    EXPECT_EQ(model.rotary.percent, row.percent) << row.type;
    EXPECT_EQ(model.rotary.scaling, RopeScaling::kNone) << row.type;
    EXPECT_EQ(activation_of(model), row.activation) << row.type;
    EXPECT_EQ(model.layernorm_zero_centered_gamma, row.is_zero_centered) << row.type;
    EXPECT_EQ(model.untied_embeddings, !row.is_tied) << row.type;
    EXPECT_EQ(model.parallel_residual, row.type == "gpt_neox") << row.type;
    EXPECT_FALSE(has_dropout(model)) << row.type;
  }
}

// Each type reads the epsilon, activation and deviation under its own key.
TEST(HuggingFaceNumerics, HaveAKeyOfTheirOwn) {
  for (const auto& [type, epsilon, activation] :
       {std::tuple("gpt_neox", "layer_norm_eps", "hidden_act"),
        std::tuple("llama", "rms_norm_eps", "hidden_act"),
        std::tuple("nemotron", "norm_eps", "hidden_act"),
        std::tuple("starcoder2", "norm_epsilon", "hidden_act"),
        std::tuple("stablelm", "layer_norm_eps", "hidden_act"),
        std::tuple("gemma2", "rms_norm_eps", "hidden_activation")}) {
    const TransformerConfig model =
        read_numerics_of(type, '"' + std::string(epsilon) + R"(": 1e-3, ")" + activation +
                                   R"(": "relu", "initializer_range": 0.5)");
    EXPECT_EQ(model.layernorm_epsilon, 1e-3) << type;
    EXPECT_EQ(model.activation_func, Activation::kRelu) << type;
    EXPECT_EQ(model.init_method_std, 0.5) << type;
  }
  EXPECT_THAT(refusal_of_numerics("llama", R"("layer_norm_eps": 1e-3)"),
              HasSubstr(R"(config.json: "layer_norm_eps": unknown key)"));
  EXPECT_THAT(refusal_of_numerics("llama", R"("hidden_act": "xielu")"),
              HasSubstr("config.json: hidden_act: expected one of gelu_new"));
  EXPECT_FALSE(read_numerics_of("llama", R"("hidden_act": "swish")").activation_func.has_value());
}

// The published files of Llama 3.1, Qwen2.5's long form, and one with Meta's first stretching.
TEST(HuggingFaceNumerics, ReadScaledAngles) {
  const TransformerConfig llama = read_numerics_of(
      "llama", R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
          "rope_type": "llama3"})");
  EXPECT_EQ(llama.rotary, (RotaryEmbedding{.base = 500000.0,
                                           .scaling = RopeScaling::kLlama3,
                                           .factor = 8.0,
                                           .original_seq_length = 8192,
                                           .low_freq_factor = 1.0,
                                           .high_freq_factor = 4.0}));
  const TransformerConfig qwen = read_numerics_of(
      "qwen2", R"("rope_theta": 1000000, "rope_scaling": {"factor": 4.0, "type": "yarn",
          "original_max_position_embeddings": 32768})");
  EXPECT_EQ(qwen.rotary, (RotaryEmbedding{.base = 1e6,
                                          .scaling = RopeScaling::kYarn,
                                          .factor = 4.0,
                                          .original_seq_length = 32768}));
  const TransformerConfig linear =
      read_numerics_of("llama", R"("rope_scaling": {"type": "linear", "factor": 2})");
  EXPECT_EQ(linear.rotary, (RotaryEmbedding{.scaling = RopeScaling::kLinear, .factor = 2.0}));
  // What transformers 5 writes.
  const TransformerConfig parameters = read_numerics_of(
      "nemotron", R"("partial_rotary_factor": 0.25, "rope_parameters": {"rope_theta": 5000.0,
          "partial_rotary_factor": 0.25, "rope_type": "yarn", "factor": 2.0, "beta_fast": 16,
          "beta_slow": 2, "attention_factor": 1.5, "truncate": true})");
  EXPECT_EQ(parameters.rotary, (RotaryEmbedding{.base = 5000.0,
                                                .percent = 0.25,
                                                .scaling = RopeScaling::kYarn,
                                                .factor = 2.0,
                                                .original_seq_length = 4096,
                                                .beta_fast = 16.0,
                                                .beta_slow = 2.0,
                                                .attention_factor = 1.5}));
  EXPECT_EQ(read_numerics_of("gpt_neox", R"("rotary_emb_base": 20000, "rotary_pct": 0.5)").rotary,
            (RotaryEmbedding{.base = 20000.0, .percent = 0.5}));
  EXPECT_EQ(read_numerics_of("llama", R"("rope_scaling": {"rope_type": "default"})").rotary,
            RotaryEmbedding{});
  EXPECT_EQ(read_numerics_of("llama", R"("original_max_position_embeddings": 512, "rope_scaling":
      {"rope_type": "yarn", "factor": 2.0})")
                .rotary.original_seq_length,
            512);
}

// Phi-3.5-mini's published file, but for sizes: heads of 16 are turned in 8 pairs.
TEST(HuggingFaceNumerics, ReadFactorsOfWavelengths) {
  const std::string factors = R"("short_factor": [1.0, 1.02, 1.03, 1.03, 1.05, 1.05, 1.25, 1.46],
                                 "long_factor": [1.08, 1.1, 1.3, 1.39, 2.1, 20.4, 56.3, 64.0])";
  const RotaryEmbedding expected = {
      .scaling = RopeScaling::kLongRope,
      .factor = 4.0,
      .original_seq_length = 1024,
      .short_factors = {1.0, 1.02, 1.03, 1.03, 1.05, 1.05, 1.25, 1.46},
      .long_factors = {1.08, 1.1, 1.3, 1.39, 2.1, 20.4, 56.3, 64.0}};
  for (const char* name : {"longrope", "su", "yarn"}) {
    EXPECT_EQ(read_numerics_of("phi3", R"("original_max_position_embeddings": 1024,
                                          "rope_scaling": {"type": ")" +
                                           std::string(name) + "\", " + factors + "}")
                  .rotary,
              expected);
  }
  // What transformers 5 writes; the factor says how much sines grow, whatever the sequences are.
  const RotaryEmbedding given =
      read_numerics_of("llama", R"("rope_parameters": {"rope_theta": 10000.0, "factor": 32.0,
          "original_max_position_embeddings": 64, "rope_type": "longrope",
          "attention_factor": 1.25, )" +
                                    factors + "}")
          .rotary;
  EXPECT_EQ(given.factor, 32.0);
  EXPECT_EQ(given.original_seq_length, 64);
  EXPECT_EQ(given.attention_factor, 1.25);
}

// DeepSeek-V3, 8 latent heads of 128 + 64: m = 0.1·ln 40 + 1 = 1.36889; sines keep their size, and
// scores are multiplied by m²/√192, which is 1/√(192/m⁴).
TEST(HuggingFaceNumerics, ReadTheGrowthOfLatentScores) {
  const TransformerConfig model = read_numerics_of(
      "deepseek_v3",
      R"("n_routed_experts": null, "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0,
          "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
          "original_max_position_embeddings": 4096}, "rope_interleave": true)");
  EXPECT_EQ(model.rotary.attention_factor, 1.0);
  EXPECT_NEAR(model.query_pre_attn_scalar, 192.0 / std::pow(1.3688879454, 4), 1e-6);
}

TEST(HuggingFaceNumerics, RefuseAnglesThatNoModelHas) {
  const auto scaled = [](const std::string& keys) { return R"("rope_scaling": {)" + keys + "}"; };
  EXPECT_EQ(refusal_of_numerics("llama", scaled(R"("type": "dynamic", "factor": 2.0)")),
            "config.json: rope_scaling.type: expected default, linear, llama3, yarn or longrope, "
            "got \"dynamic\"");
  EXPECT_EQ(refusal_of_numerics("phi3", scaled(R"("type": "linear", "factor": 2.0)")),
            "config.json: rope_scaling.type: expected default or longrope of a phi3, got "
            "\"linear\"");
  EXPECT_THAT(refusal_of_numerics("phi3", scaled(R"("type": "longrope", "short_factor": [1.0],
                                                    "long_factor": [2.0])")),
              HasSubstr("rope_short_factors needs 8 numbers, one for each pair of elements that is "
                        "turned with rope_scaling longrope"));
  EXPECT_EQ(refusal_of_numerics("phi3", scaled(R"("type": "longrope", "short_factor": [],
                                "long_factor": [], "original_max_position_embeddings": 8)")),
            "config.json: rope_scaling.original_max_position_embeddings: expected 4096, which a "
            "phi3 has whose file does not say it at its top, got 8");
  EXPECT_EQ(refusal_of_numerics("llama", scaled(R"("rope_type": "yarn", "type": "linear",
                                                   "factor": 2.0)")),
            "config.json: rope_scaling.type: expected rope_type, \"yarn\", got \"linear\"");
  const std::string yarn = R"("rope_type": "yarn", "factor": 2.0, )";
  EXPECT_EQ(refusal_of_numerics("llama", scaled(yarn + R"("truncate": false)")),
            "config.json: rope_scaling.truncate: expected true: bounds of YaRN's ramp are whole "
            "elements");
  EXPECT_EQ(refusal_of_numerics("llama", scaled(yarn + R"("mscale": 0.7)")),
            "config.json: rope_scaling.mscale: expected attention_factor in place of this key, got "
            "0.7");
  EXPECT_EQ(refusal_of_numerics("llama", scaled(yarn + R"("original_max_position_embeddings": 8)") +
                                             R"(, "original_max_position_embeddings": 9)"),
            "config.json: original_max_position_embeddings: expected 8, as config.json: "
            "rope_scaling says, got 9");
  EXPECT_THAT(refusal_of_numerics("llama", scaled(yarn + R"("beta_quick": 2)")),
              HasSubstr(R"("beta_quick": unknown key)"));
  EXPECT_THAT(refusal_of_numerics("llama", scaled(R"("type": "linear", "factor": 0.5)")),
              HasSubstr("config.json: rope_scaling.factor: expected"));
  EXPECT_THAT(refusal_of_numerics("llama", scaled(R"("type": "llama3", "factor": 8.0)")),
              HasSubstr("config.json: rope_scaling.low_freq_factor: missing"));
  EXPECT_EQ(refusal_of_numerics("llama", scaled(R"("type": "linear", "factor": 2.0)") +
                                             R"(, "rope_parameters": {"rope_type": "default"})"),
            "config.json: rope_scaling: expected it or rope_parameters, got both");
}

// transformers takes one of the places of a number; a file that contradicts itself is refused.
TEST(HuggingFaceNumerics, RefuseNumbersThatDisagree) {
  EXPECT_EQ(refusal_of_numerics("llama", R"("rope_theta": 5000, "rope_parameters":
                                            {"rope_theta": 6000.0})"),
            "config.json: rope_theta: expected 6000, which the file says elsewhere or its type "
            "has, got 5000");
  EXPECT_EQ(refusal_of_numerics("gpt_neox", R"("rope_theta": 5000)"),
            "config.json: rope_theta: expected 10000, which the file says elsewhere or its type "
            "has, got 5000");
  EXPECT_EQ(refusal_of_numerics("llama", R"("partial_rotary_factor": 0.5)"),
            "config.json: partial_rotary_factor: expected 1, which the file says elsewhere or its "
            "type has, got 0.5");
  EXPECT_EQ(refusal_of_numerics("nemotron", R"("rope_percent": 0.25)"),
            "config.json: rope_percent: expected 0.5, which the file says elsewhere or its type "
            "has, got 0.25");
  // Heads of 16: 0.45 of them are 7 elements.
  EXPECT_EQ(refusal_of_numerics("phi3", R"("partial_rotary_factor": 0.45)"),
            "config.json: partial_rotary_factor: expected an even number of elements of a head "
            "that are turned, got 7 of 16");
  for (const char* key : {"use_mrope", "rope_interleaved", "rope_interleave", "use_qk_norm"}) {
    EXPECT_THAT(refusal_of_numerics("llama", '"' + std::string(key) + R"(": true)"),
                HasSubstr("config.json: " + std::string(key) + ": expected false: "));
  }
}

// Gemma-2-9b's published file, but for sizes: heads of 256 and √512.
TEST(HuggingFaceNumerics, ReadGemmas) {
  const TransformerConfig gemma2 =
      read_numerics_of("gemma2", R"("attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
          "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "cache_implementation": "hybrid",
          "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 224)");
  EXPECT_EQ(gemma2.norm_placement, NormPlacement::kBeforeAndBehind);
  EXPECT_EQ(gemma2.attn_logit_softcapping, 50.0);
  EXPECT_EQ(gemma2.final_logit_softcapping, 30.0);
  EXPECT_EQ(gemma2.query_pre_attn_scalar, 224.0);
  EXPECT_NEAR(gemma2.embedding_multiplier, 22.627416997969522, 1e-13);
  const TransformerConfig uncapped = read_numerics_of(
      "gemma2", R"("attn_logit_softcapping": null, "final_logit_softcapping": null)");
  EXPECT_EQ(uncapped.attn_logit_softcapping, 0.0);
  EXPECT_EQ(uncapped.final_logit_softcapping, 0.0);
  EXPECT_EQ(uncapped.query_pre_attn_scalar, 0.0);  // 256, the width of a head
  EXPECT_EQ(read_numerics_of("gemma2", "").attn_logit_softcapping, 50.0);
  const TransformerConfig gemma = read_numerics_of("gemma", "");
  EXPECT_NEAR(gemma.embedding_multiplier, 22.627416997969522, 1e-13);
  EXPECT_EQ(gemma.norm_placement, NormPlacement::kBefore);
  EXPECT_EQ(gemma.attn_logit_softcapping, 0.0);
  EXPECT_EQ(refusal_of_numerics("gemma", R"("hidden_act": "gelu")"),
            "config.json: hidden_act: expected hidden_activation, gelu_new, since versions of "
            "transformers read either, got gelu");
  EXPECT_EQ(refusal_of_numerics("gemma2", R"("use_bidirectional_attention": true)"),
            "config.json: use_bidirectional_attention: expected false: a token attends to those "
            "before it");
}

// Granite's scores are multiplied by 1/64, as by 1/√4096; its logits are divided by 8.
TEST(HuggingFaceNumerics, ReadGraniteAndOlmo) {
  const TransformerConfig granite =
      read_numerics_of("granite", R"("attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
          "logits_scaling": 8.0, "residual_multiplier": 0.22)");
  EXPECT_EQ(granite.query_pre_attn_scalar, 4096.0);
  EXPECT_EQ(granite.embedding_multiplier, 12.0);
  EXPECT_EQ(granite.logits_multiplier, 0.125);
  EXPECT_EQ(granite.residual_multiplier, 0.22);
  EXPECT_EQ(read_numerics_of("granite", "").residual_multiplier, 1.0);
  EXPECT_EQ(read_numerics_of("granite", "").query_pre_attn_scalar, 1.0);
  EXPECT_EQ(read_numerics_of("granite", R"("attention_multiplier": 0.25)").query_pre_attn_scalar,
            0.0);
  EXPECT_THAT(refusal_of_numerics("granite", R"("residual_multiplier": -0.22)"),
              HasSubstr("config.json: residual_multiplier: "));
  const TransformerConfig olmo = read_numerics_of("olmo2", "");
  EXPECT_EQ(olmo.norm_placement, NormPlacement::kBehind);
  EXPECT_TRUE(olmo.qk_layernorm);
  EXPECT_EQ(olmo.qk_layernorm_width, QkNormWidth::kAllHeads);
}

TEST(HuggingFaceNumerics, RefuseStructuresThatNoModelHas) {
  for (const auto& [type, key, value, what] :
       {std::tuple("stablelm", "use_parallel_residual", "true",
                   "expected false: both branches of this type would share one norm"),
        std::tuple("stablelm", "qk_layernorm", "true",
                   "expected false: a norm has one weight for all heads"),
        std::tuple("phi3", "lm_head_bias", "true", "expected false: logits have no biases"),
        std::tuple("phi3", "attention_bias", "true",
                   "expected false: transformers has none in this type"),
        std::tuple("phi3", "embd_pdrop", "0.1",
                   "expected 0: transformers drops nothing there in this type, got 0.1"),
        std::tuple("llama", "hidden_dropout", "0.1",
                   "expected 0: transformers drops nothing there in this type, got 0.1"),
        std::tuple("qwen2", "dual_chunk_attention_config", R"({"chunk_size": 8})",
                   "expected none: tokens attend by their distance")}) {
    EXPECT_EQ(refusal_of_numerics(type, '"' + std::string(key) + "\": " + value),
              "config.json: " + std::string(key) + ": " + what);
  }
}

// GPTNeoXModel drops embeddings at the rate of branches, Starcoder2Model at one of its own.
TEST(HuggingFaceNumerics, ReadRatesOfDropout) {
  const DropoutRates neox =
      dropout_rates(read_numerics_of("gpt_neox", R"("hidden_dropout": 0.25)"));
  EXPECT_EQ(neox.hidden, 0.25);
  EXPECT_EQ(neox.embedding, 0.25);
  EXPECT_EQ(neox.attention, 0.0);
  const DropoutRates coder = dropout_rates(
      read_numerics_of("starcoder2", R"("residual_dropout": 0.25, "embedding_dropout": 0.125,
                       "attention_dropout": 0.5)"));
  EXPECT_EQ(coder.hidden, 0.25);
  EXPECT_EQ(coder.embedding, 0.125);
  EXPECT_EQ(coder.attention, 0.5);
  EXPECT_EQ(dropout_rates(read_numerics_of("phi3", R"("resid_pdrop": 0.5)")).hidden, 0.5);
}

}  // namespace
}  // namespace ptdp
