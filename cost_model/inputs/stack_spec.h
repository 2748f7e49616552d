// The training software: what it does in a step, and what it can run.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/fp8_recipe.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

/// When the gradient reduction runs behind the backward pass.
enum class DataParallelOverlap {
  kNever,
  kSingleStage,  ///< Only without pipelining (Megatron-LM 2021: torch's DDP, else its own).
  kAlways
};
inline constexpr std::array kDataParallelOverlapNames = {
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kNever, "never"},
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kSingleStage, "single-stage"},
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kAlways, "always"}};

/// Which schedules' messages run beside compute. Where it is left open, those that split the
/// backward pass: their runtimes post messages ahead.
enum class PipelineOverlap {
  kNever,
  kSplitBackward,  ///< Megatron-LM without --overlap-p2p-communication.
  kInterleaved,    ///< And those of several chunks per rank.
  kAlways
};
inline constexpr std::array kPipelineOverlapNames = {
    NamedValue<PipelineOverlap>{PipelineOverlap::kNever, "never"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kSplitBackward, "split-backward"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kInterleaved, "interleaved"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kAlways, "always"}};

/// How collectives of sequence parallelism run within the products that use or make what they move,
/// cut into chunks (layer/product_overlap.h). What they move lies within a node.
enum class TpCommOverlap {
  kNone,
  kUserBuffers,     ///< TransformerEngine's, Megatron-Core's --tp-comm-overlap.
  kSymmetricMemory  ///< PyTorch's asynchronous tensor parallelism.
};
inline constexpr std::array kTpCommOverlapNames = {
    NamedValue<TpCommOverlap>{TpCommOverlap::kNone, "none"},
    NamedValue<TpCommOverlap>{TpCommOverlap::kUserBuffers, "userbuffers"},
    NamedValue<TpCommOverlap>{TpCommOverlap::kSymmetricMemory, "symmetric-memory"}};

/// What is kept for backward passes, and when it is released.
enum class MemoryModel {
  kMegatron,  ///< Korthikanti et al.'s table, masks of one byte, allocators that give nothing back.
  kPtdp       ///< This project's runtime, buffer by buffer (memory/runtime_memory.h).
};
inline constexpr std::array kMemoryModelNames = {
    NamedValue<MemoryModel>{MemoryModel::kMegatron, "megatron"},
    NamedValue<MemoryModel>{MemoryModel::kPtdp, "ptdp"}};

/// What a stack can run: constraints of the search.
struct StackCapabilities {
  std::vector<ScheduleKind> schedules;  ///< Empty: it has no pipeline parallelism.
  std::vector<Recompute> recompute;
  RecomputeModules recompute_modules = kCoreAttentionAlone;  ///< What `selective` may be of.
  std::vector<RecomputeMethod> recompute_methods;  ///< Of `full`, where it is of some layers.
  std::vector<int> zero_stages;
  bool sequence_parallel = false;
  bool context_parallel = false;
  bool expert_parallel = false;        ///< And models with experts at all.
  bool hybrid_sharding = false;        ///< Replicas of shards: dp_replicate above 1.
  bool kept_weights = false;           ///< Full sharding without reshard_after_forward.
  int interleaved_min_stages = 2;      ///< Smallest pp that the interleaved schedule accepts.
  bool uneven_layers = false;          ///< Any number of layers for each virtual stage.
  std::vector<RankOrder> rank_orders;  ///< Beside Megatron-LM's default.
  std::vector<Offload> offload;        ///< Beside none.

  friend bool operator==(const StackCapabilities&, const StackCapabilities&) = default;
};

/// What selective recomputation is of where nobody says: the attention core, or where the stack
/// does not run that, what it does.
[[nodiscard]] constexpr RecomputeModules usual_modules(const StackCapabilities& can_run) {
  for (const RecomputeModule usual :
       {RecomputeModule::kCoreAttention, RecomputeModule::kEverySecondProduct}) {
    if (can_run.recompute_modules.has(usual)) {
      return {usual};
    }
  }
  return can_run.recompute_modules;
}

/// What a stack keeps and moves when it trains in another precision than StackSpec::precision:
/// StackSpec's fields of the same names.
struct PrecisionBytes {
  Precision precision = Precision::kFp32;
  double weight_bytes = 0.0;
  double gradient_bytes = 0.0;
  double optimizer_bytes = 0.0;
  double reduced_gradient_bytes = 0.0;
  double optimizer_traffic = 0.0;
  double loss_traffic = 0.0;

