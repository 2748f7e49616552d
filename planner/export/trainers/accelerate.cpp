// Accelerate: FSDP2 or DDP over a Hugging Face model, and a program that trains it.
#include <fmt/format.h>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/parallel_config.h"
#include "planner/export/exporter.h"
#include "planner/export/refusals.h"
#include "planner/export/trainers/accelerate_files.h"
#include "planner/export/trainers/huggingface_model.h"
#include "planner/export/trainers/mock_programs.h"
#include "planner/export/trainers/model_support.h"
#include "planner/formatting.h"

namespace ptdp {

std::vector<ExportRefusal> accelerate_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  Refusals refusals;
  refusals.add(node_refusals(plan));
  refusals.add_if(stack.deterministic, "deterministic", "true", "a stack without it");
  refusals.add_if(config.pp > 1, "pp", config.pp, "1");
  refusals.add_if(config.ep > 1, "ep", config.ep, "1");
  refusals.add_if(config.vpp > 1, "vpp", config.vpp, "1");
  refusals.add_if(
      config.zero_stage == 1 || config.zero_stage == 2, "zero_stage", config.zero_stage,
      "3, with weights kept after forward passes if reshard_after_forward is false, or 0");
  refusals.add_if(config.zero_stage == 0 && (config.tp > 1 || config.cp > 1), "zero_stage", "0",
                  "3 with tensor or context parallelism");
  refusals.add_if(config.zero_stage == 3 && config.dp == config.dp_replicate &&
                      (config.cp == 1 || config.dp_replicate > 1),
                  "dp", config.dp, "ranks to shard over, dp above dp_replicate");
  refusals.add_if(config.cp > 1 && stack.context_parallel_kind == ContextParallel::kAllToAll, "cp",
                  config.cp, "1, or context parallelism by ring or all-gather");
  refusals.add_if(config.cp > 1 && model.seq_length % (2 * config.cp) != 0, "cp", config.cp,
                  fmt::format("2*cp dividing the sequence of {}", model.seq_length));
  refusals.add_if(config.cp > 1 && has_window(model), "cp", config.cp, "1 with a window");
  refusals.add_if(config.cp > 1 && has_dropout(model), "cp", config.cp, "1 with dropout");
  refusals.add_if(config.tp > 1 && config.sequence_parallel, "sequence_parallel", "true", "false");
  refusals.add_if(config.tp > 1 && !huggingface_type(model).splits_tensors, "tp", config.tp,
                  "1 with transformers' " + std::string(huggingface_type(model).name));
  refusals.add_if(config.tp > 1 && model.num_query_groups % config.tp != 0, "tp", config.tp,
                  fmt::format("a divisor of the {} key-value heads", model.num_query_groups));
  refusals.add_if(repeats(config.recompute) == Repeats::kModules, "recompute",
                  spelled(config.recompute), "none or full");
  refusals.add_if(repeats(config.recompute) == Repeats::kLayer && config.zero_stage != 3,
                  "recompute", spelled(config.recompute), "none without FSDP");
  refusals.add_if(
      config.recomputes_by_layers() &&
          (config.recompute_num_layers > 1 || config.recompute_method == RecomputeMethod::kBlock),
      "recompute_num_layers",
      fmt::format("{} ({})", config.recompute_num_layers, spelled(config.recompute_method)),
      "all layers, one at a time");
  refusals.add_if(config.offload != Offload::kNone, "offload", spelled(config.offload),
                  "none: FSDP2 sends weights and gradients to the host along with the optimizer");
  refusals.add_if(!trains_plainly(stack), "precision", linear_precision(stack),
                  "bf16, fp16 or fp32");
  refusals.add(huggingface_refusals(model));
  return refusals.take();
}

Export accelerate_export(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  Export result;
  result.files = {{"accelerate.yaml", accelerate_yaml(plan)},
                  {"batch.json", accelerate_batch(plan)},
                  {"model.json", huggingface_json(plan.scenario.job.model)},
                  {"train.py", std::string(kAccelerateTrain)},
                  {"launch.sh", accelerate_launch(plan)}};
  result.expressed = {
      {"data parallel", shards_weights(config) ? "parallelism_config_dp_shard_size"
                                               : "num_processes, distributed_type: MULTI_GPU"},
      {"replicas of the shards", "parallelism_config_dp_replicate_size"},
      {"tensor parallel", "parallelism_config_tp_size"},
      {"context parallel", "parallelism_config_cp_size, parallelism_config_cp_comm_strategy"},
      {"ZeRO", "fsdp_config, fsdp_reshard_after_forward"},
      {"recomputation", "fsdp_activation_checkpointing"},
      {"precision", "mixed_precision"},
      {"microbatch and batch", "micro_batch_size, gradient_accumulation_steps"},
      {"model", "model.json"}};
  result.differences = uncovered_parts(plan);
  result.differences.emplace_back(
      "Accelerate keeps weights, gradients and optimizer states in fp32; mixed precision casts "
      "what "
      "products read.");
  if (config.tp > 1) {
    result.differences.emplace_back(
        "transformers splits the matrices of layers and of logits; embeddings are whole on every "
        "GPU, and logits are gathered before the loss.");
  }
  if (plan.scenario.stack.attention != "unfused") {
    result.differences.emplace_back("Attention is torch's scaled_dot_product_attention.");
  }
  result.checks = {
      "Start the script within this directory.",
      fmt::format("`time per step (s)` settles near {:.3f} after a few steps.",
                  plan.predicted.iteration_time.value.value()),
      fmt::format("`max allocated (GB)` at the end is near {}.", bytes(plan.memory.peak()))};
  return result;
}

}  // namespace ptdp
