// Communication: volumes and times of collectives and pipeline messages.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

// --- volumes: what each rank sends, for n ranks and a buffer of `size` ---

/// 2(n−1)/n · S. Source: Patarasuk & Yuan, JPDC 2009; SC21 (arXiv:2104.04473) section 3.3.1.
[[nodiscard]] Bytes ring_all_reduce_volume(Bytes size, std::int64_t ranks);
/// (n−1)/n · S; `size` is the gathered buffer. Source: as above, half of an all-reduce.
[[nodiscard]] Bytes ring_all_gather_volume(Bytes size, std::int64_t ranks);
/// (n−1)/n · S; `size` is the buffer before it is scattered. Source: as above.
[[nodiscard]] Bytes ring_reduce_scatter_volume(Bytes size, std::int64_t ranks);
/// (n−1)/n · S; `size` is what one rank holds. Source: pairwise exchange.
[[nodiscard]] Bytes all_to_all_volume(Bytes size, std::int64_t ranks);

/// Elements that tensor parallelism makes each GPU send per layer and microbatch: 8bsh(t−1)/t (two
/// all-reduces forward, two backward), 12bsh(t−1)/t with full recomputation. Sequence parallelism
/// sends the same (an all-gather and a reduce-scatter for each all-reduce), and 2bsh(t−1)/t more:
/// the inputs of the two column-parallel layers are gathered again for their weight gradients.
/// Source: SC21 section 3.2; six all-reduces with --checkpoint-activations in Megatron-LM
/// de7dc40f88; its mpu/layers.py at 739cb43dae.
[[nodiscard]] double tensor_parallel_elements(const TransformerConfig& model, int micro_batch_size,
                                              int tp, Recompute recompute,
                                              bool is_sequence_parallel);

/// Elements between two consecutive stages, per direction and microbatch: bsh, times v for the v
/// crossings of an interleaved schedule, over t where the message is scattered over the
/// tensor-parallel group. Source: SC21 sections 3.2 and 4.1.
[[nodiscard]] double pipeline_elements(const TransformerConfig& model, int micro_batch_size,
                                       int vpp, int scattered_over);

// --- times on a cluster ---

/// What is left of `communication` that runs behind `compute`: what is longer, and of the rest
/// `slowdown`, the compute that it takes away (StackSpec::overlap_slowdown).
[[nodiscard]] Seconds exposed_behind(Seconds communication, Seconds compute, double slowdown);

/// Bus bandwidth of a large collective over a group, β = min(NVLink, k·NIC/o): k members on each
/// node bring their NICs, and o is the oversubscription of the network tier.
///
/// The sibling groups of a strategy communicate at the same time. A node of G GPUs holds k members
/// of each of G/k siblings, and each GPU has its share of the node's NICs, so that all G shares are
/// taken: what one group alone could get of idle siblings' NICs is not counted.
[[nodiscard]] BytesPerSecond bus_bandwidth(const GroupPlacement& group, const ClusterSpec& cluster);

/// Time of an all-reduce over a group: by the first of these that the cluster has, times its factor
/// for communication, as of all functions here.
///
/// 1. A measured curve of as many ranks on as many nodes.
/// 2. `nccl`: the method that NCCL's tuner chooses (nccl_tuner.h) on channels that share β (NVLS
///    has its own rate), with latency λ and transfer time x:
///
///      t = t_launch + λ + (√x + √τ)²
///
///    A buffer runs through the machine in pieces. With m of them, each of which costs o beyond its
///    transfer, and k to fill the pipeline, t = (m + k)(o + x/m), least at m = √(kx/o), where it is
///    (√x + √(ko))²; τ = ko is the cluster's `ramp`. Source: the optimum packet size of Johnsson &
///    Ho, IEEE ToC 38 (1989); that NCCL's cut is near it is an assumption that the curves bear out.
/// 3. One ring, t = t_launch + steps·hops + 2(n−1)/n · S/β, of whose 2(n−1) steps 2(N−1) cross
///    nodes. Source: NCCL's ring model, src/graph/tuning.cc; bus bandwidth as in nccl-tests
///    doc/PERFORMANCE.md. Holds where NCCL picks Ring/Simple, above some MiB.
///
/// Where the cluster's all_reduce_across_nodes says so, hierarchical_all_reduce_time() takes the
/// place of 2 and 3.
///
/// Measured against published curves from 1 MiB on (tests/validation/collectives_test.cpp prints
/// every point): see cost_model/ACCURACY.md.
[[nodiscard]] Seconds all_reduce_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
/// The measured curve that all_reduce_time follows for this group; nullptr: a model.
[[nodiscard]] const MeasuredCurve* measured_curve(const GroupPlacement& group,
                                                  const ClusterSpec& cluster);

