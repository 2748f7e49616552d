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
  /// Only without a pipeline. Megatron-LM of 2021 uses torch's DDP there, else its own reduction.
  kSingleStage,
  kAlways
};
inline constexpr std::array kDataParallelOverlapNames = {
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kNever, "never"},
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kSingleStage, "single-stage"},
    NamedValue<DataParallelOverlap>{DataParallelOverlap::kAlways, "always"}};

/// Which schedules' messages run beside compute. By default these are the schedules that split the
/// backward pass, whose runtimes post messages ahead.
enum class PipelineOverlap {
  kNever,
  /// Schedules that split the backward pass: Megatron-LM without --overlap-p2p-communication.
  kSplitBackward,
  /// Schedules that split the backward pass, and those with several chunks per rank.
  kInterleaved,
  kAlways
};
inline constexpr std::array kPipelineOverlapNames = {
    NamedValue<PipelineOverlap>{PipelineOverlap::kNever, "never"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kSplitBackward, "split-backward"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kInterleaved, "interleaved"},
    NamedValue<PipelineOverlap>{PipelineOverlap::kAlways, "always"}};

/// How collectives of sequence parallelism run within products, cut into chunks
/// (layer/product_overlap.h). The products use or make the data that the collectives move, within a
/// node.
enum class TpCommOverlap {
  kNone,
  kUserBuffers,     ///< TransformerEngine's way, Megatron-Core's --tp-comm-overlap.
  kSymmetricMemory  ///< PyTorch's asynchronous tensor parallelism.
};
inline constexpr std::array kTpCommOverlapNames = {
    NamedValue<TpCommOverlap>{TpCommOverlap::kNone, "none"},
    NamedValue<TpCommOverlap>{TpCommOverlap::kUserBuffers, "userbuffers"},
    NamedValue<TpCommOverlap>{TpCommOverlap::kSymmetricMemory, "symmetric-memory"}};

/// Which model says what is kept for backward passes, and when it is released.
enum class MemoryModel {
  /// Korthikanti et al.'s table, with masks of one byte and allocators that give nothing back.
  kMegatron,
  kPtdp  ///< This project's runtime, buffer by buffer (memory/runtime_memory.h).
};
inline constexpr std::array kMemoryModelNames = {
    NamedValue<MemoryModel>{MemoryModel::kMegatron, "megatron"},
    NamedValue<MemoryModel>{MemoryModel::kPtdp, "ptdp"}};

/// What a tensor-parallel group gathers where it has more ranks than the model has key heads. Each
/// rank then projects a part of a key head, and its attention needs all of that head.
enum class SplitKeyHeads {
  kNever,                ///< The stack does not run so: tp must divide the key heads.
  kGatherKeysAndValues,  ///< This project's runtime gathers keys and values of all heads.
  kGatherQkv  ///< Megatron-Core since 0.16 gathers queries, keys and values of all heads.
};
inline constexpr std::array kSplitKeyHeadsNames = {
    NamedValue<SplitKeyHeads>{SplitKeyHeads::kNever, "never"},
    NamedValue<SplitKeyHeads>{SplitKeyHeads::kGatherKeysAndValues, "gather-keys-and-values"},
    NamedValue<SplitKeyHeads>{SplitKeyHeads::kGatherQkv, "gather-qkv"}};

/// Which kind of program a stack is: runs of one kind say something of other stacks of that kind.
enum class ProgramKind {
  kOther,         ///< A program of another kind, or of one that nobody named.
  kMegatron,      ///< Megatron-LM's layers with kernels fused by hand, and programs that copy them.
  kPyTorch,       ///< PyTorch's own modules, compiled or not, sharded or not.
  kDeepSpeedZero  ///< DeepSpeed's ZeRO-3 around any model.
};
inline constexpr std::array kProgramKindNames = {
    NamedValue<ProgramKind>{ProgramKind::kOther, "other"},
    NamedValue<ProgramKind>{ProgramKind::kMegatron, "megatron"},
    NamedValue<ProgramKind>{ProgramKind::kPyTorch, "pytorch"},
    NamedValue<ProgramKind>{ProgramKind::kDeepSpeedZero, "deepspeed-zero"}};

