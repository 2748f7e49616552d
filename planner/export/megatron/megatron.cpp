// Megatron-LM: arguments of pretrain_gpt.py and a script that starts it.
#include <fmt/format.h>

#include "cost_model/iteration/step_builder.h"
#include "planner/export/launch_script.h"
#include "planner/export/megatron/megatron_arguments.h"

namespace ptdp {
namespace {

/// Returns flag and values as one line of a shell command.
std::string shell_line(const MegatronArgument& argument) {
  std::string line = argument.flag;
  for (const std::string& value : argument.values) {
    line += " " + (argument.flag == "--recompute-modules" ? value : shell_word(value));
  }
  return line;
}

/// Returns the arguments of a run of 20 steps on made-up data, which users replace.
std::vector<MegatronArgument> run_arguments(const Plan& plan) {
  return {{"", "--train-iters", {"20"}},
          {"", "--lr", {"1.0e-4"}},
          {"", "--min-lr", {"1.0e-5"}},
          {"", "--lr-decay-style", {"cosine"}},
          {"", "--clip-grad", {"1.0"}},
          {"", "--weight-decay", {"0.1"}},
          {"attention", "--attention-backend", {megatron_attention_backend(plan)}},
          {"", "--eval-iters", {"0"}},
          {"", "--log-interval", {"1"}},
          {"", "--log-throughput"}};
}

}  // namespace

std::vector<ExportRefusal> megatron_refusals(const Plan& plan) {
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  for (const auto& more : {megatron_plan_refusals(plan), megatron_model_refusals(plan)}) {
    refusals.insert(refusals.end(), more.begin(), more.end());
  }
  return refusals;
}

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

Export megatron_export(const Plan& plan) {
  Export result;
  LaunchScript script{
      .title = fmt::format("{} on {} GPUs with Megatron-LM: {}", plan.scenario.job.model_name,
                           plan.config.world_size(), to_string(plan.config)),
      .variables = {{"MEGATRON_DIR", ".", "a checkout of Megatron-LM"},
                    {"DATA_ARGS", "--mock-data --tokenizer-type NullTokenizer",
                     "or --data-path PREFIX --tokenizer-model FILE"},
                    {"CHECKPOINT_ARGS", "", "e.g. --save DIR --load DIR --save-interval 100"}},
      .environment = megatron_environment(plan),
      .lines = {"\"$MEGATRON_DIR/pretrain_gpt.py\""}};
  std::string arguments_text;
  for (const auto& list :
       {megatron_model_arguments(plan), megatron_plan_arguments(plan), run_arguments(plan)}) {
    for (const MegatronArgument& argument : list) {
      const std::string line = shell_line(argument);
      script.lines.push_back(line);
      arguments_text += line + "\n";
      if (!argument.part.empty()) {
        result.expressed.push_back({argument.part, line});
      }
    }
  }
  script.lines.emplace_back("$DATA_ARGS $CHECKPOINT_ARGS");
  result.files = {{"launch.sh", launch_script(plan, script)}, {"arguments.txt", arguments_text}};
  result.differences = megatron_differences(plan);
  result.checks = {
      fmt::format("The log's first lines say `data-parallel size: {}`.", plan.config.dp),
      fmt::format("`elapsed time per iteration (ms)` settles near {:.0f} after a few iterations.",
                  1e3 * plan.predicted.iteration_time.value.value()),
      "`max allocated` in the memory line of the first iteration is below the GPU's memory."};
  return result;
}

}  // namespace ptdp
