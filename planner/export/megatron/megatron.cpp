// Megatron-LM: arguments of pretrain_gpt.py and a script that starts it.
#include <fmt/format.h>

#include "planner/export/launch_script.h"
#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_choices.h"
#include "planner/export/megatron/megatron_refusals.h"

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
