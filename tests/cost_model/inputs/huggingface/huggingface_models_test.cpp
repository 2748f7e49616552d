// Configurations as they are published, key by key, against the parameters of the weights beside
// them.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/inputs/parameter_counts.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

TransformerConfig read_published(const std::string& type, const std::string& keys) {
  ObjectReader reader = ObjectReader::from_text(
      R"({"model_type": ")" + type + R"(", )" + keys + "}", type + "/config.json");
  return read_huggingface_config(reader);
}

/// Returns the keys without a default that every model type except gpt2 needs.
std::string shape(int layers, int hidden, int heads, int ffn, int vocab) {
  return R"("num_hidden_layers": )" + std::to_string(layers) + R"(, "hidden_size": )" +
         std::to_string(hidden) + R"(, "num_attention_heads": )" + std::to_string(heads) +
         R"(, "intermediate_size": )" + std::to_string(ffn) + R"(, "vocab_size": )" +
         std::to_string(vocab) + ", ";
}

struct Published {
  std::string name;
  std::string type;
  std::string keys;
  std::int64_t parameters;
};

void expect_parameters(const std::vector<Published>& models) {
  for (const Published& model : models) {
    EXPECT_EQ(parameter_count(read_published(model.type, model.keys)), model.parameters)
        << model.name;
  }
}

std::string gpt2(int layers, int hidden, int heads) {
  return R"("activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
            "attn_pdrop": 0.1, "embd_pdrop": 0.1, "initializer_range": 0.02,
            "layer_norm_epsilon": 1e-05, "n_ctx": 1024, "n_positions": 1024, "n_special": 0,
            "predict_special_tokens": true, "resid_pdrop": 0.1, "summary_activation": null,
            "summary_type": "cls_index", "vocab_size": 50257, "n_layer": )" +
         std::to_string(layers) + R"(, "n_embd": )" + std::to_string(hidden) + R"(, "n_head": )" +
         std::to_string(heads);
}

