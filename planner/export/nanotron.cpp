// nanotron 0.4: config.yaml, and a script that starts its trainer.
#include <fmt/format.h>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/rank_sizes.h"
#include "planner/export/exporter.h"
#include "planner/export/launch_script.h"
#include "planner/export/mock_programs.h"
#include "planner/export/model_support.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// Returns the layers that nanotron puts on each pipeline rank: it goes on to the next rank when
/// the products so far exceed the rank's share. Source: nanotron 0.4, models/base.py build_model()
/// and models/llama.py get_block_compute_costs().
std::vector<int> balanced_layers(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const int pp = plan.config.pp;
  const std::int64_t h = model.hidden_size;
  const std::int64_t layer = 4 * h * h + 3 * h * model.ffn_hidden_size;
  const std::int64_t total =
      model.num_layers * layer + padded_vocab_size(model, plan.config.tp) * h;
  std::vector<int> layers(static_cast<std::size_t>(pp), 0);
  std::size_t rank = 0;
  for (std::int64_t i = 1; i <= model.num_layers; ++i) {
    ++layers[rank];
    const double threshold = static_cast<double>(total) * (static_cast<double>(rank + 1) / pp);
    rank += static_cast<double>(i * layer) > threshold ? 1 : 0;
  }
  return layers;
}

bool overlaps_tensor_collectives(const StackSpec& stack) {
  return stack.tensor_parallel_overlap || stack.tp_comm_overlap != TpCommOverlap::kNone;
}

std::string nanotron_yaml(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const bool is_async = config.tp > 1 && overlaps_tensor_collectives(plan.scenario.stack);
  return fmt::format(
             "general:\n  project: ptdp\n  run: plan\n  seed: 42\n"
             "parallelism:\n  dp: {}\n  pp: {}\n  tp: {}\n  pp_engine: \"{}\"\n  tp_mode: {}\n"
             "  tp_linear_async_communication: {}\n  expert_parallel_size: 1\n",
             config.dp, config.pp, config.tp,
             config.schedule == ScheduleKind::kGPipe ? "afab" : "1f1b",
             config.sequence_parallel && config.tp > 1 ? "REDUCE_SCATTER" : "ALL_REDUCE",
             is_async) +
         fmt::format(
             "model:\n  dtype: bfloat16\n  init_method:\n    std: {}\n  "
             "make_vocab_size_divisible_by: 128\n"
             "  model_config:\n    is_llama_config: true\n    hidden_act: silu\n    hidden_size: "
             "{}\n"
             "    intermediate_size: {}\n    num_hidden_layers: {}\n    num_attention_heads: {}\n"
             "    num_key_value_heads: {}\n    vocab_size: {}\n    max_position_embeddings: {}\n"
             "    rms_norm_eps: {}\n    initializer_range: {}\n    tie_word_embeddings: {}\n",
             fmt::format("{:#}", model.init_method_std), model.hidden_size, model.ffn_hidden_size,
             model.num_layers, model.num_attention_heads, model.num_query_groups, model.vocab_size,
             model.seq_length, fmt::format("{:.10f}", model.layernorm_epsilon),
             fmt::format("{:#}", model.init_method_std), !model.untied_embeddings) +
         fmt::format(
             "tokens:\n  sequence_length: {}\n  micro_batch_size: {}\n"
             "  batch_accumulation_per_replica: {}\n  train_steps: 20\n"
             "optimizer:\n  zero_stage: {}\n  accumulate_grad_in_fp32: true\n  weight_decay: 0.1\n"
             "  clip_grad: 1.0\n  adam_eps: 0.00000001\n  adam_beta1: 0.9\n  adam_beta2: 0.95\n"
             "  torch_adam_is_fused: true\n  learning_rate_scheduler:\n    learning_rate: 0.0001\n"
             "    lr_warmup_steps: 2\n    lr_warmup_style: linear\n    lr_decay_style: cosine\n"
             "    min_decay_lr: 0.00001\n",
             model.seq_length, config.micro_batch_size,
             num_microbatches(plan.scenario.job.global_batch_size, config), config.zero_stage) +
         "data:\n  dataset: null\n  seed: 42\n"
         "tokenizer:\n  tokenizer_name_or_path: null\n"
         "checkpoints:\n  checkpoints_path: checkpoints\n  checkpoint_interval: 1000000\n"
         "logging:\n  log_level: info\n  iteration_step_info_interval: 1\n";
}

}  // namespace

