// How a training job is spread over GPUs: one point of the search space.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/recompute_modules.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {

/// A kind of recomputation: what the backward pass computes again instead of keeping it.
enum class Recompute { kNone, kSelective, kFull };
/// How much of a layer a kind of recomputation runs again: all that formulas ask about a kind.
enum class Repeats {
  kNothing,
  kModules,  ///< The modules of a layer that the configuration names.
  kLayer     ///< Whole layers, from their inputs: all, or as many as the configuration says.
};
/// One kind of recomputation: a row of kRecomputeKinds.
struct RecomputeKind {
  Recompute value = Recompute::kNone;
  std::string_view name;
  Repeats repeats = Repeats::kNothing;
};
/// Number format of weights, activations and messages. Sums of 2-byte elements are formed in fp32.
enum class Precision {
  kFp16,
  kBf16,
  kFp32,
  kTf32,  ///< fp32, whose products round their factors to TF32's 10 bits of mantissa.
  kFp64
};
/// Which ranks are neighbors: those along the dimension named first. Source: Megatron-LM,
/// parallel_state.py.
enum class RankOrder {
  kTpCpEpDpPp,  ///< Megatron-LM's default: pipeline stages lie farthest apart.
  kTpCpEpPpDp   ///< Megatron-LM's --use-tp-pp-dp-mapping: replicas lie farthest apart.
};
/// What of a rank's memory lies in its host.
enum class Offload { kNone, kOptimizer, kActivations, kBoth };
/// How tokens get to their experts and back.
enum class ExpertDispatch {
  kAllToAll,     ///< Each token is sent once per expert that it visits.
  kAllGather,    ///< All tokens are sent to every GPU of the expert group.
  kHierarchical  ///< Each token is sent once per node, and forwarded there to its experts' GPUs.
};
/// What is launched as one CUDA graph: Megatron-Core's --cuda-graph-modules, and
/// --cuda-graph-impl full_iteration.
enum class CudaGraphs {
  kNone,
  kRouter,              ///< Router and counting of tokens, in layers with experts.
  kAttentionAndRouter,  ///< Everything but the experts themselves, in layers with experts.
  kStep                 ///< The forward and backward passes of a step.
};
/// How queries meet the keys and values of other ranks if GPUs share a sequence:
/// TransformerEngine's p2p, all_gather and a2a (Megatron-LM's --cp-comm-type). TransformerEngine's
/// a2a+p2p, a ring of groups that exchange heads, is not covered.
enum class ContextParallel {
  kRing,       ///< Blocks of K and V travel from rank to rank, beside attention (arXiv:2310.01889).
  kAllGather,  ///< All K and V are gathered before attention (arXiv:2407.21783 section 3.3.2).
  kAllToAll    ///< Each rank gets all tokens of some heads (DeepSpeed-Ulysses, arXiv:2309.14509).
};

/// Every kind of recomputation, in the order of Recompute.
inline constexpr std::array kRecomputeKinds = {
    RecomputeKind{Recompute::kNone, "none", Repeats::kNothing},
    RecomputeKind{Recompute::kSelective, "selective", Repeats::kModules},
    RecomputeKind{Recompute::kFull, "full", Repeats::kLayer}};
inline constexpr auto kRecomputeNames = [] {
  std::array<NamedValue<Recompute>, kRecomputeKinds.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) {
    names[i] = {kRecomputeKinds[i].value, kRecomputeKinds[i].name};
  }
  return names;
}();
inline constexpr std::array kPrecisionNames = {NamedValue<Precision>{Precision::kFp16, "fp16"},
                                               NamedValue<Precision>{Precision::kBf16, "bf16"},
                                               NamedValue<Precision>{Precision::kFp32, "fp32"},
                                               NamedValue<Precision>{Precision::kTf32, "tf32"},
                                               NamedValue<Precision>{Precision::kFp64, "fp64"}};
inline constexpr std::array kRankOrderNames = {
    NamedValue<RankOrder>{RankOrder::kTpCpEpDpPp, "tp-cp-ep-dp-pp"},
    NamedValue<RankOrder>{RankOrder::kTpCpEpPpDp, "tp-cp-ep-pp-dp"}};
inline constexpr std::array kOffloadNames = {
    NamedValue<Offload>{Offload::kNone, "none"},
    NamedValue<Offload>{Offload::kOptimizer, "optimizer"},
    NamedValue<Offload>{Offload::kActivations, "activations"},
    NamedValue<Offload>{Offload::kBoth, "optimizer+activations"}};
inline constexpr std::array kCudaGraphsNames = {
    NamedValue<CudaGraphs>{CudaGraphs::kNone, "none"},
    NamedValue<CudaGraphs>{CudaGraphs::kRouter, "moe_router+moe_preprocess"},
    NamedValue<CudaGraphs>{CudaGraphs::kAttentionAndRouter, "attn+moe_router+moe_preprocess"},
    NamedValue<CudaGraphs>{CudaGraphs::kStep, "full_iteration"}};
