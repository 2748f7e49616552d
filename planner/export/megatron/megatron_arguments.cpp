#include "planner/export/megatron/megatron_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/layer/expert_layer.h"

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
    if (model.first_window_layer > 0) {
      arguments.add("layers with the window", "--window-attn-skip-freq",
                    python_list(ones_where(
                        model, [&](int layer) { return layer >= model.first_window_layer; })));
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

std::string_view cp_comm_type(ContextParallel kind) {
  switch (kind) {
    case ContextParallel::kRing:
      return "p2p";
    case ContextParallel::kAllGather:
      return "all_gather";
    case ContextParallel::kAllToAll:
      return "a2a";
  }
  return "";
}

std::string_view fp8_recipe_name(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kDelayed:
      return "delayed";
    case Fp8Scaling::kCurrent:
      return "tensorwise";
    case Fp8Scaling::kBlock:
      return "blockwise";
    case Fp8Scaling::kMx:
      return "mxfp8";
  }
  return "";
}

void add_schedule(const Plan& plan, ArgumentList& arguments) {
  const ParallelConfig& config = plan.config;
  if (needs_megatron_layout(plan)) {
    arguments.add("layers per stage", "--pipeline-model-parallel-layout", megatron_layout(plan));
  } else if (config.vpp > 1) {
    arguments.add("interleaved schedule", "--num-virtual-stages-per-pipeline-rank", config.vpp);
  }
  if (config.vpp > 1) {
    if (plan.schedule.microbatch_group_size != config.pp) {
      arguments.add("group of microbatches", "--microbatch-group-size-per-virtual-pipeline-stage",
                    plan.schedule.microbatch_group_size);
    }
    arguments.add_if(!megatron_overlaps_messages(plan), "messages wait for compute",
                     "--no-overlap-p2p-communication");
  }
}

void add_recomputation(const ParallelConfig& config, ArgumentList& arguments) {
  switch (repeats(config.recompute)) {
    case Repeats::kNothing:
      break;
    case Repeats::kModules: {
      MegatronArgument modules{"recomputation", "--recompute-modules"};
      for (const RecomputeModule module : config.recompute_modules.list()) {
        modules.values.push_back(to_string(RecomputeModules{module}));
      }
      arguments.add("recomputation", "--recompute-granularity", "selective");
      arguments.add(modules.part, modules.flag, fmt::format("{}", fmt::join(modules.values, " ")));
      break;
    }
    case Repeats::kLayer: {
      const bool is_block =
          config.recomputes_by_layers() && config.recompute_method == RecomputeMethod::kBlock;
      arguments.add("recomputation", "--recompute-granularity", "full");
      arguments.add("recomputation", "--recompute-method", is_block ? "block" : "uniform");
      arguments.add("recomputation", "--recompute-num-layers",
                    config.recomputes_by_layers() ? config.recompute_num_layers : 1);
      break;
    }
  }
}

void add_sharding(const Plan& plan, ArgumentList& arguments) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  if (config.zero_stage > 0) {
    arguments.add("ZeRO", "--use-distributed-optimizer");
  }
  if (config.zero_stage > 1) {
    arguments.add("ZeRO", "--use-megatron-fsdp");
    arguments.add("ZeRO", "--data-parallel-sharding-strategy",
                  config.zero_stage == 2 ? "optim_grads" : "optim_grads_params");
    arguments.add("ZeRO", "--ckpt-format", "fsdp_dtensor");
  } else if (config.dp_replicate > 1) {
    arguments.add("replicas of the shards", "--num-distributed-optimizer-instances",
                  config.dp_replicate);
  }
  if (overlaps_reduction(stack, config.pp)) {
    arguments.add("reductions behind backward passes", "--overlap-grad-reduce");
    arguments.add_if(config.zero_stage > 0 && overlaps_gathering(stack, config.pp),
                     "gathers behind forward passes", "--overlap-param-gather");
  }
  if (offloads_optimizer(config.offload)) {
    arguments.add("optimizer on the host", "--optimizer-cpu-offload");
    arguments.add("optimizer on the host", "--optimizer-offload-fraction", "1.0");
    arguments.add("optimizer on the host", "--use-precision-aware-optimizer");
  }
  if (offloads_activations(config.offload)) {
    const int all_but_last = plan.scenario.job.model.num_layers - 1;
    arguments.add("activations on the host", "--cpu-offloading-num-layers",
                  config.offload_num_layers > 0 ? config.offload_num_layers : all_but_last);
  }
}

void add_precision(const Plan& plan, ArgumentList& arguments) {
  const StackSpec& stack = plan.scenario.stack;
  arguments.add_if(stack.precision == Precision::kBf16, "precision", "--bf16");
  arguments.add_if(stack.precision == Precision::kFp16, "precision", "--fp16");
  arguments.add_if(stack.precision == Precision::kBf16 && has_bf16_gradients(stack),
                   "gradients in 2 bytes", "--grad-reduce-in-bf16");
  if (const Fp8Recipe* recipe = fp8_recipe(stack)) {
    arguments.add("8 bits", "--fp8-format", recipe->scaling == Fp8Scaling::kMx ? "e4m3" : "hybrid");
    arguments.add("8 bits", "--fp8-recipe", fp8_recipe_name(recipe->scaling));
    arguments.add_if(gathers_fp8_weights(plan), "8 bits", "--fp8-param-gather");
    arguments.add_if(recipe->scaling == Fp8Scaling::kMx && gathers_fp8_weights(plan) &&
                         plan.config.zero_stage == 1,
                     "8 bits", "--reuse-grad-buf-for-mxfp8-param-ag");
  }
}

}  // namespace

