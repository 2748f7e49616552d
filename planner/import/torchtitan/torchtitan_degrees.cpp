// torchtitan's degrees of parallelism, and what of the stack they say.
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/import/torchtitan/torchtitan.h"

namespace ptdp {
namespace {

constexpr std::string_view kShardKey = "parallelism.data_parallel_shard_degree";
constexpr std::string_view kTensorKey = "parallelism.expert_tensor_parallel_degree";
constexpr std::string_view kSequenceKey = "parallelism.enable_sequence_parallel";

/// Sets dp from the number of GPUs, and how weights are sharded over it.
void read_data_parallelism(const TorchtitanSettings& settings, const TorchtitanSource& source,
                           ImportedRun& run) {
  ParallelConfig& config = run.config;
  const int replicas = settings.count("parallelism.data_parallel_replicate_degree").value_or(1);
  const int shards = settings.count(kShardKey, -1).value_or(-1);
  const std::string reshard =
      settings.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  if (shards == 0) {
    settings.refuse(kShardKey, R"(expected -1 or a number from 1, got "0")");
  }
  config.dp = replicas;
  const std::int64_t rest = config.world_size();
  const std::int64_t said =
      shards > 0 && rest < std::numeric_limits<int>::max() ? rest * shards : 0;
  run.gpus = source.gpus > 0 ? source.gpus : said;
  if (run.gpus == 0) {
    throw Error(source.file.place + ": does not say how many GPUs there are; expected --gpus too");
  }
  if (run.gpus % rest != 0 || (shards > 0 && run.gpus != said)) {
    throw Error(source.file.place + ": " + plural(run.gpus, "GPU") + " are no " +
                (shards > 0 ? "product of the degrees, " + std::to_string(said)
                            : "multiple of the other degrees, " + std::to_string(rest)) +
                "; --gpus gives another number");
  }
  const std::int64_t dp = run.gpus / rest * replicas;
  if (dp > std::numeric_limits<int>::max()) {
    throw Error(source.file.place + ": expected fewer GPUs, got " + std::to_string(run.gpus));
  }
  config.dp = static_cast<int>(dp);
  if (shards < 0) {
    run.reading.notes.push_back("shard degree " + std::to_string(config.dp / replicas) + ": " +
                                plural(run.gpus, "GPU") + " over the other degrees, " +
                                std::to_string(rest));
  }
  if (reshard != "default" && reshard != "always" && reshard != "never") {
    settings.refuse("parallelism.fsdp_reshard_after_forward",
                    "expected default, always or never, got " + in_quotes(reshard));
  }
  if (std::int64_t{1} * config.dp / replicas * config.cp > 1) {
    config.zero_stage = 3;
    config.dp_replicate = replicas;
    config.reshard_after_forward = reshard != "never";
    if (reshard == "always" && config.pp > 1) {
      run.reading.notes.emplace_back(
          "fsdp_reshard_after_forward always: with a pipeline, weights are costed as they stay "
          "between passes");
    }
  } else if (replicas > 1 && !source.is_command_line &&
             std::int64_t{1} * config.tp * config.pp > 1) {
    run.reading.notes.emplace_back(
        "torchtitan 0.2.2 refuses replicas without shards beside tensor or pipeline parallelism");
  }
}

void read_expert_degrees(const TorchtitanSettings& settings, const TorchtitanSource& source,
                         const std::optional<TransformerConfig>& model, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const int ep = settings.count("parallelism.expert_parallel_degree").value_or(1);
  const int etp = settings.count(kTensorKey).value_or(1);
  const std::string backend =
      settings.text("parallelism.expert_parallel_comm_backend").value_or("standard");
  if (model ? !has_experts(*model) : ep == 1) {
    return;
  }
  config.ep = ep;
  config.etp = ep == 1 ? config.tp : source.is_command_line ? 1 : etp;
  if (config.etp != 1 && config.etp != config.tp) {
    settings.refuse(kTensorKey, "expected 1 or tp, " + std::to_string(config.tp) + ", got " +
                                    std::to_string(etp));
  }
  if (ep > 1) {
    run.stack.dispatch =
        backend == "standard" ? ExpertDispatch::kAllToAll : ExpertDispatch::kHierarchical;
  }
}

}  // namespace

void read_torchtitan_degrees(const TorchtitanSettings& settings, const TorchtitanSource& source,
                             const std::optional<TransformerConfig>& model, ImportedRun& run) {
  ParallelConfig& config = run.config;
  config.tp = settings.count("parallelism.tensor_parallel_degree").value_or(1);
  config.cp = settings.count("parallelism.context_parallel_degree").value_or(1);
  const bool is_split = !settings.has(kSequenceKey) || settings.truth(kSequenceKey);
  config.sequence_parallel = config.tp > 1 && is_split;
  const TorchtitanPipeline pipeline = torchtitan_pipeline(settings, model ? model->num_layers : 0);
  config.pp = pipeline.pp;
  config.vpp = pipeline.vpp;
  config.schedule = pipeline.schedule;
  config.layers_per_stage = pipeline.layers_per_stage;
  read_data_parallelism(settings, source, run);
  read_expert_degrees(settings, source, model, run);
  const std::string rotation =
      settings.text("parallelism.context_parallel_rotate_method").value_or("allgather");
  if (config.cp > 1) {
    run.stack.context =
        rotation == "alltoall" ? ContextParallel::kRing : ContextParallel::kAllGather;
  }
  const bool is_asynchronous =
      settings.truth("compile.enable_async_tensor_parallel") && settings.truth("compile.enable");
  if (config.sequence_parallel) {
    run.stack.within_products = is_asynchronous;
  }
  if (std::int64_t{1} * config.dp * config.cp > 1) {
    run.stack.reductions = true;
    run.stack.gathers = true;
  }
}

}  // namespace ptdp
