#include "planner/import/trainers/deepspeed_settings.h"

#include <algorithm>
#include <array>

namespace ptdp {
namespace {

/// Beginnings of keys about data, logs, checkpoints and learning.
constexpr std::array<std::string_view, 45> kBesideTheCost = {"activation_checkpointing",
                                                             "aio.",
                                                             "autotuning",
                                                             "amp.",
                                                             "bf16.",
                                                             "bfloat16.",
                                                             "checkpoint",
                                                             "comet",
                                                             "comms_",
                                                             "communication_data_type",
                                                             "compression_training",
                                                             "csv_monitor",
                                                             "curriculum_learning",
                                                             "data_efficiency",
                                                             "dataloader_drop_last",
                                                             "disable_allgather",
                                                             "dump_state",
                                                             "eigenvalue",
                                                             "elasticity",
                                                             "flops_profiler",
                                                             "fp16.",
                                                             "gradient_clipping",
                                                             "gradient_predivide_factor",
                                                             "hybrid_engine",
                                                             "load_universal",
                                                             "memory_breakdown",
                                                             "monitor_config",
                                                             "nebula",
                                                             "optimizer",
                                                             "pipeline.",
                                                             "prescale_gradients",
                                                             "progressive_layer_drop",
                                                             "scheduler",
                                                             "sparse_gradients",
                                                             "steps_per_print",
                                                             "tag_validation",
                                                             "tensorboard",
                                                             "timers",
                                                             "torch_autocast",
                                                             "use_data_before",
                                                             "use_node_local",
                                                             "wall_clock_breakdown",
                                                             "wandb",
                                                             "zero_allow_untested",
                                                             "zero_force_ds"};
/// Beginnings of keys about buckets, buffers and formats of sums.
constexpr std::array<std::string_view, 8> kBuckets = {
    "zero_optimization", "allgather_size", "compile.",          "data_types.",
    "ddp_bf16",          "fp32_allreduce", "disable_python_gc", "tensor_parallel."};

}  // namespace

bool is_deepspeed_without_effect(std::string_view key) {
  return begins_with_any(key, kBesideTheCost);
}

bool is_deepspeed_of_the_stack(std::string_view key) {
  return begins_with_any(key, kBuckets);
}

}  // namespace ptdp
