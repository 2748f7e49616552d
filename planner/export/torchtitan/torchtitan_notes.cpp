// What torchtitan does differently from what a plan costs, and what to look at first.
#include <fmt/format.h>

#include "cost_model/schedule/generators/generators.h"
#include "planner/export/torchtitan/torchtitan_settings.h"
#include "planner/formatting.h"

namespace ptdp {

std::vector<std::string> torchtitan_differences(const Plan& plan, TorchtitanRelease release) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const TransformerConfig& model = plan.scenario.job.model;
  const bool is_old = release == TorchtitanRelease::k022;
  std::vector<std::string> sentences;
  const auto add_if = [&](bool is_so, std::string sentence) {
    if (is_so) {
      sentences.push_back(std::move(sentence));
    }
  };
  add_if(!is_old,
         "torchtitan 0.3.0 attends by FlexAttention with a mask of documents. The plan counts " +
             stack.attention + ".");
  add_if(stack.fused_element_wise && !is_compiled(plan),
         "torch splits backward passes along autograd's graph, which torch.compile replaces: "
         "blocks are not compiled, and element-wise kernels are not fused.");
  add_if(!is_compiled(plan) && config.sequence_parallel && config.tp > 1 &&
             stack.tp_comm_overlap == TpCommOverlap::kSymmetricMemory,
         "Asynchronous tensor parallelism needs torch.compile: here its collectives wait.");
  add_if(config.schedule == ScheduleKind::kDualPipeV && config.ep == 1,
         "torch runs the two passes of an overlapped pair one after the other.");
  add_if(config.schedule == ScheduleKind::kDualPipeV && config.ep > 1 && !is_old,
         "torchtitan 0.3.0 runs the two passes of an overlapped pair one after the other.");
  add_if(repeats(config.recompute) == Repeats::kLayer && stack.recompute_stops_early && !is_old &&
             !is_compiled(plan),
         "torchtitan 0.3.0 repeats whole layers. The plan counts repetitions that stop early.");
  add_if(has_latent_attention(model) && model.rotary.scaling == RopeScaling::kNone,
         "torchtitan's DeepSeek-V3 stretches the angles of rotary positions by 40, as YaRN does. "
         "The plan's are not stretched.");
  add_if(is_old && !model.qk_layernorm && model.rotary.scaling == RopeScaling::kNone,
         "torchtitan 0.2.2 stretches the angles of Llama 3's rotary positions by 8, as Llama 3.1 "
         "does. The plan's are not stretched.");
  add_if(config.zero_stage == 3 && config.pp == 1 && config.reshard_after_forward,
         "FSDP keeps the final norm and the logits' weights whole from the forward pass on.");
  add_if(config.ep > 1 && stack.expert_dispatch == ExpertDispatch::kHierarchical,
         "The plan counts a hierarchical dispatch of tokens. The all-to-all of NCCL is what "
         "starts without DeepEP.");
  add_if(model.vocab_size % (128 * config.tp) != 0,
         fmt::format("The plan pads the vocabulary of {} to a multiple of 128 times tp. torchtitan "
                     "does not.",
                     model.vocab_size));
  add_if(stack.precision == Precision::kBf16,
         "Weights at rest are fp32, in shards. Gathered weights and activations are bf16, sums of "
         "gradients fp32.");
  return sentences;
}

std::vector<std::string> torchtitan_checks(const Plan& plan) {
  const double time = plan.predicted.iteration_time.value.value();
  const double tokens =
      static_cast<double>(plan.scenario.job.global_batch_size) * plan.scenario.job.model.seq_length;
  std::vector<std::string> sentences = {
      fmt::format("`tps`, tokens per second and GPU, settles near {:.0f} after a few steps ({} per "
                  "step).",
                  tokens / time / static_cast<double>(plan.config.world_size()),
                  duration(plan.predicted.iteration_time.value)),
      fmt::format("`memory` of the first steps, which is what torch reserves, is near {} or below.",
                  bytes(plan.memory.peak()))};
  if (plan.config.pp > 1) {
    sentences.push_back(fmt::format("A line of the log says `{} microbatches and {} stages`.",
                                    plan.schedule.num_microbatches,
                                    plan.schedule.layers_per_stage.size()));
  }
  return sentences;
}

}  // namespace ptdp
