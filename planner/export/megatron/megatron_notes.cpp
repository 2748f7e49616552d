// What Megatron-Core does differently from what a plan costs.
#include <fmt/format.h>

#include "cost_model/iteration/step_builder.h"
#include "planner/export/megatron/megatron_choices.h"
#include "planner/export/megatron/megatron_refusals.h"

namespace ptdp {

std::vector<std::string> megatron_differences(const Plan& plan) {
  std::vector<std::string> differences;
  const TransformerConfig& model = plan.scenario.job.model;
  const StackSpec& stack = plan.scenario.stack;
  if (model.vocab_size % (128 * plan.config.tp) != 0) {
    differences.push_back(fmt::format(
        "Megatron pads the vocabulary of {} to a multiple of 128 times tp; so does the plan.",
        model.vocab_size));
  }
  if (plan.config.dp > 1 || plan.config.cp > 1) {
    differences.emplace_back(
        "Megatron derives the data-parallel size from the number of processes: no flag says it.");
  }
  if (plan.config.pp > 1 && megatron_overlaps_messages(plan) !=
                                (message_mode(stack, plan.config) == MessageMode::kOverlapped)) {
    differences.emplace_back(
        megatron_overlaps_messages(plan)
            ? "The plan counts messages between pipeline ranks that wait for compute; interleaving "
              "over two ranks overlaps them."
            : "The plan counts messages between pipeline ranks beside compute; 1f1b waits for "
              "them.");
  }
  if (stack.precision == Precision::kBf16 && stack.gradient_bytes != 4.0 &&
      !has_bf16_gradients(stack)) {
    differences.push_back(
        fmt::format("The plan holds {} bytes of gradient per parameter; Megatron-LM holds 4.",
                    stack.gradient_bytes));
  }
  if (stack.tp_comm_overlap == TpCommOverlap::kSymmetricMemory && plan.config.tp > 1) {
    differences.emplace_back(
        "The plan counts collectives within products over symmetric memory, as torchtitan has "
        "them; "
        "Megatron runs them beside products, or not at all.");
  }
  if (stack.cuda_graphs != CudaGraphs::kNone) {
    differences.emplace_back(
        "The plan counts CUDA graphs, which are not switched on here: see cuda_graph_impl.");
  }
  if (stack.expert_dispatch == ExpertDispatch::kHierarchical) {
    differences.emplace_back(
        "The plan counts a hierarchical dispatch of tokens; alltoall is what starts without "
        "DeepEP. With it: dispatcher type flex, with the flex dispatcher's backend deepep.");
  }
  return differences;
}

}  // namespace ptdp
