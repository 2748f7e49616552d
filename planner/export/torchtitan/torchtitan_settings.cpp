#include "planner/export/torchtitan/torchtitan_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

/// A list of settings under construction.
class Settings {
 public:
  template <class Value>
  void add(std::string part, std::string key, Value value) {
    list_.push_back({std::move(part), std::move(key), std::move(value)});
  }
  void add_number(std::string part, std::string key, std::int64_t value) {
    add(std::move(part), std::move(key), value);
  }
  void add_text(std::string part, std::string key, std::string_view value) {
    add(std::move(part), std::move(key), std::string(value));
  }
  [[nodiscard]] std::vector<TorchtitanSetting> take() { return std::move(list_); }

 private:
  std::vector<TorchtitanSetting> list_;
};

/// Returns the modules of each virtual stage, as models of a release name them.
StageModules stage_modules(const Plan& plan, TorchtitanRelease release) {
  StageModules stages;
  int layer = 0;
  for (const int layers : plan.schedule.layers_per_stage) {
    Names& modules = stages.emplace_back();
    if (stages.size() == 1) {
      modules.emplace_back("tok_embeddings");
    }
    for (int i = 0; i < layers; ++i) {
      modules.push_back(fmt::format("layers.{}", layer++));
    }
  }
  stages.back().emplace_back("norm");
  stages.back().emplace_back(release == TorchtitanRelease::k022 ? "output" : "lm_head");
  return stages;
}

void add_pipeline(const Plan& plan, TorchtitanRelease release, Settings& settings) {
  const ParallelConfig& config = plan.config;
  settings.add_number("pipeline parallel", "parallelism.pipeline_parallel_degree", config.pp);
  if (config.pp == 1) {
    return;
  }
  settings.add_text("schedule", "parallelism.pipeline_parallel_schedule",
                    torchtitan_schedule(config));
  if (needs_schedule_csv(plan)) {
    settings.add_text("schedule", "parallelism.pipeline_parallel_schedule_csv", "schedule.csv");
  }
  settings.add_number("microbatch", "parallelism.pipeline_parallel_microbatch_size",
                      config.micro_batch_size);
  const std::vector<int>& layers = plan.schedule.layers_per_stage;
  const bool is_even =
      std::ranges::all_of(layers, [&](int count) { return count == layers.front(); });
  if (is_even) {
    // Left out, both are 1: torchtitan would take a layer from the first and the last stage.
    settings.add_number("layers per stage", "parallelism.pipeline_parallel_first_stage_less_layers",
                        0);
    settings.add_number("layers per stage", "parallelism.pipeline_parallel_last_stage_less_layers",
                        0);
    settings.add_number("layers per stage", "parallelism.pipeline_parallel_layers_per_stage",
                        layers.front());
  } else {
    settings.add("layers per stage", "parallelism.module_fqns_per_model_part",
                 stage_modules(plan, release));
  }
}

void add_sharding(const ParallelConfig& config, Settings& settings) {
  const int replicas = config.zero_stage == 0 ? config.dp : config.dp_replicate;
  settings.add_number("data parallel", "parallelism.data_parallel_replicate_degree", replicas);
  settings.add_number("data parallel", "parallelism.data_parallel_shard_degree",
                      config.dp / replicas);
  settings.add_text("weights between passes", "parallelism.fsdp_reshard_after_forward",
                    config.reshard_after_forward ? "default" : "never");
}

}  // namespace

bool is_compiled(const Plan& plan) {
  return plan.scenario.stack.fused_element_wise && !traits_of(plan.config.schedule).splits_backward;
}

std::vector<TorchtitanSetting> torchtitan_settings(const Plan& plan, TorchtitanRelease release) {
  const ParallelConfig& config = plan.config;
  const StackSpec& stack = plan.scenario.stack;
  const bool is_old = release == TorchtitanRelease::k022;
  const std::int64_t batch = plan.scenario.job.global_batch_size;
  Settings settings;
  // With a pipeline the local batch is all microbatches of an iteration, which the schedule runs.
  settings.add_number("batch", "training.local_batch_size",
                      config.pp > 1 ? batch / config.dp : config.micro_batch_size);
  settings.add_number("batch", "training.global_batch_size", batch);
  settings.add_number("sequence length", "training.seq_len", plan.scenario.job.model.seq_length);
  settings.add_text("precision", "training.dtype", "float32");
  settings.add_text("precision", "training.mixed_precision_param",
                    stack.precision == Precision::kBf16 ? "bfloat16" : "float32");
  settings.add_text("precision", "training.mixed_precision_reduce", "float32");
  if (!is_old && stack.cuda_graphs == CudaGraphs::kNone) {
    settings.add("CUDA graphs", "training.disable_cuda_graphs", true);
  }
  settings.add_number("tensor parallel", "parallelism.tensor_parallel_degree", config.tp);
  if (!is_old) {
    settings.add("sequence parallel", "parallelism.enable_sequence_parallel",
                 config.sequence_parallel);
  }
  add_pipeline(plan, release, settings);
  add_sharding(config, settings);
  settings.add_number("context parallel", "parallelism.context_parallel_degree", config.cp);
  if (is_old && config.cp > 1) {
    settings.add_text(
        "context parallel", "parallelism.context_parallel_rotate_method",
        stack.context_parallel_kind == ContextParallel::kRing ? "alltoall" : "allgather");
  }
  if (has_experts(plan.scenario.job.model)) {
    settings.add_number("expert parallel", "parallelism.expert_parallel_degree", config.ep);
    if (is_old && config.ep > 1) {
      settings.add_number("expert tensor parallel", "parallelism.expert_tensor_parallel_degree",
                          config.etp);
    }
  }
  settings.add("fused kernels", "compile.enable", is_compiled(plan));
  settings.add(
      "collectives within products",
      is_old ? "parallelism.enable_async_tensor_parallel" : "compile.enable_async_tensor_parallel",
      is_compiled(plan) && config.sequence_parallel && config.tp > 1 &&
          stack.tp_comm_overlap == TpCommOverlap::kSymmetricMemory);
  settings.add_number("", "training.steps", 20);
  settings.add_number("", "lr_scheduler.warmup_steps", 2);
  settings.add_number("", "metrics.log_freq", 1);
  return settings.take();
}

}  // namespace ptdp
