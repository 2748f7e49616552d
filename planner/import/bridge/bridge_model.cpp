// The model's shape in paths of Megatron-Bridge: fields of GPTModelProvider and MLAModelProvider.
#include <cmath>

#include "cost_model/text/in_quotes.h"
#include "cost_model/text/object_writer.h"
#include "planner/import/bridge/bridge.h"
#include "planner/import/megatron/megatron_layers.h"

namespace ptdp {
namespace {

bool has_true(const FlagList& paths, std::string_view path) {
  return paths.truth(path).value_or(false);
}

/// Reads attention. Unlike with Megatron-LM, a number of query groups needs no switch.
void read_bridge_attention(const FlagList& paths, TransformerConfig& model) {
  const int groups = paths.count("model.num_query_groups").value_or(0);
  const int width = paths.count("model.kv_channels").value_or(0);
  const int q_rank = paths.count("model.q_lora_rank", 0).value_or(512);
  const int kv_rank = paths.count("model.kv_lora_rank").value_or(512);
  const int head = paths.count("model.qk_head_dim").value_or(128);
  const int rotary = paths.count("model.qk_pos_emb_head_dim").value_or(64);
  const int value = paths.count("model.v_head_dim").value_or(128);
  if (has_true(paths, "model.multi_latent_attention")) {
    model.q_lora_rank = q_rank;
    model.kv_lora_rank = kv_rank;
    model.qk_head_dim = head;
    model.qk_pos_emb_head_dim = rotary;
    model.v_head_dim = value;
  } else {
    model.kv_channels = width;
    model.num_query_groups = groups;
  }
  // In latent attention the switch is about the norms of latents, which ptdp always has.
  model.qk_layernorm = has_true(paths, "model.qk_layernorm") && !has_latent_attention(model);
}

/// Reads the activation as Python or a run_config.yaml names it: "silu",
/// "torch.nn.functional.silu".
void read_bridge_activation(const FlagList& paths, TransformerConfig& model) {
  constexpr const char* function_path = "model.activation_func";
  constexpr const char* target_path = "model.activation_func._target_";
  const auto target = paths.text(target_path);
  const auto spelled = paths.text(function_path);
  std::string name = target ? *target : spelled.value_or("gelu");
  name = name.substr(name.rfind('.') + 1);
  model.gated_linear_unit = has_true(paths, "model.gated_linear_unit");
  // Fused with the bias, gelu is its tanh form; alone, it is exact.
  const bool is_fused = has_true(paths, "model.bias_activation_fusion");
  if (model.gated_linear_unit) {
    return;
  }
  if (name == "squared_relu") {
    model.activation_func = Activation::kSquaredRelu;
  } else if (name == "fast_gelu") {
    model.activation_func = Activation::kTanhGelu;
  } else if (name == "gelu") {
    model.activation_func = is_fused ? Activation::kTanhGelu : Activation::kGelu;
  } else if (name == "silu") {
    model.activation_func = Activation::kSilu;
  } else if (name == "relu") {
    model.activation_func = Activation::kRelu;
  } else {
    paths.refuse(target ? target_path : function_path,
                 "expected gelu, fast_gelu, squared_relu, silu or relu, got " + in_quotes(name));
  }
  if (model.activation_func == activation_of({.gated_linear_unit = false})) {
    model.activation_func = std::nullopt;  // what a model has that says none
  }
}

/// Reads YaRN's numbers, whose paths begin with `prefix`. A missing factor is `usual_factor`.
void read_bridge_yarn(const FlagList& paths, const std::string& prefix, double usual_factor,
                      TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  const double factor = paths.number(prefix + "rotary_scaling_factor").value_or(usual_factor);
  const int original = paths.count(prefix + "original_max_position_embeddings").value_or(4096);
  const double fast = paths.number(prefix + "beta_fast").value_or(32.0);
  const double slow = paths.number(prefix + "beta_slow").value_or(1.0);
  const double part = paths.number(prefix + "mscale").value_or(1.0);
  const double all = paths.number(prefix + "mscale_all_dim").value_or(0.0);
  const bool is_latent = has_latent_attention(model);
  if (is_latent && (paths.text("model.rope_type") == "rope" || factor <= 1.0)) {
    return;
  }
  rotary.scaling = RopeScaling::kYarn;
  rotary.factor = factor;
  rotary.original_seq_length = original;
  rotary.beta_fast = fast;
  rotary.beta_slow = slow;
  const double of_all = yarn_growth(factor, all);
  if (part != 1.0 || all != 0.0) {
    rotary.attention_factor = as_written(yarn_growth(factor, part) / of_all);
  }
  if (is_latent && all != 0.0) {
    model.query_pre_attn_scalar = as_written(query_head_width(model) / std::pow(of_all, 4.0));
  }
}

void read_bridge_norms_and_positions(const FlagList& paths, TransformerConfig& model) {
  constexpr const char* norm_path = "model.normalization";
  constexpr const char* positions_path = "model.position_embedding_type";
  const std::string norm = paths.text(norm_path).value_or("LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm") {
    paths.refuse(norm_path, "expected LayerNorm or RMSNorm, got " + in_quotes(norm));
  }
  model.normalization = norm == "RMSNorm" ? Normalization::kRmsNorm : Normalization::kLayerNorm;
  model.layernorm_epsilon = paths.number("model.layernorm_epsilon").value_or(1e-5);
  const std::string positions = paths.text(positions_path).value_or("learned_absolute");
  if (positions == "rope" || positions == "yarn" || positions == "mrope") {
    model.position_embedding = PositionEmbedding::kRope;
  } else if (positions == "none") {
    model.position_embedding = PositionEmbedding::kNone;
  } else if (positions != "learned_absolute") {
    paths.refuse(positions_path, "expected learned_absolute, rope, yarn, mrope or none, got " +
                                     in_quotes(positions));
  }
}

/// Reads the angles of rotary positions. All paths count as read, whether they have an effect.
void read_bridge_angles(const FlagList& paths, TransformerConfig& model) {
  RotaryEmbedding& rotary = model.rotary;
  const double base = paths.number("model.rotary_base").value_or(rotary.base);
  const double percent = paths.number("model.rotary_percent").value_or(rotary.percent);
  const auto interpolation = paths.number("model.seq_len_interpolation_factor");
  const bool is_llama3 = has_true(paths, "model.rope_scaling");
  const double factor = paths.number("model.rope_scaling_factor").value_or(1.0);
  if (model.position_embedding != PositionEmbedding::kRope) {
    return;
  }
  rotary.base = base;
  if (has_latent_attention(model)) {
    read_bridge_yarn(paths, "model.", 40.0, model);
    return;
  }
  rotary.percent = percent;
  if (paths.text("model.position_embedding_type") == "yarn") {
    read_bridge_yarn(paths, "model.yarn_", 1.0, model);
  } else if (is_llama3) {
    constexpr int sequence_of_llama3 = 8192;
    rotary.scaling = RopeScaling::kLlama3;
    rotary.factor = factor;
    rotary.original_seq_length = sequence_of_llama3;
  } else if (interpolation) {
    rotary.scaling = RopeScaling::kLinear;
    rotary.factor = *interpolation;
  }
}

void read_bridge_experts(const FlagList& paths, TransformerConfig& model) {
  const auto experts = paths.count("model.num_moe_experts");
  const int topk = paths.count("model.moe_router_topk").value_or(2);
  const int width = paths.count("model.moe_ffn_hidden_size").value_or(0);
  const int shared = paths.count("model.moe_shared_expert_intermediate_size", 0).value_or(0);
  const bool has_gate = has_true(paths, "model.moe_shared_expert_gate");
  const bool has_bias = has_true(paths, "model.moe_router_enable_expert_bias");
  const int groups = paths.count("model.moe_router_num_groups").value_or(0);
  const int group_topk = paths.count("model.moe_router_group_topk").value_or(0);
  const double capacity = paths.number("model.moe_expert_capacity_factor").value_or(0.0);
  if (!experts) {
    (void)paths.has("model.moe_layer_freq");
    return;
  }
  model.num_experts = *experts;
  model.moe_router_topk = topk;
  model.moe_ffn_hidden_size = width;
  model.moe_shared_expert_intermediate_size = shared;
  model.moe_shared_expert_gate = has_gate;
  model.moe_router_enable_expert_bias = has_bias;
  model.moe_router_num_groups = groups;
  model.moe_router_group_topk = group_topk;
  model.moe_expert_capacity_factor = capacity;
  read_expert_layers(paths, "model.moe_layer_freq", model);
}

/// Refuses layers that ptdp has not.
void refuse_other_layers(const FlagList& paths) {
  for (const char* path : {"model.is_hybrid_model", "model.heterogeneous_block_specs"}) {
    if (has_true(paths, path)) {
      paths.refuse(path, "expected layers of attention and MLP, got true");
    }
  }
  for (const char* path : {"model.hybrid_layer_pattern", "model.hybrid_override_pattern",
                           "model.experimental_attention_variant", "model.linear_attention_freq",
                           "model.moe_latent_size"}) {
    if (paths.has(path)) {
      paths.refuse(path, "expected layers of attention and MLP, got another kind");
    }
  }
}

}  // namespace

TransformerConfig bridge_model(const FlagList& paths, std::string& missing) {
  TransformerConfig model;
  const auto add_missing = [&](const std::string& path) {
    missing += (missing.empty() ? "" : ", ") + path;
  };
  const auto required = [&](const char* path) {
    const auto value = paths.count(path);
    if (!value) {
      add_missing(path);
    }
    return value.value_or(0);
  };
  refuse_other_layers(paths);
  model.num_layers = required("model.num_layers");
  model.hidden_size = required("model.hidden_size");
  model.num_attention_heads = required("model.num_attention_heads");
  model.seq_length = paths.count("model.seq_length").value_or(1024);
  // The tokenizer's size is the vocabulary; the model's is padded.
  const auto size = paths.count("tokenizer.vocab_size");
  const auto padded = paths.count("model.vocab_size");
  model.vocab_size = size ? *size : padded.value_or(0);
  if (model.vocab_size == 0) {
    add_missing("model.vocab_size");
  }
  read_bridge_activation(paths, model);
  model.ffn_hidden_size = paths.count("model.ffn_hidden_size").value_or(4 * model.hidden_size);
  read_bridge_attention(paths, model);
  read_window(paths, "model.window_size", "model.window_attn_skip_freq", model);
  read_bridge_norms_and_positions(paths, model);
  read_bridge_angles(paths, model);
  model.layernorm_zero_centered_gamma = has_true(paths, "model.layernorm_zero_centered_gamma");
  model.init_method_std = paths.number("model.init_method_std").value_or(0.02);
  model.add_bias_linear = paths.truth("model.add_bias_linear").value_or(true);
  model.add_qkv_bias = has_true(paths, "model.add_qkv_bias") && !model.add_bias_linear;
  model.untied_embeddings =
      !paths.truth("model.share_embeddings_and_output_weights").value_or(true);
  model.mtp_num_layers = paths.count("model.mtp_num_layers", 0).value_or(0);
  read_dropout(paths, "model.attention_dropout", "model.hidden_dropout", model);
  read_bridge_experts(paths, model);
  return model;
}

}  // namespace ptdp
