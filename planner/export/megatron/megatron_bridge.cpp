// Megatron-Bridge: a Python file that makes a ConfigContainer, and a script that starts it.
#include <fmt/format.h>

#include "planner/export/launch_script.h"
#include "planner/export/megatron/megatron_bridge_config.h"
#include "planner/export/megatron/megatron_refusals.h"

namespace ptdp {

std::vector<ExportRefusal> megatron_bridge_refusals(const Plan& plan) {
  return megatron_refusals(plan);
}

Export megatron_bridge_export(const Plan& plan) {
  const std::vector<BridgeSetting> settings = bridge_settings(plan);
  const LaunchScript script{
      .title = fmt::format("{} on {} GPUs with Megatron-Bridge: {}", plan.scenario.job.model_name,
                           plan.config.world_size(), to_string(plan.config)),
      .variables = {{"CONFIG", "plan_config.py", "the file beside this one"},
                    {"DATA_ARGS", "",
                     "e.g. dataset.data_path=PREFIX tokenizer.tokenizer_type=HuggingFaceTokenizer "
                     "tokenizer.tokenizer_model=NAME"},
                    {"CHECKPOINT_ARGS", "",
                     "e.g. checkpoint.save=DIR checkpoint.load=DIR checkpoint.save_interval=100"}},
      .environment = {},
      .lines = {"\"$CONFIG\"", "$DATA_ARGS $CHECKPOINT_ARGS"}};
  Export result;
  result.files = {{"plan_config.py", bridge_python_file(plan)},
                  {"launch.sh", launch_script(plan, script)}};
  for (const BridgeSetting& setting : settings) {
    result.expressed.push_back({setting.part, fmt::format("{}={}", setting.path, setting.value)});
  }
  result.differences = megatron_differences(plan);
  result.checks = {
      fmt::format("`Step Time` settles near {:.2f} s after a few iterations.",
                  plan.predicted.iteration_time.value.value()),
      "The memory of a GPU (`nvidia-smi`) stays below what the plan says plus a few GiB."};
  return result;
}

}  // namespace ptdp
