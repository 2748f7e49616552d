// Tests of how a Hugging Face config.json becomes a model, and of what is refused.
#include "cost_model/inputs/huggingface/huggingface_config.h"

#include <gmock/gmock.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/parameter_counts.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TransformerConfig read(const std::string& text) {
  ObjectReader reader = ObjectReader::from_text(text, "config.json");
  EXPECT_TRUE(is_huggingface_config(reader));
  return read_huggingface_config(reader);
}

std::string refusal_of(const std::string& text) {
  return message_of([&] { read(text); });
}

/// Returns the keys that every model type except gpt2 needs, and `more`.
std::string config_of(const std::string& type, int layers, int hidden, int heads, int ffn,
                      int vocab, const std::string& more) {
  return R"({"model_type": ")" + type + R"(", "num_hidden_layers": )" + std::to_string(layers) +
         R"(, "hidden_size": )" + std::to_string(hidden) + R"(, "num_attention_heads": )" +
         std::to_string(heads) + R"(, "intermediate_size": )" + std::to_string(ffn) +
         R"(, "vocab_size": )" + std::to_string(vocab) +
         (more.find("max_position_embeddings") == std::string::npos
              ? R"(, "max_position_embeddings": 4096)"
              : "") +
         (more.empty() ? "" : ", " + more) + "}";
}

const std::string kDeepseekV3 =
    config_of("deepseek_v3", 61, 7168, 128, 18432, 129280,
              R"("num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
                 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                 "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1,
                 "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "moe_layer_freq": 1,
                 "topk_method": "noaux_tc", "num_nextn_predict_layers": 1,
                 "max_position_embeddings": 163840, "quantization_config": {"bits": 8},
                 "tie_word_embeddings": false, "architectures": ["DeepseekV3ForCausalLM"])");

