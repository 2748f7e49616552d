// Types of models with structures beyond Llama's: parameters to the last number, what each has that
// others lack, and what is refused.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/inputs/huggingface/huggingface_writer.h"
#include "cost_model/inputs/parameter_counts.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

TransformerConfig model_of(const std::string& type, const std::string& keys) {
  ObjectReader reader =
      ObjectReader::from_text(R"({"model_type": ")" + type + R"(", )" + keys + "}", "config.json");
  return read_huggingface_config(reader);
}

std::string refused(const std::string& type, const std::string& keys) {
  return message_of([&] { return model_of(type, keys); });
}

/// Returns the keys that most types spell alike.
std::string sizes(int layers, int hidden, int heads, int groups, int ffn, int vocab) {
  return R"("num_hidden_layers": )" + std::to_string(layers) + R"(, "hidden_size": )" +
         std::to_string(hidden) + R"(, "num_attention_heads": )" + std::to_string(heads) +
         R"(, "num_key_value_heads": )" + std::to_string(groups) + R"(, "intermediate_size": )" +
         std::to_string(ffn) + R"(, "vocab_size": )" + std::to_string(vocab);
}

const std::string kSmall = sizes(8, 64, 4, 2, 96, 128);

struct Counted {
  std::string name;
  std::string type;
  std::string keys;
  std::int64_t parameters;
};

void expect_counts(const std::vector<Counted>& models) {
  for (const Counted& model : models) {
    EXPECT_EQ(parameter_count(model_of(model.type, model.keys)), model.parameters) << model.name;
  }
}

std::string opt(int layers, int hidden, int heads) {
  return R"("_name_or_path": "opt", "_remove_final_layer_norm": false, "activation_dropout": 0.0,
            "activation_function": "relu", "attention_dropout": 0.0, "do_layer_norm_before": true,
            "dropout": 0.1, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
            "vocab_size": 50272, "num_hidden_layers": )" +
         std::to_string(layers) + R"(, "hidden_size": )" + std::to_string(hidden) +
         R"(, "word_embed_proj_dim": )" + std::to_string(hidden) + R"(, "ffn_dim": )" +
         std::to_string(4 * hidden) + R"(, "num_attention_heads": )" + std::to_string(heads);
}

std::string bloom(int layers, const std::string& width_key, int hidden, int heads) {
  return R"("apply_residual_connection_post_layernorm": false, "attention_dropout": 0.0,
            "attention_softmax_in_fp32": true, "bias_dropout_fusion": true, "hidden_dropout": 0.0,
            "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": true,
            "offset_alibi": 100, "pretraining_tp": 4, "seq_length": 2048, "skip_bias_add": true,
            "skip_bias_add_qkv": false, "slow_but_exact": false, "vocab_size": 250880, "n_layer": )" +
         std::to_string(layers) + R"(, ")" + width_key + R"(": )" + std::to_string(hidden) +
         R"(, "n_head": )" + std::to_string(heads);
}

std::string mpt(int layers, int hidden, int heads, const std::string& attention = "") {
  return R"("attn_config": {"alibi": true, "alibi_bias_max": 8, "attn_impl": "torch",
            "attn_pdrop": 0, "attn_type": "multihead_attention", "attn_uses_sequence_id": false,
            "clip_qkv": null, "prefix_lm": false, "qk_ln": false, "softmax_scale": null)" +
         attention + R"(}, "emb_pdrop": 0, "expansion_ratio": 4, "init_config": {"name": "kaiming"},
            "init_device": "cpu", "learned_pos_emb": true, "logit_scale": null, "max_seq_len": 2048,
            "no_bias": true, "norm_type": "low_precision_layernorm", "resid_pdrop": 0,
            "tokenizer_name": "EleutherAI/gpt-neox-20b", "verbose": 0, "vocab_size": 50432,
            "n_layers": )" +
         std::to_string(layers) + R"(, "d_model": )" + std::to_string(hidden) + R"(, "n_heads": )" +
         std::to_string(heads);
}

std::string falcon(int layers, int hidden, int heads, int vocab, const std::string& more) {
  return R"("alibi": false, "attention_dropout": 0.0, "bias": false, "hidden_dropout": 0.0,
            "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "parallel_attn": true,
            "num_hidden_layers": )" +
         std::to_string(layers) + R"(, "hidden_size": )" + std::to_string(hidden) +
         R"(, "num_attention_heads": )" + std::to_string(heads) + R"(, "vocab_size": )" +
         std::to_string(vocab) + ", " + more;
}