inline constexpr std::array kExpertDispatchNames = {
    NamedValue<ExpertDispatch>{ExpertDispatch::kAllToAll, "all-to-all"},
    NamedValue<ExpertDispatch>{ExpertDispatch::kAllGather, "all-gather"},
    NamedValue<ExpertDispatch>{ExpertDispatch::kHierarchical, "hierarchical"}};
inline constexpr std::array kContextParallelNames = {
    NamedValue<ContextParallel>{ContextParallel::kRing, "ring"},
    NamedValue<ContextParallel>{ContextParallel::kAllGather, "all-gather"},
    NamedValue<ContextParallel>{ContextParallel::kAllToAll, "all-to-all"}};

/// Returns how much of a layer `recompute` runs again.
[[nodiscard]] constexpr Repeats repeats(Recompute recompute) {
  return kRecomputeKinds[static_cast<std::size_t>(recompute)].repeats;
}
static_assert(
    [] {
      for (std::size_t i = 0; i < kRecomputeKinds.size(); ++i) {
        if (static_cast<std::size_t>(kRecomputeKinds[i].value) != i) {
          return false;
        }
      }
      return true;
    }(),
    "a kind's row stands where its value says");

[[nodiscard]] constexpr bool offloads_optimizer(Offload offload) {
  return offload == Offload::kOptimizer || offload == Offload::kBoth;
}
[[nodiscard]] constexpr bool offloads_activations(Offload offload) {
  return offload == Offload::kActivations || offload == Offload::kBoth;
}

[[nodiscard]] std::string_view name_of(Recompute recompute);
[[nodiscard]] std::string_view name_of(Precision precision);
[[nodiscard]] std::string_view name_of(RankOrder order);
[[nodiscard]] std::string_view name_of(Offload offload);
[[nodiscard]] std::string_view name_of(ExpertDispatch dispatch);
[[nodiscard]] std::string_view name_of(ContextParallel kind);

/// Returns the size of an element [B].
[[nodiscard]] constexpr int element_bytes(Precision precision) {
  switch (precision) {
    case Precision::kFp16:
    case Precision::kBf16:
      return 2;
    case Precision::kFp32:
    case Precision::kTf32:
      return 4;
    case Precision::kFp64:
      return 8;
  }
  return 0;
}
/// Returns the element size of sums [B]: fp32, and fp64 for fp64. Sums are weight gradients, and
/// statistics of norms and of the loss.
[[nodiscard]] constexpr int accumulator_bytes(Precision precision) {
  return precision == Precision::kFp64 ? 8 : 4;
}

/// The highest ZeRO stage: weights, gradients and optimizer states are sharded.
inline constexpr int kHighestZeroStage = 3;

/// How one training job is spread over GPUs, in the terms practitioners say aloud: TP8 PP64 DP6.
/// Configurations compare field by field, so that plans of equal time have one order.
struct ParallelConfig {
  int tp = 1;                ///< Tensor-parallel size: GPUs that share every layer.
  int pp = 1;                ///< Pipeline-parallel size: GPUs that each hold some of the layers.
  int dp = 1;                ///< Data-parallel size: replicas of the model.
  int cp = 1;                ///< Context-parallel size: GPUs that share a sequence.
  int ep = 1;                ///< Expert-parallel size: GPUs that share the experts.
  int etp = 1;               ///< Expert-tensor-parallel size: GPUs that share one expert.
  int vpp = 1;               ///< Model chunks per GPU; above 1 the schedule interleaves them.
  int micro_batch_size = 1;  ///< Sequences per microbatch.
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  Recompute recompute = Recompute::kNone;
  /// Modules that selective recomputation repeats.
  RecomputeModules recompute_modules = kCoreAttentionAlone;
  /// Which layers full recomputation repeats.
  RecomputeMethod recompute_method = RecomputeMethod::kBlock;
  /// Number of layers that recompute_method takes; 0: full recomputation repeats all layers, one at
  /// a time.
  int recompute_num_layers = 0;
  bool sequence_parallel = false;  ///< Norms and dropouts split along the sequence, over tp.
  /// What ZeRO shards over dp·cp/dp_replicate ranks: 0 nothing, 1 optimizer states, 2 gradients
  /// too, 3 weights too.
  int zero_stage = 0;
  /// Replicas of ZeRO's shards (HSDP): dp = dp_replicate·(dp within a shard group).
  int dp_replicate = 1;
  /// Whether weights gathered for a forward pass are dropped and gathered again for the backward
  /// pass (FSDP2's reshard_after_forward). It matters for ZeRO-3 without a pipeline.
  bool reshard_after_forward = true;
  RankOrder rank_order = RankOrder::kTpCpEpDpPp;
  Offload offload = Offload::kNone;
  /// Number of layers, the first ones, whose activations are offloaded; 0: all but the last layer.
  int offload_num_layers = 0;
  std::vector<int> layers_per_stage = {};  ///< Layers of each virtual stage; empty: all equal.
  /// Most microbatches whose activations of its stage a pipeline rank may hold; nullopt: pp. Only
  /// zb-auto takes a limit: the schedule is searched within it.
  std::optional<int> memory_limit = {};