// Pythia: the table of EleutherAI/pythia's README; GPT-2: model cards.
TEST(PublishedConfigs, OfOpenAiAndEleuther) {
  const std::string pythia = R"("architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu",
      "max_position_embeddings": 2048, "rotary_emb_base": 10000, "rotary_pct": 0.25,
      "tie_word_embeddings": false, "use_cache": true, "use_parallel_residual": true)";
  expect_parameters(
      {{"gpt2-medium", "gpt2", gpt2(24, 1024, 16), 354'823'168},
       {"gpt2-large", "gpt2", gpt2(36, 1280, 20), 774'030'080},
       {"gpt2-xl", "gpt2", gpt2(48, 1600, 25), 1'557'611'200},
       {"pythia-160m", "gpt_neox", shape(12, 768, 12, 3072, 50304) + pythia, 162'322'944},
       {"pythia-410m", "gpt_neox", shape(24, 1024, 16, 4096, 50304) + pythia, 405'334'016},
       {"pythia-1b", "gpt_neox", shape(16, 2048, 8, 8192, 50304) + pythia, 1'011'781'632},
       {"pythia-1.4b", "gpt_neox", shape(24, 2048, 16, 8192, 50304) + pythia, 1'414'647'808},
       {"pythia-2.8b", "gpt_neox", shape(32, 2560, 32, 10240, 50304) + pythia, 2'775'208'960},
       {"pythia-6.9b", "gpt_neox", shape(32, 4096, 32, 16384, 50432) + pythia, 6'857'302'016}});
}

// Totals of the released weights (safetensors), Minitrons by hand; tied heads count once.
TEST(PublishedConfigs, OfLlamasKind) {
  const std::string llama3 = R"("architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "eos_token_id": [128001, 128008, 128009], "hidden_act": "silu",
      "max_position_embeddings": 131072, "mlp_bias": false, "pretraining_tp": 1,
      "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                       "original_max_position_embeddings": 8192, "rope_type": "llama3"},
      "rope_theta": 500000.0, "torch_dtype": "bfloat16", "num_key_value_heads": 8)";
  const std::string smol = R"("is_llama_config": true, "rope_interleaved": false,
      "tie_word_embeddings": true, "transformers.js_config": {"kv_cache_dtype": {}}, )";
  expect_parameters(
      {{"Llama-1-7B", "llama",
        shape(32, 4096, 32, 11008, 32000) + R"("max_sequence_length": 2048, "pad_token_id": 0)",
        6'738'415'616},
       {"Llama-2-13B", "llama",
        shape(40, 5120, 40, 13824, 32000) + R"("num_key_value_heads": 40, "rope_scaling": null)",
        13'015'864'320},
       {"Llama-2-70B", "llama", shape(80, 8192, 64, 28672, 32000) + R"("num_key_value_heads": 8)",
        68'976'648'192},
       {"Llama-3.2-1B", "llama",
        shape(16, 2048, 32, 8192, 128256) + R"("head_dim": 64, "tie_word_embeddings": true, )" +
            llama3,
        1'235'814'400},
       {"Llama-3.2-3B", "llama",
        shape(28, 3072, 24, 8192, 128256) + R"("head_dim": 128, "tie_word_embeddings": true, )" +
            llama3,
        3'212'749'824},
       {"Llama-3.3-70B", "llama", shape(80, 8192, 64, 28672, 128256) + llama3, 70'553'706'496},
       {"TinyLlama-1.1B", "llama",
        shape(22, 2048, 32, 5632, 32000) + R"("num_key_value_heads": 4, "rope_scaling": null)",
        1'100'048'384},
       {"SmolLM2-135M", "llama",
        shape(30, 576, 9, 1536, 49152) + smol + R"("num_key_value_heads": 3)", 134'515'008},
       {"Yi-34B", "llama", shape(60, 7168, 56, 20480, 64000) + R"("num_key_value_heads": 8)",
        34'388'917'248},
       {"Mistral-7B-v0.3", "mistral",
        shape(32, 4096, 32, 14336, 32768) + R"("num_key_value_heads": 8, "sliding_window": null)",
        7'248'023'552},
       {"Mistral-Nemo", "mistral",
        shape(40, 5120, 32, 14336, 131072) +
            R"("head_dim": 128, "num_key_value_heads": 8, "sliding_window": null)",
        12'247'782'400},
       {"Mistral-Large-2407", "mistral",
        shape(88, 12288, 96, 28672, 32768) + R"("num_key_value_heads": 8, "head_dim": null)",
        122'610'069'504},
       {"Mistral-Small-24B", "mistral",
        shape(40, 5120, 32, 32768, 131072) + R"("num_key_value_heads": 8, "head_dim": 128)",
        23'572'403'200},
       {"Mixtral-8x22B", "mixtral",
        shape(56, 6144, 48, 16384, 32768) +
            R"("num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
               "router_jitter_noise": 0.0, "sliding_window": null)",
        140'630'071'296},
       {"Minitron-4B", "nemotron",
        shape(32, 3072, 24, 9216, 256000) +
            R"("head_dim": 128, "num_key_value_heads": 8, "hidden_act": "relu2", "mlp_bias": false,
               "norm_eps": 1e-05, "partial_rotary_factor": 0.5, "rope_percent": 0.5)",
        4'190'509'056},
       {"Minitron-8B", "nemotron",
        shape(32, 4096, 48, 16384, 256000) +
            R"("kv_channels": 128, "num_key_value_heads": 8, "attention_bias": false)",
        8'271'699'968}});
}

TEST(PublishedConfigs, OfQwen) {
  const std::string qwen2 = R"("max_position_embeddings": 131072, "max_window_layers": 24,
      "sliding_window": 131072, "use_sliding_window": false, "rope_theta": 1000000.0, )";
  const std::string tied = qwen2 + R"("tie_word_embeddings": true, )";
  const std::string qwen3 = R"("attention_bias": false, "head_dim": 128, "rope_scaling": null,
      "sliding_window": null, "use_sliding_window": false, "max_window_layers": 28, )";
  const auto groups = [](int n) { return R"("num_key_value_heads": )" + std::to_string(n); };
  expect_parameters(
      {{"Qwen2-0.5B", "qwen2", shape(24, 896, 14, 4864, 151936) + tied + groups(2), 494'032'768},
       {"Qwen2-1.5B", "qwen2", shape(28, 1536, 12, 8960, 151936) + tied + groups(2), 1'543'714'304},
       {"R1-Distill-Qwen-1.5B", "qwen2",
        shape(28, 1536, 12, 8960, 151936) + qwen2 + R"("use_mrope": false, )" + groups(2),
        1'777'088'000},
       {"Qwen2.5-3B", "qwen2", shape(36, 2048, 16, 11008, 151936) + tied + groups(2),
        3'085'938'688},
       {"Qwen2.5-14B", "qwen2", shape(48, 5120, 40, 13824, 152064) + qwen2 + groups(8),
        14'770'033'664},
       {"Qwen2.5-32B", "qwen2", shape(64, 5120, 40, 27648, 152064) + qwen2 + groups(8),
        32'763'876'352},
       {"Qwen2.5-72B", "qwen2", shape(80, 8192, 64, 29568, 152064) + qwen2 + groups(8),
        72'706'203'648},
       {"Qwen3-0.6B", "qwen3",
        shape(28, 1024, 16, 3072, 151936) + qwen3 + R"("tie_word_embeddings": true, )" + groups(8),
        596'049'920},
       {"Qwen3-1.7B", "qwen3",
        shape(28, 2048, 16, 6144, 151936) + qwen3 + R"("tie_word_embeddings": true, )" + groups(8),
        1'720'574'976},
       {"Qwen3-4B", "qwen3",
        shape(36, 2560, 32, 9728, 151936) + qwen3 + R"("tie_word_embeddings": true, )" + groups(8),
        4'022'468'096},
       {"Qwen3-14B", "qwen3", shape(40, 5120, 40, 17408, 151936) + qwen3 + groups(8),
        14'768'307'200},
       {"Qwen3-32B", "qwen3", shape(64, 5120, 64, 25600, 151936) + qwen3 + groups(8),
        32'762'123'264},
       {"Qwen3-235B-A22B", "qwen3_moe",
        shape(94, 4096, 64, 12288, 151936) + qwen3 + groups(4) +
            R"(, "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": 1536,
               "norm_topk_prob": true, "num_experts": 128, "num_experts_per_tok": 8)",
        235'093'634'560}});
}

// DeepSeek-V2's paper: 236 B; Kimi-K2 names a type of its own and has DeepSeek-V3's classes.
TEST(PublishedConfigs, OfDeepSeek) {
  const std::string v2 = R"("q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "ep_size": 1, "scoring_func": "softmax",
      "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "moe_intermediate_size": 1536, "moe_layer_freq": 1, "first_k_dense_replace": 1,
      "n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy", "seq_aux": true,
      "num_key_value_heads": 128)";
  expect_parameters(
      {{"DeepSeek-V2", "deepseek_v2", shape(60, 5120, 128, 12288, 102400) + v2, 235'741'434'880},
       {"Kimi-K2", "kimi_k2",
        shape(61, 7168, 64, 18432, 163840) +
            R"("n_routed_experts": 384, "first_k_dense_replace": 1)",
        1'026'408'232'448}});
}

/// Returns the config.json of gpt-oss, key by key, but for model_type.
std::string gpt_oss(int layers, int experts) {
  std::string types;
  for (int layer = 0; layer < layers; ++layer) {
    types += layer == 0 ? "" : ", ";
    types += layer % 2 == 0 ? R"("sliding_attention")" : R"("full_attention")";
  }
  return shape(layers, 2880, 64, 2880, 201088) + R"("architectures": ["GptOssForCausalLM"],
      "attention_bias": true, "attention_dropout": 0.0, "eos_token_id": 200002,
      "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "initial_context_length": 4096,
      "initializer_range": 0.02, "layer_types": [)" +
         types + R"(], "max_position_embeddings": 131072, "num_experts_per_tok": 4,
      "num_key_value_heads": 8, "num_local_experts": )" +
         std::to_string(experts) + R"(, "output_router_logits": false, "pad_token_id": 199999,
      "quantization_config": {"modules_to_not_convert": ["lm_head"], "quant_method": "mxfp4"},
      "rms_norm_eps": 1e-05, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
      "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128,
      "swiglu_limit": 7.0, "tie_word_embeddings": false, "transformers_version": "4.55.0.dev0",
      "use_cache": true)";
}

// openai/gpt-oss: the released weights, unpacked.
TEST(PublishedConfigs, OfGptOss) {
  expect_parameters({{"gpt-oss-120b", "gpt_oss", gpt_oss(36, 128), 116'829'156'672},
                     {"gpt-oss-20b", "gpt_oss", gpt_oss(24, 32), 20'914'757'184}});
  // Without keys the class has the larger one's sizes; without biases of attention those of experts
  // stay: 36 layers less 4096 + 2·512 and 2880.
  expect_parameters({{"its defaults", "gpt_oss",
                      shape(36, 2880, 64, 2880, 201088) + R"("use_cache": true)", 116'829'156'672},
                     {"no biases of attention", "gpt_oss",
                      shape(36, 2880, 64, 2880, 201088) + R"("attention_bias": false)",
                      116'829'156'672 - 36 * (4096 + 1024 + 2880)}});
}

// The defaults of the classes: DeepSeek-V3 written without what its class knows is DeepSeek-V3,
// likewise Mixtral-8x7B, Qwen1.5-MoE, Qwen3-30B-A3B, and but for what differs DeepSeek-V2-Lite;
// null is not missing.
TEST(PublishedConfigs, HaveTheDefaultsOfTheirClasses) {
  expect_parameters(
      {{"DeepSeek-V3", "deepseek_v3",
        shape(61, 7168, 128, 18432, 129280) + R"("tie_word_embeddings": false)", 671'026'419'200},
       {"DeepSeek-V2-Lite", "deepseek_v2",
        shape(27, 2048, 16, 10944, 102400) +
            R"("q_lora_rank": null, "moe_intermediate_size": 1408, "num_experts_per_tok": 6,
               "first_k_dense_replace": 1)",
        15'706'484'224},
       {"Mixtral-8x7B", "mixtral", shape(32, 4096, 32, 14336, 32000) + R"("sliding_window": null)",
        46'702'792'704},
       {"Qwen1.5-MoE-A2.7B", "qwen2_moe",
        shape(24, 2048, 16, 5632, 151936) + R"("rope_scaling": null)", 14'315'784'192},
       {"Qwen3-30B-A3B", "qwen3_moe", shape(48, 2048, 32, 6144, 151936) + R"("head_dim": 128)",
        30'532'122'624}});
  const TransformerConfig llama =
      read_published("llama", shape(2, 64, 4, 128, 100) + R"("num_key_value_heads": null)");
  EXPECT_EQ(llama.num_query_groups, 4);
  EXPECT_EQ(llama.kv_channels, 16);
  EXPECT_EQ(llama.seq_length, 2048);
  EXPECT_TRUE(llama.untied_embeddings);
  EXPECT_FALSE(read_published("gpt2", gpt2(1, 64, 2)).untied_embeddings);
  const TransformerConfig no_shared =
      read_published("deepseek_v3", shape(4, 64, 4, 128, 100) + R"("n_shared_experts": 0)");
  EXPECT_EQ(no_shared.moe_shared_expert_intermediate_size, 0);
}

/// Checks that a profile computes as a published file says; it has a sequence of its own.
void expect_same_model(const std::string& profile, const std::string& type,
                       const std::string& keys) {
  TransformerConfig published = read_published(type, keys);
  const TransformerConfig ours = find_model(profile).config;
  published.seq_length = ours.seq_length;
  EXPECT_EQ(ours, published) << profile;
}

// The files beside the released weights, by the keys that decide what is computed.
TEST(PublishedConfigs, ComputeWhatProfilesSay) {
  const std::string llama2 = R"("hidden_act": "silu", "initializer_range": 0.02,
      "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_scaling": null,
      "tie_word_embeddings": false, )";
  expect_same_model("llama-2-7b", "llama",
                    llama2 + shape(32, 4096, 32, 11008, 32000) + R"("num_key_value_heads": 32)");
  expect_same_model("llama-2-70b", "llama",
                    llama2 + shape(80, 8192, 64, 28672, 32000) + R"("num_key_value_heads": 8)");
  const std::string llama3 = R"("hidden_act": "silu", "initializer_range": 0.02,
      "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": false,
      "num_key_value_heads": 8)";
  expect_same_model("llama-3-8b", "llama",
                    shape(32, 4096, 32, 14336, 128256) + llama3 + R"(, "rope_scaling": null)");
  expect_same_model("llama-3-70b", "llama",
                    shape(80, 8192, 64, 28672, 128256) + llama3 + R"(, "rope_scaling": null)");
  expect_same_model("llama-3.1-405b", "llama",
                    shape(126, 16384, 128, 53248, 128256) + llama3 +
                        R"(, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
                            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                            "rope_type": "llama3"})");
  expect_same_model("mistral-7b", "mistral",
                    shape(32, 4096, 32, 14336, 32000) +
                        R"("hidden_act": "silu", "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
                           "rope_theta": 10000.0, "sliding_window": 4096)");
  const std::string qwen = R"("rope_theta": 1000000.0, "tie_word_embeddings": false,
      "hidden_act": "silu", "use_sliding_window": false, )";
  expect_same_model("qwen2.5-7b", "qwen2",
                    shape(28, 3584, 28, 18944, 152064) + qwen +
                        R"("num_key_value_heads": 4, "rms_norm_eps": 1e-06)");
  expect_same_model("qwen2.5-72b", "qwen2",
                    shape(80, 8192, 64, 29568, 152064) + qwen +
                        R"("num_key_value_heads": 8, "rms_norm_eps": 1e-05)");
  expect_same_model("qwen3-8b", "qwen3",
                    shape(36, 4096, 32, 12288, 151936) + qwen +
                        R"("num_key_value_heads": 8, "rms_norm_eps": 1e-06, "head_dim": 128)");
  expect_same_model("qwen3-32b", "qwen3",
                    shape(64, 5120, 64, 25600, 151936) + qwen +
                        R"("num_key_value_heads": 8, "rms_norm_eps": 1e-06, "head_dim": 128)");
  expect_same_model("nemotron-4-15b", "nemotron",
                    shape(32, 6144, 48, 24576, 256000) +
                        R"("hidden_act": "relu2", "num_key_value_heads": 8, "norm_eps": 1e-05,
                           "partial_rotary_factor": 0.5, "initializer_range": 0.0134)");
  expect_same_model("gpt-oss-120b", "gpt_oss", gpt_oss(36, 128));
  expect_same_model("gpt-oss-20b", "gpt_oss", gpt_oss(24, 32));
}

}  // namespace
}  // namespace ptdp