/// Time of an all-reduce in three steps: reduce-scatter among the k members in each node,
/// all-reduce of the k-th part between nodes, each member over its own NIC, all-gather in each
/// node:
///
///   t = t_RS(S; k ranks, 1 node) + t_AR(S/k; N ranks, N nodes) + t_AG(S; k ranks, 1 node)
///
/// which has 2(k−1) + 2(N−1) steps instead of a ring's 2(kN−1). Source: Mikami et al.,
/// arXiv:1811.05233 (2D-Torus all-reduce). Needs equally many members on each node, as a group
/// with k·N = n has; others are reduced as a flat group.
[[nodiscard]] Seconds hierarchical_all_reduce_time(Bytes size, const GroupPlacement& group,
                                                   const ClusterSpec& cluster);

/// All-gather and reduce-scatter of a whole buffer of `size`: by their own curve where the cluster
/// has one of as many ranks on as many nodes, else half of an all-reduce, because a
/// ring's all-reduce is a reduce-scatter and then an all-gather; with `nccl`, the tuner's own where
/// no curve is measured, or NVLS may have made it, which all-reduces alone gain from.
[[nodiscard]] Seconds all_gather_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
[[nodiscard]] Seconds reduce_scatter_time(Bytes size, const GroupPlacement& group,
                                          const ClusterSpec& cluster);

/// Time of an all-to-all: each of n members holds `size`, an n-th of it for each member, itself
/// included. A GPU's peers in its node are reached through the links of the node, the others
/// through the GPU's share of the NICs, both at the same time:
///
///   t = t_launch + ⌈(n−1)/8⌉·hop + x,  x = max((k−1)/n · S/β_node, (n−k)/n · S·o/β_nic)
///
/// for k members on a node, with the hop latency of the slower kind of link, and with (√x + √τ)²
/// for x where the cluster has `nccl` (see all_reduce_time; the tuner knows nothing of sends).
/// Nothing for one member. NCCL posts n−1 sends in one kernel and runs up to eight side by side, a
/// batch (NCCL_MAX_DEV_WORK_P2P_PER_BATCH of src/include/device.h): a latency per batch, not per
/// send. That batches follow one another is an assumption. Source of x: NVIDIA, nccl-tests issue
/// 130. tests/validation/expert_dispatch_test.cpp compares with two published points; congestion
/// between switches, which grows with nodes, is not in it.
[[nodiscard]] Seconds all_to_all_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);

/// Time that one message of `size` occupies the link between neighbours of a pipeline: S/β, without
/// the latency of an exchange, which the software decides. `pipeline` is the placement of the
/// pipeline-parallel group; where it spans nodes, the slowest link (a NIC) paces every stage.
/// Within a node of a cluster with a message curve: what it says beyond its smallest message.
[[nodiscard]] Seconds message_time(Bytes size, const GroupPlacement& pipeline,
                                   const ClusterSpec& cluster);
/// Whether the cluster's message curve times messages in the pipeline.
[[nodiscard]] bool is_message_measured(const GroupPlacement& pipeline, const ClusterSpec& cluster);

}  // namespace ptdp
