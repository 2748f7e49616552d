// nanotron 0.4: config.yaml, and a script that starts its trainer.
#include <fmt/format.h>

#include <algorithm>

#include "cost_model/inputs/config_fields.h"
#include "planner/export/exporter.h"
#include "planner/export/launch_script.h"
#include "planner/export/model_numerics.h"
#include "planner/export/refusals.h"
#include "planner/export/trainers/mock_programs.h"
#include "planner/export/trainers/model_support.h"
#include "planner/export/trainers/nanotron_config.h"
#include "planner/formatting.h"

namespace ptdp {

std::vector<ExportRefusal> nanotron_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  Refusals refusals;
  refusals.add(node_refusals(plan));
  refusals.add_if(stack.deterministic, "deterministic", "true", "a stack without it");
  refusals.add_if(config.cp > 1, "cp", config.cp, "1 in nanotron 0.4");
  refusals.add_if(config.ep > 1, "ep", config.ep, "1");
  refusals.add_if(config.vpp > 1, "vpp", config.vpp, "1");
  refusals.add_if(
      config.schedule != ScheduleKind::kOneFOneB && config.schedule != ScheduleKind::kGPipe,
      "schedule", spelled(config.schedule), "1f1b or gpipe");
  refusals.add_if(repeats(config.recompute) != Repeats::kNothing, "recompute",
                  spelled(config.recompute), "none in nanotron 0.4");
  refusals.add_if(config.zero_stage > 1, "zero_stage", config.zero_stage, "0 or 1");
  refusals.add_if(config.dp_replicate > 1, "dp_replicate", config.dp_replicate, "1");
  refusals.add_if(config.rank_order != RankOrder::kTpCpEpDpPp && config.pp > 1 && config.dp > 1,
                  "rank_order", spelled(config.rank_order), "tp-cp-ep-dp-pp");
  refusals.add_if(config.offload != Offload::kNone, "offload", spelled(config.offload), "none");
  const std::int64_t microbatches = num_microbatches(plan.scenario.job.global_batch_size, config);
  refusals.add_if(config.schedule == ScheduleKind::kOneFOneB && microbatches < config.pp - 1,
                  "global_batch_size", plan.scenario.job.global_batch_size,
                  fmt::format("at least {} microbatches, pp - 1", config.pp - 1));
  refusals.add_if(stack.precision != Precision::kBf16 || fp8_recipe(stack) != nullptr, "precision",
                  std::string(linear_precision(stack)), "bf16");
  refusals.add_if(stack.attention == "unfused", "attention", "unfused", "flash attention");
  refusals.add_if(model.num_query_groups % config.tp != 0, "tp", config.tp,
                  fmt::format("a divisor of the {} key-value heads", model.num_query_groups));
  refusals.add(model_refusals(plan, {}));
  refusals.add(numerics_refusals(model, {}));
  // Ranks without layers are possible at the ends, which have the embedding and the logits.
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  refusals.add_if(
      layers.size() > 2 && std::find(layers.begin() + 1, layers.end() - 1, 0) != layers.end() - 1,
      "layers_per_stage", spelled(layers),
      "at least a layer for each rank between the first and the last");
  return refusals.take();
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
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  Export result;
  result.files = {{"config.yaml", nanotron_yaml(plan)},
                  {"layers_per_stage.json", fmt::format("[{}]\n", fmt::join(layers, ", "))},
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
      {"layers per stage", "layers_per_stage.json, which run_train.py has nanotron cut by"},
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
  if (const std::vector<int> balance = nanotron_layers(plan); layers != balance) {
    result.differences.push_back(
        fmt::format("A program of your own, without what run_train.py does about layers, has "
                    "nanotron's balance: {} layers per stage.",
                    spelled(balance)));
  }
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
