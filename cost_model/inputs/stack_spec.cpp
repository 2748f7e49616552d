#include "cost_model/inputs/stack_spec.h"

#include <algorithm>
#include <utility>

#include "cost_model/error.h"

namespace ptdp {
namespace {

constexpr Range kBytesPerParameter = {0.0, 1e4, "bytes per parameter"};
constexpr Range kReuseDistance = {0.0, 1e15, "parameters"};
constexpr Range kStoredBytes = {0.25, 1e4, "bytes per parameter"};
constexpr Range kMegabytes = {0.001, 1e6, "megabytes"};
constexpr Range kMebibytes = {0.001, 1e6, "MiB"};
constexpr Range kLogitRange = {0.0, 1e4, "bytes per logit"};
const Bytes kUsualBucket = StackSpec{}.gradient_bucket_size;
const double kUsualLossTraffic = StackSpec{}.loss_traffic;
const double kUsualLossBytes = StackSpec{}.loss_bytes;
constexpr Range kMicroseconds = {0.0, 1e6, "microseconds"};

/// Throws Error if a precision of other_precisions is given twice or is the stack's own.
void check_precisions(const StackSpec& stack, const std::string& place) {
  std::vector<Precision> precisions = {stack.precision};
  for (const PrecisionBytes& bytes : stack.other_precisions) {
    precisions.push_back(bytes.precision);
  }
  std::sort(precisions.begin(), precisions.end());
  const auto repeated = std::adjacent_find(precisions.begin(), precisions.end());
  if (repeated != precisions.end()) {
    throw Error(place + ": " + std::string(name_of(*repeated)) +
                " is there twice, or in precision");
  }
}

/// Throws Error if two recipes have the same scaling, or none has the scaling that is in use.
void check_recipes(const StackSpec& stack, const std::string& place) {
  std::vector<Fp8Scaling> scalings;
  for (const Fp8Recipe& recipe : stack.fp8_recipes) {
    scalings.push_back(recipe.scaling);
  }
  std::sort(scalings.begin(), scalings.end());
  const auto repeated = std::adjacent_find(scalings.begin(), scalings.end());
  if (repeated != scalings.end()) {
    throw Error(place + ": " + std::string(name_of(*repeated)) + " is there twice");
  }
  if (stack.fp8 && fp8_recipe(stack) == nullptr) {
    throw Error(place + ": expected " + std::string(name_of(*stack.fp8)) +
                " among them, which fp8 names");
  }
}

/// Throws Error for a list of choices that names one twice, and for an empty list unless
/// `may_be_empty`.
template <class Value>
void check_choices(std::vector<Value> values, const std::string& place, bool may_be_empty = false) {
  std::sort(values.begin(), values.end());
  if ((values.empty() && !may_be_empty) ||
      std::adjacent_find(values.begin(), values.end()) != values.end()) {
    throw Error(place + ": expected at least one choice and none twice");
  }
}

}  // namespace

StackSpec with_overlap(StackSpec stack, const Overlap& overlap) {
  stack.pipeline_overlap = overlap.messages ? PipelineOverlap::kAlways : PipelineOverlap::kNever;
  stack.data_parallel_overlap =
      overlap.reductions ? DataParallelOverlap::kAlways : DataParallelOverlap::kNever;
  stack.parameter_gather_overlap = overlap.gathers;
  stack.tensor_parallel_overlap =
      overlap.tensor && (!overlap.as_possible || can_overlap_tensor(stack));
  if (!overlap.tensor) {
    stack.tp_comm_overlap = TpCommOverlap::kNone;
  }
  // No field of Overlap names dispatch: it goes on overlapping if all that is possible overlaps.
  stack.expert_overlap = stack.expert_overlap && overlap.as_possible;
  return stack;
}

const Fp8Recipe* fp8_recipe(const StackSpec& stack) {
  for (const Fp8Recipe& recipe : stack.fp8_recipes) {
    if (stack.fp8 == recipe.scaling) {
      return &recipe;
    }
  }
  return nullptr;
}

bool has_delayed_scaling(const StackSpec& stack) {
  const Fp8Recipe* recipe = fp8_recipe(stack);
  return recipe != nullptr && recipe->scaling == Fp8Scaling::kDelayed;
}

template <class Fields>
void describe(Fields& fields, Described<Fields, StackCapabilities>& can_run) {
  fields.choices("schedules", can_run.schedules, NamedValues<ScheduleKind>(kScheduleNames));
  fields.choices("recompute", can_run.recompute, NamedValues<Recompute>(kRecomputeNames));
  if (fields.optional("recompute_modules", can_run.recompute_modules != kCoreAttentionAlone)) {
    std::vector<RecomputeModule> modules = can_run.recompute_modules.list();
    fields.choices("recompute_modules", modules,
                   NamedValues<RecomputeModule>(kRecomputeModuleNames));
    if constexpr (Fields::kIsReading) {
      can_run.recompute_modules = {};
      for (const RecomputeModule module : modules) {
        can_run.recompute_modules.add(module);
      }
      check_choices(modules, fields.place_of("recompute_modules"));
    }
  }
  if (fields.optional("recompute_methods", !can_run.recompute_methods.empty())) {
    fields.choices("recompute_methods", can_run.recompute_methods,
                   NamedValues<RecomputeMethod>(kRecomputeMethodNames));
    if constexpr (Fields::kIsReading) {
      check_choices(can_run.recompute_methods, fields.place_of("recompute_methods"));
    }
  }
  fields.counts("zero_stages", can_run.zero_stages, 0, kHighestZeroStage);
  optional_flag(fields, "tensor_parallel", can_run.tensor_parallel, true);
  fields.flag("sequence_parallel", can_run.sequence_parallel);
  fields.flag("context_parallel", can_run.context_parallel);
  fields.flag("expert_parallel", can_run.expert_parallel);
  fields.count("interleaved_min_stages", can_run.interleaved_min_stages, 2, 1000);
  optional_flag(fields, "uneven_layers", can_run.uneven_layers, false);
  if (fields.optional("split_key_heads", can_run.split_key_heads != SplitKeyHeads::kNever)) {
    fields.choice("split_key_heads", can_run.split_key_heads,
                  NamedValues<SplitKeyHeads>(kSplitKeyHeadsNames));
  }
  optional_flag(fields, "hybrid_sharding", can_run.hybrid_sharding, false);
  optional_flag(fields, "optimizer_instances", can_run.optimizer_instances, false);
  optional_flag(fields, "kept_weights", can_run.kept_weights, false);
  if (fields.optional("rank_orders", !can_run.rank_orders.empty())) {
    fields.choices("rank_orders", can_run.rank_orders, NamedValues<RankOrder>(kRankOrderNames));
  }
  if (fields.optional("offload", !can_run.offload.empty())) {
    fields.choices("offload", can_run.offload, NamedValues<Offload>(kOffloadNames));
  }
  if constexpr (Fields::kIsReading) {
    check_choices(can_run.offload, fields.place_of("offload"), true);
    check_choices(can_run.schedules, fields.place_of("schedules"), true);
    check_choices(can_run.recompute, fields.place_of("recompute"));
    check_choices(can_run.zero_stages, fields.place_of("zero_stages"));
    check_choices(can_run.rank_orders, fields.place_of("rank_orders"), true);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, PrecisionBytes>& bytes) {
  fields.choice("precision", bytes.precision, NamedValues<Precision>(kPrecisionNames));
  fields.number("weight_bytes", bytes.weight_bytes, kStoredBytes);
  fields.number("gradient_bytes", bytes.gradient_bytes, kStoredBytes);
  fields.number("optimizer_bytes", bytes.optimizer_bytes, kBytesPerParameter);
  fields.number("reduced_gradient_bytes", bytes.reduced_gradient_bytes, kStoredBytes);
  fields.number("optimizer_traffic", bytes.optimizer_traffic, kBytesPerParameter);
  fields.number("loss_traffic", bytes.loss_traffic, kLogitRange);
  optional_flag(fields, "all_reduces_gradients", bytes.all_reduces_gradients, false);
}

/// Reads or writes the fields of the software and its kernels.
template <class Fields>
void describe_kernels(Fields& fields, Described<Fields, StackSpec>& stack) {
  fields.text("source", stack.source);
  if (fields.optional("program", stack.program != ProgramKind::kOther)) {
    fields.choice("program", stack.program, NamedValues<ProgramKind>(kProgramKindNames));
  }
  if (fields.optional("logged_flops", stack.logged_flops.has_value())) {
    fields.choice("logged_flops", held(stack.logged_flops),
                  NamedValues<FlopCount>(kFlopCountNames));
  }
  fields.choice("precision", stack.precision, NamedValues<Precision>(kPrecisionNames));
  fields.name("attention", stack.attention);
  if (fields.optional("other_attention", !stack.other_attention.empty())) {
    fields.name("other_attention", stack.other_attention);
  }
  if (fields.optional("memory_model", stack.memory_model != MemoryModel::kMegatron)) {
    fields.choice("memory_model", stack.memory_model, NamedValues<MemoryModel>(kMemoryModelNames));
  }
  optional_flag(fields, "fused_element_wise", stack.fused_element_wise, true);
  optional_flag(fields, "composed_norms", stack.composed_norms, false);
  optional_flag(fields, "deterministic", stack.deterministic, false);
  optional_flag(fields, "fused_yarn_rotary", stack.fused_yarn_rotary, true);
  optional_flag(fields, "complex_rotary", stack.complex_rotary, false);
  optional_flag(fields, "copies_heads", stack.copies_heads, false);
  optional_flag(fields, "looks_up_tokens", stack.looks_up_tokens, false);
  optional_flag(fields, "splits_gates", stack.splits_gates, false);
  optional_flag(fields, "fused_expert_biases", stack.fused_expert_biases, true);
  fields.flag("tensor_parallel_overlap", stack.tensor_parallel_overlap);
  if (fields.optional("tp_comm_overlap", stack.tp_comm_overlap != TpCommOverlap::kNone)) {
    fields.choice("tp_comm_overlap", stack.tp_comm_overlap,
                  NamedValues<TpCommOverlap>(kTpCommOverlapNames));
  }
  optional_flag(fields, "keeps_gathered_inputs", stack.keeps_gathered_inputs, false);
  optional_flag(fields, "copies_sequences", stack.copies_sequences, false);
  optional_flag(fields, "recompute_stops_early", stack.recompute_stops_early, false);
  optional_flag(fields, "keeps_expert_outputs", stack.keeps_expert_outputs, true);
  fields.flag("fused_gradient_accumulation", stack.fused_gradient_accumulation);
  optional_flag(fields, "fused_epilogues", stack.fused_epilogues, false);
  optional_flag(fields, "fused_bias_gradients", stack.fused_bias_gradients, false);
}

/// Reads or writes what is kept per parameter, in each precision.
template <class Fields>
void describe_state(Fields& fields, Described<Fields, StackSpec>& stack) {
  fields.number("weight_bytes", stack.weight_bytes, kStoredBytes);
  fields.number("gradient_bytes", stack.gradient_bytes, kStoredBytes);
  fields.number("optimizer_bytes", stack.optimizer_bytes, kBytesPerParameter);
  if (fields.optional("other_precisions", !stack.other_precisions.empty())) {
    fields.objects("other_precisions", stack.other_precisions);
    if constexpr (Fields::kIsReading) {
      check_precisions(stack, fields.place_of("other_precisions"));
      std::ranges::sort(stack.other_precisions, {}, &PrecisionBytes::precision);
    }
  }
  if (fields.optional("fp8", stack.fp8.has_value())) {
    fields.choice("fp8", held(stack.fp8), NamedValues<Fp8Scaling>(kFp8ScalingNames));
  }
  if (fields.optional("fp8_recipes", !stack.fp8_recipes.empty())) {
    fields.objects("fp8_recipes", stack.fp8_recipes);
  }
  if constexpr (Fields::kIsReading) {
    check_recipes(stack, fields.place_of("fp8_recipes"));
  }
}

/// Reads or writes what a step moves per parameter and per logit.
template <class Fields>
void describe_traffic(Fields& fields, Described<Fields, StackSpec>& stack) {
  fields.number("reduced_gradient_bytes", stack.reduced_gradient_bytes, kStoredBytes);
  fields.number("gradient_bucket_bytes", stack.gradient_bucket_bytes, kBytesPerParameter);
  if (fields.optional("gradient_bucket_MB", stack.gradient_bucket_size != kUsualBucket)) {
    fields.quantity("gradient_bucket_MB", stack.gradient_bucket_size, kMega, kMegabytes);
  }
  fields.number("gradient_staging_traffic", stack.gradient_staging_traffic, kBytesPerParameter);
  fields.number("optimizer_traffic", stack.optimizer_traffic, kBytesPerParameter);
  if (fields.optional("offloaded_optimizer_bytes", stack.offloaded_optimizer_bytes != 0.0)) {
    fields.number("offloaded_optimizer_bytes", stack.offloaded_optimizer_bytes,
                  {0.0, stack.optimizer_bytes, "at most optimizer_bytes"});
  }
  if (fields.optional("host_optimizer_traffic", stack.host_optimizer_traffic != 0.0)) {
    fields.number("host_optimizer_traffic", stack.host_optimizer_traffic, kBytesPerParameter);
  }
  if (fields.optional("loss_scaling_traffic", stack.loss_scaling_traffic != 0.0)) {
    fields.number("loss_scaling_traffic", stack.loss_scaling_traffic, kBytesPerParameter);
  }
  if (fields.optional("loss_traffic", stack.loss_traffic != kUsualLossTraffic)) {
    fields.number("loss_traffic", stack.loss_traffic, kLogitRange);
  }
  if (fields.optional("loss_bytes", stack.loss_bytes != kUsualLossBytes)) {
    fields.number("loss_bytes", stack.loss_bytes, kLogitRange);
  }
  if (fields.optional("split_loss_bytes", stack.split_loss_bytes != 0.0)) {
    fields.number("split_loss_bytes", stack.split_loss_bytes, kLogitRange);
  }
}

/// Reads or writes what overlaps with what, what starting work costs, and what the stack can run.
template <class Fields>
void describe_communication(Fields& fields, Described<Fields, StackSpec>& stack) {
  optional_flag(fields, "optimizer_post_validation", stack.optimizer_post_validation, false);
  fields.choice("data_parallel_overlap", stack.data_parallel_overlap,
                NamedValues<DataParallelOverlap>(kDataParallelOverlapNames));
  optional_flag(fields, "parameter_gather_overlap", stack.parameter_gather_overlap, true);
  optional_flag(fields, "copies_gathered_weights", stack.copies_gathered_weights, false);
  optional_flag(fields, "shards_matrices_apart", stack.shards_matrices_apart, false);
  if (fields.optional("max_reuse_distance", stack.max_reuse_distance != 0.0)) {
    fields.number("max_reuse_distance", stack.max_reuse_distance, kReuseDistance);
  }
  optional_flag(fields, "all_reduces_gradients", stack.all_reduces_gradients, false);
  optional_flag(fields, "broadcasts_weights", stack.broadcasts_weights, false);
  optional_flag(fields, "all_reduces_shards", stack.all_reduces_shards, false);
  fields.flag("scatter_gather", stack.scatter_gather);
  if (fields.optional("expert_dispatch", stack.expert_dispatch != ExpertDispatch::kAllToAll)) {
    fields.choice("expert_dispatch", stack.expert_dispatch,
                  NamedValues<ExpertDispatch>(kExpertDispatchNames));
  }
  optional_flag(fields, "expert_overlap", stack.expert_overlap, false);
  optional_flag(fields, "pads_expert_rows", stack.pads_expert_rows, false);
  optional_flag(fields, "fused_expert_activation", stack.fused_expert_activation, false);
  if (fields.optional("context_parallel_kind",
                      stack.context_parallel_kind != ContextParallel::kRing)) {
    fields.choice("context_parallel_kind", stack.context_parallel_kind,
                  NamedValues<ContextParallel>(kContextParallelNames));
  }
  fields.choice("pipeline_overlap", stack.pipeline_overlap,
                NamedValues<PipelineOverlap>(kPipelineOverlapNames));
  fields.quantity("pipeline_latency_us", stack.pipeline_latency, kMicro, kMicroseconds);
  fields.quantity("microbatch_overhead_us", stack.microbatch_overhead, kMicro, kMicroseconds);
  fields.quantity("host_time_per_kernel_us", stack.host_time_per_kernel, kMicro, kMicroseconds);
  if (fields.optional("cuda_graphs", stack.cuda_graphs != CudaGraphs::kNone)) {
    fields.choice("cuda_graphs", stack.cuda_graphs, NamedValues<CudaGraphs>(kCudaGraphsNames));
  }
  fields.number("overlap_slowdown", stack.overlap_slowdown, {0.0, 1.0, "a fraction"});
  fields.number("reserve_fraction", stack.reserve_fraction, {0.0, 0.9, "of device memory"});
  if (fields.optional("workspace_MiB", stack.workspace.value() > 0.0)) {
    fields.quantity("workspace_MiB", stack.workspace, kGibi / 1024.0, kMebibytes);
  }
  fields.object("can_run", stack.can_run);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, StackSpec>& stack) {
  fields.name("name", stack.name);
  describe_kernels(fields, stack);
  describe_state(fields, stack);
  describe_traffic(fields, stack);
  describe_communication(fields, stack);
  if constexpr (Fields::kIsReading) {
    const std::vector<Offload>& offload = stack.can_run.offload;
    if (std::any_of(offload.begin(), offload.end(), offloads_optimizer) &&
        stack.offloaded_optimizer_bytes == 0.0) {
      throw Error(fields.place_of("offloaded_optimizer_bytes") +
                  ": expected what a host holds of optimizer_bytes, since can_run.offload has "
                  "optimizer; got 0 or nothing");
    }
  }
}

template void describe(ObjectReader&, StackSpec&);
template void describe(ObjectWriter&, const StackSpec&);

}  // namespace ptdp