/// Which FLOPs a rate counts: all that are computed again, those of the model, or of these half of
/// the attention scores, which a causal mask leaves.
enum class FlopCount { kHardware, kModel, kCausal };
inline constexpr std::array kFlopCountNames = {
    NamedValue<FlopCount>{FlopCount::kHardware, "hardware"},
    NamedValue<FlopCount>{FlopCount::kModel, "model"},
    NamedValue<FlopCount>{FlopCount::kCausal, "causal"}};

/// What a stack can run: constraints of the search.
struct StackCapabilities {
  std::vector<ScheduleKind> schedules;  ///< Pipeline schedules; empty: it has no pipeline.
  std::vector<Recompute> recompute;
  /// Modules that selective recomputation can repeat.
  RecomputeModules recompute_modules = kCoreAttentionAlone;
  /// How full recomputation can repeat some layers only; empty: it repeats all.
  std::vector<RecomputeMethod> recompute_methods;
  std::vector<int> zero_stages;
  bool tensor_parallel = true;
  bool sequence_parallel = false;
  bool context_parallel = false;
  bool expert_parallel = false;  ///< Whether it trains models with experts, and splits experts.
  bool hybrid_sharding = false;  ///< Whether shards can have replicas: dp_replicate above 1.
  /// Whether ZeRO-1's shards can: Megatron-Core's --num-distributed-optimizer-instances.
  bool optimizer_instances = false;
  bool kept_weights = false;       ///< Whether full sharding runs without reshard_after_forward.
  int interleaved_min_stages = 2;  ///< Smallest pp that the interleaved schedule accepts.
  bool uneven_layers = false;      ///< Whether virtual stages can differ in their layers.
  SplitKeyHeads split_key_heads = SplitKeyHeads::kNever;  ///< Whether tp may exceed the key heads.
  std::vector<RankOrder> rank_orders;  ///< Orders of ranks beside Megatron-LM's default.
  std::vector<Offload> offload;        ///< What hosts can hold; nothing is always possible.

  friend bool operator==(const StackCapabilities&, const StackCapabilities&) = default;
};

/// Returns the modules that selective recomputation repeats if nobody says which. These are the
/// attention core, or "op" if the stack cannot repeat the core alone, or else all that it can.
[[nodiscard]] constexpr RecomputeModules usual_modules(const StackCapabilities& can_run) {
  for (const RecomputeModule usual :
       {RecomputeModule::kCoreAttention, RecomputeModule::kEverySecondProduct}) {
    if (can_run.recompute_modules.has(usual)) {
      return {usual};
    }
  }
  return can_run.recompute_modules;
}

/// What a stack keeps and moves when it trains in a precision other than StackSpec::precision. Each
/// field replaces StackSpec's field of that name; bytes are per parameter or, for loss_traffic, per
/// logit.
struct PrecisionBytes {
  Precision precision = Precision::kFp32;
  double weight_bytes = 0.0;
  double gradient_bytes = 0.0;
  double optimizer_bytes = 0.0;
  double reduced_gradient_bytes = 0.0;
  double optimizer_traffic = 0.0;
  double loss_traffic = 0.0;
  bool all_reduces_gradients = false;

  friend bool operator==(const PrecisionBytes&, const PrecisionBytes&) = default;
};

