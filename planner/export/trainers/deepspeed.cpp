// DeepSpeed: ds_config.json, and Megatron-DeepSpeed's arguments for the model and its split.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/config_fields.h"
#include "planner/export/launch_script.h"
#include "planner/export/model_numerics.h"
#include "planner/export/refusals.h"
#include "planner/export/trainers/deepspeed_arguments.h"
#include "planner/export/trainers/mock_programs.h"
#include "planner/export/trainers/model_support.h"
#include "planner/formatting.h"

namespace ptdp {

std::vector<ExportRefusal> deepspeed_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  Refusals refusals;
  refusals.add(node_refusals(plan));
  refusals.add_if(stack.deterministic, "deterministic", "true", "a stack without it");
  const bool is_ulysses = stack.context_parallel_kind == ContextParallel::kAllToAll;
  refusals.add_if(config.cp > 1 && !is_ulysses, "cp", config.cp,
                  "1, or a stack whose context parallelism is all-to-all");
  refusals.add_if(config.cp > 1 && (config.tp > 1 || config.pp > 1), "cp", config.cp,
                  "1 with tensor or pipeline parallelism");
  refusals.add_if(config.cp > 1 && is_ulysses && model.num_query_groups % config.cp != 0, "cp",
                  config.cp,
                  fmt::format("a divisor of the {} key-value heads", model.num_query_groups));
  refusals.add_if(config.ep > 1, "ep", config.ep, "1");
  refusals.add_if(config.vpp > 1, "vpp", config.vpp, "1");
  refusals.add_if(config.schedule != ScheduleKind::kOneFOneB, "schedule", spelled(config.schedule),
                  "1f1b");
  refusals.add_if(repeats(config.recompute) == Repeats::kModules &&
                      config.recompute_modules != kCoreAttentionAlone,
                  "recompute_modules", spelled(config.recompute_modules), "core_attn");
  refusals.add_if(
      repeats(config.recompute) == Repeats::kModules &&
          (stack.attention != "unfused" || config.cp > 1),
      "recompute", spelled(config.recompute),
      "none or full: flash attention and all-to-all context parallelism run no core again");
  const bool is_uniform = config.recompute_method == RecomputeMethod::kUniform;
  const bool is_block = config.recompute_method == RecomputeMethod::kBlock;
  refusals.add_if(config.recomputes_by_layers() && !is_uniform && (!is_block || config.pp > 1),
                  "recompute_method", spelled(config.recompute_method),
                  config.pp > 1 ? "uniform with a pipeline" : "uniform or block");
  refusals.add_if(
      config.recomputes_by_layers() && config.recompute_num_layers > model.num_layers / config.pp,
      "recompute_num_layers", config.recompute_num_layers,
      fmt::format("at most the {} layers of a rank", model.num_layers / config.pp));
  refusals.add_if(config.zero_stage > 1 && config.pp > 1, "zero_stage", config.zero_stage,
                  "0 or 1 with a pipeline");
  refusals.add_if(deepspeed_stage(plan) == 0 && stack.precision == Precision::kBf16, "zero_stage",
                  "0", "1 or more: without ZeRO DeepSpeed adds bf16 gradients up in bf16");
  refusals.add_if(config.dp_replicate > 1, "dp_replicate", config.dp_replicate, "1");
  refusals.add_if(config.zero_stage == 3 && !config.reshard_after_forward, "reshard_after_forward",
                  "false", "true");
  refusals.add_if(config.rank_order != RankOrder::kTpCpEpDpPp && config.pp > 1 && config.dp > 1,
                  "rank_order", spelled(config.rank_order), "tp-cp-ep-dp-pp");
  refusals.add_if(offloads_activations(config.offload), "offload", spelled(config.offload),
                  "none or optimizer: checkpoints of whole layers alone go to the host");
  refusals.add_if(offloads_optimizer(config.offload) && deepspeed_stage(plan) == 0, "offload",
                  spelled(config.offload), "none without ZeRO");
  refusals.add_if(!trains_plainly(stack), "precision", linear_precision(stack),
                  "bf16, fp16 or fp32");
  refusals.add_if(stack.precision == Precision::kFp32 && stack.attention != "unfused", "attention",
                  stack.attention, "unfused in fp32");
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  refusals.add_if(std::ranges::any_of(layers, [&](int count) { return count != layers.front(); }),
                  "layers_per_stage", spelled(layers), "equally many layers on all pipeline ranks");
  const DropoutRates dropout = dropout_rates(model);
  refusals.add_if(dropout.embedding != dropout.hidden, "dropout_rates.embedding",
                  fmt::format("{}", dropout.embedding),
                  fmt::format("the rate of hidden layers, {}", dropout.hidden));
  refusals.add(model_refusals(plan, {.layer_norm = true,
                                     .learned_positions = true,
                                     .plain_mlp = true,
                                     .all_biases = true,
                                     .wide_heads = true,
                                     .dropout = true}));
  refusals.add(numerics_refusals(model, {.rotary_base = true, .rotary_percent = true}));
  refusals.add_if(model.rotary.base != std::round(model.rotary.base), "rotary_base",
                  model.rotary.base, "a whole number");
  return refusals.take();
}

