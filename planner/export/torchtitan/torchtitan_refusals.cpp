// What of a plan torchtitan cannot run, and what it runs differently.
#include <fmt/format.h>

#include <algorithm>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/layer/expert_layer.h"
#include "planner/export/refusals.h"
#include "planner/export/torchtitan/torchtitan_settings.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

void add_degrees(const Plan& plan, bool is_old, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const TransformerConfig& model = plan.scenario.job.model;
  const ContextParallel kind = plan.scenario.stack.context_parallel_kind;
  if (config.cp > 1) {
    refusals.add_if(is_old && kind == ContextParallel::kAllToAll, "context_parallel_kind",
                    name_of(kind), "ring or all-gather");
    refusals.add_if(!is_old && kind != ContextParallel::kAllGather, "context_parallel_kind",
                    name_of(kind), "all-gather");
  }
  const int parts =
      (is_old || config.sequence_parallel ? config.tp : 1) * (config.cp > 1 ? 2 * config.cp : 1);
  refusals.add_if(model.seq_length % parts != 0, "seq_length", model.seq_length,
                  fmt::format("a multiple of {}, tp times twice cp", parts));
  refusals.add_if(is_old && config.tp > 1 && !config.sequence_parallel, "sequence_parallel",
                  "false", "true with tp > 1");
  if (has_experts(model)) {
    const int with_tp = config.ep > 1 ? 1 : config.tp;
    const bool can_be_tp = is_old && config.ep > 1 && config.etp == config.tp;
    refusals.add_if(config.etp != with_tp && !can_be_tp, "etp", config.etp,
                    fmt::format("{} with ep {} and tp {}", with_tp, config.ep, config.tp));
    const int ranks = config.dp / config.dp_replicate * config.cp * config.tp;
    refusals.add_if(ranks % (config.ep * (can_be_tp ? config.etp : 1)) != 0, "ep", config.ep,
                    fmt::format("a size that divides the {} ranks of a stage's shards", ranks));
  }
  refusals.add_if(config.rank_order != RankOrder::kTpCpEpDpPp && config.pp > 1 && config.dp > 1,
                  "rank_order", spelled(config.rank_order), "tp-cp-ep-dp-pp");
}

void add_schedule(const Plan& plan, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const ScheduleTraits& traits = traits_of(config.schedule);
  refusals.add_if(!traits.is_synchronous || traits.placement == StagePlacement::kBidirectional ||
                      (config.pp == 1 && config.schedule != ScheduleKind::kOneFOneB),
                  "schedule", traits.name,
                  config.pp == 1
                      ? "1f1b on one stage"
                      : "a schedule with a flush whose microbatches all go the same way");
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  // The first and the last stage have modules without layers, too.
  const bool has_empty_stage =
      config.pp > 1 &&
      std::ranges::count(layers, 0) > (layers.front() == 0 ? 1 : 0) + (layers.back() == 0 ? 1 : 0);
  refusals.add_if(has_empty_stage, "layers_per_stage", spelled(layers),
                  "at least a layer for each stage between the first and the last");
}

void add_recomputation(const Plan& plan, bool is_old, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const RecomputeModules op = {RecomputeModule::kEverySecondProduct};
  refusals.add_if(repeats(config.recompute) == Repeats::kModules && config.recompute_modules != op,
                  "recompute_modules", to_string(config.recompute_modules), "op");
  if (repeats(config.recompute) != Repeats::kLayer || !config.recomputes_by_layers()) {
    return;
  }
  const int number = config.recompute_num_layers;
  const bool is_every = config.recompute_method == RecomputeMethod::kEvery;
  refusals.add_if(!is_old, "recompute_num_layers", number, "0: all layers, one at a time");
  refusals.add_if(is_old && !is_every, "recompute_method", name_of(config.recompute_method),
                  "every, or all layers");
  // torchtitan counts layers over all stages of a rank; the plan counts from each stage's first.
  refusals.add_if(is_old && is_every && config.vpp > 1 &&
                      std::ranges::any_of(plan.schedule.layers_per_stage,
                                          [&](int layers) { return layers % number != 0; }),
                  "recompute_num_layers", number, "a divisor of each virtual stage's layers");
}