/// One version of a training framework. Bytes "per parameter" are per parameter held by a GPU.
struct StackSpec {
  std::string name;
  std::string source;
  ProgramKind program = ProgramKind::kOther;
  /// What the TFLOP/s of the stack's log count; nullopt if it prints none, or that is not known.
  std::optional<FlopCount> logged_flops = std::nullopt;
  Precision precision = Precision::kBf16;
  /// "unfused", or a fused attention kernel that the GPU has a rate for (AttentionRate::kernel).
  std::string attention = "unfused";
  /// The fused kernel on GPUs that have no rate for `attention`; empty: none runs there.
  std::string other_attention = {};
  MemoryModel memory_model = MemoryModel::kMegatron;
  /// Whether bias-GELU, gates, rotary positions, dropout-add and softmax are one kernel each.
  bool fused_element_wise = true;
  /// Whether RMS norms are PyTorch operations in fp32, one kernel each.
  bool composed_norms = false;
  /// Whether results repeat to the bit: attention sums in a fixed order, PyTorch fills new tensors.
  bool deterministic = false;
  /// Whether one kernel applies rotary positions whose sines and cosines grow (grows_rotary()).
  /// Else PyTorch's operations do, one by one.
  bool fused_yarn_rotary = true;
  /// Whether rotary positions are products of complex numbers of fp32, which no compiler fuses
  /// (torchtitan's Llama).
  bool complex_rotary = false;
  /// Whether queries, keys and values are copied between their product and attention, into the
  /// order of sequences (nanotron).
  bool copies_heads = false;
  /// Whether rows of queries, keys and values are looked up for attention, as if sequences were
  /// padded, and its output is put back (flash-attn's bert_padding).
  bool looks_up_tokens = false;
  /// Whether a gate is PyTorch's operations on the halves of one product (nanotron).
  bool splits_gates = false;
  /// Whether kernels of experts add their biases and bound their activation. Else PyTorch's
  /// operations do (expert_biases.h).
  bool fused_expert_biases = true;
  /// Whether tensor-parallel collectives of backward passes run behind products.
  bool tensor_parallel_overlap = false;
  /// How collectives of sequence parallelism, forward and backward, run within products.
  TpCommOverlap tp_comm_overlap = TpCommOverlap::kNone;
  /// Whether what sequence parallelism gathers is kept for weight gradients, not gathered again.
  bool keeps_gathered_inputs = false;
  /// Whether sequence parallelism copies what it gathers and scatters, because tokens are not the
  /// first dimension (DTensor; sequence_copies.h).
  bool copies_sequences = false;
  /// Whether full recomputation stops when it has all that the backward pass asks for. It then
  /// leaves out the second product of a dense MLP, whose output nobody keeps (PyTorch's
  /// non-reentrant checkpoints since 2.1, set_checkpoint_early_stop).
  bool recompute_stops_early = false;
  /// Whether experts' outputs are kept, for the gradients of the router's probabilities that weigh
  /// them. Else the probabilities weigh the input of the experts' second product.
  bool keeps_expert_outputs = true;
  /// Whether weight-gradient products add into fp32 gradients by themselves.
  bool fused_gradient_accumulation = false;
  double weight_bytes = 2.0;      ///< Weights [B per parameter].
  double gradient_bytes = 4.0;    ///< Gradients [B per parameter].
  double optimizer_bytes = 12.0;  ///< Master weights, two moments and copies [B per parameter].
  /// What the stack keeps in other precisions, each once, in the order of Precision.
  std::vector<PrecisionBytes> other_precisions;
  /// Ways to train linear layers in 8 or 4 bits; the first is the stack's usual one.
  std::vector<Fp8Recipe> fp8_recipes;
  /// Scaling of the recipe in use, one of fp8_recipes; nullopt: all layers are in `precision`.
  std::optional<Fp8Scaling> fp8;
  /// Gradients as the data-parallel reduction sends them [B per parameter].
  double reduced_gradient_bytes = 4.0;
  /// Buckets of an overlapped reduction, which gradients are copied to and from [B per parameter].
  double gradient_bucket_bytes = 0.0;
  /// Size of one bucket of an overlapped reduction; the default is torch DDP's.
  Bytes gradient_bucket_size = Bytes(25e6);
  /// HBM traffic around a reduction that is not overlapped [B per parameter].
  double gradient_staging_traffic = 0.0;
  double optimizer_traffic = 0.0;  ///< HBM traffic of one optimizer step [B per parameter].
  /// Part of optimizer_bytes that a host may hold [B per parameter].
  double offloaded_optimizer_bytes = 0.0;
  /// Traffic of a host's memory for each parameter that the host updates [B per parameter].
  double host_optimizer_traffic = 0.0;
  /// HBM traffic of looking for overflows in an optimizer step, with fp16 [B per parameter].
  double loss_scaling_traffic = 0.0;
  double loss_traffic = 52.0;  ///< HBM traffic of the loss, forward and backward [B per logit].
  double loss_bytes = 8.0;     ///< What is kept beside a logit until its gradient is there [B].
  /// What is kept where tensor parallelism splits the logits [B]; 0: loss_bytes.
  double split_loss_bytes = 0.0;
  /// Whether ranks of a pipeline go on without waiting for one another's gradients. They undo the
  /// optimizer's step if they should have waited (arXiv:2401.10241 section 4).
  bool optimizer_post_validation = false;
  DataParallelOverlap data_parallel_overlap = DataParallelOverlap::kNever;
  /// Whether ZeRO's parameters are gathered behind the next forward pass, if the reduction overlaps
  /// too (Megatron-LM's --overlap-param-gather).
  bool parameter_gather_overlap = true;
  /// Whether full sharding copies what it gathers to where products read it (PyTorch FSDP2).
  bool copies_gathered_weights = false;
  /// Whether full sharding gathers and scatters matrix by matrix. One kernel per matrix then puts
  /// it together from the pieces of all ranks (DeepSpeed 2021, torch.distributed.all_gather into a
  /// list).
  bool shards_matrices_apart = false;
  /// Most parameters between two uses of a matrix for which its weights stay whole in between
  /// (DeepSpeed's stage3_max_reuse_distance). If more lie between a matrix's recomputation and its
  /// backward pass, it is gathered for both. 0: it is gathered for the first and stays for the
  /// second.
  double max_reuse_distance = 0.0;
  /// Whether the replicas of ZeRO-1 all-reduce gradients, of which each then updates its shard
  /// (DeepSpeed's BF16_Optimizer).
  bool all_reduces_gradients = false;
  /// Whether each shard of ZeRO's weights is broadcast by itself, in place of one gather of all
  /// (InternEvo).
  bool broadcasts_weights = false;
  /// Whether full sharding all-reduces gradients in buckets, of which each GPU keeps its shard. It
  /// waits for that before it computes on (DeepSpeed 2021).
  bool all_reduces_shards = false;
  /// Whether pipeline messages are split over the tensor-parallel group.
  bool scatter_gather = false;
  ExpertDispatch expert_dispatch = ExpertDispatch::kAllToAll;
  /// Whether tokens of a microbatch travel to experts and back behind the passes of another
  /// (Megatron-Core's --overlap-moe-expert-parallel-comm), if the configuration allows it.
  bool expert_overlap = false;
  /// Whether experts' products include the activation between them and the casts of what they
  /// return (TransformerEngine's fused grouped MLP).
  bool fused_expert_activation = false;
  /// Whether rows of experts are padded for products in 8 or 4 bits by kernels of their own, and
  /// cut again (pads_rows()).
  bool pads_expert_rows = false;
  /// Whether products add biases and, in 16 bits, apply tanh-GELU and its gradient by themselves.
  /// It matters with MemoryModel::kPtdp alone, whose operations are counted one by one.
  bool fused_epilogues = false;
  /// Whether products sum bias gradients by themselves, if they have epilogues (fused_epilogues).
  /// Otherwise kernels of their own do.
  bool fused_bias_gradients = false;
  ContextParallel context_parallel_kind = ContextParallel::kRing;
  PipelineOverlap pipeline_overlap = PipelineOverlap::kSplitBackward;
  Seconds pipeline_latency;     ///< Host and network time of one exchange between pipeline ranks.
  Seconds microbatch_overhead;  ///< Batch preparation and synchronization per model chunk.
  /// Time to launch one kernel from an x86 host. A layer runs no faster than its kernels start.
  Seconds host_time_per_kernel;
  /// Kernels that the host does not launch one by one.
  CudaGraphs cuda_graphs = CudaGraphs::kNone;
  /// Compute lost to a concurrent collective, as a fraction of the collective's time, 0 … 1.
  double overlap_slowdown = 0.0;
  /// Fraction of device memory, counted up to 80 GiB, that no formula holds (reserved_memory()).
  double reserve_fraction = 0.0;
  /// What a GPU's library of products keeps beside the model, with MemoryModel::kPtdp. 0:
  /// operations take the scratch of a host's (operations/host_scratch.h).
  Bytes workspace;
  StackCapabilities can_run;

