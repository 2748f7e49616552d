#include "planner/export/megatron/megatron_bridge_paths.h"

#include <array>

namespace ptdp {
namespace {

/// How Python spells what follows a flag.
enum class Spelling { kAsIs, kText, kTexts, kTrue, kFalse };

/// A flag of Megatron-LM and the path of its value. Some flags have two paths.
struct FlagPath {
  std::string_view flag;
  std::string_view path;
  Spelling spelling = Spelling::kAsIs;
};

constexpr std::array kFlagPaths = {
    FlagPath{"--num-layers", "model.num_layers"},
    FlagPath{"--hidden-size", "model.hidden_size"},
    FlagPath{"--ffn-hidden-size", "model.ffn_hidden_size"},
    FlagPath{"--num-attention-heads", "model.num_attention_heads"},
    FlagPath{"--kv-channels", "model.kv_channels"},
    FlagPath{"--num-query-groups", "model.num_query_groups"},
    FlagPath{"--multi-latent-attention", "model.multi_latent_attention", Spelling::kTrue},
    FlagPath{"--q-lora-rank", "model.q_lora_rank"},
    FlagPath{"--kv-lora-rank", "model.kv_lora_rank"},
    FlagPath{"--qk-head-dim", "model.qk_head_dim"},
    FlagPath{"--qk-pos-emb-head-dim", "model.qk_pos_emb_head_dim"},
    FlagPath{"--v-head-dim", "model.v_head_dim"},
    FlagPath{"--qk-layernorm", "model.qk_layernorm", Spelling::kTrue},
    FlagPath{"--window-size", "model.window_size"},
    FlagPath{"--window-attn-skip-freq", "model.window_attn_skip_freq"},
    FlagPath{"--seq-length", "model.seq_length"},
    FlagPath{"--seq-length", "dataset.seq_length"},
    FlagPath{"--vocab-size", "tokenizer.vocab_size"},
    FlagPath{"--make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by"},
    FlagPath{"--position-embedding-type", "model.position_embedding_type", Spelling::kText},
    FlagPath{"--rotary-base", "model.rotary_base"},
    FlagPath{"--rotary-percent", "model.rotary_percent"},
    FlagPath{"--rotary-seq-len-interpolation-factor", "model.seq_len_interpolation_factor"},
    FlagPath{"--use-rope-scaling", "model.rope_scaling", Spelling::kTrue},
    FlagPath{"--rope-scaling-factor", "model.rope_scaling_factor"},
    FlagPath{"--rotary-scaling-factor", "model.rotary_scaling_factor"},
    FlagPath{"--mscale", "model.mscale"},
    FlagPath{"--mscale-all-dim", "model.mscale_all_dim"},
    FlagPath{"--yarn-original-max-position-embeddings",
             "model.yarn_original_max_position_embeddings"},
    FlagPath{"--yarn-beta-fast", "model.yarn_beta_fast"},
    FlagPath{"--yarn-beta-slow", "model.yarn_beta_slow"},
    FlagPath{"--apply-layernorm-1p", "model.layernorm_zero_centered_gamma", Spelling::kTrue},
    FlagPath{"--normalization", "model.normalization", Spelling::kText},
    FlagPath{"--norm-epsilon", "model.layernorm_epsilon"},
    FlagPath{"--init-method-std", "model.init_method_std"},
    FlagPath{"--swiglu", "model.gated_linear_unit", Spelling::kTrue},
    FlagPath{"--disable-bias-linear", "model.add_bias_linear", Spelling::kFalse},
    FlagPath{"--add-qkv-bias", "model.add_qkv_bias", Spelling::kTrue},
    FlagPath{"--untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights",
             Spelling::kFalse},
    FlagPath{"--deterministic-mode", "model.deterministic_mode", Spelling::kTrue},
    FlagPath{"--no-gradient-accumulation-fusion", "model.gradient_accumulation_fusion",
             Spelling::kFalse},
    FlagPath{"--attention-dropout", "model.attention_dropout"},
    FlagPath{"--hidden-dropout", "model.hidden_dropout"},
    FlagPath{"--mtp-num-layers", "model.mtp_num_layers"},
    FlagPath{"--num-experts", "model.num_moe_experts"},
    FlagPath{"--moe-router-topk", "model.moe_router_topk"},
    FlagPath{"--moe-ffn-hidden-size", "model.moe_ffn_hidden_size"},
    FlagPath{"--moe-layer-freq", "model.moe_layer_freq"},
    FlagPath{"--moe-shared-expert-intermediate-size", "model.moe_shared_expert_intermediate_size"},
    FlagPath{"--moe-shared-expert-gate", "model.moe_shared_expert_gate", Spelling::kTrue},
    FlagPath{"--moe-router-score-function", "model.moe_router_score_function", Spelling::kText},
    FlagPath{"--moe-router-enable-expert-bias", "model.moe_router_enable_expert_bias",
             Spelling::kTrue},
    FlagPath{"--moe-router-num-groups", "model.moe_router_num_groups"},
    FlagPath{"--moe-router-group-topk", "model.moe_router_group_topk"},
    FlagPath{"--moe-expert-capacity-factor", "model.moe_expert_capacity_factor"},
    FlagPath{"--moe-pad-expert-input-to-capacity", "model.moe_pad_expert_input_to_capacity",
             Spelling::kTrue},
    FlagPath{"--moe-grouped-gemm", "model.moe_grouped_gemm", Spelling::kTrue},
    FlagPath{"--moe-token-dispatcher-type", "model.moe_token_dispatcher_type", Spelling::kText},
    FlagPath{"--tensor-model-parallel-size", "model.tensor_model_parallel_size"},
    FlagPath{"--pipeline-model-parallel-size", "model.pipeline_model_parallel_size"},
    FlagPath{"--context-parallel-size", "model.context_parallel_size"},
    FlagPath{"--cp-comm-type", "model.cp_comm_type", Spelling::kText},
    FlagPath{"--expert-model-parallel-size", "model.expert_model_parallel_size"},
    FlagPath{"--expert-tensor-parallel-size", "model.expert_tensor_parallel_size"},
    FlagPath{"--sequence-parallel", "model.sequence_parallel", Spelling::kTrue},
    FlagPath{"--use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping", Spelling::kTrue},
    FlagPath{"--micro-batch-size", "train.micro_batch_size"},
    FlagPath{"--global-batch-size", "train.global_batch_size"},
    FlagPath{"--pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout",
             Spelling::kText},
    FlagPath{"--microbatch-group-size-per-virtual-pipeline-stage",
             "model.microbatch_group_size_per_vp_stage"},
    FlagPath{"--recompute-granularity", "model.recompute_granularity", Spelling::kText},
    FlagPath{"--recompute-modules", "model.recompute_modules", Spelling::kTexts},
    FlagPath{"--recompute-method", "model.recompute_method", Spelling::kText},
    FlagPath{"--recompute-num-layers", "model.recompute_num_layers"},
    FlagPath{"--use-distributed-optimizer", "ddp.use_distributed_optimizer", Spelling::kTrue},
    FlagPath{"--use-distributed-optimizer", "optimizer.use_distributed_optimizer", Spelling::kTrue},
    FlagPath{"--use-megatron-fsdp", "ddp.use_megatron_fsdp", Spelling::kTrue},
    FlagPath{"--use-megatron-fsdp", "dist.use_megatron_fsdp", Spelling::kTrue},
    FlagPath{"--data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy",
             Spelling::kText},
    FlagPath{"--ckpt-format", "checkpoint.ckpt_format", Spelling::kText},
    FlagPath{"--num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances"},
    FlagPath{"--optimizer-cpu-offload", "optimizer.optimizer_cpu_offload", Spelling::kTrue},
    FlagPath{"--optimizer-offload-fraction", "optimizer.optimizer_offload_fraction"},
    FlagPath{"--use-precision-aware-optimizer", "optimizer.use_precision_aware_optimizer",
             Spelling::kTrue},
    FlagPath{"--cpu-offloading-num-layers", "model.cpu_offloading_num_layers"},
    FlagPath{"--no-masked-softmax-fusion", "model.masked_softmax_fusion", Spelling::kFalse},
    FlagPath{"--fp8-format", "mixed_precision.fp8", Spelling::kText},
    FlagPath{"--fp8-recipe", "mixed_precision.fp8_recipe", Spelling::kText},
    FlagPath{"--fp4-format", "mixed_precision.fp4", Spelling::kText},
    FlagPath{"--fp4-recipe", "mixed_precision.fp4_recipe", Spelling::kText}};

std::string text_literal(const std::string& text) {
  return '"' + text + '"';
}

std::string spelled_value(const MegatronArgument& argument, Spelling spelling) {
  switch (spelling) {
    case Spelling::kAsIs:
      return argument.values.front();
    case Spelling::kText:
      return text_literal(argument.values.front());
    case Spelling::kTexts: {
      std::string words = argument.values.front();
      for (std::size_t at = 0; (at = words.find(' ', at)) != std::string::npos; at += 4) {
        words.replace(at, 1, "\", \"");
      }
      return "[" + text_literal(words) + "]";
    }
    case Spelling::kTrue:
      return "True";
    case Spelling::kFalse:
      return "False";
  }
  return "";
}

}  // namespace

std::vector<BridgeSetting> bridge_paths(const MegatronArgument& argument) {
  std::vector<BridgeSetting> settings;
  for (const FlagPath& row : kFlagPaths) {
    if (row.flag == argument.flag) {
      settings.push_back(
          {argument.part, std::string(row.path), spelled_value(argument, row.spelling)});
    }
  }
  return settings;
}

}  // namespace ptdp