void add_sharding(const Plan& plan, bool is_old, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const int sharers = config.dp * config.cp;
  const bool is_fsdp = config.zero_stage == 3 || sharers == 1;
  refusals.add_if(!is_fsdp && (is_old || config.zero_stage > 0 || config.cp > 1), "zero_stage",
                  config.zero_stage, is_old ? "3" : "3, or 0 without context parallelism");
  // Where nothing is sharded, 0.2.2 applies no FSDP and with it no mixed precision: all is fp32.
  refusals.add_if(is_old && is_fsdp && sharers / config.dp_replicate == 1 &&
                      stack.precision == Precision::kBf16,
                  "precision", "bf16 without shards", "fp32, or bf16 where FSDP shards weights");
  refusals.add_if(config.offload != Offload::kNone, "offload", spelled(config.offload),
                  "none: its CPU offload moves weights and gradients, too");
  refusals.add_if(sharers > 1 && !overlaps_reduction(stack, config.pp), "data_parallel_overlap",
                  "never", "always: FSDP reduces behind backward passes");
}

void add_stack(const Plan& plan, bool is_old, Refusals& refusals) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  refusals.add_if(stack.precision != Precision::kBf16 && stack.precision != Precision::kFp32,
                  "precision", name_of(stack.precision), "bf16 or fp32");
  if (const Fp8Recipe* recipe = fp8_recipe(stack)) {
    const bool is_known = recipe->scaling == Fp8Scaling::kCurrent ||
                          recipe->scaling == Fp8Scaling::kRowwise ||
                          recipe->scaling == Fp8Scaling::kMx;
    refusals.add_if(!is_old || !is_known || has_experts(plan.scenario.job.model), "precision",
                    name_of(recipe->scaling),
                    is_old ? "fp8-current, fp8-rowwise or fp8-mx, in dense models"
                           : "bf16: no flag of 0.3.0 trains in 8 bits (--to torchtitan-toml does)");
  }
  refusals.add_if(stack.attention == "unfused", "attention", "unfused", "a fused kernel");
  refusals.add_if(stack.deterministic, "deterministic", "true", "a stack without it");
  refusals.add_if(config.sequence_parallel && config.tp > 1 &&
                      stack.tp_comm_overlap == TpCommOverlap::kUserBuffers,
                  "tp_comm_overlap", "userbuffers", "none or symmetric-memory");
  const bool can_capture = !is_old && config.pp == 1 && config.ep == 1;
  refusals.add_if(stack.cuda_graphs != CudaGraphs::kNone &&
                      !(can_capture && stack.cuda_graphs == CudaGraphs::kStep),
                  "cuda_graphs",
                  name_of(stack.cuda_graphs, NamedValues<CudaGraphs>(kCudaGraphsNames)),
                  can_capture ? "none or full_iteration" : "none");
  refusals.add_if(config.ep > 1 && stack.expert_dispatch == ExpertDispatch::kAllGather,
                  "expert_dispatch", name_of(stack.expert_dispatch), "all-to-all");
  refusals.add_if(hides_dispatch(plan.scenario, config), "expert_overlap", "true",
                  "false: tokens travel alone");
}

}  // namespace

std::vector<ExportRefusal> torchtitan_plan_refusals(const Plan& plan, TorchtitanRelease release) {
  const bool is_old = release == TorchtitanRelease::k022;
  Refusals refusals;
  add_degrees(plan, is_old, refusals);
  add_schedule(plan, refusals);
  add_recomputation(plan, is_old, refusals);
  add_sharding(plan, is_old, refusals);
  add_stack(plan, is_old, refusals);
  return refusals.take();
}

}  // namespace ptdp