  friend bool operator==(const StackSpec&, const StackSpec&) = default;
};

/// Returns whether the gradient reduction runs behind the backward pass, with `pp` pipeline ranks.
[[nodiscard]] constexpr bool overlaps_reduction(const StackSpec& stack, int pp) {
  return stack.data_parallel_overlap == DataParallelOverlap::kAlways ||
         (stack.data_parallel_overlap == DataParallelOverlap::kSingleStage && pp == 1);
}

/// Returns whether ZeRO's parameters are gathered behind the next forward pass, with `pp` pipeline
/// ranks.
[[nodiscard]] constexpr bool overlaps_gathering(const StackSpec& stack, int pp) {
  return overlaps_reduction(stack, pp) && stack.parameter_gather_overlap;
}

/// What of a step shall run beside compute, in place of what the stack does by itself.
struct Overlap {
  bool messages = false;    ///< Messages between pipeline ranks, in every schedule.
  bool reductions = false;  ///< Reductions of gradients, with any number of pipeline ranks.
  bool gathers = false;     ///< Gathering of ZeRO's parameters; only if reductions overlap too.
  bool tensor = false;      ///< Tensor-parallel collectives of backward passes, behind products.
  /// Whether what the stack cannot overlap is left out; else check(Scenario) refuses it.
  bool as_possible = false;
};
/// Returns whether a collective of tensor parallelism can run behind a product. With this project's
/// runtime on a host it cannot: a collective there is done when it is begun.
[[nodiscard]] constexpr bool can_overlap_tensor(const StackSpec& stack) {
  return stack.memory_model != MemoryModel::kPtdp || stack.workspace.value() > 0.0;
}
/// Returns the stack with what `overlap` says in place of its own overlap. Without overlap.tensor
/// nothing runs within products either. Tokens travel behind other microbatches only if the stack
/// does so and overlap.as_possible is set.
[[nodiscard]] StackSpec with_overlap(StackSpec stack, const Overlap& overlap);

/// Returns how the stack trains linear layers in 8 bits, owned by `stack`; null if it does not.
[[nodiscard]] const Fp8Recipe* fp8_recipe(const StackSpec& stack);
/// Returns whether linear layers are in 8 bits, scaled by the largest elements of earlier
/// iterations.
[[nodiscard]] bool has_delayed_scaling(const StackSpec& stack);

// The functions describe() read and write JSON: `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, StackCapabilities>& can_run);
template <class Fields>
void describe(Fields& fields, Described<Fields, PrecisionBytes>& bytes);
/// Reads or writes a stack's JSON; `fields` is an ObjectReader or an ObjectWriter. Reading throws
/// Error for precisions or recipes given twice and for state on hosts that no key describes.
template <class Fields>
void describe(Fields& fields, Described<Fields, StackSpec>& stack);

}  // namespace ptdp
