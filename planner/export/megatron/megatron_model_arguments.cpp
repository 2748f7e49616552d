// A model's shape as arguments of Megatron-LM's pretrain_gpt.py.
#include <fmt/format.h>

#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_layout.h"

namespace ptdp {
namespace {

/// Returns 1 for each layer for which `is_one` holds, else 0.
template <class Predicate>
std::vector<int> ones_where(const TransformerConfig& model, const Predicate& is_one) {
  std::vector<int> pattern;
  pattern.reserve(static_cast<std::size_t>(model.num_layers));
  for (int layer = 0; layer < model.num_layers; ++layer) {
    pattern.push_back(is_one(layer) ? 1 : 0);
  }
  return pattern;
}

void add_attention(const TransformerConfig& model, ArgumentList& arguments) {
  arguments.add("attention heads", "--num-attention-heads", model.num_attention_heads);
  if (has_latent_attention(model)) {
    arguments.add("latent attention", "--multi-latent-attention");
    if (model.q_lora_rank > 0) {
      arguments.add("latent attention", "--q-lora-rank", model.q_lora_rank);
    }
    arguments.add("latent attention", "--kv-lora-rank", model.kv_lora_rank);
    arguments.add("latent attention", "--qk-head-dim", model.qk_head_dim);
    arguments.add("latent attention", "--qk-pos-emb-head-dim", model.qk_pos_emb_head_dim);
    arguments.add("latent attention", "--v-head-dim", model.v_head_dim);
  } else {
    arguments.add("width of a head", "--kv-channels", model.kv_channels);
    if (model.num_query_groups != model.num_attention_heads) {
      arguments.add("key-value heads", "--group-query-attention");
      arguments.add("key-value heads", "--num-query-groups", model.num_query_groups);
    }
  }
  // Latent attention always norms its latents; Megatron-Core does so with this flag only.
  arguments.add_if(model.qk_layernorm || has_latent_attention(model), "norms of queries and keys",
                   "--qk-layernorm");
  if (has_window(model)) {
    // The window counts the tokens before a token; ours counts the token itself, too.
    arguments.add("window", "--window-size", fmt::format("({},0)", model.window_size - 1));
    if (model.first_window_layer > 0 || model.window_attn_skip_freq > 0) {
      arguments.add(
          "layers with the window", "--window-attn-skip-freq",
          python_list(ones_where(model, [&](int layer) { return has_window(model, layer); })));
    }
  }
}

void add_experts(const Plan& plan, ArgumentList& arguments) {
  const TransformerConfig& model = plan.scenario.job.model;
  if (!has_experts(model)) {
    return;
  }
  arguments.add("experts", "--num-experts", model.num_experts);
  arguments.add("experts of a token", "--moe-router-topk", model.moe_router_topk);
  arguments.add("width of an expert", "--moe-ffn-hidden-size", model.moe_ffn_hidden_size);
  arguments.add(
      "layers with experts", "--moe-layer-freq",
      python_list(ones_where(model, [&](int layer) { return has_experts(model, layer); })));
  if (model.moe_shared_expert_intermediate_size > 0) {
    arguments.add("shared experts", "--moe-shared-expert-intermediate-size",
                  model.moe_shared_expert_intermediate_size);
    arguments.add_if(model.moe_shared_expert_gate, "shared experts", "--moe-shared-expert-gate");
  }
  arguments.add_if(model.moe_router_topk == 1 && !model.moe_router_enable_expert_bias, "router",
                   "--moe-router-pre-softmax");
  if (model.moe_router_enable_expert_bias) {
    arguments.add("router", "--moe-router-score-function", "sigmoid");
    arguments.add("router", "--moe-router-enable-expert-bias");
  }
  if (model.moe_router_num_groups > 0) {
    arguments.add("router", "--moe-router-num-groups", model.moe_router_num_groups);
    arguments.add("router", "--moe-router-group-topk", model.moe_router_group_topk);
  }
  if (model.moe_expert_capacity_factor > 0.0) {
    arguments.add("capacity factor", "--moe-expert-capacity-factor",
                  model.moe_expert_capacity_factor);
    arguments.add("capacity factor", "--moe-pad-expert-input-to-capacity");
  }
  arguments.add("experts", "--moe-grouped-gemm");
  arguments.add(
      "dispatch of tokens", "--moe-token-dispatcher-type",
      plan.scenario.stack.expert_dispatch == ExpertDispatch::kAllGather ? "allgather" : "alltoall");
}

}  // namespace

std::vector<MegatronArgument> megatron_model_arguments(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  ArgumentList arguments;
  const bool is_plain_yarn =
      model.rotary.scaling == RopeScaling::kYarn && !has_latent_attention(model);
  arguments.add("layers", "--num-layers", model.num_layers);
  arguments.add("hidden size", "--hidden-size", model.hidden_size);
  arguments.add("width of the MLP", "--ffn-hidden-size", model.ffn_hidden_size);
  add_attention(model, arguments);
  arguments.add("sequence length", "--seq-length", model.seq_length);
  arguments.add("sequence length", "--max-position-embeddings", model.seq_length);
  arguments.add("vocabulary", "--vocab-size", model.vocab_size);
  arguments.add("vocabulary", "--make-vocab-size-divisible-by", 128);
  arguments.add("positions", "--position-embedding-type",
                model.position_embedding == PositionEmbedding::kLearned ? "learned_absolute"
                : model.position_embedding == PositionEmbedding::kNone  ? "none"
                : is_plain_yarn                                         ? "yarn"
                                                                        : "rope");
  add_megatron_positions(model, arguments);
  arguments.add("norms", "--normalization",
                model.normalization == Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  arguments.add("norms", "--norm-epsilon", model.layernorm_epsilon);
  arguments.add_if(model.layernorm_zero_centered_gamma, "norms", "--apply-layernorm-1p");
  arguments.add("initial weights", "--init-method-std", model.init_method_std);
  arguments.add_if(model.gated_linear_unit, "gated MLP", "--swiglu");
  arguments.add_if(!model.gated_linear_unit && activation_of(model) == Activation::kSquaredRelu,
                   "activation", "--squared-relu");
  arguments.add_if(!model.gated_linear_unit && model.add_bias_linear &&
                       activation_of(model) == Activation::kSquaredRelu,
                   "activation", "--no-bias-gelu-fusion");
  arguments.add_if(!model.add_bias_linear, "biases", "--disable-bias-linear");
  arguments.add_if(!model.add_bias_linear && model.add_qkv_bias, "biases", "--add-qkv-bias");
  arguments.add_if(model.untied_embeddings, "logits of their own",
                   "--untie-embeddings-and-output-weights");
  const DropoutRates dropout = dropout_rates(model);
  arguments.add("dropout", "--attention-dropout", dropout.attention);
  arguments.add("dropout", "--hidden-dropout", dropout.hidden);
  add_experts(plan, arguments);
  if (model.mtp_num_layers > 0) {
    arguments.add("predicts more tokens", "--mtp-num-layers", model.mtp_num_layers);
  }
  return arguments.take();
}

}  // namespace ptdp
