// Bytes that the ranks of a job send in an iteration of this project's own runtime, exactly.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// Bytes sent, by kind of operation. `Size` is std::int64_t, or Bytes for means.
template <class Size>
struct KindVolumes {
  Size all_reduce{};
  Size reduce_scatter{};
  Size all_gather{};
  Size send{};

  friend bool operator==(const KindVolumes&, const KindVolumes&) = default;
};

/// Bytes sent, by the group that they were sent in. `Size` is std::int64_t, or Bytes for means.
template <class Size>
struct GroupVolumes {
  KindVolumes<Size> tensor;  ///< Layers, embedding, logits, loss, and gathering of messages.
  KindVolumes<Size> pipeline_forward;   ///< Activations to the next virtual stage.
  KindVolumes<Size> pipeline_backward;  ///< Gradients to the virtual stage before.
  KindVolumes<Size> data;               ///< Gradients, and weights from the shards of ZeRO.
  KindVolumes<Size> tied;   ///< Gradient of the tied embedding, between first and last rank.
  KindVolumes<Size> model;  ///< Norm of all gradients.
  KindVolumes<Size> loss;   ///< Loss of all replicas.

  friend bool operator==(const GroupVolumes&, const GroupVolumes&) = default;
};

/// A group of GroupVolumes with its name.
template <class Size>
struct VolumeGroup {
  std::string_view name;
  KindVolumes<Size> GroupVolumes<Size>::*volumes;
};
/// All groups of GroupVolumes, with their names.
template <class Size>
inline constexpr std::array kVolumeGroups = {
    VolumeGroup<Size>{"tensor", &GroupVolumes<Size>::tensor},
    VolumeGroup<Size>{"pipeline_forward", &GroupVolumes<Size>::pipeline_forward},
    VolumeGroup<Size>{"pipeline_backward", &GroupVolumes<Size>::pipeline_backward},
    VolumeGroup<Size>{"data", &GroupVolumes<Size>::data},
    VolumeGroup<Size>{"tied", &GroupVolumes<Size>::tied},
    VolumeGroup<Size>{"model", &GroupVolumes<Size>::model},
    VolumeGroup<Size>{"loss", &GroupVolumes<Size>::loss}};

/// Computes what all ranks together send in one iteration.
///
/// n ranks that reduce a buffer of S bytes send 2(n−1)S between them, those that gather or scatter
/// it (n−1)S. Parameters have the padding of pipeline_rank/aligned_ranges.h. N = s·b·h, and e and c
/// are the bytes of an element and of an accumulator. Sent per microbatch over the t ranks of a
/// tensor-parallel group:
///
///   layer          4 all-reduces of N·e, 6 with full recomputation; with sequence parallelism 6
///                  all-gathers (the inputs of the two column-parallel weight gradients again) and
///                  4 reduce-scatters, 2 more of each with full recomputation
///   norms of       where norms of queries and keys reach over ranks, 2 all-reduces of 2·s·b
///   heads          accumulators in each layer, 3 with full recomputation
///   embedding      an all-reduce of N·e; with sequence parallelism a reduce-scatter forward and an
///                  all-gather backward
///   logits         an all-reduce of N·e; with sequence parallelism an all-gather forward and a
///                  reduce-scatter backward
///   cross-entropy  all-reduces of s·b and of 2·s·b accumulators
///   message        N·e in each direction over each boundary between ranks, scattered over the
///                  group, and gathered at the receiver without sequence parallelism; t·N·e where
///                  the stack does not scatter. Stages of one rank hand over for nothing
///
/// Sent once per iteration:
///
///   norms, biases  with sequence parallelism an all-reduce over the tensor-parallel group of the
///                  gradients of norms and row-parallel biases, c bytes each, in each replica, or
///                  once where replicas shard them
///   gradients      over the ranks that hold the same parameters an all-reduce of their gradients,
///                  c bytes each; with ZeRO a reduce-scatter of them and an all-gather of the
///                  weights, e bytes each
///   full sharding  (zero_sharding.h) where gradients are sharded one reduce-scatter per
///                  microbatch, and where weights are one or two all-gathers
///   tied table     its gradient between first and last rank, of which with ZeRO each replica has
///                  its part
///   norm           8 bytes for the norm of all gradients over a replica, over all ranks with ZeRO
///   loss           8 bytes over the ranks that hold the last virtual stage
///
/// Holds for cp = ep = dp_replicate = 1 and totals below 2^63. find_violation() must find nothing
/// in the config. Source: runtime/model/layers/MESSAGES.md.
[[nodiscard]] GroupVolumes<std::int64_t> job_volumes(const PlannedJob& job);

/// Computes what one of the t·d ranks of pipeline rank `stage` (0 … p−1) sends on average. For
/// collectives it is exact where the ranks of the group divide the buffer.
[[nodiscard]] GroupVolumes<Bytes> mean_rank_volumes(const PlannedJob& job, int rank);

}  // namespace ptdp