bool has_bf16_gradients(const StackSpec& stack) {
  return stack.gradient_bytes == 2.0 && stack.reduced_gradient_bytes == 2.0;
}

bool gathers_fp8_weights(const Plan& plan) {
  const Fp8Recipe* recipe = fp8_recipe(plan.scenario.stack);
  return recipe != nullptr && plan.config.zero_stage > 0 &&
         (recipe->gathers_weights ||
          (recipe->scaling == Fp8Scaling::kMx && recipe->has_only_fp8_weights));
}

std::string python_list(const std::vector<int>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size();) {
    const auto end = static_cast<std::size_t>(
        std::find_if(values.begin() + static_cast<std::ptrdiff_t>(i), values.end(),
                     [&](int value) { return value != values[i]; }) -
        values.begin());
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", values[i], end - i);
    i = end;
  }
  return "(" + text + ")";
}

std::string megatron_attention_backend(const Plan& plan) {
  const StackSpec& stack = plan.scenario.stack;
  if (stack.attention == "unfused") {
    return "unfused";
  }
  const bool has_flash =
      !has_latent_attention(plan.scenario.job.model) &&
      (stack.precision == Precision::kBf16 || stack.precision == Precision::kFp16);
  return !has_flash ? "auto" : stack.attention == "cudnn" ? "fused" : "flash";
}

bool megatron_overlaps_messages(const Plan& plan) {
  return plan.config.vpp > 1 && (plan.config.pp == 2 || plan.scenario.stack.pipeline_overlap >=
                                                            PipelineOverlap::kInterleaved);
}

std::vector<std::pair<std::string, std::string>> megatron_environment(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> variables = {
      {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  const ParallelConfig& config = plan.config;
  if (config.zero_stage > 1) {
    // Megatron-FSDP's collectives and products are launched side by side: 1 is refused.
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "8");
  } else if (has_blackwell(plan)) {
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  } else if (config.tp > 1 || config.cp > 1) {
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  }
  return variables;
}

bool needs_megatron_layout(const Plan& plan) {
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  return std::ranges::any_of(layers, [&](int count) { return count != layers.front(); });
}

std::string megatron_layout(const Plan& plan) {
  std::string text = "E";
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    text += stage > 0 ? "|" : "";
    text += layers[stage] > 0 ? fmt::format("t*{}", layers[stage]) : "";
  }
  const int modules = plan.scenario.job.model.mtp_num_layers;
  return text + (modules > 0 ? fmt::format("m*{}", modules) : "") + "L";
}

std::vector<MegatronArgument> megatron_model_arguments(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  ArgumentList arguments;
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
                : model.position_embedding == PositionEmbedding::kRope  ? "rope"
                                                                        : "none");
  arguments.add("norms", "--normalization",
                model.normalization == Normalization::kRmsNorm ? "RMSNorm" : "LayerNorm");
  arguments.add("norms", "--norm-epsilon", model.layernorm_epsilon);
  arguments.add("initial weights", "--init-method-std", model.init_method_std);
  arguments.add_if(model.gated_linear_unit, "gated MLP", "--swiglu");
  arguments.add_if(!model.gated_linear_unit && model.activation_func == Activation::kSquaredRelu,
                   "activation", "--squared-relu");
  arguments.add_if(!model.gated_linear_unit && model.add_bias_linear &&
                       model.activation_func == Activation::kSquaredRelu,
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

std::vector<MegatronArgument> megatron_plan_arguments(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  ArgumentList arguments;
  arguments.add("tensor parallel", "--tensor-model-parallel-size", config.tp);
  arguments.add("pipeline parallel", "--pipeline-model-parallel-size", config.pp);
  if (config.cp > 1) {
    arguments.add("context parallel", "--context-parallel-size", config.cp);
    arguments.add("context parallel", "--cp-comm-type", cp_comm_type(stack.context_parallel_kind));
  }
  if (has_experts(plan.scenario.job.model)) {
    arguments.add("expert parallel", "--expert-model-parallel-size", config.ep);
    arguments.add("expert tensor parallel", "--expert-tensor-parallel-size", config.etp);
  }
  arguments.add("microbatch", "--micro-batch-size", config.micro_batch_size);
  arguments.add("batch", "--global-batch-size", plan.scenario.job.global_batch_size);
  add_schedule(plan, arguments);
  add_recomputation(config, arguments);
  arguments.add_if(config.sequence_parallel, "sequence parallel", "--sequence-parallel");
  arguments.add_if(config.sequence_parallel &&
                       stack.tp_comm_overlap == TpCommOverlap::kUserBuffers && config.tp > 1,
                   "collectives within products", "--tp-comm-overlap");
  add_sharding(plan, arguments);
  if (config.rank_order == RankOrder::kTpCpEpPpDp) {
    arguments.add("order of ranks", "--use-tp-pp-dp-mapping");
    if (!has_experts(plan.scenario.job.model) && config.cp > 1) {
      // In this order Megatron-Core demands equal data-parallel sizes of experts and the rest, also
      // of models without experts, whose expert grid takes tp but not cp (parallel_state.py).
      arguments.add("order of ranks", "--expert-tensor-parallel-size", config.tp * config.cp);
    }
  }
  add_precision(plan, arguments);
  arguments.add_if(hides_dispatch(plan.scenario, config), "experts' messages behind compute",
                   "--overlap-moe-expert-parallel-comm");
  return arguments.take();
}

}  // namespace ptdp