std::vector<ExportRefusal> nanotron_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  const auto refuse = [&](bool is_so, std::string field, std::string found, std::string instead) {
    if (is_so) {
      refusals.push_back({std::move(field), std::move(found), std::move(instead)});
    }
  };
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  refuse(config.cp > 1, "cp", number(config.cp), "1 in nanotron 0.4");
  refuse(config.ep > 1, "ep", number(config.ep), "1");
  refuse(config.vpp > 1, "vpp", number(config.vpp), "1");
  refuse(config.schedule != ScheduleKind::kOneFOneB && config.schedule != ScheduleKind::kGPipe,
         "schedule", spelled(config.schedule), "1f1b or gpipe");
  refuse(repeats(config.recompute) != Repeats::kNothing, "recompute", spelled(config.recompute),
         "none in nanotron 0.4");
  refuse(config.zero_stage > 1, "zero_stage", number(config.zero_stage), "0 or 1");
  refuse(config.dp_replicate > 1, "dp_replicate", number(config.dp_replicate), "1");
  refuse(config.rank_order != RankOrder::kTpCpEpDpPp && config.pp > 1 && config.dp > 1,
         "rank_order", spelled(config.rank_order), "tp-cp-ep-dp-pp");
  refuse(config.offload != Offload::kNone, "offload", spelled(config.offload), "none");
  const std::int64_t microbatches = num_microbatches(plan.scenario.job.global_batch_size, config);
  refuse(config.schedule == ScheduleKind::kOneFOneB && microbatches < config.pp - 1,
         "global_batch_size", number(plan.scenario.job.global_batch_size),
         fmt::format("at least {} microbatches, pp - 1", config.pp - 1));
  refuse(stack.precision != Precision::kBf16 || fp8_recipe(stack) != nullptr, "precision",
         fp8_recipe(stack) != nullptr ? "8 bits" : std::string(name_of(stack.precision)), "bf16");
  refuse(stack.attention == "unfused", "attention", "unfused", "flash attention");
  refuse(model.num_query_groups % config.tp != 0, "tp", number(config.tp),
         fmt::format("a divisor of the {} key-value heads", model.num_query_groups));
  for (ExportRefusal& refusal : model_refusals(plan, {})) {
    refusals.push_back(std::move(refusal));
  }
  if (refusals.empty() && plan.schedule.layers_per_stage != balanced_layers(plan)) {
    refuse(true, "layers_per_stage", spelled(plan.schedule.layers_per_stage),
           fmt::format("{}, nanotron's own balance", spelled(balanced_layers(plan))));
  }
  return refusals;
}

Export nanotron_export(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  LaunchScript script{
      .title = fmt::format("{} on {} GPUs with nanotron: {}", plan.scenario.job.model_name,
                           config.world_size(), to_string(config)),
      .variables = {{"CONFIG", "config.yaml", "set data.dataset there"}},
      .environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}},
      .lines = {"run_train.py", "--config-file \"$CONFIG\""}};
  Export result;
  result.files = {{"config.yaml", nanotron_yaml(plan)},
                  {"run_train.py", std::string(kNanotronTrain)},
                  {"launch.sh", launch_script(plan, script)}};
  result.expressed = {
      {"data, pipeline and tensor parallel", "parallelism.dp, .pp, .tp"},
      {"schedule", "parallelism.pp_engine"},
      {"sequence parallel", "parallelism.tp_mode: REDUCE_SCATTER"},
      {"collectives behind products", "parallelism.tp_linear_async_communication"},
      {"microbatch and batch",
       "tokens.micro_batch_size, tokens.batch_accumulation_per_replica, parallelism.dp"},
      {"ZeRO", "optimizer.zero_stage"},
      {"layers per stage", "nanotron's own balance, which is the plan's"},
      {"model", "model.model_config"}};
  result.differences = uncovered_parts(plan);
  if (config.dp > 1 && overlaps_reduction(stack, config.pp) && config.zero_stage > 0) {
    result.differences.emplace_back(
        "The plan hides the reduction of gradients; nanotron 0.4 with ZeRO-1 and fp32 gradients "
        "reduces after the last backward pass.");
  }
  if (config.dp > 1 && !overlaps_reduction(stack, config.pp) && config.zero_stage == 0) {
    result.differences.emplace_back(
        "The plan reduces gradients after the last backward pass; nanotron does it behind that "
        "pass.");
  }
  result.differences.emplace_back(
      "The base of rotary positions is 10000: nanotron 0.4 has no key.");
  result.checks = {
      "The wheel of nanotron 0.4 needs flash-attn, and its modules import one another in a circle: "
      "run_train.py breaks it.",
      fmt::format("`time_per_iteration_ms` settles near {:.0f} after a few iterations.",
                  1e3 * plan.predicted.iteration_time.value.value()),
      fmt::format("`Peak allocated` is near {} on the heaviest pipeline rank, {}.",
                  bytes(plan.memory.peak()), plan.memory.heaviest_rank)};
  return result;
}

}  // namespace ptdp