// Numbers of the released weights: model cards, and the tables of Pythia's and DeepSeek's READMEs.
TEST(HuggingFaceConfig, HasTheParametersOfReleasedModels) {
  struct Row {
    std::string name;
    std::string text;
    std::int64_t parameters;
  };
  const std::vector<Row> rows = {
      {"gpt2",
       R"({"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": null,
           "n_positions": 1024, "n_ctx": 1024, "vocab_size": 50257,
           "task_specific_params": {"text-generation": {"do_sample": true}}})",
       124'439'808},
      {"pythia-70m", config_of("gpt_neox", 6, 512, 8, 2048, 50304, R"("rotary_pct": 0.25)"),
       70'426'624},
      {"pythia-12b",
       config_of("gpt_neox", 36, 5120, 40, 20480, 50688, R"("tie_word_embeddings": false)"),
       11'846'072'320},
      {"gpt-neox-20b", config_of("gpt_neox", 44, 6144, 64, 24576, 50432, ""), 20'554'567'680},
      {"Llama-2-7B",
       config_of("llama", 32, 4096, 32, 11008, 32000,
                 R"("num_key_value_heads": 32, "rope_scaling": null, "pretraining_tp": 1)"),
       6'738'415'616},
      {"Llama-3-8B",
       config_of("llama", 32, 4096, 32, 14336, 128256,
                 R"("num_key_value_heads": 8, "attention_bias": false, "mlp_bias": false)"),
       8'030'261'248},
      {"Llama-3-70B",
       config_of("llama", 80, 8192, 64, 28672, 128256, R"("num_key_value_heads": 8)"),
       70'553'706'496},
      {"Llama-3.1-405B",
       config_of("llama", 126, 16384, 128, 53248, 128256, R"("num_key_value_heads": 8)"),
       405'853'388'800},
      {"Mistral-7B",
       config_of("mistral", 32, 4096, 32, 14336, 32000,
                 R"("num_key_value_heads": 8, "sliding_window": 4096)"),
       7'241'732'096},
      {"Mixtral-8x7B",
       config_of("mixtral", 32, 4096, 32, 14336, 32000,
                 R"("num_key_value_heads": 8, "sliding_window": null, "num_local_experts": 8,
                    "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02)"),
       46'702'792'704},
      {"Qwen2.5-7B",
       config_of("qwen2", 28, 3584, 28, 18944, 152064,
                 R"("num_key_value_heads": 4, "use_sliding_window": false,
                    "sliding_window": 131072, "max_window_layers": 28)"),
       7'615'616'512},
      {"Qwen1.5-MoE-A2.7B",
       config_of("qwen2_moe", 24, 2048, 16, 5632, 151936,
                 R"("num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
                    "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
                    "decoder_sparse_step": 1, "norm_topk_prob": false)"),
       14'315'784'192},
      {"Qwen3-8B",
       config_of("qwen3", 36, 4096, 32, 12288, 151936,
                 R"("num_key_value_heads": 8, "head_dim": 128)"),
       8'190'735'360},
      {"Qwen3-30B-A3B",
       config_of("qwen3_moe", 48, 2048, 32, 6144, 151936,
                 R"("num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
                    "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                    "mlp_only_layers": [], "decoder_sparse_step": 1)"),
       30'532'122'624},
      {"DeepSeek-V2-Lite",
       config_of("deepseek_v2", 27, 2048, 16, 10944, 102400,
                 R"("num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512,
                    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                    "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2,
                    "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
                    "topk_method": "greedy")"),
       15'706'484'224},
      {"DeepSeek-V3", kDeepseekV3, 671'026'419'200}};
  for (const Row& row : rows) {
    EXPECT_EQ(parameter_count(read(row.text)), row.parameters) << row.name;
  }
}

// By hand, h = 8, 2 heads in one group of width 4, an MLP of 10, vocabulary 5: QKV 8·(8 + 2·4),
// projection 8·8, MLP 2·8·10, three norms of 8 with as many biases, two tables of 40. With biases
// of attention 16 + 8, and of the MLP 10 + 8.
TEST(HuggingFaceConfig, CountsNemotrons) {
  const std::string sizes = R"("num_key_value_heads": 1, "head_dim": 4, "norm_eps": 1e-5)";
  EXPECT_EQ(parameter_count(read(config_of("nemotron", 1, 8, 2, 10, 5, sizes))),
            128 + 64 + 160 + 48 + 80);
  EXPECT_EQ(parameter_count(
                read(config_of("nemotron", 1, 8, 2, 10, 5, sizes + R"(, "attention_bias": true)"))),
            128 + 64 + 160 + 48 + 80 + 24);
  EXPECT_EQ(
      parameter_count(read(config_of("nemotron", 1, 8, 2, 10, 5,
                                     sizes + R"(, "attention_bias": true, "mlp_bias": true)"))),
      128 + 64 + 160 + 48 + 80 + 24 + 18);
}

// DeepSeek-V3's report: 37 B of 671 B parameters are activated for each token; its README_WEIGHTS:
// 11.5 B of the module that predicts one more token are its own.
TEST(HuggingFaceConfig, TellsActiveParametersAndThoseThatPredictMore) {
  const TransformerConfig model = read(kDeepseekV3);
  EXPECT_NEAR(static_cast<double>(active_parameter_count(model)), 37.5e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(mtp_parameter_count(model)), 11.6e9, 0.05e9);
  EXPECT_EQ(num_expert_layers(model), 58);
  EXPECT_FALSE(has_experts(model, 2));
  EXPECT_TRUE(has_experts(model, 3));
}

// As the configuration classes say: i ≥ k and i mod f = 0 of DeepSeek, (i + 1) mod s = 0 of Qwen.
TEST(HuggingFaceConfig, KnowsWhichLayersHaveExperts) {
  const std::string latent =
      R"("q_lora_rank": null, "n_shared_experts": null, "kv_lora_rank": 4, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,
      "v_head_dim": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1,
      "moe_intermediate_size": 8, )";
  const std::string qwen = R"("num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, )";
  const auto layers_of = [](const TransformerConfig& model) {
    std::vector<int> layers;
    for (int i = 0; i < model.num_layers; ++i) {
      if (has_experts(model, i)) {
        layers.push_back(i);
      }
    }
    EXPECT_EQ(num_expert_layers(model), std::ssize(layers));
    return layers;
  };
  for (int dense = 0; dense < 6; ++dense) {
    for (int every = 1; every < 5; ++every) {
      std::vector<int> expected;
      for (int i = dense; i < 8; ++i) {
        if (i % every == 0) {
          expected.push_back(i);
        }
      }
      if (!expected.empty()) {
        EXPECT_EQ(layers_of(read(config_of("deepseek_v3", 8, 16, 2, 32, 64,
                                           latent + R"("first_k_dense_replace": )" +
                                               std::to_string(dense) + R"(, "moe_layer_freq": )" +
                                               std::to_string(every)))),
                  expected)
            << dense << ' ' << every;
      }
    }
  }
  EXPECT_EQ(layers_of(read(
                config_of("qwen3_moe", 8, 16, 2, 32, 64, qwen + R"("decoder_sparse_step": 3)"))),
            (std::vector{2, 5}));
  EXPECT_EQ(layers_of(read(
                config_of("qwen3_moe", 4, 16, 2, 32, 64, qwen + R"("mlp_only_layers": [1, 0])"))),
            (std::vector{2, 3}));
  EXPECT_THAT(
      refusal_of(config_of("qwen3_moe", 4, 16, 2, 32, 64, qwen + R"("mlp_only_layers": [1])")),
      HasSubstr("config.json: mlp_only_layers: expected the first layers"));
}

TEST(HuggingFaceConfig, KnowsWhichLayersHaveWindows) {
  const std::string experts = R"(, "num_local_experts": 2, "num_experts_per_tok": 1)";
  const auto window_of = [](const std::string& type, const std::string& more) {
    const TransformerConfig model =
        read(config_of(type, 4, 16, 2, 32, 64, R"("num_key_value_heads": 2)" + more));
    return std::pair(model.window_size, model.first_window_layer);
  };
  EXPECT_EQ(window_of("mistral", ""), std::pair(4096, 0));  // the class's default
  EXPECT_EQ(window_of("mistral", R"(, "sliding_window": null)"), std::pair(0, 0));
  EXPECT_EQ(window_of("mistral", R"(, "sliding_window": 100)"), std::pair(100, 0));
  EXPECT_EQ(window_of("mixtral", experts), std::pair(0, 0));
  EXPECT_EQ(window_of("qwen2", R"(, "sliding_window": 100)"), std::pair(0, 0));
  EXPECT_EQ(window_of("qwen2", R"(, "use_sliding_window": true, "max_window_layers": 2)"),
            std::pair(4096, 2));
  EXPECT_EQ(window_of("qwen3_moe", R"(, "use_sliding_window": true, "max_window_layers": 4,
                                      "num_experts": 2, "num_experts_per_tok": 1,
                                      "moe_intermediate_size": 8)"),
            std::pair(4096, 0));
  const std::string used = R"(, "sliding_window": 100, "use_sliding_window": true)";
  EXPECT_EQ(window_of("qwen2", used), std::pair(0, 0));  // from layer 28 on
  EXPECT_EQ(window_of("qwen2", used + R"(, "max_window_layers": 3)"), std::pair(100, 3));
  const std::string types = used + R"(, "layer_types": ["full_attention", "sliding_attention", )";
  EXPECT_EQ(window_of("qwen3", types + R"("sliding_attention", "sliding_attention"])"),
            std::pair(100, 1));
  EXPECT_THAT(
      message_of([&] { window_of("qwen3", types + R"("full_attention", "full_attention"])"); }),
      HasSubstr("config.json: layer_types: expected full_attention in the first layers"));
}

/// Returns a list "layer_types": `f` stands for full_attention, `s` for sliding_attention.
std::string layer_types(const std::string& letters) {
  std::string list = R"("layer_types": [)";
  for (std::size_t i = 0; i < letters.size(); ++i) {
    list += i == 0 ? "" : ", ";
    list += letters[i] == 's' ? R"("sliding_attention")" : R"("full_attention")";
  }
  return list + "]";
}

// Every rule (first layer, n of which every n-th is without) writes a list; whatever rule is read
// from it must write the same list.
TEST(HuggingFaceConfig, ReadsEveryListOfLayersThatFollowsARule) {
  constexpr int num_layers = 9;
  const auto list_of = [](int first, int freq) {
    std::string letters;
    for (int i = 0; i < num_layers; ++i) {
      letters += i >= first && (freq == 0 || (i + 1) % freq != 0) ? 's' : 'f';
    }
    return letters;
  };
  for (int first = 0; first <= num_layers; ++first) {
    for (int freq = 0; freq <= num_layers; ++freq) {
      const std::string letters = list_of(first, freq);
      const TransformerConfig model =
          read(config_of("qwen2", num_layers, 16, 2, 32, 64,
                         R"("num_key_value_heads": 2, "sliding_window": 8,
                            "use_sliding_window": true, )" +
                             layer_types(letters)));
      std::string found;
      for (int i = 0; i < num_layers; ++i) {
        found += has_window(model, i) ? 's' : 'f';
      }
      EXPECT_EQ(found, letters) << first << ' ' << freq;
    }
  }
  for (const char* letters : {"sffsssss", "fsfsssfs", "sfsffsfs", "ssfsssff"}) {
    EXPECT_EQ(refusal_of(config_of("gemma2", 8, 16, 4, 32, 64, layer_types(letters))),
              "config.json: layer_types: expected full_attention in the first layers and "
              "sliding_attention in all behind, if any, but for every n-th layer")
        << letters;
  }
}

// Gemma2Config: layers 0, 2, … have the window of 4096. MistralModel masks all layers alike.
TEST(HuggingFaceConfig, KnowsTheWindowsOfOtherTypes) {
  const TransformerConfig gemma2 = read(config_of("gemma2", 5, 16, 4, 32, 64, ""));
  EXPECT_EQ(gemma2.window_size, 4096);
  EXPECT_EQ(gemma2.first_window_layer, 0);
  EXPECT_EQ(gemma2.window_attn_skip_freq, 2);
  EXPECT_EQ(read(config_of("gemma2", 4, 16, 4, 32, 64, layer_types("ffff"))).window_size, 0);
  EXPECT_EQ(refusal_of(config_of("gemma2", 4, 16, 4, 32, 64, R"("sliding_window": null)")),
            "config.json: sliding_window: expected a window, which layers of this type "
            "have");
  EXPECT_EQ(read(config_of("phi3", 4, 16, 2, 32, 64, "")).window_size, 0);
  EXPECT_EQ(read(config_of("phi3", 4, 16, 2, 32, 64, R"("sliding_window": 2047)")).window_size,
            2047);
  EXPECT_EQ(read(config_of("starcoder2", 4, 16, 2, 32, 64, "")).window_size, 0);
  EXPECT_EQ(refusal_of(config_of("mistral", 4, 32, 8, 32, 64, layer_types("sfsf"))),
            "config.json: layer_types: expected sliding_attention: all layers of this type have "
            "the window");
}

std::string gpt2_with(const std::string& more) {
  return R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "vocab_size": 4)" +
         more + "}";
}

// GPT2Config and GPT2Model of transformers 4.57: what they read beside sizes and biases.
TEST(HuggingFaceConfig, KeepsWhatTrainsGpt2Otherwise) {
  const TransformerConfig usual = read(gpt2_with(""));
  EXPECT_EQ(read(gpt2_with(R"(, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
                              "initializer_range": 0.02, "attn_pdrop": 0.1, "embd_pdrop": 0.1,
                              "resid_pdrop": 0.1, "scale_attn_weights": true,
                              "scale_attn_by_inverse_layer_idx": false)")),
            usual);
  EXPECT_EQ(read(gpt2_with(R"(, "activation_function": "gelu_pytorch_tanh")")), usual);
  EXPECT_EQ(read(gpt2_with(R"(, "reorder_and_upcast_attn": true, "use_cache": false, "n_ctx": 7,
                              "summary_type": "first", "summary_first_dropout": 0.5)")),
            usual);
  const TransformerConfig other =
      read(gpt2_with(R"(, "layer_norm_epsilon": 1e-6, "initializer_range": 0.05,
                         "attn_pdrop": 0.0, "embd_pdrop": 0.2, "resid_pdrop": 0.3,
                         "activation_function": "relu", "scale_attn_weights": false,
                         "scale_attn_by_inverse_layer_idx": true)"));
  EXPECT_EQ(other.layernorm_epsilon, 1e-6);
  EXPECT_EQ(other.init_method_std, 0.05);
  EXPECT_EQ(other.activation_func, Activation::kRelu);
  EXPECT_FALSE(other.scale_attn_weights);
  EXPECT_TRUE(other.scale_attn_by_inverse_layer_idx);
  EXPECT_TRUE(has_dropout(other));
  EXPECT_EQ(dropout_rates(other).attention, 0.0);
  EXPECT_EQ(dropout_rates(other).embedding, 0.2);
  EXPECT_EQ(dropout_rates(other).hidden, 0.3);
  EXPECT_EQ(read(gpt2_with(R"(, "activation_function": "gelu")")).activation_func,
            Activation::kGelu);
}

TEST(HuggingFaceConfig, RefusesWhatNoGpt2Has) {
  EXPECT_THAT(refusal_of(gpt2_with(R"(, "activation_function": "gellu_new")")),
              HasSubstr("config.json: activation_function: "));
  for (const char* key : {"layer_norm_epsilon", "initializer_range", "attn_pdrop", "resid_pdrop"}) {
    EXPECT_THAT(refusal_of(gpt2_with(R"(, ")" + std::string(key) + R"(": 2)")),
                HasSubstr("config.json: " + std::string(key) + ": expected"));
  }
  EXPECT_THAT(refusal_of(gpt2_with(R"(, "add_cross_attention": true)")),
              HasSubstr("config.json: add_cross_attention"));
}

// The classes' defaults are 0.1 for each of GPT-2's three, 0 for the others.
TEST(HuggingFaceConfig, KnowsWhatIsTrainedWithDropout) {
  EXPECT_TRUE(has_dropout(read(gpt2_with(""))));
  EXPECT_TRUE(has_dropout(read(gpt2_with(R"(, "attn_pdrop": 0.0, "resid_pdrop": 0)"))));
  EXPECT_FALSE(
      has_dropout(read(gpt2_with(R"(, "attn_pdrop": 0.0, "embd_pdrop": 0, "resid_pdrop": 0.0)"))));
  for (const char* type : {"gpt_neox", "llama"}) {
    EXPECT_FALSE(has_dropout(read(config_of(type, 4, 16, 2, 32, 64, ""))));
    EXPECT_FALSE(
        has_dropout(read(config_of(type, 4, 16, 2, 32, 64, R"("attention_dropout": 0.0)"))));
    EXPECT_TRUE(
        has_dropout(read(config_of(type, 4, 16, 2, 32, 64, R"("attention_dropout": 0.1)"))));
  }
  EXPECT_THAT(refusal_of(config_of("gpt_neox", 4, 16, 2, 32, 64, R"("hidden_dropout": 2)")),
              HasSubstr("config.json: hidden_dropout: expected"));
}

TEST(HuggingFaceConfig, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal_of(config_of("chatglm", 4, 16, 2, 32, 64, "")),
              testing::AllOf(HasSubstr("config.json: model_type: expected one of gpt2, "),
                             HasSubstr("got \"chatglm\"")));
  EXPECT_THAT(refusal_of(config_of("llama", 4, 16, 2, 32, 64, R"("num_experts": 4)")),
              HasSubstr("config.json: \"num_experts\": unknown key"));
  EXPECT_THAT(refusal_of(config_of("llama", 4, 16, 2, 32, 64, R"("num_kv_heads": 4)")),
              HasSubstr("config.json: \"num_kv_heads\": unknown key"));
  EXPECT_EQ(refusal_of(R"({"model_type": "llama", "hidden_size": 64})"),
            "config.json: num_hidden_layers: missing");
  EXPECT_THAT(
      refusal_of(config_of("llama", 4, 15, 2, 32, 64, "")),
      HasSubstr("config.json, in Megatron-LM's names: num_attention_heads 2 does not divide "
                "hidden_size 15"));
  EXPECT_THAT(refusal_of(config_of("llama", 4, 16, 2, 32, 64, R"("is_causal": false)")),
              HasSubstr("config.json: is_causal: expected true"));
  EXPECT_THAT(refusal_of(config_of("llama", 4, 16, 2, 32, 64, R"("pruned_heads": {"1": [0]})")),
              HasSubstr("config.json: pruned_heads."));
  EXPECT_EQ(read(config_of("llama", 4, 16, 2, 32, 64, R"("pruned_heads": {})")).num_layers, 4);
  EXPECT_THAT(refusal_of(config_of("deepseek_v2", 4, 16, 2, 32, 64, R"("n_routed_experts": 4)")),
              HasSubstr("config.json: num_experts_per_tok: missing"));
  EXPECT_THAT(refusal_of(config_of("deepseek_v3", 4, 16, 2, 32, 64, R"("topk_method": "best")")),
              HasSubstr("config.json: topk_method: expected greedy, group_limited_greedy or "
                        "noaux_tc, got \"best\""));
  EXPECT_EQ(refusal_of(config_of("nemotron", 1, 8, 2, 10, 5, R"("head_dim": 3, "kv_channels": 4)")),
            "config.json: kv_channels: expected head_dim, 3, got 4");
  const std::string types = R"("layer_types": ["full_attention", "full_attention", )";
  EXPECT_EQ(refusal_of(config_of("qwen3", 3, 16, 2, 32, 64,
                                 types + R"("sliding_attention"], "sliding_window": 8)")),
            "config.json: layer_types: expected full_attention of a model that uses no "
            "sliding_window");
  EXPECT_THAT(refusal_of(config_of("qwen3", 3, 16, 2, 32, 64, types + R"("linear_attention"])")),
              HasSubstr("config.json: layer_types: expected full_attention in the first layers"));
  EXPECT_THAT(refusal_of(config_of("llama", 4, 16, 2, 32, 64, R"("mlp_bias": 1)")),
              HasSubstr("config.json: mlp_bias: expected true or false"));
}

// What transformers writes of DeepSeek's classes beside the widths.
TEST(HuggingFaceConfig, TakesWhatTransformersSaves) {
  const std::string latent = R"("q_lora_rank": 6, "kv_lora_rank": 4, "qk_nope_head_dim": 4,
      "qk_rope_head_dim": 2, "v_head_dim": 4, "head_dim": 2, "qk_head_dim": 6,
      "num_key_value_heads": 2, "mlp_bias": false)";
  const TransformerConfig dense =
      read(config_of("deepseek_v2", 4, 16, 2, 32, 64,
                     latent + R"(, "n_routed_experts": null, "n_shared_experts": null,
                  "moe_intermediate_size": 8, "first_k_dense_replace": 0)"));
  EXPECT_EQ(dense.num_experts, 0);
  EXPECT_EQ(read(config_of("deepseek_v2", 4, 16, 2, 32, 64,
                           latent + R"(, "n_routed_experts": null, "n_group": null,
                               "topk_group": null, "topk_method": "noaux_tc")")),
            dense);
  const std::string both = R"("num_key_value_heads": 1, "kv_channels": 4)";
  EXPECT_EQ(read(config_of("nemotron", 1, 8, 2, 10, 5, both)),
            read(config_of("nemotron", 1, 8, 2, 10, 5, both + R"(, "head_dim": 4)")));
  EXPECT_EQ(query_head_width(dense), 6);
}

// The configuration classes of transformers 4.57, of a file that has sizes alone.
TEST(HuggingFaceConfig, HasTheDefaultsOfEachType) {
  struct Row {
    std::string type;
    int seq_length;
    int groups;
    int head;
    int experts;
    int chosen;
    int expert_width;
    int shared_width;
    int first_dense;
  };
  const std::vector<Row> rows = {{"gpt_neox", 2048, 32, 8, 0, 0, 0, 0, 0},
                                 {"llama", 2048, 32, 8, 0, 0, 0, 0, 0},
                                 {"nemotron", 4096, 32, 8, 0, 0, 0, 0, 0},
                                 {"mistral", 131072, 8, 8, 0, 0, 0, 0, 0},
                                 {"mixtral", 131072, 8, 8, 8, 2, 96, 0, 0},
                                 {"qwen2", 32768, 32, 8, 0, 0, 0, 0, 0},
                                 {"qwen2_moe", 32768, 16, 8, 60, 4, 1408, 5632, 0},
                                 {"qwen3", 32768, 32, 128, 0, 0, 0, 0, 0},
                                 {"qwen3_moe", 32768, 4, 8, 128, 8, 768, 0, 0},
                                 {"phi3", 4096, 32, 8, 0, 0, 0, 0, 0},
                                 {"olmo2", 2048, 32, 8, 0, 0, 0, 0, 0},
                                 {"granite", 2048, 32, 8, 0, 0, 0, 0, 0},
                                 {"deepseek_v3", 4096, 32, 192, 256, 8, 2048, 2048, 3}};
  for (const Row& row : rows) {
    const TransformerConfig model =
        read(R"({"model_type": ")" + row.type +
             R"(", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 32,
                 "intermediate_size": 96, "vocab_size": 64})");
    EXPECT_EQ(model.seq_length, row.seq_length) << row.type;
    EXPECT_EQ(model.num_query_groups, row.groups) << row.type;
    EXPECT_EQ(model.kv_channels, row.head) << row.type;
    EXPECT_EQ(model.num_experts, row.experts) << row.type;
    EXPECT_EQ(model.moe_router_topk, row.chosen) << row.type;
    EXPECT_EQ(model.moe_ffn_hidden_size, row.expert_width) << row.type;
    EXPECT_EQ(model.moe_shared_expert_intermediate_size, row.shared_width) << row.type;
    EXPECT_EQ(model.first_dense_layers, row.first_dense) << row.type;
    EXPECT_EQ(model.ffn_hidden_size, 96) << row.type;
    EXPECT_TRUE(model.untied_embeddings) << row.type;
    EXPECT_EQ(model.position_embedding, PositionEmbedding::kRope) << row.type;
    const bool is_plain = row.type == "gpt_neox" || row.type == "nemotron";
    EXPECT_EQ(model.gated_linear_unit, !is_plain) << row.type;
    EXPECT_EQ(model.normalization, is_plain ? Normalization::kLayerNorm : Normalization::kRmsNorm)
        << row.type;
    EXPECT_EQ(model.qk_layernorm,
              row.type == "qwen3" || row.type == "qwen3_moe" || row.type == "olmo2")
        << row.type;
    EXPECT_EQ(model.moe_shared_expert_gate, row.type == "qwen2_moe") << row.type;
    EXPECT_EQ(model.moe_router_enable_expert_bias, row.type == "deepseek_v3") << row.type;
  }
}

TEST(HuggingFaceConfig, HasTheBiasesOfEachType) {
  struct Row {
    std::string type;
    std::string keys;
    std::string biases;  ///< "all", or those of qkv, projection and mlp that have biases.
  };
  const std::string attention = R"("attention_bias": true)";
  const std::string mlp = R"("mlp_bias": true)";
  const std::vector<Row> rows = {{"gpt_neox", "", "all"},
                                 {"gpt_neox", R"("attention_bias": false)", "mlp"},
                                 {"llama", "", ""},
                                 {"llama", mlp, "mlp"},
                                 {"llama", attention, "qkv projection"},
                                 {"llama", attention + ", " + mlp, "all"},
                                 {"nemotron", mlp, "mlp"},
                                 {"granite", attention + ", " + mlp, "all"},
                                 {"gemma", attention, "qkv projection"},
                                 {"gemma2", attention, "qkv projection"},
                                 {"olmo2", attention, "qkv projection"},
                                 {"phi3", "", ""},
                                 {"starcoder2", "", "all"},
                                 {"starcoder2", R"("use_bias": false)", ""},
                                 {"stablelm", R"("use_qkv_bias": true)", "qkv"},
                                 {"mistral", "", ""},
                                 {"qwen2", "", "qkv"},
                                 {"qwen2_moe", "", "qkv"},
                                 {"qwen2_moe", R"("qkv_bias": false)", ""},
                                 {"qwen3", "", ""},
                                 {"qwen3", attention, "qkv projection"},
                                 {"qwen3_moe", attention, "qkv projection"},
                                 {"deepseek_v3", attention, "qkv projection"},
                                 {"deepseek_v2", R"("n_routed_experts": null, )" + mlp, "mlp"}};
  for (const Row& row : rows) {
    const TransformerConfig model = read(config_of(row.type, 4, 256, 32, 96, 64, row.keys));
    std::string biases = model.add_bias_linear ? "all" : "";
    for (const auto& [has, name] :
         {std::pair(model.add_qkv_bias, "qkv"), std::pair(model.add_projection_bias, "projection"),
          std::pair(model.add_mlp_bias, "mlp")}) {
      biases += has ? (biases.empty() ? "" : " ") + std::string(name) : "";
    }
    EXPECT_EQ(biases, row.biases) << row.type << ' ' << row.keys;
  }
}

TEST(HuggingFaceConfig, KnowsTheExpertsOfEachType) {
  const TransformerConfig qwen2 =
      read(config_of("qwen2_moe", 4, 128, 32, 96, 64,
                     R"("num_experts": 10, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
                        "shared_expert_intermediate_size": 40)"));
  EXPECT_EQ(qwen2.num_experts, 10);
  EXPECT_EQ(qwen2.moe_router_topk, 3);
  EXPECT_EQ(qwen2.moe_ffn_hidden_size, 24);
  EXPECT_EQ(qwen2.moe_shared_expert_intermediate_size, 40);
  const TransformerConfig qwen3 = read(config_of("qwen3_moe", 4, 128, 32, 96, 64,
                                                 R"("num_local_experts": 12, "qkv_bias": false,
                                                    "shared_expert_intermediate_size": 0)"));
  EXPECT_EQ(qwen3.num_experts, 12);
  for (const char* key : {R"("qkv_bias": true)", R"("shared_expert_intermediate_size": 8)"}) {
    EXPECT_EQ(refusal_of(config_of("qwen3_moe", 4, 128, 32, 96, 64, key)),
              "config.json: qkv_bias and shared_expert_intermediate_size: expected false and 0 of "
              "a qwen3_moe");
  }
  // Three shared experts of width 16; groups are for other methods than greedy.
  const std::string routed = R"("n_shared_experts": 3, "moe_intermediate_size": 16,
      "num_experts_per_tok": 2, "n_group": 4, "topk_group": 2, )";
  for (const char* spelling : {"n_routed_experts", "num_local_experts", "num_experts"}) {
    const TransformerConfig deepseek = read(config_of(
        "deepseek_v3", 8, 128, 32, 96, 64, routed + '"' + std::string(spelling) + R"(": 24)"));
    EXPECT_EQ(deepseek.num_experts, 24) << spelling;
    EXPECT_EQ(deepseek.moe_ffn_hidden_size, 16);
    EXPECT_EQ(deepseek.moe_shared_expert_intermediate_size, 48);
    EXPECT_EQ(deepseek.moe_router_num_groups, 4);
    EXPECT_EQ(deepseek.moe_router_group_topk, 2);
  }
  const auto router_of = [&](const char* type, const std::string& method) {
    const TransformerConfig model =
        read(config_of(type, 8, 128, 32, 96, 64,
                       routed + R"("n_routed_experts": 24, "topk_method": ")" + method + '"'));
    return std::pair(model.moe_router_enable_expert_bias, model.moe_router_num_groups);
  };
  EXPECT_EQ(router_of("deepseek_v3", "noaux_tc"), std::pair(true, 4));
  EXPECT_EQ(router_of("deepseek_v3", "group_limited_greedy"), std::pair(false, 4));
  EXPECT_EQ(router_of("deepseek_v3", "greedy"), std::pair(false, 0));
  EXPECT_EQ(router_of("deepseek_v2", "noaux_tc"), std::pair(false, 4));
  EXPECT_EQ(router_of("deepseek_v2", "group_limited_greedy"), std::pair(false, 4));
  for (const char* spelling : {"num_nextn_predict_layers", "num_mtp_layers"}) {
    EXPECT_EQ(
        read(config_of("deepseek_v3", 8, 128, 32, 96, 64, '"' + std::string(spelling) + R"(": 2)"))
            .mtp_num_layers,
        2);
  }
}

TEST(HuggingFaceConfig, RefusesLayersThatFollowNoRule) {
  const auto refusal = [](const char* type, const std::string& keys) {
    return refusal_of(config_of(type, 4, 128, 32, 96, 64, keys));
  };
  const std::string dense =
      "config.json: mlp_only_layers: expected the first layers of a model "
      "whose other layers all have experts";
  EXPECT_EQ(refusal("qwen3_moe", R"("mlp_only_layers": [0, 2])"), dense);
  EXPECT_EQ(refusal("qwen3_moe", R"("mlp_only_layers": [1, 2])"), dense);
  EXPECT_EQ(refusal("qwen3_moe", R"("mlp_only_layers": [0], "decoder_sparse_step": 2)"), dense);
  EXPECT_EQ(refusal("qwen2_moe", R"("mlp_only_layers": [0, 1, 2])"), "nothing was thrown");
  EXPECT_EQ(refusal("qwen2_moe", R"("use_sliding_window": true, "sliding_window": 8)"),
            "config.json: use_sliding_window: expected false: versions of transformers differ in "
            "which layers of a qwen2_moe have the window");
  const std::string window = R"("use_sliding_window": true, "sliding_window": 8, "layer_types": [)";
  EXPECT_EQ(refusal("qwen2", window + R"("full_attention", "sliding_attention"])"),
            "config.json: layer_types: expected 4 layers, got 2");
  EXPECT_EQ(refusal("qwen2", window + R"("full_attention", "sliding_attention",
                                        "sliding_attention", "linear_attention"])"),
            "config.json: layer_types: expected full_attention in the first layers and "
            "sliding_attention in all behind, if any, but for every n-th layer");
  for (const auto& [key, value, what] :
       {std::tuple("is_encoder_decoder", "true", "expected false: a decoder alone"),
        std::tuple("add_cross_attention", "true", "expected false: a decoder alone"),
        std::tuple("is_causal", "false", "expected true: a token attends to those before it")}) {
    EXPECT_EQ(refusal("llama", '"' + std::string(key) + "\": " + value),
              "config.json: " + std::string(key) + ": " + what);
  }
}

// Each width is tested by itself. DeepSeek's q_lora_rank may be null, which means none.
TEST(HuggingFaceConfig, ReadsEachWidthOfLatentAttention) {
  const TransformerConfig model =
      read(config_of("deepseek_v3", 8, 128, 32, 96, 64,
                     R"("q_lora_rank": 21, "kv_lora_rank": 22, "qk_nope_head_dim": 23,
                        "qk_rope_head_dim": 24, "v_head_dim": 25)"));
  EXPECT_EQ(model.q_lora_rank, 21);
  EXPECT_EQ(model.kv_lora_rank, 22);
  EXPECT_EQ(model.qk_head_dim, 23);
  EXPECT_EQ(model.qk_pos_emb_head_dim, 24);
  EXPECT_EQ(model.v_head_dim, 25);
  const TransformerConfig usual = read(config_of("deepseek_v3", 8, 128, 32, 96, 64, ""));
  EXPECT_EQ(usual.q_lora_rank, 1536);
  EXPECT_EQ(usual.kv_lora_rank, 512);
  EXPECT_EQ(usual.qk_head_dim, 128);
  EXPECT_EQ(usual.qk_pos_emb_head_dim, 64);
  EXPECT_EQ(usual.v_head_dim, 128);
}

// The project's own model profiles have no such key.
TEST(HuggingFaceConfig, IsNoProfile) {
  const TemporaryDirectory directory;
  const auto file = directory.file("mine.json", R"({"schema": "ptdp.model/1", "name": "mine",
      "source": "a test", "model_type": "llama", "num_layers": 2, "hidden_size": 8,
      "num_attention_heads": 2, "vocab_size": 16, "seq_length": 4, "global_batch_size": 6})");
  EXPECT_THAT(message_of([&] { return find_model(file.string()); }),
              HasSubstr("\"model_type\": unknown key"));
}

// A download is a folder. The default sequence is no longer than usual, because nobody trains on
// the longest sequence that a model can take.
TEST(HuggingFaceConfig, IsFoundByFileAndByFolder) {
  const TemporaryDirectory directory;
  (void)directory.file("Llama 3/config.json",
                       config_of("llama", 32, 4096, 32, 14336, 128256,
                                 R"("num_key_value_heads": 8, "max_position_embeddings": 131072)"));
  for (const char* path : {"Llama 3", "Llama 3/", "Llama 3/config.json"}) {
    const ModelProfile model = find_model((directory.path() / path).string());
    EXPECT_EQ(model.name, "Llama-3") << path;
    EXPECT_EQ(model.config.seq_length, 8192);
    EXPECT_EQ(model.longest_sequence, 131072);
    EXPECT_EQ(model.global_batch_size, 0);
  }
  const auto named = directory.file(
      "small.json", config_of("llama", 2, 64, 2, 128, 100, R"("max_position_embeddings": 512)"));
  const auto hidden =
      directory.file(".hidden/config.json", config_of("llama", 2, 64, 2, 128, 100, ""));
  EXPECT_EQ(find_model(hidden.string()).name, "-hidden");
  EXPECT_EQ(find_model(named.string()).name, "small");
  EXPECT_EQ(find_model(named.string()).config.seq_length, 512);
}

// DeepSeek-V3: 4 of 8 groups. V2-Lite chooses among all: n_group and topk_group are 1, "greedy".
TEST(HuggingFaceConfig, KnowsTheGroupsOfARouter) {
  const auto with_groups = [](const std::string& method, int groups, int visited) {
    std::string text = kDeepseekV3;
    text.replace(text.find("noaux_tc"), 8, method);
    text.insert(text.rfind('}'), R"(, "n_group": )" + std::to_string(groups) +
                                     R"(, "topk_group": )" + std::to_string(visited));
    return read(text);
  };
  const TransformerConfig v3 = with_groups("noaux_tc", 8, 4);
  EXPECT_EQ(v3.moe_router_num_groups, 8);
  EXPECT_EQ(v3.moe_router_group_topk, 4);
  EXPECT_EQ(read(kDeepseekV3).moe_router_num_groups, 8);  // the class's default
  EXPECT_EQ(read(kDeepseekV3).moe_router_group_topk, 4);
  for (const TransformerConfig& model :
       {with_groups("greedy", 8, 4), with_groups("noaux_tc", 1, 1)}) {
    EXPECT_EQ(model.moe_router_num_groups, 0);
    EXPECT_EQ(model.moe_router_group_topk, 0);
  }
}

}  // namespace
}  // namespace ptdp
