// Megatron-LM's arguments under the names that Megatron-Bridge has for them, as a Python file.
#include "planner/export/megatron/megatron_bridge_config.h"

#include <fmt/format.h>

#include <array>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_layer.h"
#include "planner/export/megatron/megatron_arguments.h"

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
    FlagPath{"--normalization", "model.normalization", Spelling::kText},
    FlagPath{"--norm-epsilon", "model.layernorm_epsilon"},
    FlagPath{"--init-method-std", "model.init_method_std"},
    FlagPath{"--swiglu", "model.gated_linear_unit", Spelling::kTrue},
    FlagPath{"--disable-bias-linear", "model.add_bias_linear", Spelling::kFalse},
    FlagPath{"--add-qkv-bias", "model.add_qkv_bias", Spelling::kTrue},
    FlagPath{"--untie-embeddings-and-output-weights", "model.share_embeddings_and_output_weights",
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
    FlagPath{"--fp8-format", "mixed_precision.fp8", Spelling::kText},
    FlagPath{"--fp8-recipe", "mixed_precision.fp8_recipe", Spelling::kText}};

std::string text_literal(const std::string& text) {
  return '"' + text + '"';
}

std::string_view python(bool value) {
  return value ? "True" : "False";
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

/// Adds what Megatron-LM's program derives from its flags, and Bridge does not.
void add_model(const Plan& plan, std::vector<BridgeSetting>& settings) {
  const TransformerConfig& model = plan.scenario.job.model;
  // Bridge pads a vocabulary only if the tokenizer says its size: here the plan does.
  settings.push_back({"vocabulary, padded", "model.vocab_size",
                      std::to_string(padded_vocab_size(model, plan.config.tp))});
  const bool is_tanh = model.activation_func == Activation::kTanhGelu;
  const bool is_relu2 = model.activation_func == Activation::kSquaredRelu;
  settings.push_back({"activation", "model.activation_func",
                      model.gated_linear_unit             ? "\"silu\""
                      : is_relu2                          ? "\"squared_relu\""
                      : is_tanh && !model.add_bias_linear ? "\"fast_gelu\""
                                                          : "\"gelu\""});
  // The fused kernel of bias and gelu is the tanh form; alone, gelu is exact.
  settings.push_back(
      {"activation", "model.bias_activation_fusion",
       std::string(python(model.gated_linear_unit || (is_tanh && model.add_bias_linear)))});
  settings.push_back({"fused kernels", "model.bias_dropout_fusion", "True"});
  settings.push_back({"fused kernels", "model.persist_layer_norm", "True"});
  if (model.position_embedding == PositionEmbedding::kRope && !has_latent_attention(model)) {
    settings.push_back({"fused kernels", "model.apply_rope_fusion", "True"});
  }
  if (has_latent_attention(model) && model.q_lora_rank == 0) {
    settings.push_back({"latent attention", "model.q_lora_rank", "None"});
  }
  if (model.moe_router_topk == 1 && !model.moe_router_enable_expert_bias) {
    settings.push_back({"router", "model.moe_router_pre_softmax", "True"});
  }
  const bool has_dense_layers = has_experts(model) && num_expert_layers(model) < model.num_layers;
  if (has_dense_layers) {
    // The provider's own layers are all alike.
    settings.push_back({"layers with experts", "model.transformer_layer_spec",
                        "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)"});
  }
  settings.push_back({"attention kernel", "model.attention_backend",
                      fmt::format("AttnBackend.{}", megatron_attention_backend(plan))});
}

void add_precision(const Plan& plan, std::vector<BridgeSetting>& settings) {
  const StackSpec& stack = plan.scenario.stack;
  settings.push_back(
      {"sums of gradients", "mixed_precision.grad_reduce_in_fp32",
       std::string(python(stack.precision == Precision::kBf16 ? !has_bf16_gradients(stack)
                                                              : stack.gradient_bytes >= 4.0))});
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe == nullptr) {
    return;
  }
  const bool gathers = gathers_fp8_weights(plan);
  settings.push_back({"8 bits", "mixed_precision.fp8_param_gather", std::string(python(gathers))});
  if (gathers && recipe->scaling == Fp8Scaling::kMx) {
    settings.push_back({"8 bits", "mixed_precision.reuse_grad_buf_for_mxfp8_param_ag", "True"});
  }
}

/// Adds every overlap, on or off: what is left out, Bridge decides.
void add_overlap(const Plan& plan, std::vector<BridgeSetting>& settings) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const auto add = [&](const char* part, const char* path, bool value) {
    settings.push_back({part, path, std::string(python(value))});
  };
  const bool reduces = overlaps_reduction(stack, config.pp);
  const bool gathers = config.zero_stage > 0 && overlaps_gathering(stack, config.pp);
  // Megatron-FSDP has a unit of its own for each layer.
  if (reduces && config.zero_stage < 2) {
    const std::string elements =
        fmt::format("{:.0f}", stack.gradient_bucket_size.value() / stack.reduced_gradient_bytes);
    settings.push_back({"size of a reduction", "ddp.bucket_size", elements});
    settings.push_back({"size of a reduction", "comm_overlap.bucket_size", elements});
  }
  const bool sends = megatron_overlaps_messages(plan);
  add("reductions behind backward passes", "ddp.overlap_grad_reduce", reduces);
  add("reductions behind backward passes", "comm_overlap.overlap_grad_reduce", reduces);
  add("gathers behind forward passes", "ddp.overlap_param_gather", gathers);
  add("gathers behind forward passes", "comm_overlap.overlap_param_gather", gathers);
  add("messages beside compute", "comm_overlap.overlap_p2p_comm", sends);
  add("messages beside compute", "comm_overlap.batch_p2p_comm", config.pp > 1 && !sends);
  add("collectives within products", "comm_overlap.tp_comm_overlap",
      config.sequence_parallel && config.tp > 1 &&
          stack.tp_comm_overlap == TpCommOverlap::kUserBuffers);
  add("experts' messages behind compute", "comm_overlap.overlap_moe_expert_parallel_comm",
      hides_dispatch(plan.scenario, config));
}

