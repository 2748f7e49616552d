#include "planner/export/trainers/nanotron_config.h"

#include <fmt/format.h>

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {
namespace {

bool overlaps_tensor_collectives(const StackSpec& stack) {
  return stack.tensor_parallel_overlap || stack.tp_comm_overlap != TpCommOverlap::kNone;
}

}  // namespace

std::vector<int> nanotron_layers(const Plan& plan) {
  return nanotron_layers(plan.scenario.job.model, plan.config.tp, plan.config.pp);
}

std::vector<int> nanotron_layers(const TransformerConfig& model, int tp, int pp) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t layer = 4 * h * h + 3 * h * model.ffn_hidden_size;
  const std::int64_t total = model.num_layers * layer + padded_vocab_size(model, tp) * h;
  std::vector<int> layers(static_cast<std::size_t>(pp), 0);
  std::size_t rank = 0;
  for (std::int64_t i = 1; i <= model.num_layers; ++i) {
    ++layers[rank];
    const double threshold = static_cast<double>(total) * (static_cast<double>(rank + 1) / pp);
    rank += static_cast<double>(i * layer) > threshold ? 1 : 0;
  }
  return layers;
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

}  // namespace ptdp
