// Megatron-LM: arguments of pretrain_gpt.py and a script that starts it.
#include <fmt/format.h>

#include "planner/export/launch_script.h"
#include "planner/export/megatron_arguments.h"

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

/// Returns the attention of TransformerEngine. Its flash attention needs heads of one width and 16
/// bits; "auto" finds one that runs.
std::string attention_backend(const Plan& plan) {
  const StackSpec& stack = plan.scenario.stack;
  if (stack.attention == "unfused") {
    return "unfused";
  }
  const bool has_flash =
      !has_latent_attention(plan.scenario.job.model) &&
      (stack.precision == Precision::kBf16 || stack.precision == Precision::kFp16);
  return !has_flash ? "auto" : stack.attention == "cudnn" ? "fused" : "flash";
}

/// Returns the arguments of a run of 20 steps on made-up data, which users replace.
std::vector<MegatronArgument> run_arguments(const Plan& plan) {
  return {{"", "--train-iters", {"20"}},
          {"", "--lr", {"1.0e-4"}},
          {"", "--min-lr", {"1.0e-5"}},
          {"", "--lr-decay-style", {"cosine"}},
          {"", "--clip-grad", {"1.0"}},
          {"", "--weight-decay", {"0.1"}},
          {"attention", "--attention-backend", {attention_backend(plan)}},
          {"", "--eval-iters", {"0"}},
          {"", "--log-interval", {"1"}},
          {"", "--log-throughput"}};
}

std::vector<std::pair<std::string, std::string>> environment(const Plan& plan) {
  // No NVTE_*_ATTN: --attention-backend sets them, and refuses others.
  std::vector<std::pair<std::string, std::string>> variables = {
      {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"}};
  const ParallelConfig& config = plan.config;
  if (config.zero_stage > 1) {
    // Megatron-FSDP's collectives and products are launched side by side: 1 is refused.
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "8");
  } else if (has_blackwell(plan)) {
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "32");
  } else if (config.tp > 1 || config.cp > 1) {
    variables.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  }
  return variables;
}

}  // namespace

std::vector<ExportRefusal> megatron_refusals(const Plan& plan) {
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  for (const auto& more : {megatron_plan_refusals(plan), megatron_model_refusals(plan)}) {
    refusals.insert(refusals.end(), more.begin(), more.end());
  }
  return refusals;
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
      .environment = environment(plan),
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
  const TransformerConfig& model = plan.scenario.job.model;
  if (model.vocab_size % (128 * plan.config.tp) != 0) {
    result.differences.push_back(fmt::format(
        "Megatron-LM pads the vocabulary of {} to a multiple of 128 times tp; so does the plan.",
        model.vocab_size));
  }
  if (plan.config.dp > 1 || plan.config.cp > 1) {
    result.differences.push_back(
        "Megatron-LM derives the data-parallel size from the number of processes: no flag says "
        "it.");
  }
  const StackSpec& stack = plan.scenario.stack;
  if (plan.config.vpp > 1 && plan.config.pp == 2 &&
      stack.pipeline_overlap == PipelineOverlap::kNever) {
    result.differences.emplace_back(
        "The plan's messages between stages wait for compute; interleaving over two ranks needs "
        "them to overlap.");
  }
  if (stack.precision == Precision::kBf16 && stack.gradient_bytes != 4.0 &&
      !has_bf16_gradients(stack)) {
    result.differences.push_back(
        fmt::format("The plan holds {} bytes of gradient per parameter; Megatron-LM holds 4.",
                    stack.gradient_bytes));
  }
  if (stack.cuda_graphs != CudaGraphs::kNone) {
    result.differences.push_back(
        "The plan counts CUDA graphs, which are not switched on here: add --cuda-graph-impl.");
  }
  if (stack.expert_dispatch == ExpertDispatch::kHierarchical) {
    result.differences.push_back(
        "The plan counts a hierarchical dispatch of tokens; alltoall is what starts without "
        "DeepEP. "
        "With it: --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep.");
  }
  result.checks = {
      fmt::format("The log's first lines say `data-parallel size: {}`.", plan.config.dp),
      fmt::format("`elapsed time per iteration (ms)` settles near {:.0f} after a few iterations.",
                  1e3 * plan.predicted.iteration_time.value.value()),
      "`max allocated` in the memory line of the first iteration is below the GPU's memory."};
  return result;
}

}  // namespace ptdp