  /// Returns whether recomputed layers compute `module` again.
  [[nodiscard]] constexpr bool repeats_module(RecomputeModule module) const {
    return repeats(recompute) == Repeats::kLayer ||
           (repeats(recompute) == Repeats::kModules && recompute_modules.has(module));
  }
  /// Returns whether full recomputation repeats some layers only, or several layers at a time.
  [[nodiscard]] constexpr bool recomputes_by_layers() const { return recompute_num_layers > 0; }
  /// Returns the GPUs in use, tp·pp·dp·cp, or the largest int64 if there are more. Experts share
  /// the GPUs of a stage.
  [[nodiscard]] std::int64_t world_size() const;
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
  // NOLINTNEXTLINE(readability-implicit-bool-conversion): clang-tidy 14 takes <=> of bool for one
  friend std::strong_ordering operator<=>(const ParallelConfig&, const ParallelConfig&) = default;
};

/// Returns the microbatches per replica and iteration, m = B/(b·d), whose gradients accumulate.
/// `global_batch_size` [sequences] must be a multiple of dp·micro_batch_size. Source: SC21 section
/// 2.2.
[[nodiscard]] std::int64_t num_microbatches(std::int64_t global_batch_size,
                                            const ParallelConfig& config);

/// Returns whether each replica holds and updates a shard of the optimizer states: ZeRO-1 and
/// above.
[[nodiscard]] constexpr bool shards_optimizer(const ParallelConfig& config) {
  return config.zero_stage >= 1;
}

/// Returns whether gradients are reduced to shards after every microbatch: ZeRO-2 and -3 without a
/// pipeline. With one, a microbatch's pass through a stage is too short for that. Gradients then
/// stay whole until the last microbatch, which sends what ZeRO-1 sends (torchtitan's
/// fsdp_reshard_after_forward "default"; DeepSpeed and Megatron-LM refuse it).
[[nodiscard]] constexpr bool shards_gradients(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp == 1;
}
/// Returns whether weights are gathered from shards for the passes of every microbatch: ZeRO-3
/// without a pipeline. With one, a microbatch's pass through a stage is too short for that. Weights
/// then stay once they are gathered (torchtitan's fsdp_reshard_after_forward "default"; DeepSpeed
/// and Megatron-LM refuse it).
[[nodiscard]] constexpr bool shards_weights(const ParallelConfig& config) {
  return config.zero_stage >= 3 && config.pp == 1;
}

/// Returns whether a pipeline rank may hold whole gradients of few of its chunks at once: those of
/// other chunks are shards before. That takes ZeRO-2 or -3, more than two chunks and unsplit
/// backward passes; reduces_by_chunk() looks at microbatches too.
[[nodiscard]] constexpr bool may_reduce_by_chunk(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp > 1 && config.vpp > 2 &&
         traits_of(config.schedule).most_chunks > 2 && !traits_of(config.schedule).splits_backward;
}
/// Returns whether a pipeline rank holds whole gradients of only few of its chunks at once. A
/// chunk's backward passes must be all in a row, its last microbatch before the next chunk's first.
/// Interleaved, that takes a single group of microbatches, at most pp. A gradient exists from its
/// first microbatch until the reduce-scatter after its last (PyTorch,
/// FSDPParamGroup.post_backward).
[[nodiscard]] constexpr bool reduces_by_chunk(const ParallelConfig& config,
                                              std::int64_t num_microbatches) {
  return may_reduce_by_chunk(config) &&
         (!traits_of(config.schedule).has_groups || num_microbatches <= config.pp);
}

/// Returns whether ZeRO-3's weights are gathered a second time, for the backward pass.
[[nodiscard]] constexpr bool gathers_again(const ParallelConfig& config) {
  return shards_weights(config) && config.reshard_after_forward;
}

/// Returns the share of a rank's gradients that it adds to those of earlier microbatches: 1, or
/// only its shard if gradients are reduced after every microbatch.
[[nodiscard]] constexpr double share_accumulated(const ParallelConfig& config) {
  return shards_gradients(config) ? 1.0 * config.dp_replicate / config.dp / config.cp : 1.0;
}

/// Returns a configuration on one line, for people: "tp=8 pp=64 dp=6 vpp=2 b=1 interleaved
/// recompute=full". Fields with their default values are left out, except tp, pp, dp, b, the
/// schedule and the kind of recomputation. Layers read "layers=13,5x14,12" unless all stages have
/// equally many. Recomputation reads "recompute=selective modules=core_attn+mlp" unless the modules
/// are the attention core alone, and "recompute=full block=2" unless it repeats all layers.
[[nodiscard]] std::string to_string(const ParallelConfig& config);

/// Reads or writes a configuration's JSON; `fields` is an ObjectReader or an ObjectWriter. Reading
/// throws Error for a field that does not apply beside the others.
template <class Fields>
void describe(Fields& fields, Described<Fields, ParallelConfig>& config);

}  // namespace ptdp