Export deepspeed_export(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  LaunchScript script{
      .title = fmt::format("{} on {} GPUs with Megatron-DeepSpeed: {}",
                           plan.scenario.job.model_name, config.world_size(), to_string(config)),
      .variables = {{"MEGATRON_DEEPSPEED_DIR", ".", "a checkout of Megatron-DeepSpeed"},
                    {"DATA_ARGS", "--tokenizer-type NullTokenizer",
                     "or --data-path PREFIX --tokenizer-type HFTokenizer --tokenizer-model NAME"},
                    {"CHECKPOINT_ARGS", "", "e.g. --save DIR --load DIR --save-interval 100"}},
      .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}},
      .lines = {"pretrain.py \"$MEGATRON_DEEPSPEED_DIR\"",
                "--deepspeed --deepspeed_config ds_config.json"}};
  Export result;
  std::string arguments_text;
  for (const MegatronArgument& argument : deepspeed_arguments(plan)) {
    std::string line = argument.flag;
    for (const std::string& value : argument.values) {
      line += " " + shell_word(value);
    }
    script.lines.push_back(line);
    arguments_text += line + "\n";
    if (!argument.part.empty()) {
      result.expressed.push_back({argument.part, line});
    }
  }
  script.lines.emplace_back("$DATA_ARGS $CHECKPOINT_ARGS");
  result.expressed.push_back({"ZeRO, its overlap and offloading", "zero_optimization"});
  result.expressed.push_back({"batch of a replica", "gradient_accumulation_steps"});
  result.files = {{"ds_config.json", deepspeed_json(plan)},
                  {"arguments.txt", arguments_text},
                  {"pretrain.py", std::string(kDeepspeedPretrain)},
                  {"launch.sh", launch_script(plan, script)}};
  result.differences = uncovered_parts(plan);
  if (config.dp > 1 && config.pp > 1 && overlaps_reduction(plan.scenario.stack, config.pp)) {
    result.differences.emplace_back(
        "The plan hides the reduction of gradients behind the last backward pass; DeepSpeed's "
        "pipeline reduces after it.");
  }
  if (deepspeed_stage(plan) != config.zero_stage) {
    result.differences.emplace_back(
        "The plan shards nothing; stage 1 of ZeRO, with one rank to shard over, does the same with "
        "gradients in fp32.");
  }
  result.differences.emplace_back(
      "--vocab-size leaves out the end of a document, which NullTokenizer adds; other tokenizers "
      "bring their own size.");
  result.checks = {
      "Start the script within this directory; it writes its made-up corpus there, for all nodes.",
      fmt::format("The log's first lines say `data-parallel-size: {}`.", config.dp),
      fmt::format("`elapsed time per iteration (ms)` settles near {:.0f} after a few iterations.",
                  1e3 * plan.predicted.iteration_time.value.value()),
      fmt::format("`MaxMemAllocated` is near {} on the heaviest pipeline rank, {}.",
                  bytes(plan.memory.peak()), plan.memory.heaviest_rank)};
  return result;
}

}  // namespace ptdp