std::string starcoder(int layers, int hidden, int heads) {
  return R"("activation_function": "gelu_pytorch_tanh", "attention_softmax_in_fp32": true,
            "attn_pdrop": 0.1, "embd_pdrop": 0.1, "inference_runner": 0, "multi_query": true,
            "layer_norm_epsilon": 1e-05, "max_batch_size": null, "max_sequence_length": null,
            "n_positions": 8192, "pad_key_length": true, "pre_allocate_kv_cache": false,
            "resid_pdrop": 0.1, "scale_attention_softmax_in_fp32": true, "scale_attn_weights": true,
            "validate_runner_input": true, "vocab_size": 49152, "n_layer": )" +
         std::to_string(layers) + R"(, "n_embd": )" + std::to_string(hidden) + R"(, "n_inner": )" +
         std::to_string(4 * hidden) + R"(, "n_head": )" + std::to_string(heads);
}

// Totals of the released weights (model cards; safetensors). OPT-175B by hand: 96 layers of
// 12h² + 13h, 50272 and 2050 rows of h, 2h, where h = 12288. Falcon's class ties the logits, whose
// matrix the released files have again: those totals are of untied ones.
TEST(HuggingFaceTypes, CountTheParametersOfOlderTypes) {
  const std::string untied = R"(, "tie_word_embeddings": false)";
  const std::string of_40b = R"("new_decoder_architecture": true, "num_kv_heads": 8)";
  const std::string of_7b = R"("multi_query": true, "new_decoder_architecture": false,
      "num_kv_heads": 71, "apply_residual_connection_post_layernorm": false)";
  const std::int64_t falcon_7b = 7'217'189'760;
  expect_counts(
      {{"opt-125m", "opt", opt(12, 768, 12), 125'239'296},
       {"opt-6.7b", "opt", opt(32, 4096, 32), 6'658'473'984},
       {"opt-175b", "opt", opt(96, 12288, 96), 174'604'468'224},
       {"bloom-7b1", "bloom", bloom(30, "n_embed", 4096, 32), 7'069'016'064},
       {"bloom", "bloom", bloom(70, "hidden_size", 14336, 112), 176'247'271'424},
       {"mpt-7b", "mpt", mpt(32, 4096, 32), 6'649'286'656},
       {"mpt-30b", "mpt", mpt(48, 7168, 64), 29'957'200'896},
       {"falcon-7b", "falcon", falcon(32, 4544, 71, 65024, of_7b + untied), falcon_7b},
       {"falcon-7b, tied", "falcon", falcon(32, 4544, 71, 65024, of_7b),
        falcon_7b - std::int64_t{65024} * 4544},
       {"falcon-40b", "falcon", falcon(60, 8192, 128, 65024, of_40b + untied), 41'835'970'560},
       {"falcon-180b", "falcon", falcon(80, 14848, 232, 65024, of_40b + untied), 179'522'565'120},
       {"falcon-11b", "falcon",
        falcon(60, 4096, 32, 65024,
               of_40b + R"(, "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 16384)" + untied),
        11'102'822'400},
       {"falcon-rw-1b", "falcon",
        R"("alibi": true, "bias": true, "parallel_attn": false, "multi_query": false,
           "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32,
           "vocab_size": 50304)",
        1'311'625'216},
       {"starcoderbase-1b", "gpt_bigcode", starcoder(24, 2048, 16), 1'137'207'296},
       {"starcoder", "gpt_bigcode", starcoder(40, 6144, 48), 15'517'456'384}});
}

// Totals of the released weights (model cards; safetensors).
TEST(HuggingFaceTypes, CountTheParametersOfDenseTypes) {
  const std::string cohere = R"(, "attention_bias": false, "layer_norm_eps": 1e-05,
      "logit_scale": 0.0625, "rope_theta": 8000000.0)";
  const std::string cohere2 = R"(, "head_dim": 128, "layer_switch": 4, "logit_scale": 0.25,
      "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj",
      "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 4096, "sliding_window_pattern": 4,
      "use_embedding_sharing": true, "use_gated_activation": true, "use_parallel_block": true,
      "use_parallel_embedding": true, "cache_implementation": "hybrid")";
  expect_counts(
      {{"gemma-2-2b", "gemma2", sizes(26, 2304, 8, 4, 9216, 256000) + R"(, "head_dim": 256)",
        2'614'341'888},
       {"Phi-3-mini", "phi3", sizes(32, 3072, 32, 32, 8192, 32064), 3'821'079'552},
       {"OLMo-2-1124-7B", "olmo2", sizes(32, 4096, 32, 32, 11008, 100352), 7'298'617'344},
       {"granite-3.0-8b", "granite",
        sizes(40, 4096, 32, 8, 12800, 49155) + R"(, "tie_word_embeddings": true)", 8'170'848'256},
       {"starcoder2-7b", "starcoder2", sizes(32, 4608, 36, 4, 18432, 49152), 7'173'923'840},
       {"gemma-3-1b", "gemma3_text",
        sizes(26, 1152, 4, 1, 6912, 262144) + R"(, "head_dim": 256, "sliding_window": 512)",
        999'885'952},
       {"c4ai-command-r-v01", "cohere", sizes(40, 8192, 64, 64, 22528, 256000) + cohere,
        34'980'831'232},
       {"c4ai-command-r-plus", "cohere",
        sizes(64, 12288, 96, 8, 33792, 256000) + cohere + R"(, "use_qk_norm": true)",
        103'810'674'688},
       {"c4ai-command-r7b", "cohere2", sizes(32, 4096, 32, 8, 14336, 256000) + cohere2,
        8'028'033'024},
       {"SmolLM3-3B", "smollm3",
        sizes(36, 2048, 16, 4, 11008, 128256) +
            R"(, "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4,
               "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
               "use_sliding_window": false, "pretraining_tp": 2)",
        3'075'098'624},
       {"GLM-4-9B-0414", "glm4",
        sizes(40, 4096, 32, 2, 13696, 151552) +
            R"(, "attention_bias": true, "head_dim": 128, "partial_rotary_factor": 0.5)",
        9'400'279'040},
       {"EXAONE-4.0-1.2B", "exaone4",
        sizes(30, 2048, 32, 8, 4096, 102400) +
            R"(, "head_dim": 64, "tie_word_embeddings": true, "sliding_window": null)",
        1'279'391'488},
       {"EXAONE-4.0-32B", "exaone4",
        sizes(64, 5120, 40, 8, 27392, 102400) + R"(, "head_dim": 128, "sliding_window": 4096)",
        32'003'216'384},
       {"Seed-OSS-36B", "seed_oss",
        sizes(64, 5120, 80, 8, 27648, 155136) + R"(, "head_dim": 128, "attention_bias": true,
            "attention_out_bias": false, "residual_dropout": 0.1, "attention_dropout": 0.1)",
        36'151'104'512},
       {"ERNIE-4.5-0.3B", "ernie4_5",
        sizes(18, 1024, 16, 2, 3072, 103424) + R"(, "head_dim": 128, "use_bias": false)",
        360'748'032}});
}

// Totals of the released weights (model cards; safetensors). Those of GLM-4.5 and its Air,
// 358,337,791,296 and 110,468,824,832, have a module that predicts one more token with an embedding
// and logits of its own.
TEST(HuggingFaceTypes, CountTheParametersOfExperts) {
  const std::string glm = R"(, "head_dim": 128, "attention_bias": true, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1, "norm_topk_prob": true,
      "routed_scaling_factor": 2.5, "partial_rotary_factor": 0.5, "rope_theta": 1000000,
      "num_nextn_predict_layers": 1, "tie_word_embeddings": false)";
  const std::string of_355b = sizes(92, 5120, 96, 8, 12288, 151552) + glm +
                              R"(, "first_k_dense_replace": 3, "moe_intermediate_size": 1536,
                                   "n_routed_experts": 160, "use_qk_norm": true)";
  const std::string of_air = sizes(46, 4096, 96, 8, 10944, 151552) + glm +
                             R"(, "first_k_dense_replace": 1, "moe_intermediate_size": 1408,
                                  "n_routed_experts": 128, "use_qk_norm": false)";
  std::string ones = "1";
  for (int layer = 1; layer < 62; ++layer) {
    ones += ", 1";
  }
  const std::string minimax = sizes(62, 3072, 48, 8, 1536, 200064) + R"(, "attn_type_list": [)" +
                              ones + R"(], "head_dim": 128, "mtp_transformer_layers": 1,
      "num_experts_per_tok": 8, "num_local_experts": 256, "num_mtp_modules": 3,
      "qk_norm_type": "per_layer", "rotary_dim": 64, "scoring_func": "sigmoid",
      "shared_intermediate_size": 0, "use_mtp": true, "use_qk_norm": true,
      "use_routing_bias": true, "rope_theta": 5000000)";
  expect_counts(
      {{"GLM-4.5", "glm4_moe", of_355b, 352'797'829'024},
       {"GLM-4.5-Air", "glm4_moe", of_air, 106'852'251'264},
       {"MiniMax-M2", "minimax_m2", minimax, 228'689'764'864},
       {"dbrx-base", "dbrx",
        R"("attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
           "d_model": 6144, "emb_pdrop": 0.0, "ffn_config": {"ffn_hidden_size": 10752,
           "ffn_act_fn": {"name": "silu"}, "model_type": "", "moe_jitter_eps": 0.01,
           "moe_loss_weight": 0.05, "moe_num_experts": 16, "moe_top_k": 4},
           "initializer_range": 0.02, "max_seq_len": 32768, "n_heads": 48, "n_layers": 40,
           "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "tie_word_embeddings": false,
           "vocab_size": 100352)",
        131'596'523'520},
       {"granite-3.0-1b-a400m", "granitemoe",
        sizes(24, 1024, 16, 8, 512, 49155) +
            R"(, "num_local_experts": 32, "num_experts_per_tok": 8, "tie_word_embeddings": true)",
        1'334'628'352},
       {"OLMoE-1B-7B", "olmoe",
        sizes(16, 2048, 16, 16, 1024, 50304) + R"(, "clip_qkv": null, "num_experts": 64)",
        6'919'161'856}});
  for (const auto& [keys, released] :
       {std::pair(of_355b, 358'337'791'296), std::pair(of_air, 110'468'824'832)}) {
    const TransformerConfig model = model_of("glm4_moe", keys);
    const std::int64_t tables = std::int64_t{2} * model.vocab_size * model.hidden_size;
    EXPECT_EQ(parameter_count(model) + mtp_parameter_count(model) + tables, released);
  }
  EXPECT_EQ(model_of("minimax_m2", minimax).mtp_num_layers, 3);
  EXPECT_EQ(model_of("minimax_m2", minimax).rotary.percent, 0.5);
}

std::string seeing(const std::string& type, const std::string& text, const std::string& more = "") {
  return R"("text_config": {"model_type": ")" + type + R"(_text", )" + text +
         R"(}, "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27}, "boi_token_index": 1,
            "eoi_token_index": 2, "image_token_index": 3)" +
         more;
}

std::string llama4_text(const std::string& more) {
  return sizes(48, 5120, 40, 8, 8192, 202048) + R"(, "attention_bias": false,
      "attention_chunk_size": 8192, "attn_scale": 0.1, "attn_temperature_tuning": 4,
      "floor_scale": 8192, "for_llm_compressor": false, "head_dim": 128,
      "intermediate_size_mlp": 16384, "no_rope_layers": [], "num_experts_per_tok": 1,
      "rope_scaling": {"factor": 16.0, "high_freq_factor": 1.0, "low_freq_factor": 0.5,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, )" +
         more;
}

// Released weights (safetensors) less what sees. Gemma 3: a SigLIP of 416,866,032, a projection of
// 1152·h and a norm of 1152. Llama 4: 871,932,416, its encoder of 850,960,896 and a projection of
// 4096·5120.
TEST(HuggingFaceTypes, CountThePartThatReadsText) {
  const std::string gemma_4b = R"("hidden_size": 2560, "intermediate_size": 10240,
      "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
      "sliding_window": 1024)";  // what the released file says; the class has the rest
  const std::string scaled = R"(, "head_dim": 128, "query_pre_attn_scalar": 168,
      "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"})";
  const std::int64_t siglip = 416'866'032;
  const std::int64_t llama_sees = 871'932'416;
  expect_counts(
      {{"gemma-3-4b", "gemma3", seeing("gemma3", gemma_4b, R"(, "mm_tokens_per_image": 256)"),
        4'300'079'472 - siglip - 1152 * 2560 - 1152},
       {"gemma-3-12b", "gemma3",
        seeing("gemma3", sizes(48, 3840, 16, 8, 15360, 262208) + R"(, "sliding_window": 1024)"),
        12'187'325'040 - siglip - 1152 * 3840 - 1152},
       {"gemma-3-27b", "gemma3", seeing("gemma3", sizes(62, 5376, 32, 16, 21504, 262208) + scaled),
        27'432'406'640 - siglip - 1152 * 5376 - 1152},
       {"Llama-4-Scout", "llama4",
        seeing("llama4", llama4_text(R"("num_local_experts": 16, "interleave_moe_layer_step": 1)")),
        108'641'793'536 - llama_sees},
       {"Llama-4-Maverick", "llama4",
        seeing("llama4", llama4_text(R"("num_local_experts": 128, "interleave_moe_layer_step": 2,
                                        "use_qk_norm": false)"),
               R"(, "tie_word_embeddings": false)"),
        401'583'781'376 - llama_sees}});
  EXPECT_EQ(refused("gemma3", seeing("gemma3", gemma_4b, R"(, "tie_word_embeddings": false)")),
            "config.json: tie_word_embeddings: expected what config.json: text_config has");
  EXPECT_EQ(refused("gemma3", seeing("llama4", gemma_4b)),
            "config.json: text_config.model_type: expected the part of a gemma3_text that reads "
            "text");
  // The type of the whole says the class of its text part.
  EXPECT_EQ(model_of("gemma3", R"("text_config": {)" + kSmall + "}"),
            model_of("gemma3_text", kSmall));
  EXPECT_THAT(refused("llama", kSmall + R"(, "text_config": {})"),
              HasSubstr("\"text_config\": unknown key"));
}

// What each class has that Llama's lacks.
TEST(HuggingFaceTypes, HaveTheStructureOfTheirClasses) {
  const TransformerConfig old_falcon =
      model_of("falcon", falcon(2, 64, 4, 128, R"("multi_query": true)"));
  EXPECT_TRUE(old_falcon.parallel_residual);
  EXPECT_TRUE(old_falcon.shared_residual_norm);
  EXPECT_EQ(old_falcon.num_query_groups, 1);
  EXPECT_EQ(activation_of(old_falcon), Activation::kGelu);
  const TransformerConfig new_falcon =
      model_of("falcon", falcon(2, 64, 4, 128, R"("new_decoder_architecture": true)"));
  EXPECT_FALSE(new_falcon.shared_residual_norm);
  EXPECT_EQ(new_falcon.num_query_groups, 4);
  const TransformerConfig serial =
      model_of("falcon", R"("alibi": true, "parallel_attn": false, "num_hidden_layers": 2,
                   "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128)");
  EXPECT_FALSE(serial.parallel_residual);
  EXPECT_EQ(serial.position_embedding, PositionEmbedding::kAlibi);

  const TransformerConfig opt_model = model_of("opt", opt(2, 64, 4));
  EXPECT_EQ(opt_model.seq_length, 2048);
  EXPECT_EQ(opt_model.max_position_embeddings, 2050);
  EXPECT_EQ(activation_of(opt_model), Activation::kRelu);
  EXPECT_EQ(dropout_rates(opt_model).hidden, 0.1);
  EXPECT_EQ(dropout_rates(opt_model).embedding, 0.0);
  EXPECT_EQ(dropout_rates(opt_model).attention, 0.0);

  const TransformerConfig bloom_model = model_of("bloom", bloom(2, "n_embed", 64, 4));
  EXPECT_TRUE(bloom_model.embedding_layernorm);
  EXPECT_TRUE(bloom_model.add_bias_linear);
  EXPECT_EQ(bloom_model.position_embedding, PositionEmbedding::kAlibi);
  EXPECT_FALSE(has_dropout(bloom_model));

  const TransformerConfig mpt_model = model_of("mpt", mpt(2, 64, 4));
  EXPECT_FALSE(mpt_model.layernorm_bias);
  EXPECT_FALSE(mpt_model.add_bias_linear);
  EXPECT_EQ(mpt_model.position_embedding, PositionEmbedding::kAlibi);

  const TransformerConfig command = model_of("cohere", kSmall + R"(, "use_qk_norm": true)");
  EXPECT_TRUE(command.shared_residual_norm);
  EXPECT_TRUE(command.rotary.interleaved);
  EXPECT_FALSE(command.layernorm_bias);
  EXPECT_FALSE(command.untied_embeddings);
  EXPECT_EQ(command.logits_multiplier, 0.0625);
  EXPECT_EQ(command.rotary.base, 500000.0);
  EXPECT_EQ(command.qk_layernorm_width, QkNormWidth::kEachHead);

  const TransformerConfig glm = model_of("glm4", kSmall);
  EXPECT_EQ(glm.norm_placement, NormPlacement::kBeforeAndBehind);
  EXPECT_TRUE(glm.add_qkv_bias);
  EXPECT_FALSE(glm.add_projection_bias);
  EXPECT_TRUE(glm.rotary.interleaved);
  EXPECT_EQ(glm.rotary.percent, 0.5);

  const TransformerConfig glm_moe = model_of("glm4_moe", kSmall + R"(, "head_dim": 16)");
  EXPECT_FALSE(glm_moe.rotary.interleaved);
  EXPECT_FALSE(glm_moe.add_qkv_bias);
  EXPECT_FALSE(glm_moe.qk_layernorm);
  EXPECT_TRUE(glm_moe.moe_router_enable_expert_bias);
  EXPECT_EQ(glm_moe.first_dense_layers, 1);
  EXPECT_EQ(glm_moe.moe_router_num_groups, 0);
  EXPECT_EQ(glm_moe.mtp_num_layers, 0);

  EXPECT_EQ(model_of("minimax_m2", kSmall).qk_layernorm_width, QkNormWidth::kAllHeads);
  EXPECT_EQ(model_of("olmoe", kSmall).qk_layernorm_width, QkNormWidth::kAllHeads);
  EXPECT_EQ(model_of("exaone4", kSmall).norm_placement, NormPlacement::kBehind);
  EXPECT_EQ(dropout_rates(model_of("seed_oss", kSmall)).hidden, 0.1);
  EXPECT_EQ(dropout_rates(model_of("seed_oss", kSmall)).embedding, 0.0);
  EXPECT_TRUE(model_of("seed_oss", kSmall + R"(, "attention_out_bias": true)").add_projection_bias);
  EXPECT_TRUE(model_of("ernie4_5", kSmall + R"(, "use_bias": true)").add_bias_linear);
}

/// Returns a list of types of layers: "full_attention" for 'f', else `windowed`.
std::string types_of(const std::string& letters, const std::string& windowed) {
  std::string list;
  for (const char letter : letters) {
    list += (list.empty() ? "" : ", ") +
            ('"' + (letter == 'f' ? std::string("full_attention") : windowed) + '"');
  }
  return R"(, "layer_types": [)" + list + "]";
}

TEST(HuggingFaceTypes, KnowWhichLayersHaveWindowsAndPositions) {
  const TransformerConfig gemma =
      model_of("gemma3_text", kSmall + R"(, "sliding_window": 32, "rope_local_base_freq": 5000)");
  EXPECT_EQ(gemma.window_size, 32);
  EXPECT_EQ(gemma.window_attn_skip_freq, 6);
  EXPECT_EQ(gemma.rotary.base, 1e6);
  EXPECT_EQ(gemma.rotary.window_base, 5000.0);
  EXPECT_EQ(gemma.rotary.no_rope_freq, 0);
  EXPECT_EQ(gemma.attn_logit_softcapping, 0.0);
  const TransformerConfig new_gemma = model_of(
      "gemma3_text", kSmall + types_of("ssfssfss", "sliding_attention") + R"(, "rope_parameters":
      {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 20000},
       "sliding_attention": {"rope_type": "default", "rope_theta": 20000}})");
  EXPECT_EQ(new_gemma.window_attn_skip_freq, 3);
  EXPECT_EQ(new_gemma.rotary.scaling, RopeScaling::kLinear);
  EXPECT_EQ(new_gemma.rotary.window_base, 20000.0);  // which no scaling stretches

  const TransformerConfig command = model_of("cohere2", kSmall);
  EXPECT_EQ(command.window_size, 4096);
  EXPECT_EQ(command.window_attn_skip_freq, 4);
  EXPECT_EQ(command.rotary.no_rope_freq, 4);
  EXPECT_THAT(refused("cohere2", kSmall + types_of("ffssssss", "sliding_attention")),
              HasSubstr("layer_types: expected sliding_attention in the first layer"));

  const TransformerConfig exaone = model_of("exaone4", kSmall + R"(, "sliding_window": 32,
      "sliding_window_pattern": "LLLG")" + types_of("sssfsssf", "sliding_attention"));
  EXPECT_EQ(exaone.rotary.no_rope_freq, 4);
  const TransformerConfig whole = model_of("exaone4", kSmall + R"(, "sliding_window": null)");
  EXPECT_EQ(whole.window_size, 0);
  EXPECT_EQ(whole.rotary.no_rope_freq, 0);

  EXPECT_EQ(model_of("smollm3", kSmall).rotary.no_rope_freq, 4);
  EXPECT_EQ(model_of("smollm3", kSmall + R"(, "no_rope_layers": [1, 0, 1, 0, 1, 0, 1, 0])")
                .rotary.no_rope_freq,
            2);
  EXPECT_EQ(model_of("smollm3", kSmall + R"(, "no_rope_layers": [1, 1, 1, 1, 1, 1, 1, 1])")
                .rotary.no_rope_freq,
            0);
  EXPECT_EQ(model_of("smollm3", kSmall + R"(, "no_rope_layers": [0, 0, 0, 0, 0, 0, 0, 0])")
                .rotary.no_rope_freq,
            1);
  for (const char* layers : {"[0, 0, 1, 1, 1, 1, 1, 1]", "[1, 0, 0, 1, 1, 1, 1, 1]"}) {
    EXPECT_THAT(refused("smollm3", kSmall + R"(, "no_rope_layers": )" + layers),
                HasSubstr("no_rope_layers: expected rotary positions in all layers but every"));
  }
  EXPECT_THAT(refused("smollm3", kSmall + R"(, "no_rope_layers": [1, 0])"),
              HasSubstr("no_rope_layers: expected 8 layers, got 2"));

  const std::string llama4 = kSmall + R"(, "intermediate_size_mlp": 80)";
  const TransformerConfig chunked = model_of("llama4_text", llama4);
  EXPECT_EQ(chunked.window_size, 8192);
  EXPECT_TRUE(chunked.chunked_attention);
  EXPECT_EQ(chunked.window_attn_skip_freq, 4);
  EXPECT_EQ(chunked.rotary.no_rope_freq, 4);
  EXPECT_EQ(chunked.qk_layernorm_width, QkNormWidth::kWeightless);
  EXPECT_EQ(chunked.ffn_hidden_size, 80);
  EXPECT_EQ(chunked.moe_ffn_hidden_size, 96);
  EXPECT_EQ(chunked.moe_shared_expert_intermediate_size, 96);
  EXPECT_FALSE(
      model_of("llama4_text", llama4 + R"(, "attention_chunk_size": null)").chunked_attention);
  const TransformerConfig listed = model_of("llama4_text", llama4 + R"(, "moe_layers": [1, 4, 7])");
  EXPECT_EQ(listed.first_dense_layers, 1);
  EXPECT_EQ(listed.moe_layer_freq, 3);
  for (const char* layers : {"[]", "[1, 4]", "[1, 2, 7]", "[4, 4]", "[5, 2]"}) {
    EXPECT_THAT(refused("llama4_text", llama4 + R"(, "moe_layers": )" + layers),
                HasSubstr("moe_layers: expected"))
        << layers;
  }
}

TEST(HuggingFaceTypes, RefuseWhatTheirFieldsCannotSay) {
  struct Row {
    std::string type;
    std::string keys;
    std::string message;
  };
  for (const Row& row : std::vector<Row>{
           {"opt",
            R"("layerdrop": 0.1, "hidden_size": 64, "ffn_dim": 64,
               "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9)",
            "layerdrop: expected 0"},
           {"opt", R"("do_layer_norm_before": false, "hidden_size": 64, "ffn_dim": 64,
               "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9)",
            "do_layer_norm_before: expected true"},
           {"opt", R"("word_embed_proj_dim": 32, "hidden_size": 64, "ffn_dim": 64,
               "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 9)",
            "word_embed_proj_dim: expected hidden_size, 64"},
           {"mpt", mpt(2, 64, 4, R"(, "kv_n_heads": 1)"),
            "attn_config.\"kv_n_heads\": unknown key"},
           {"bloom", R"("apply_residual_connection_post_layernorm": true, "n_layer": 2,
               "n_embed": 64, "n_head": 4, "vocab_size": 9)",
            "apply_residual_connection_post_layernorm: expected false"},
           {"falcon", falcon(2, 64, 4, 9, R"("num_ln_in_parallel_attn": 2)"),
            "num_ln_in_parallel_attn: expected 1"},
           {"dbrx", R"("d_model": 64, "n_heads": 4, "n_layers": 2, "vocab_size": 9)",
            "attn_config: missing"},
           {"cohere", kSmall + R"(, "use_parallel_block": false)",
            "use_parallel_block: expected true"},
           {"cohere2", kSmall + R"(, "head_dim": 8)",
            "head_dim: expected hidden_size / num_attention_heads"},
           {"cohere2", kSmall + R"(, "sliding_window": null)", "sliding_window: expected a window"},
           {"gemma3_text", kSmall + R"(, "sliding_window": null)",
            "sliding_window: expected a window"},
           {"gemma3_text", kSmall + R"(, "rope_parameters": {"sliding_attention":
               {"rope_type": "linear", "factor": 2.0}})",
            "rope_parameters.sliding_attention.rope_type: expected default in layers with a "
            "window"},
           {"smollm3", kSmall + R"(, "use_sliding_window": true)",
            "use_sliding_window: expected false"},
           {"smollm3", kSmall + types_of("sfffffff", "sliding_attention"),
            "layer_types: expected full_attention"},
           {"llama4_text", kSmall, "intermediate_size_mlp: missing"},
           {"llama4_text",
            kSmall + R"(, "intermediate_size_mlp": 80)" + types_of("sfffffff", "sliding_attention"),
            "layer_types: expected full_attention in the first layers and chunked_attention"},
           {"minimax_m2", kSmall + R"(, "attn_type_list": [1, 0, 1, 1, 1, 1, 1, 1])",
            "attn_type_list: expected 1 for each layer"},
           {"minimax_m2", kSmall + R"(, "use_qk_norm": false)", "use_qk_norm: expected true"},
           {"exaone4", kSmall + R"(, "attention_bias": true)", "attention_bias: expected false"}}) {
    EXPECT_THAT(refused(row.type, row.keys), HasSubstr("config.json: " + row.message)) << row.keys;
  }
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"attn_type", "\"multiquery_attention\""},
                                                        {"clip_qkv", "6"},
                                                        {"softmax_scale", "0.5"},
                                                        {"prefix_lm", "true"},
                                                        {"qk_ln", "true"},
                                                        {"alibi", "false"},
                                                        {"alibi_bias_max", "16"}}) {
    EXPECT_THAT(refused("mpt", R"("n_layers": 2, "d_model": 64, "n_heads": 4, "vocab_size": 9,
        "attn_config": {)" + std::string("\"").append(key).append("\": ").append(value) +
                                   "}"),
                HasSubstr("config.json: attn_config." + key + ": expected"));
  }
}

// A type with layers that no field says is refused by what it has.
TEST(HuggingFaceTypes, AreRefusedByWhatTheyNeed) {
  EXPECT_EQ(refused("qwen3_next", kSmall),
            "config.json: model_type: \"qwen3_next\" has gated delta net layers, which are not "
            "read; describe it as ptdp.model/1 (profiles/README.md)");
  const std::string unknown = refused("gemma4_text", kSmall);
  EXPECT_THAT(unknown, HasSubstr("model_type: expected one of gpt2, gpt_bigcode, gpt_neox, opt, "));
  EXPECT_THAT(unknown, HasSubstr("got \"gemma4_text\"; did you mean \"gemma3_text\""));
  EXPECT_THAT(unknown, EndsWith("; describe it as ptdp.model/1 (profiles/README.md)"));
}

ModelProfile found(const std::string& keys) {
  const TemporaryDirectory directory;
  return find_model(
      directory.file("config.json", R"({"model_type": "llama", )" + keys + "}").string());
}

// A key that nobody knows is passed over with a warning, unless it looks like one that is known, or
// its name may say a part of the shape.
TEST(HuggingFaceTypes, WarnOfKeysThatNobodyKnows) {
  EXPECT_THAT(found(kSmall).warnings, IsEmpty());
  EXPECT_THAT(found(kSmall + R"(, "my_company_tag": {"a": [1]}, "license": "apache")").warnings,
              ElementsAre(EndsWith("config.json: \"license\": unknown key, ignored"),
                          EndsWith("config.json: \"my_company_tag\": unknown key, ignored")));
  for (const auto& [key, hint] : std::vector<std::pair<std::string, std::string>>{
           {"rope_teta", "; did you mean \"rope_theta\"?"},
           {"torch_dtyp", "; did you mean \"torch_dtype\"?"},
           {"num_experts", "; did you mean \"num_experts_per_group\"?"},
           {"full_attn_interval", ""},
           {"linear_conv_kernel_dim", ""},
           {"n_gram", ""}}) {
    EXPECT_THAT(
        message_of([&, key = key] {
          return found(kSmall + std::string(", \"").append(key).append("\": 4"));
        }),
        EndsWith(
            std::string("config.json: \"").append(key).append("\": unknown key").append(hint)));
  }
  // Weights are trained on by what is executed exactly: there nothing is passed over.
  EXPECT_THAT(refused("llama", kSmall + R"(, "my_company_tag": 1)"),
              HasSubstr("\"my_company_tag\": unknown key"));
}

TEST(HuggingFaceTypes, SayWhichPartWasRead) {
  const TemporaryDirectory directory;
  const auto file =
      directory.file("config.json", R"({"model_type": "gemma3", "site": 1, )" +
                                        seeing("gemma3", kSmall + R"(, "project": "x")") + "}");
  const ModelProfile model = find_model(file.string());
  EXPECT_THAT(model.assumptions,
              ElementsAre("model: the part of its config.json that reads text; vision_config is "
                          "left out"));
  EXPECT_THAT(model.warnings,
              ElementsAre(EndsWith("config.json: text_config.\"project\": unknown key, ignored"),
                          EndsWith("config.json: \"site\": unknown key, ignored")));
  EXPECT_THAT(found(kSmall).assumptions, IsEmpty());
}

// A file of a written type cannot say what these types have beside Llama's fields.
TEST(HuggingFaceTypes, AreNotWrittenAsOthers) {
  const auto unsaid = [](const std::string& type, const std::string& keys, const std::string& as) {
    const auto field = unsaid_in_huggingface_config(model_of(type, keys), as);
    return field ? field->field : std::string("nothing");
  };
  EXPECT_EQ(unsaid("opt", opt(2, 64, 4), "gpt2"), "max_position_embeddings");
  EXPECT_EQ(unsaid("falcon", falcon(2, 64, 4, 128, R"("multi_query": true)"), "gpt_neox"),
            "num_query_groups");
  EXPECT_EQ(unsaid("smollm3", kSmall, "llama"), "no_rope_freq");
  EXPECT_EQ(unsaid("ernie4_5", kSmall, "llama"), "rotary_interleaved");
  const std::string sizes_of_gemma = kSmall + R"(, "sliding_window": 32)";
  TransformerConfig gemma = model_of("gemma2", sizes_of_gemma);
  EXPECT_FALSE(unsaid_in_huggingface_config(gemma, "gemma2"));
  gemma.rotary.window_base = 9.0;
  EXPECT_EQ(unsaid_in_huggingface_config(gemma, "gemma2")->field, "rotary_window_base");
  EXPECT_THAT(
      message_of([] { return unsaid_in_huggingface_config(model_of("cohere", kSmall), "cohere"); }),
      HasSubstr("expected one of llama, "));
}

}  // namespace
}  // namespace ptdp
