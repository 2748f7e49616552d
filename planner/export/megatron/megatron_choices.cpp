#include "planner/export/megatron/megatron_choices.h"

#include "planner/export/exporter.h"

namespace ptdp {

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
  const Precision precision = plan.scenario.stack.precision;
  if (precision == Precision::kFp32) {
    // TransformerEngine multiplies fp32 numbers in TF32 unless cuBLAS is told not to.
    variables.emplace_back("NVIDIA_TF32_OVERRIDE", "0");
  } else if (precision == Precision::kTf32) {
    // PyTorch's own products, the logits among them, are in fp32 unless it is told otherwise.
    variables.emplace_back("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1");
  }
  if (plan.scenario.stack.deterministic) {
    // What megatron/training/determinism.py sets where nothing is set.
    variables.emplace_back("NCCL_ALGO", "Ring");
    variables.emplace_back("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0");
    variables.emplace_back("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  }
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

bool has_bf16_gradients(const StackSpec& stack) {
  return stack.gradient_bytes == 2.0 && stack.reduced_gradient_bytes == 2.0;
}

bool gathers_fp8_weights(const Plan& plan) {
  const Fp8Recipe* recipe = fp8_recipe(plan.scenario.stack);
  return recipe != nullptr && plan.config.zero_stage > 0 &&
         (recipe->gathers_weights ||
          (recipe->scaling == Fp8Scaling::kMx && recipe->has_only_fp8_weights));
}

std::string_view megatron_cp_comm_type(ContextParallel kind) {
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

std::string_view megatron_fp8_recipe(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kDelayed:
      return "delayed";
    case Fp8Scaling::kCurrent:
      return "tensorwise";
    case Fp8Scaling::kBlock:
      return "blockwise";
    case Fp8Scaling::kMx:
      return "mxfp8";
    case Fp8Scaling::kNvfp4:
      return "nvfp4";
    case Fp8Scaling::kRowwise:
      return "";  // megatron_plan_refusals() refuses it
  }
  return "";
}

std::string bridge_mixed_precision(const StackSpec& stack) {
  return stack.precision == Precision::kBf16   ? "get_mixed_precision_config(\"bf16_mixed\")"
         : stack.precision == Precision::kFp16 ? "get_mixed_precision_config(\"fp16_mixed\")"
                                               : "MixedPrecisionConfig(fp32=True, "
                                                 "params_dtype=torch.float32, "
                                                 "pipeline_dtype=torch.float32)";
}

}  // namespace ptdp