  friend bool operator==(const PrecisionBytes&, const PrecisionBytes&) = default;
};

/// One version of a training framework. Bytes "per parameter" are per parameter held by a GPU.
struct StackSpec {
  std::string name;
  std::string source;
  Precision precision = Precision::kBf16;
  std::string attention = "unfused";  ///< Or a fused kernel that the GPU has a rate for.
  MemoryModel memory_model = MemoryModel::kMegatron;
  bool fused_element_wise = true;        ///< Bias-GELU, bias-dropout-add, scale-mask-softmax.
  bool tensor_parallel_overlap = false;  ///< Backward collectives behind products.
  TpCommOverlap tp_comm_overlap = TpCommOverlap::kNone;  ///< And all of them within products.
  /// Whether what sequence parallelism gathers is kept for weight gradients, not gathered again.
  bool keeps_gathered_inputs = false;
  /// Whether full recomputation stops when it has all that the backward pass asks for: in front of
  /// the second product of a dense MLP, whose output nobody keeps (PyTorch's non-reentrant
  /// checkpoints since 2.1, set_checkpoint_early_stop).
  bool recompute_stops_early = false;
  /// Whether what experts return is kept, for the gradients of the router's probabilities that
  /// weigh it; else these weigh what goes into the experts' second product.
  bool keeps_expert_outputs = true;
  bool fused_gradient_accumulation = false;  ///< Weight-gradient products add into fp32 gradients.
  double weight_bytes = 2.0;
  double gradient_bytes = 4.0;
  double optimizer_bytes = 12.0;      ///< Master weights, two moments, and copies.
  double bf16_gradient_bytes = 0.0;   ///< What an fp16 stack keeps with bf16 instead; 0: the same.
  double bf16_optimizer_bytes = 0.0;  ///< Likewise.
  std::vector<PrecisionBytes> other_precisions;  ///< In the order of their enumerators, each once.
  std::vector<Fp8Recipe> fp8_recipes;   ///< Ways to train linear layers in 8 bits; first its usual.
  std::optional<Fp8Scaling> fp8;        ///< The one that is used, of these; none: `precision`.
  double reduced_gradient_bytes = 4.0;  ///< Per parameter, in the data-parallel reduction.
  double gradient_bucket_bytes = 0.0;   ///< Buckets of an overlapped reduction, copied to and from.
  Bytes gradient_bucket_size = Bytes(25e6);  ///< Of one bucket; torch DDP's default.
  double gradient_staging_traffic = 0.0;   ///< HBM bytes around a reduction that is not overlapped.
  double optimizer_traffic = 0.0;          ///< HBM bytes per parameter of one optimizer step.
  double offloaded_optimizer_bytes = 0.0;  ///< Of optimizer_bytes, what a host may hold.
  double host_optimizer_traffic = 0.0;     ///< A host's memory moves per parameter it updates.
  double loss_scaling_traffic = 0.0;       ///< And of looking for overflows in it, with fp16.
  double loss_traffic = 52.0;              ///< HBM bytes per logit, forward and backward.
  double loss_bytes = 8.0;  ///< Kept per logit beside it until its gradient is there.
  /// Whether ranks of a pipeline go on without waiting for one another's gradients and undo the
  /// optimizer's step where they should not have (arXiv:2401.10241 section 4).
  bool optimizer_post_validation = false;
  DataParallelOverlap data_parallel_overlap = DataParallelOverlap::kNever;
  /// Whether, where the reduction overlaps, so does the gathering of ZeRO's parameters, with the
  /// next forward pass (Megatron-LM's --overlap-param-gather).
  bool parameter_gather_overlap = true;
  /// Whether full sharding gathers and scatters matrix by matrix, each put together from the pieces
  /// of all ranks by a kernel apiece (DeepSpeed 2021, torch.distributed.all_gather into a list).
  bool shards_matrices_apart = false;
  /// Parameters between two uses of a matrix up to which its weights stay whole from the one to the
  /// other (DeepSpeed's stage3_max_reuse_distance); where more lie between its recomputation and
  /// its backward pass, it is gathered for both. 0: for one, and is there for the other.
  double max_reuse_distance = 0.0;
  /// Whether full sharding all-reduces gradients, put together in buckets, of which each GPU keeps
  /// its shard, and waits for that before it computes on (DeepSpeed 2021).
  bool all_reduces_shards = false;
  bool scatter_gather = false;  ///< Pipeline messages split over the tensor-parallel group.
  ExpertDispatch expert_dispatch = ExpertDispatch::kAllToAll;
  /// Whether tokens of a microbatch travel to experts and back behind the passes of another
  /// (Megatron-Core's --overlap-moe-expert-parallel-comm), where configurations allow it.
  bool expert_overlap = false;
  /// Whether the activation between the experts' products, and the casts of what these return, are
  /// done within the products (TransformerEngine's fused grouped MLP).
  bool fused_expert_activation = false;
  ContextParallel context_parallel_kind = ContextParallel::kRing;
  PipelineOverlap pipeline_overlap = PipelineOverlap::kSplitBackward;
  Seconds pipeline_latency;      ///< Host and network time of one exchange between stages.
  Seconds microbatch_overhead;   ///< Batch preparation and synchronisation, per chunk.
  Seconds host_time_per_kernel;  ///< A layer runs no faster than the host launches its kernels.
  CudaGraphs cuda_graphs = CudaGraphs::kNone;  ///< Kernels that it does not launch one by one.
  double overlap_slowdown = 0.0;  ///< Compute lost to a concurrent collective, per its time.
  double reserve_fraction = 0.0;  ///< Of device memory, of 80 GiB at most (reserved_memory()).
  /// By MemoryModel::kPtdp, of a GPU: what its library of products keeps beside the model. 0:
  /// operations take what a host's do (operations/host_scratch.h).
  Bytes workspace;
  StackCapabilities can_run;

