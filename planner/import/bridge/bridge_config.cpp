// Degrees, schedule, recomputation, sharding and overlap in paths of Megatron-Bridge.
#include <algorithm>
#include <array>

#include "cost_model/text/in_quotes.h"
#include "planner/import/bridge/bridge.h"
#include "planner/import/megatron/megatron_layers.h"

namespace ptdp {
namespace {

bool is_set(const FlagList& paths, std::string_view path) {
  return paths.truth(path).value_or(false);
}

void read_bridge_split(const FlagList& paths, const TransformerConfig& model,
                       ParallelConfig& config) {
  constexpr const char* chunks_path = "model.virtual_pipeline_model_parallel_size";
  const auto chunks = paths.count(chunks_path);
  const MegatronSplit split =
      megatron_split(paths, model.num_layers, config.pp,
                     {.layout = "model.pipeline_model_parallel_layout",
                      .chunks = chunks_path,
                      .layers_per_chunk = "",
                      .first = "model.num_layers_in_first_pipeline_stage",
                      .last = "model.num_layers_in_last_pipeline_stage",
                      .embedding = "model.account_for_embedding_in_pipeline_split",
                      .loss = "model.account_for_loss_in_pipeline_split"});
  if (chunks && *chunks != split.vpp) {
    paths.refuse(chunks_path, "expected the " + std::to_string(split.vpp) + " of the layout, got " +
                                  std::to_string(*chunks));
  }
  config.vpp = split.vpp;
  config.layers_per_stage = split.layers_per_stage;
  config.schedule = config.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
}

void read_bridge_degrees(const FlagList& paths, const TransformerConfig& model, ImportedRun& run) {
  ParallelConfig& config = run.config;
  config.tp = paths.count("model.tensor_model_parallel_size").value_or(1);
  config.pp = paths.count("model.pipeline_model_parallel_size").value_or(1);
  config.cp = paths.count("model.context_parallel_size").value_or(1);
  const auto ep = paths.count("model.expert_model_parallel_size");
  const auto etp = paths.count("model.expert_tensor_parallel_size");
  const bool has_said_experts = !run.model && (ep || etp);  // then --model has experts
  if (has_experts(model) || has_said_experts) {
    config.ep = ep.value_or(1);
    config.etp = etp.value_or(config.tp);
  }
  const bool is_meant = is_set(paths, "model.sequence_parallel");
  config.sequence_parallel = is_meant && config.tp > 1;
  if (is_meant && config.tp == 1) {
    run.reading.notes.emplace_back("model.sequence_parallel means nothing with tp 1");
  }
  if (is_set(paths, "dist.use_tp_pp_dp_mapping")) {
    config.rank_order = RankOrder::kTpCpEpPpDp;
  }
  read_bridge_split(paths, model, config);
  const auto group = paths.count("model.microbatch_group_size_per_vp_stage");
  if (group && *group != config.pp && config.vpp > 1) {
    run.reading.notes.push_back("a group of " + std::to_string(*group) +
                                " microbatches is costed as one of pp");
  }
}

void read_bridge_recomputation(const FlagList& paths, const TransformerConfig& model,
                               ParallelConfig& config) {
  const RecomputeFlags names = {.granularity = "model.recompute_granularity",
                                .modules = "model.recompute_modules",
                                .method = "model.recompute_method",
                                .num_layers = "model.recompute_num_layers"};
  recompute_as_said(paths, names, paths.text(names.granularity).value_or("none"), model.num_layers,
                    config);
}

void read_bridge_sharding(const FlagList& paths, const BridgeFile& file, ImportedRun& run) {
  constexpr const char* strategy_path = "ddp.data_parallel_sharding_strategy";
  ParallelConfig& config = run.config;
  const auto of_gradients = paths.truth("ddp.use_distributed_optimizer");
  const auto of_optimizer = paths.truth("optimizer.use_distributed_optimizer");
  const std::string strategy =
      paths.text(strategy_path).value_or(file.has_whole_rest ? "no_shard" : "optim_grads_params");
  const int instances = paths.count("ddp.num_distributed_optimizer_instances").value_or(1);
  // Bridge switches both on where one is. Its recipes have both.
  const bool is_sharded = of_gradients || of_optimizer
                              ? of_gradients.value_or(false) || of_optimizer.value_or(false)
                              : !file.has_whole_rest;
  if (!of_gradients && !of_optimizer && !file.has_whole_rest) {
    run.reading.notes.emplace_back("ZeRO-1, as Megatron-Bridge's recipes have it");
  }
  config.zero_stage = is_sharded ? 1 : 0;
  if (is_set(paths, "dist.use_torch_fsdp2")) {
    config.zero_stage = 3;
  }
  // All three are asked for, so that none is listed as not known.
  const std::array is_fsdp = {is_set(paths, "ddp.use_megatron_fsdp"),
                              is_set(paths, "dist.use_megatron_fsdp"),
                              is_set(paths, "ddp.use_custom_fsdp")};
  if (std::ranges::find(is_fsdp, true) != is_fsdp.end()) {
    const std::array<std::string_view, 4> names = {"no_shard", "optim", "optim_grads",
                                                   "optim_grads_params"};
    const auto* name = std::ranges::find(names, strategy);
    if (name == names.end()) {
      paths.refuse(strategy_path,
                   "expected no_shard, optim, optim_grads or optim_grads_params, got " +
                       in_quotes(strategy));
    }
    config.zero_stage = static_cast<int>(name - names.begin());
  }
  config.dp_replicate = config.zero_stage > 0 ? instances : 1;
  if (paths.text("ddp.outer_dp_sharding_strategy").value_or("no_shard") != "no_shard") {
    run.reading.notes.emplace_back(
        "ddp.outer_dp_sharding_strategy: the outer replicas are costed as whole");
  }
}

void read_bridge_offload(const FlagList& paths, const TransformerConfig& model, ImportedRun& run) {
  ParallelConfig& config = run.config;
  const bool optimizer = is_set(paths, "optimizer.optimizer_cpu_offload");
  const double fraction = paths.number("optimizer.optimizer_offload_fraction").value_or(0.0);
  const int given = paths.count("model.cpu_offloading_num_layers", 0).value_or(0);
  const int layers = is_set(paths, "model.cpu_offloading") ? given : 0;
  config.offload = optimizer && layers > 0 ? Offload::kBoth
                   : optimizer             ? Offload::kOptimizer
                   : layers > 0            ? Offload::kActivations
                                           : Offload::kNone;
  config.offload_num_layers = layers == model.num_layers - 1 ? 0 : layers;
  if (optimizer && fraction < 1.0) {
    run.reading.notes.emplace_back(
        "optimizer.optimizer_offload_fraction: all of the optimizer is costed on the host");
  }
  if (is_set(paths, "model.fine_grained_activation_offloading")) {
    (void)paths.has("model.offload_modules");
    run.reading.notes.emplace_back("model.fine_grained_activation_offloading is not costed");
  }
}

/// Returns a value of comm_overlap, else that of the part which it changes. Without either:
/// nullopt where a recipe has it, else `usual` if there is a comm_overlap.
std::optional<bool> overlap_of(const FlagList& paths, const BridgeFile& file,
                               const std::string& name, const std::string& part, bool usual) {
  const auto above = paths.truth("comm_overlap." + name);
  const auto below = paths.truth(part + "." + name);
  if (above) {
    return above;
  }
  const bool has_overlap = paths.has("comm_overlap.tp_comm_overlap");
  if (has_overlap) {
    return usual;
  }
  return below || !file.has_whole_rest ? below : std::optional(false);
}

void read_bridge_stack(const FlagList& paths, const BridgeFile& file, ImportedRun& run) {
  const ParallelConfig& config = run.config;
  run.stack.reductions = overlap_of(paths, file, "overlap_grad_reduce", "ddp", true);
  const auto gathers = overlap_of(paths, file, "overlap_param_gather", "ddp", true);
  if (config.zero_stage > 0) {
    run.stack.gathers = gathers;
  }
  const auto within = overlap_of(paths, file, "tp_comm_overlap", "model", false);
  if (config.sequence_parallel) {
    run.stack.within_products = within;
  }
  const auto sends = overlap_of(paths, file, "overlap_p2p_comm", "model", config.vpp > 1);
  if (config.vpp > 1 && config.pp > 2) {
    run.stack.pipeline = sends;
  }
  read_context_parallel(paths, "model.cp_comm_type", run);
}

void read_bridge_dispatch(const FlagList& paths, const BridgeFile& file,
                          const TransformerConfig& model, ImportedRun& run) {
  const auto dispatcher = paths.text("model.moe_token_dispatcher_type");
  const bool is_deep = is_set(paths, "model.moe_enable_deepep");
  (void)paths.has("model.moe_flex_dispatcher_backend");
  const auto hides = overlap_of(paths, file, "overlap_moe_expert_parallel_comm", "model", false);
  const bool may_have_experts = has_experts(model) || !run.model;
  if (may_have_experts) {
    run.stack.experts = hides;
  }
  if (may_have_experts && (dispatcher || is_deep || run.model)) {
    const std::string type = dispatcher.value_or("allgather");
    run.stack.dispatch = is_deep || type == "flex" ? ExpertDispatch::kHierarchical
                         : type == "alltoall"      ? ExpertDispatch::kAllToAll
                                                   : ExpertDispatch::kAllGather;
  }
}

}  // namespace

void read_bridge_config(const FlagList& paths, const BridgeFile& file,
                        const TransformerConfig& model, ImportedRun& run) {
  read_bridge_degrees(paths, model, run);
  read_bridge_recomputation(paths, model, run.config);
  read_bridge_sharding(paths, file, run);
  read_bridge_offload(paths, model, run);
  read_bridge_stack(paths, file, run);
  read_bridge_dispatch(paths, file, model, run);
}

}  // namespace ptdp
