// What of a plan's configuration Megatron-LM cannot run, or runs in another way than the plan says.
#include <fmt/format.h>

#include <algorithm>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/layer/expert_layer.h"
#include "planner/export/megatron/megatron_refusals.h"
#include "planner/export/refusals.h"

namespace ptdp {
namespace {

/// Refuses schedules and groups of microbatches that schedules.py does not run.
void refuse_schedule(const Plan& plan, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  refusals.add_if(
      config.schedule != ScheduleKind::kOneFOneB && config.schedule != ScheduleKind::kInterleaved,
      "schedule", spelled(config.schedule), "1f1b or interleaved");
  const int group = plan.schedule.microbatch_group_size;
  const std::int64_t left_over = plan.schedule.num_microbatches % group;
  refusals.add_if(
      config.vpp > 1 && (group < config.pp || group > plan.schedule.num_microbatches),
      "schedule.microbatch_group_size", std::to_string(group),
      fmt::format("{} to {}, pp to microbatches", config.pp, plan.schedule.num_microbatches));
  refusals.add_if(config.vpp > 1 && 0 < left_over && left_over < config.pp,
                  "schedule.num_microbatches", std::to_string(plan.schedule.num_microbatches),
                  fmt::format("groups of {}, the last of them of at least {}", group, config.pp));
}

/// Refuses precisions that Megatron-Core does not train in.
void refuse_precision(const Plan& plan, Refusals& refusals) {
  const StackSpec& stack = plan.scenario.stack;
  const Fp8Recipe* recipe = fp8_recipe(stack);
  refusals.add_if(stack.precision == Precision::kFp64, "precision", "fp64",
                  "bf16, fp16, fp32 or tf32");
  refusals.add_if(recipe != nullptr && stack.precision == Precision::kFp16, "precision",
                  "fp16 with linear layers in 8 bits", "bf16 with them");
  refusals.add_if(recipe != nullptr && recipe->scaling == Fp8Scaling::kRowwise, "precision",
                  "fp8-rowwise", "fp8-delayed, fp8-current, fp8-block, fp8-mx or nvfp4");
}

/// Refuses recomputation that transformer_block.py does not do, or does otherwise.
void refuse_recomputation(const Plan& plan, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const TransformerConfig& model = plan.scenario.job.model;
  const StackSpec& stack = plan.scenario.stack;
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  const int fewest = *std::ranges::min_element(layers);
  if (repeats(config.recompute) == Repeats::kLayer && config.recomputes_by_layers()) {
    refusals.add_if(config.recompute_method == RecomputeMethod::kEvery, "recompute_method", "every",
                    "block or uniform");
    refusals.add_if(config.recompute_num_layers > fewest, "recompute_num_layers",
                    std::to_string(config.recompute_num_layers),
                    fmt::format("at most the {} layers of the smallest virtual stage", fewest));
  }
  refusals.add_if(repeats(config.recompute) == Repeats::kModules &&
                      config.recompute_modules.has(RecomputeModule::kEverySecondProduct),
                  "recompute_modules", "op",
                  "core_attn, moe_act, layernorm, mla_up_proj, mlp, moe or "
                  "shared_experts");
  const RecomputeModules modules = repeats(config.recompute) == Repeats::kModules
                                       ? config.recompute_modules
                                       : RecomputeModules();
  refusals.add_if(modules.has(RecomputeModule::kMoeActivation) && !has_experts(model),
                  "recompute_modules", "moe_act", "modules of the model, which has no experts");
  refusals.add_if(modules.has(RecomputeModule::kMlaUpProjection) && !has_latent_attention(model),
                  "recompute_modules", "mla_up_proj",
                  "modules of the model, which has no latent attention");
  const bool recomputes_casts =
      modules.has(RecomputeModule::kMoeActivation) || modules.has(RecomputeModule::kLayerNorm);
  refusals.add_if(recomputes_casts && has_delayed_scaling(stack), "recompute_modules",
                  to_string(modules), "neither moe_act nor layernorm with delayed scaling");
}

/// Refuses shards and offloading that do not go together.
void refuse_sharding(const Plan& plan, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const Fp8Recipe* recipe = fp8_recipe(stack);
  refusals.add_if(config.zero_stage > 1 && config.pp > 1, "zero_stage",
                  std::to_string(config.zero_stage), "0 or 1 with a pipeline");
  refusals.add_if(config.zero_stage > 1 && config.dp_replicate > 1, "dp_replicate",
                  std::to_string(config.dp_replicate), "1 with Megatron-FSDP");
  refusals.add_if(config.zero_stage == 3 && !config.reshard_after_forward, "reshard_after_forward",
                  "false", "true");
  refusals.add_if(config.zero_stage == 0 && config.dp_replicate > 1, "dp_replicate",
                  std::to_string(config.dp_replicate), "1 without ZeRO");
  refusals.add_if(config.zero_stage > 1 && config.rank_order == RankOrder::kTpCpEpPpDp,
                  "rank_order", spelled(config.rank_order), "tp-cp-ep-dp-pp with Megatron-FSDP");
  refusals.add_if(offloads_activations(config.offload) &&
                      (config.pp > 1 || repeats(config.recompute) != Repeats::kNothing),
                  "offload", spelled(config.offload),
                  "no activations with a pipeline or recomputation");
  refusals.add_if(offloads_optimizer(config.offload) && config.zero_stage == 0, "offload",
                  spelled(config.offload), "the optimizer on the device without ZeRO");
  refusals.add_if(offloads_optimizer(config.offload) && recipe != nullptr &&
                      recipe->gathers_weights && recipe->scaling != Fp8Scaling::kDelayed,
                  "offload", spelled(config.offload),
                  "the optimizer on the device with weights in 8 bits");
}

/// Refuses experts that Megatron-Core has no groups for, or trains otherwise.
void refuse_experts(const Plan& plan, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const TransformerConfig& model = plan.scenario.job.model;
  const StackSpec& stack = plan.scenario.stack;
  const RecomputeModules modules = repeats(config.recompute) == Repeats::kModules
                                       ? config.recompute_modules
                                       : RecomputeModules();
  const bool hides = hides_dispatch(plan.scenario, config);
  refusals.add_if(hides && modules.has(RecomputeModule::kMoe), "recompute_modules",
                  to_string(modules), "no moe where experts' messages run behind compute");
  refusals.add_if(hides && element_bytes(stack.precision) > 2, "precision",
                  name_of(stack.precision),
                  "bf16 or fp16 where experts' messages run behind compute");
  refusals.add_if(has_experts(model) && config.tp > 1 && !config.sequence_parallel,
                  "sequence_parallel", "false", "true with experts and tp > 1");
  refusals.add_if(has_experts(model) && model.add_bias_linear && config.etp > 1, "etp",
                  std::to_string(config.etp), "1 with biases in experts");
  refusals.add_if(has_experts(model) && !places_experts(config), "rank_order",
                  spelled(config.rank_order),
                  "tp-cp-ep-dp-pp where experts have other numbers of replicas than the rest");
  const std::int64_t world = config.world_size();
  const std::int64_t expert_ranks = std::int64_t{1} * config.etp * config.ep * config.pp;
  refusals.add_if(has_experts(model) && world % expert_ranks != 0, "ep and etp",
                  fmt::format("{} and {}", config.ep, config.etp),
                  fmt::format("etp*ep*pp dividing the {} GPUs", world));
}

}  // namespace

std::vector<ExportRefusal> megatron_plan_refusals(const Plan& plan) {
  Refusals refusals;
  refuse_schedule(plan, refusals);
  refuse_precision(plan, refusals);
  refuse_recomputation(plan, refusals);
  refuse_sharding(plan, refusals);
  refuse_experts(plan, refusals);
  const ParallelConfig& config = plan.config;
  const TransformerConfig& model = plan.scenario.job.model;
  refusals.add_if(config.cp > 1 && model.seq_length % (2 * config.cp) != 0, "cp",
                  std::to_string(config.cp),
                  fmt::format("2*cp dividing the sequence of {}", model.seq_length));
  const StackSpec& stack = plan.scenario.stack;
  refusals.add_if(stack.deterministic && stack.tp_comm_overlap != TpCommOverlap::kNone,
                  "tp_comm_overlap",
                  name_of(stack.tp_comm_overlap, NamedValues<TpCommOverlap>(kTpCommOverlapNames)),
                  "none with deterministic results");
  return refusals.take();
}

}  // namespace ptdp
