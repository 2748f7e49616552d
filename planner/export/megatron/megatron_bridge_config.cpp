// A plan as values of Megatron-Bridge's ConfigContainer, and as the Python file that sets them.
#include "planner/export/megatron/megatron_bridge_config.h"

#include <fmt/format.h>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_layer.h"
#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_bridge_paths.h"
#include "planner/export/megatron/megatron_bridge_template.h"
#include "planner/export/megatron/megatron_choices.h"

namespace ptdp {
namespace {

std::string_view python(bool value) {
  return value ? "True" : "False";
}

/// Adds what Megatron-LM's program derives from its flags, and Bridge does not.
void add_model(const Plan& plan, std::vector<BridgeSetting>& settings) {
  const TransformerConfig& model = plan.scenario.job.model;
  // Bridge pads a vocabulary only if the tokenizer says its size: here the plan does.
  settings.push_back({"vocabulary, padded", "model.vocab_size",
                      std::to_string(padded_vocab_size(model, plan.config.tp))});
  const bool is_fused = plan.scenario.stack.fused_element_wise;
  const bool is_tanh = activation_of(model) == Activation::kTanhGelu;
  const bool is_relu2 = activation_of(model) == Activation::kSquaredRelu;
  settings.push_back({"activation", "model.activation_func",
                      model.gated_linear_unit             ? "\"silu\""
                      : is_relu2                          ? "\"squared_relu\""
                      : is_tanh && !model.add_bias_linear ? "\"fast_gelu\""
                                                          : "\"gelu\""});
  // The fused kernel of bias and gelu is the tanh form; alone, gelu is exact.
  settings.push_back({"activation", "model.bias_activation_fusion",
                      std::string(python(is_fused && (model.gated_linear_unit ||
                                                      (is_tanh && model.add_bias_linear))))});
  settings.push_back({"fused kernels", "model.bias_dropout_fusion", std::string(python(is_fused))});
  settings.push_back({"fused kernels", "model.persist_layer_norm", "True"});
  if (plan.scenario.stack.deterministic) {
    // Bridge's own value is True, which it refuses in that mode.
    settings.push_back({"results that repeat", "model.cross_entropy_loss_fusion", "False"});
  }
  const bool is_yarn = model.rotary.scaling == RopeScaling::kYarn;
  if (is_yarn && !has_latent_attention(model)) {
    // Megatron-LM's program copies these from flags; the provider has no values of its own.
    settings.push_back({"rotary positions", "model.yarn_rotary_scaling_factor",
                        fmt::format("{}", model.rotary.factor)});
    settings.push_back({"rotary positions", "model.yarn_correction_range_round_to_int", "True"});
    settings.push_back({"rotary positions", "model.apply_rope_fusion", "False"});
    settings.push_back({"rotary positions", "model.yarn_mscale", "1.0"});
    settings.push_back({"rotary positions", "model.yarn_mscale_all_dim", "0.0"});
  } else if (model.position_embedding == PositionEmbedding::kRope && !has_latent_attention(model)) {
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
  if (bits_of(recipe->scaling) == 4) {
    settings.push_back(
        {"4 bits", "mixed_precision.fp4_param_gather", std::string(python(gathers))});
    return;
  }
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

}  // namespace

std::vector<BridgeSetting> bridge_settings(const Plan& plan) {
  std::vector<BridgeSetting> settings;
  for (const auto& list : {megatron_model_arguments(plan), megatron_plan_arguments(plan)}) {
    for (const MegatronArgument& argument : list) {
      for (BridgeSetting& setting : bridge_paths(argument)) {
        settings.push_back(std::move(setting));
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
  text += kBridgeHead;
  for (const BridgeSetting& setting : bridge_settings(plan)) {
    text += fmt::format("    \"{}\": {},\n", setting.path, setting.value);
  }
  std::string environment;
  for (const auto& [name, value] : megatron_environment(plan)) {
    environment += fmt::format(R"({}"{}": "{}")", environment.empty() ? "" : ", ", name, value);
  }
  const TransformerConfig& model = plan.scenario.job.model;
  return text + fmt::format(fmt::runtime(kBridgeTail),
                            has_latent_attention(model) ? "MLAModelProvider" : "GPTModelProvider",
                            bridge_mixed_precision(plan.scenario.stack), model.seq_length,
                            environment);
}

}  // namespace ptdp
