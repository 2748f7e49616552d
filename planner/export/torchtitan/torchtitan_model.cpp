#include "planner/export/torchtitan/torchtitan_model.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "cost_model/text/object_writer.h"
#include "planner/export/model_numerics.h"
#include "planner/export/torchtitan/torchtitan_template.h"

namespace ptdp {
namespace {

/// Returns the angles of rotary positions as arguments of torchtitan's RoPE.
std::string angles_text(const RotaryEmbedding& rotary) {
  std::string text = fmt::format("theta={}", rotary.base);
  if (rotary.scaling == RopeScaling::kLlama3) {
    text += fmt::format(
        ", scaling=\"llama\",\n        scaling_factor={}, low_freq_factor={}, "
        "high_freq_factor={},\n        original_max_position_embeddings={}",
        rotary.factor, rotary.low_freq_factor, rotary.high_freq_factor, rotary.original_seq_length);
  }
  return text;
}

/// Returns whether angles are those of torchtitan's DeepSeek-V3, or not stretched, which a note
/// tells apart.
bool has_deepseek_angles(const TransformerConfig& model) {
  const RotaryEmbedding& rotary = model.rotary;
  const double growth = yarn_growth(40.0);
  return rotary.scaling == RopeScaling::kNone
             ? model.query_pre_attn_scalar == 0.0
             : rotary.factor == 40.0 && rotary.original_seq_length == 4096 &&
                   rotary.beta_fast == 32.0 && rotary.beta_slow == 1.0 &&
                   rotary.attention_factor == 1.0 &&
                   is_close(model.query_pre_attn_scalar,
                            query_head_width(model) / std::pow(growth, 4.0));
}

/// Returns Python that registers a Llama 3 or Qwen 3 of the plan's sizes.
std::string shape_text(const TransformerConfig& model) {
  const bool is_qwen = model.qk_layernorm;
  std::string mlp = is_qwen ? fmt::format("head_dim={}, ", model.kv_channels) : "";
  std::string backends = is_qwen ? "" : ", tp_gemm_backend=\"default\"";
  if (has_experts(model)) {
    mlp += fmt::format(
        "moe_hidden_dim={}, num_experts={}, top_k={},\n"
        "            moe_comm_backend=moe_comm_backend",
        model.moe_ffn_hidden_size, model.num_experts, model.moe_router_topk);
    backends = ", moe_comm_backend=\"standard\"";
  } else {
    mlp += fmt::format("hidden_dim={}", model.ffn_hidden_size);
  }
  return fmt::format(
      kTorchtitanShape, fmt::arg("module", is_qwen ? "qwen3" : "llama3"),
      fmt::arg("backends", backends), fmt::arg("rope", is_qwen ? "CosSinRoPE" : "ComplexRoPE"),
      fmt::arg("model", is_qwen ? "Qwen3Model" : "Llama3Model"),
      fmt::arg("angles", angles_text(model.rotary)),
      fmt::arg("builder", !is_qwen             ? "_build_llama3_layers"
                          : has_experts(model) ? "_build_qwen3_moe_layers"
                                               : "_build_qwen3_layers"),
      fmt::arg("init", model.untied_embeddings ? "_EMBEDDING_INIT" : "_EMBEDDING_SKIP_INIT"),
      fmt::arg("head", model.kv_channels), fmt::arg("seq", model.seq_length),
      fmt::arg("hidden", model.hidden_size),
      fmt::arg("tied", model.untied_embeddings ? "False" : "True"),
      fmt::arg("layers", model.num_layers), fmt::arg("heads", model.num_attention_heads),
      fmt::arg("groups", model.num_query_groups), fmt::arg("mlp", mlp),
      fmt::arg("eps", model.layernorm_epsilon));
}

/// Returns whether sizes are those of DeepSeek-V3, whose shape torchtitan ships as 671B. Source:
/// torchtitan 0.3.0, models/deepseek_v3/__init__.py, _671b().
bool is_deepseek_v3(const TransformerConfig& model) {
  const std::array found = {model.num_layers,
                            model.hidden_size,
                            model.num_attention_heads,
                            model.ffn_hidden_size,
                            model.vocab_size,
                            model.q_lora_rank,
                            model.kv_lora_rank,
                            model.qk_head_dim,
                            model.qk_pos_emb_head_dim,
                            model.v_head_dim,
                            model.num_experts,
                            model.moe_router_topk,
                            model.moe_ffn_hidden_size,
                            model.moe_shared_expert_intermediate_size,
                            model.moe_router_num_groups,
                            model.moe_router_group_topk,
                            model.first_dense_layers,
                            model.moe_layer_freq};
  constexpr std::array published = {61,  7168, 128, 18432, 129280, 1536, 512, 128, 64,
                                    128, 256,  8,   2048,  2048,   8,    4,   3,   1};
  return found == published && model.moe_router_enable_expert_bias && model.untied_embeddings &&
         !model.moe_shared_expert_gate;
}

}  // namespace

std::vector<ExportRefusal> torchtitan_shape_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  std::vector<ExportRefusal> refusals;
  const auto refuse = [&](bool is_so, std::string field, std::string found, std::string instead) {
    if (is_so) {
      refusals.push_back({std::move(field), std::move(found), std::move(instead)});
    }
  };
  const bool has_experts_now = has_experts(model);
  refuse(model.position_embedding != PositionEmbedding::kRope &&
             !has_untold_positions(model),  // which are refused below
         "position_embedding",
         std::string(name_of(model.position_embedding,
                             NamedValues<PositionEmbedding>(kPositionEmbeddingNames))),
         "rope");
  refuse(model.normalization != Normalization::kRmsNorm, "normalization", "layer-norm", "rms-norm");
  refuse(!model.gated_linear_unit, "gated_linear_unit", "false", "true");
  refuse(model.add_bias_linear || model.add_qkv_bias || model.add_projection_bias ||
             model.add_mlp_bias,
         "add_bias_linear, or biases of some layers", "true", "no biases");
  refuse(has_dropout(model), "dropout", "true", "false");
  refuse(!model.scale_attn_weights || model.scale_attn_by_inverse_layer_idx,
         "scale_attn_weights or scale_attn_by_inverse_layer_idx", "other than usual",
         "scores over the root of a head's width");
  refuse(has_window(model), "window_size", std::to_string(model.window_size), "no window");
  refuse(model.moe_expert_capacity_factor > 0.0, "moe_expert_capacity_factor",
         fmt::format("{}", model.moe_expert_capacity_factor), "0: it drops no token");
  refuse(!model.untied_embeddings && plan.config.pp > 1, "pp", std::to_string(plan.config.pp),
         "1 with tied embeddings");
  const bool is_latent = has_latent_attention(model);
  for (ExportRefusal& refusal :
       numerics_refusals(model, {.rotary_base = !is_latent,
                                .llama3_scaling = !is_latent && !model.qk_layernorm,
                                .yarn_scaling = is_latent,
                                .query_pre_attn_scalar = is_latent})) {
    refusals.push_back(std::move(refusal));
  }
  if (is_latent) {
    refuse(!has_deepseek_angles(model), "rope_scaling", "other angles",
           "those of DeepSeek-V3: yarn by 40 from 4096 tokens");
    refuse(!is_deepseek_v3(model), "kv_lora_rank", std::to_string(model.kv_lora_rank),
           "latent attention in the sizes of DeepSeek-V3 alone");
    refuse(model.seq_length > 16384, "seq_length", std::to_string(model.seq_length),
           "at most 16384 with DeepSeek-V3");
    refuse(model.mtp_num_layers > 0 && (plan.config.pp > 1 || plan.config.cp > 1), "mtp_num_layers",
           std::to_string(model.mtp_num_layers), "0 with pipeline or context parallelism");
    return refusals;
  }
  refuse(model.mtp_num_layers > 0, "mtp_num_layers", std::to_string(model.mtp_num_layers), "0");
  refuse(has_experts_now && !model.qk_layernorm, "num_experts", std::to_string(model.num_experts),
         "experts in models like Qwen 3 (qk_layernorm) or DeepSeek-V3");
  refuse(
      has_experts_now && (model.moe_shared_expert_intermediate_size > 0 ||
                          model.first_dense_layers > 0 || model.moe_layer_freq != 1 ||
                          model.moe_router_enable_expert_bias || model.moe_router_num_groups > 0),
      "shared experts, dense layers, router biases or groups", "present",
      "none beside Qwen 3's routed experts");
  refuse(!model.qk_layernorm && model.kv_channels * model.num_attention_heads != model.hidden_size,
         "kv_channels", std::to_string(model.kv_channels),
         "hidden_size over heads without norms of queries and keys");
  refuse(model.num_query_groups % plan.config.tp != 0, "tp", std::to_string(plan.config.tp),
         fmt::format("a divisor of the {} key-value heads", model.num_query_groups));
  return refusals;
}

std::string torchtitan_python(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const bool is_deepseek = has_latent_attention(model);
  const std::string module = is_deepseek ? "deepseek_v3" : model.qk_layernorm ? "qwen3" : "llama3";
  const bool predicts_more = model.mtp_num_layers > 0;
  const std::string arguments =
      is_deepseek ? fmt::format("\"671B\", num_mtp_layers={}", model.mtp_num_layers) : "\"plan\"";
  return fmt::format("\"\"\"{} for torchtitan 0.3: --module torchtitan_plan.\"\"\"\n",
                     plan.scenario.job.model_name) +
         fmt::format(kTorchtitanHead, fmt::arg("module", module),
                     fmt::arg("vocab", model.vocab_size)) +
         (is_deepseek ? "" : shape_text(model)) +
         fmt::format(kTorchtitanTail, fmt::arg("module", module), fmt::arg("arguments", arguments),
                     fmt::arg("loss", predicts_more ? "deepseek_v3.mtp.MTPLoss.Config"
                                                    : "CrossEntropyLoss.Config"));
}

}  // namespace ptdp
