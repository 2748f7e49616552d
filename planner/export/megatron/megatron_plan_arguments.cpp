// Degrees, schedule, shards and precision as arguments of Megatron-LM's pretrain_gpt.py.
#include <fmt/format.h>

#include "cost_model/layer/expert_layer.h"
#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_choices.h"
#include "planner/export/megatron/megatron_layout.h"

namespace ptdp {
namespace {

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
  const Fp8Recipe* recipe = fp8_recipe(stack);
  if (recipe != nullptr && bits_of(recipe->scaling) == 4) {
    arguments.add("4 bits", "--fp4-format", "e2m1");
    arguments.add("4 bits", "--fp4-recipe", megatron_fp8_recipe(recipe->scaling));
    arguments.add_if(gathers_fp8_weights(plan), "4 bits", "--fp4-param-gather");
  } else if (recipe != nullptr) {
    arguments.add("8 bits", "--fp8-format", recipe->scaling == Fp8Scaling::kMx ? "e4m3" : "hybrid");
    arguments.add("8 bits", "--fp8-recipe", megatron_fp8_recipe(recipe->scaling));
    arguments.add_if(gathers_fp8_weights(plan), "8 bits", "--fp8-param-gather");
    arguments.add_if(recipe->scaling == Fp8Scaling::kMx && gathers_fp8_weights(plan) &&
                         plan.config.zero_stage == 1,
                     "8 bits", "--reuse-grad-buf-for-mxfp8-param-ag");
  }
}

/// Adds the switches of a stack whose results repeat to the bit.
void add_determinism(const StackSpec& stack, ArgumentList& arguments) {
  if (stack.deterministic) {
    arguments.add("results that repeat", "--deterministic-mode");
    arguments.add_if(!stack.fused_gradient_accumulation, "results that repeat",
                     "--no-gradient-accumulation-fusion");
  }
}

/// Adds the switches of a stack whose element-wise operations are kernels of their own.
void add_fusions(const Plan& plan, ArgumentList& arguments) {
  if (plan.scenario.stack.fused_element_wise) {
    return;
  }
  const TransformerConfig& model = plan.scenario.job.model;
  const bool is_told =  // with the activation, which has no fused kernel
      !model.gated_linear_unit && model.add_bias_linear &&
      activation_of(model) == Activation::kSquaredRelu;
  arguments.add_if(!is_told, "kernels apart",
                   model.gated_linear_unit ? "--no-bias-swiglu-fusion" : "--no-bias-gelu-fusion");
  arguments.add("kernels apart", "--no-bias-dropout-fusion");
  arguments.add("kernels apart", "--no-masked-softmax-fusion");
}

}  // namespace

std::vector<MegatronArgument> megatron_plan_arguments(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  ArgumentList arguments;
  arguments.add("tensor parallel", "--tensor-model-parallel-size", config.tp);
  arguments.add("pipeline parallel", "--pipeline-model-parallel-size", config.pp);
  if (config.cp > 1) {
    arguments.add("context parallel", "--context-parallel-size", config.cp);
    arguments.add("context parallel", "--cp-comm-type",
                  megatron_cp_comm_type(stack.context_parallel_kind));
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
  add_fusions(plan, arguments);
  add_determinism(stack, arguments);
  arguments.add_if(hides_dispatch(plan.scenario, config), "experts' messages behind compute",
                   "--overlap-moe-expert-parallel-comm");
  return arguments.take();
}

}  // namespace ptdp
