#include "planner/export/trainers/accelerate_files.h"

#include <fmt/format.h>

#include "cost_model/inputs/parallel_config.h"
#include "planner/export/exporter.h"
#include "planner/export/trainers/huggingface_model.h"

namespace ptdp {
namespace {

std::string_view precision_name(Precision precision) {
  return precision == Precision::kFp32 ? "\"no\"" : name_of(precision);
}

}  // namespace

std::string accelerate_yaml(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  std::string text = fmt::format(
      "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: {}\n"
      "main_training_function: main\nmixed_precision: {}\nnum_machines: {}\nnum_processes: {}\n"
      "rdzv_backend: static\nsame_network: true\nuse_cpu: false\n",
      shards_weights(config)    ? "FSDP"
      : config.world_size() > 1 ? "MULTI_GPU"
                                : "\"NO\"",
      precision_name(plan.scenario.stack.precision), nodes_in_use(plan).nodes, config.world_size());
  if (!shards_weights(config)) {
    return text;
  }
  text += fmt::format(
      "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n"
      "  fsdp_offload_params: false\n  fsdp_activation_checkpointing: {}\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_transformer_layer_cls_to_wrap: {}\n  fsdp_cpu_ram_efficient_loading: false\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
      config.reshard_after_forward, repeats(config.recompute) == Repeats::kLayer,
      huggingface_type(plan.scenario.job.model).layer_class);
  text += fmt::format(
      "parallelism_config:\n  parallelism_config_dp_replicate_size: {}\n"
      "  parallelism_config_dp_shard_size: {}\n  parallelism_config_cp_size: {}\n"
      "  parallelism_config_tp_size: {}\n",
      config.dp_replicate, config.dp / config.dp_replicate, config.cp, config.tp);
  if (config.cp > 1) {
    // torch's "alltoall" passes blocks of keys and values around the ring.
    text += fmt::format("  parallelism_config_cp_comm_strategy: {}\n",
                        plan.scenario.stack.context_parallel_kind == ContextParallel::kRing
                            ? "alltoall"
                            : "allgather");
  }
  return text;
}

std::string accelerate_batch(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  return fmt::format(
      "{{\n  \"micro_batch_size\": {},\n  \"gradient_accumulation_steps\": {},\n"
      "  \"global_batch_size\": {},\n  \"sequence_length\": {},\n  \"shards_gradients\": {},\n"
      "  \"steps\": 20\n}}\n",
      config.micro_batch_size, num_microbatches(plan.scenario.job.global_batch_size, config),
      plan.scenario.job.global_batch_size, plan.scenario.job.model.seq_length,
      shards_weights(config));
}

std::string accelerate_launch(const Plan& plan) {
  const NodesInUse use = nodes_in_use(plan);
  return fmt::format(
      "#!/usr/bin/env bash\n# {0} on {1} GPUs with Accelerate: {2}\n"
      "# Under Slurm: sbatch launch.sh. On one node: bash launch.sh. On several without Slurm, on\n"
      "# each: MASTER_ADDR=FIRST_HOST NODE_RANK=0,1,... bash launch.sh\n"
      "#SBATCH --nodes={3}\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node={4}\n"
      "#SBATCH --exclusive\nset -euo pipefail\n\n"
      "# Yours to set, here or in the environment.\n"
      "export MODEL_DIR=\"${{MODEL_DIR:-$PWD/model}}\"  # weights to split over tp, made if "
      "missing\n"
      "PROGRAM=\"${{PROGRAM:-train.py}}\"  # your own program, with Accelerator() in it\n\n"
      "export MASTER_PORT=\"${{MASTER_PORT:-29500}}\"\nlauncher=()\n"
      "if [ -n \"${{SLURM_JOB_NODELIST:-}}\" ]; then\n"
      "  MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)\n"
      "  launcher=(srun --nodes={3} --ntasks={3} --ntasks-per-node=1)\nfi\n"
      "export MASTER_ADDR=\"${{MASTER_ADDR:-127.0.0.1}}\"\n\n"
      "# shellcheck disable=SC2016  # the inner shell expands these, on each node\n"
      "\"${{launcher[@]}}\" bash -c '\n"
      "  exec accelerate launch --config_file accelerate.yaml \\\n"
      "    --machine_rank \"${{SLURM_NODEID:-${{NODE_RANK:-0}}}}\" \\\n"
      "    --main_process_ip \"$MASTER_ADDR\" --main_process_port \"$MASTER_PORT\" \"$@\"' "
      "accelerate "
      "\\\n  \"$PROGRAM\"\n",
      plan.scenario.job.model_name, plan.config.world_size(), to_string(plan.config), use.nodes,
      use.gpus_per_node);
}

}  // namespace ptdp
