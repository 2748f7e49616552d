// Slurm: a batch job that runs ptdp-run on the plan's nodes, one task for each rank.
#include <fmt/format.h>

#include "planner/export/exporter.h"

namespace ptdp {
namespace {

/// The job. {0} is its title, {1} the nodes, {2} the ranks of a node and {3} what they take.
constexpr std::string_view kJob = R"(#!/usr/bin/env bash
# {0}
# bash job.sbatch submits itself with what is set below; sbatch job.sbatch takes Slurm's defaults.
#SBATCH --job-name=ptdp
#SBATCH --nodes={1}
#SBATCH --ntasks-per-node={2}
{3}
#SBATCH --exclusive
#SBATCH --output=ptdp-%j.out
set -euo pipefail

# Yours to set, here or in the environment.
ACCOUNT="${{ACCOUNT:-}}"  # empty: your default account
PARTITION="${{PARTITION:-}}"  # empty: the cluster's default partition
TIME="${{TIME:-01:00:00}}"  # limit of the job
CONTAINER="${{CONTAINER:-}}"  # an image for Slurm's pyxis plugin; empty: the nodes' own programs
PLAN="${{PLAN:-plan.json}}"  # the file beside this one; every node must see it
COMMAND="${{COMMAND:-ptdp-run $PLAN --steps 20}}"  # what each task runs
# TCP between the ranks. A ptdp-run that was built with MPI may take pmix.
MPI="${{MPI:-none}}"

if [ -z "${{SLURM_JOB_ID:-}}" ]; then
  export ACCOUNT PARTITION TIME CONTAINER PLAN COMMAND MPI
  exec sbatch ${{ACCOUNT:+"--account=$ACCOUNT"}} ${{PARTITION:+"--partition=$PARTITION"}} \
    --time="$TIME" "$0"
fi

# Rank 0 runs on the first host of the list: tasks fill one node after the other.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
step=(srun --nodes={1} --ntasks-per-node={2} --distribution=block --kill-on-bad-exit=1
  "--mpi=$MPI")
if [ -n "$CONTAINER" ]; then
  step+=("--container-image=$CONTAINER" "--container-mounts=$PWD" "--container-workdir=$PWD")
fi
# shellcheck disable=SC2086  # the words of the command
exec "${{step[@]}}" $COMMAND
)";

}  // namespace

std::vector<ExportRefusal> slurm_refusals(const Plan& plan) {
  return node_refusals(plan);
}

Export slurm_export(const Plan& plan) {
  const NodesInUse use = nodes_in_use(plan);
  const bool for_cores = is_for_cores(plan);
  Export result;
  result.files = {
      {"job.sbatch",
       fmt::format(
           fmt::runtime(kJob),
           fmt::format("{} on {} {}: {}", plan.scenario.job.model_name, plan.config.world_size(),
                       for_cores ? "cores" : "GPUs", to_string(plan.config)),
           use.nodes, use.gpus_per_node,
           for_cores ? std::string("#SBATCH --cpus-per-task=1")
                     : fmt::format("#SBATCH --gpus-per-node={}", use.gpus_per_node))},
      {"plan.json", to_json(plan)}};
  result.expressed = {{"nodes in use", fmt::format("--nodes={}", use.nodes)},
                      {"ranks of a node", fmt::format("--ntasks-per-node={}", use.gpus_per_node)},
                      {"order of ranks", "--distribution=block"},
                      {"everything else", "plan.json, which ptdp-run reads"}};
  result.differences = run_differences(plan);
  result.checks = run_checks(plan);
  return result;
}

}  // namespace ptdp
