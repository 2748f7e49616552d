#include "planner/export/launch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "planner/export/exporter.h"

namespace ptdp {

std::string shell_word(const std::string& word) {
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("_-./,:=+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (is_plain) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

std::string launch_script(const Plan& plan, const LaunchScript& script) {
  const NodesInUse use = nodes_in_use(plan);
  std::string text = fmt::format(
      "#!/usr/bin/env bash\n"
      "# {}\n"
      "# Under Slurm: sbatch launch.sh. On one node: bash launch.sh. On several without Slurm, on\n"
      "# each: MASTER_ADDR=FIRST_HOST NODE_RANK=0,1,... bash launch.sh\n"
      "#SBATCH --nodes={}\n"
      "#SBATCH --ntasks-per-node=1\n"
      "#SBATCH --gpus-per-node={}\n"
      "#SBATCH --exclusive\n"
      "set -euo pipefail\n"
      "\n"
      "# Yours to set, here or in the environment.\n",
      script.title, use.nodes, use.gpus_per_node);
  for (const ScriptVariable& variable : script.variables) {
    text += fmt::format("{0}=\"${{{0}:-{1}}}\"  # {2}\n", variable.name, variable.value,
                        variable.comment);
  }
  text += "\n";
  for (const auto& [name, value] : script.environment) {
    text += fmt::format("export {}={}\n", name, shell_word(value));
  }
  text += fmt::format(
      "export MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\n"
      "launcher=()\n"
      "if [ -n \"${{SLURM_JOB_NODELIST:-}}\" ]; then\n"
      "  MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "  launcher=(srun --nodes={0} --ntasks={0} --ntasks-per-node=1)\n"
      "fi\n"
      "export MASTER_ADDR=\"${{MASTER_ADDR:-127.0.0.1}}\"\n"
      "\n"
      "# shellcheck disable=SC2016,SC2086  # the inner shell expands these; flags are words\n"
      "# SLURM_NODEID is that of the node where torchrun starts: ranks follow the order of nodes.\n"
      "\"${{launcher[@]}}\" bash -c '\n"
      "  exec torchrun --nnodes={0} --nproc-per-node={1} "
      "--node-rank=\"${{SLURM_NODEID:-${{NODE_RANK:-0}}}}\" \\\n"
      "    --master-addr=\"$MASTER_ADDR\" --master-port=\"$MASTER_PORT\" \"$@\"' torchrun",
      use.nodes, use.gpus_per_node);
  for (const std::string& line : script.lines) {
    text += " \\\n  " + line;
  }
  return text + "\n";
}

}  // namespace ptdp