  friend bool operator==(const StackSpec&, const StackSpec&) = default;
};

/// Whether the gradient reduction runs behind the backward pass, with `pp` stages.
[[nodiscard]] constexpr bool overlaps_reduction(const StackSpec& stack, int pp) {
  return stack.data_parallel_overlap == DataParallelOverlap::kAlways ||
         (stack.data_parallel_overlap == DataParallelOverlap::kSingleStage && pp == 1);
}

/// Whether parameters are gathered behind the next forward pass.
[[nodiscard]] constexpr bool overlaps_gathering(const StackSpec& stack, int pp) {
  return overlaps_reduction(stack, pp) && stack.parameter_gather_overlap;
}

/// What of a step runs beside compute, where that is chosen and not the software's own way.
struct Overlap {
  bool messages = false;     ///< Between stages, in every schedule.
  bool reductions = false;   ///< Of gradients, with any number of stages.
  bool gathers = false;      ///< Of ZeRO's parameters; only where reductions do.
  bool tensor = false;       ///< Tensor-parallel collectives of backward passes, behind products.
  bool as_possible = false;  ///< No more than the stack can; else check(Scenario) refuses it.
};
/// Whether a collective of tensor parallelism can run behind a product: not with this project's
/// runtime on a host, where it is done when it is begun.
[[nodiscard]] constexpr bool can_overlap_tensor(const StackSpec& stack) {
  return stack.memory_model != MemoryModel::kPtdp || stack.workspace.value() > 0.0;
}
[[nodiscard]] StackSpec with_overlap(StackSpec stack, const Overlap& overlap);

/// The stack as it trains in `precision`: as other_precisions says, where the precision that it
/// trained in before takes the place of this one, so that the way back is the same. Without it a
/// stack of fp16 or bf16 trains in the other one with the state that it has, or bf16_*. No linear
/// layers are in 8 bits then. Throws Error where neither says what the stack keeps.
[[nodiscard]] StackSpec at_precision(StackSpec stack, Precision precision);

/// How the stack trains linear layers in 8 bits; null where it does not.
[[nodiscard]] const Fp8Recipe* fp8_recipe(const StackSpec& stack);
/// Whether that is by the largest elements of earlier iterations.
[[nodiscard]] bool has_delayed_scaling(const StackSpec& stack);

/// The stack with linear layers in 8 bits, the rest in its precision: by the recipe of that name,
/// or with "fp8" by its usual one. Throws Error where it has none such.
[[nodiscard]] StackSpec with_fp8(StackSpec stack, std::string_view recipe);

// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, StackCapabilities>& can_run);
template <class Fields>
void describe(Fields& fields, Described<Fields, PrecisionBytes>& bytes);
template <class Fields>
void describe(Fields& fields, Described<Fields, StackSpec>& stack);

}  // namespace ptdp