constexpr std::string_view kHead = R"(import sys
from functools import partial  # noqa: F401

import torch  # noqa: F401
from megatron.bridge.models.gpt_provider import GPTModelProvider  # noqa: F401
from megatron.bridge.models.mla_provider import MLAModelProvider  # noqa: F401
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    DistributedInitConfig,
    GPTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    RNGConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.mixed_precision import (
    MixedPrecisionConfig,  # noqa: F401
    get_mixed_precision_config,  # noqa: F401
)
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec  # noqa: F401
from megatron.core.transformer.enums import AttnBackend

# Everything that the plan decides.
SETTINGS = {
)";

/// A run of 20 steps on made-up data, which users replace. {0} is the model's provider, {1} the
/// precision, {2} the sequence length and {3} the environment.
constexpr std::string_view kTail = R"(}}


def plan_config(overrides=()) -> ConfigContainer:
    """Returns the plan's configuration, for 20 steps on made-up data, with PATH=VALUE over it."""
    cfg = ConfigContainer(
        model={0}(),
        train=TrainingConfig(train_iters=20),
        validation=ValidationConfig(eval_iters=0),
        optimizer=OptimizerConfig(
            optimizer="adam", lr=1e-4, min_lr=1e-5, weight_decay=0.1, clip_grad=1.0
        ),
        scheduler=SchedulerConfig(lr_decay_style="cosine"),
        ddp=DistributedDataParallelConfig(),
        dist=DistributedInitConfig(),
        dataset=GPTDatasetConfig(
            seq_length={2},
            random_seed=1234,
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            dataloader_type="single",
            split="99,1,0",
        ),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer"),
        logger=LoggerConfig(log_interval=1, log_throughput=True),
        checkpoint=CheckpointConfig(),
        rng=RNGConfig(seed=1234),
        mixed_precision={1},
        comm_overlap=CommOverlapConfig(tp_comm_overlap=False),
        env_vars={{{3}}},
    )
    for path, value in SETTINGS.items():
        group, name = path.split(".")
        if not hasattr(getattr(cfg, group), name):
            raise AttributeError(f"this Megatron-Bridge has no {{path}}")
        setattr(getattr(cfg, group), name, value)
    cfg = process_config_with_overrides(cfg, cli_overrides=list(overrides))
    if cfg.model.window_size is not None:
        cfg.model.window_size = tuple(cfg.model.window_size)  # overrides know lists only
    return cfg


if __name__ == "__main__":
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(plan_config(sys.argv[1:]), forward_step)
)";

std::string precision(const StackSpec& stack) {
  return stack.precision == Precision::kBf16   ? "get_mixed_precision_config(\"bf16_mixed\")"
         : stack.precision == Precision::kFp16 ? "get_mixed_precision_config(\"fp16_mixed\")"
                                               : "MixedPrecisionConfig(fp32=True, "
                                                 "params_dtype=torch.float32, "
                                                 "pipeline_dtype=torch.float32)";
}

}  // namespace

std::vector<BridgeSetting> bridge_settings(const Plan& plan) {
  std::vector<BridgeSetting> settings;
  for (const auto& list : {megatron_model_arguments(plan), megatron_plan_arguments(plan)}) {
    for (const MegatronArgument& argument : list) {
      for (const FlagPath& row : kFlagPaths) {
        if (row.flag == argument.flag) {
          settings.push_back(
              {argument.part, std::string(row.path), spelled_value(argument, row.spelling)});
        }
      }
    }
  }
  if (plan.config.vpp > 1) {
    settings.push_back({"interleaved schedule", "model.virtual_pipeline_model_parallel_size",
                        std::to_string(plan.config.vpp)});
  }
  if (offloads_activations(plan.config.offload)) {
    settings.push_back({"activations on the host", "model.cpu_offloading", "True"});
  }
  add_model(plan, settings);
  add_precision(plan, settings);
  add_overlap(plan, settings);
  return settings;
}

std::string bridge_python_file(const Plan& plan) {
  std::string text =
      fmt::format("\"\"\"{} on {} GPUs with Megatron-Bridge: {}.\"\"\"\n\n",
                  plan.scenario.job.model_name, plan.config.world_size(), to_string(plan.config));
  text += kHead;
  for (const BridgeSetting& setting : bridge_settings(plan)) {
    text += fmt::format("    \"{}\": {},\n", setting.path, setting.value);
  }
  std::string environment;
  for (const auto& [name, value] : megatron_environment(plan)) {
    environment += fmt::format(R"({}"{}": "{}")", environment.empty() ? "" : ", ", name, value);
  }
  const TransformerConfig& model = plan.scenario.job.model;
  return text + fmt::format(fmt::runtime(kTail),
                            has_latent_attention(model) ? "MLAModelProvider" : "GPTModelProvider",
                            precision(plan.scenario.stack), model.seq_length, environment);
}

}  // namespace ptdp
