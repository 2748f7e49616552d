// Communication: volumes and times of collectives and pipeline messages.
#pragma once

#include <cstdint>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

// Volumes are what each of n ranks sends for a buffer of `size`.

/// Bytes that each rank sends in a ring all-reduce: 2(n−1)/n · S, for n ranks and a buffer of S
/// bytes. Source: Patarasuk & Yuan, JPDC 2009; SC21 (arXiv:2104.04473) section 3.3.1.
[[nodiscard]] Bytes ring_all_reduce_volume(Bytes size, std::int64_t ranks);
/// Bytes that each rank sends in a ring all-gather: (n−1)/n · S, where S is the gathered buffer.
/// Source: half of a ring all-reduce (Patarasuk & Yuan, JPDC 2009; SC21 section 3.3.1).
[[nodiscard]] Bytes ring_all_gather_volume(Bytes size, std::int64_t ranks);
/// Bytes that each rank sends in a ring reduce-scatter: (n−1)/n · S, where S is the buffer before
/// it is scattered. Source: half of a ring all-reduce (Patarasuk & Yuan, JPDC 2009; SC21 section
/// 3.3.1).
[[nodiscard]] Bytes ring_reduce_scatter_volume(Bytes size, std::int64_t ranks);
/// Bytes that each rank sends in an all-to-all: (n−1)/n · S, where S is what one rank holds.
/// Source: pairwise exchange.
[[nodiscard]] Bytes all_to_all_volume(Bytes size, std::int64_t ranks);

/// Elements that tensor parallelism makes each GPU send per layer and microbatch: 8bsh(t−1)/t (two
/// all-reduces forward, two backward). With full recomputation it is 12bsh(t−1)/t.
///
/// Sequence parallelism sends the same (an all-gather and a reduce-scatter for each all-reduce),
/// plus 2bsh(t−1)/t. The extra part gathers the inputs of the two column-parallel layers again for
/// their weight gradients.
///
/// Source: SC21 section 3.2; six all-reduces with --checkpoint-activations in Megatron-LM
/// de7dc40f88; its mpu/layers.py at 739cb43dae.
[[nodiscard]] double tensor_parallel_elements(const TransformerConfig& model, int micro_batch_size,
                                              int tp, Recompute recompute,
                                              bool is_sequence_parallel);

/// Elements sent between two consecutive stages, per direction and microbatch: bsh, times v for the
/// v crossings of an interleaved schedule. It is divided by t when the message is scattered over
/// the tensor-parallel group. Source: SC21 sections 3.2 and 4.1.
[[nodiscard]] double pipeline_elements(const TransformerConfig& model, int micro_batch_size,
                                       int vpp, int scattered_over);

/// Communication time that compute does not hide: the part longer than `compute`, plus `slowdown`
/// times the hidden part. `slowdown` is the compute that hidden communication takes away per second
/// (StackSpec::overlap_slowdown).
[[nodiscard]] Seconds exposed_behind(Seconds communication, Seconds compute, double slowdown);

/// Bus bandwidth of a large collective over a group, β = min(NVLink, k·NIC/o). The k members on
/// each node bring their NICs, and o is the oversubscription of the network tier. With one member
/// per node β is the NIC's. Within a node it is NVLink's, times the share that NCCL's `group_rates`
/// give groups of so many GPUs.
///
/// The sibling groups of a strategy communicate at the same time. A node of G GPUs holds k members
/// of each of G/k siblings. Each GPU has its share of the node's NICs, so all G shares are taken:
/// no group is given the idle NICs of its siblings. Where the cluster knows a rate of such siblings
/// (LinkSpec::sibling_efficiency), it is the NIC's.
[[nodiscard]] BytesPerSecond bus_bandwidth(const GroupPlacement& group, const ClusterSpec& cluster);

/// Time of an all-reduce over a group, by the first of these models that the cluster has. One rank
/// takes no time. Every *_time function in this header multiplies by the cluster's factor for
/// communication.
///
/// 1. A measured curve of as many ranks on as many nodes.
/// 2. NCCL: the method that NCCL's tuner chooses (nccl_tuner.h) on channels that share β, with
///    latency λ and transfer time x:
///
///      t = t_launch + λ + (√x + √τ)²
///
///    `nccl_within_node` gives the constants of groups within a node, and `nccl` all others. NVLS
///    has a rate and a τ of its own.
///
///    A buffer runs through the machine in pieces. Take m pieces, each of which costs o beyond its
///    transfer, and k pieces to fill the pipeline. Then t = (m + k)(o + x/m), least at m = √(kx/o),
///    where it is (√x + √(ko))². τ = ko is the `ramp` of NCCL's constants, plus `simple_ramp` where
///    the protocol is Simple. Source: the optimum packet size of Johnsson & Ho, IEEE ToC 38 (1989).
///    We assume that NCCL cuts near it, as the curves show.
/// 3. One ring, t = t_launch + steps·hops + 2(n−1)/n · S/β. Of its 2(n−1) steps, 2(N−1) cross
///    nodes. Source: NCCL's ring model, src/graph/tuning.cc; bus bandwidth as in nccl-tests
///    doc/PERFORMANCE.md. Holds when NCCL picks Ring/Simple, above some MiB.
///
/// hierarchical_all_reduce_time() replaces 2 and 3 when the cluster's all_reduce_across_nodes says
/// so.
///
/// Measured against published curves from 1 MiB on (tests/validation/collectives_test.cpp prints
/// every point): see cost_model/ACCURACY.md.
[[nodiscard]] Seconds all_reduce_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
/// Returns the measured curve that all_reduce_time() follows for this group, or nullptr when a
/// model is used. The cluster owns the curve.
[[nodiscard]] const MeasuredCurve* measured_curve(const GroupPlacement& group,
                                                  const ClusterSpec& cluster);

/// Time of an all-reduce in three steps: reduce-scatter among the k members in each node,
/// all-reduce of a k-th of the buffer between nodes, all-gather in each node. Each member uses its
/// own NIC between nodes:
///
///   t = t_RS(S; k ranks, 1 node) + t_AR(S/k; N ranks, N nodes) + t_AG(S; k ranks, 1 node)
///
/// It has 2(k−1) + 2(N−1) steps instead of a ring's 2(kN−1). Source: Mikami et al.,
/// arXiv:1811.05233 (2D-Torus all-reduce). It needs equally many members on each node, k·N = n,
/// with k and N above 1; any other group is reduced as a flat group.
[[nodiscard]] Seconds hierarchical_all_reduce_time(Bytes size, const GroupPlacement& group,
                                                   const ClusterSpec& cluster);

/// Time of an all-gather of a buffer that has `size` bytes once gathered. The first of these
/// applies:
///
/// 1. The cluster's own curve of as many ranks on as many nodes.
/// 2. With NCCL's constants, the tuner's method, unless all_reduce_time() follows a curve that NVLS
///    cannot have made. NVLS speeds up all-reduces alone, so a curve with NVLS tells nothing here.
/// 3. Half of an all-reduce: a ring's all-reduce is a reduce-scatter and then an all-gather.
[[nodiscard]] Seconds all_gather_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
/// Time of a reduce-scatter of a buffer that has `size` bytes before it is scattered. It follows
/// the same three models as all_gather_time(), with the cluster's reduce-scatter curves.
[[nodiscard]] Seconds reduce_scatter_time(Bytes size, const GroupPlacement& group,
                                          const ClusterSpec& cluster);

/// Time of an all-to-all: each of n members holds `size` bytes, an n-th for each member, itself
/// included. One member takes no time. A measured curve of as many ranks on as many nodes comes
/// first.
///
/// Without a curve, a GPU reaches peers in its node through the links of the node, and the others
/// through its share of the NICs. Both happen at the same time:
///
///   t = t_launch + ⌈(n−1)/8⌉·hop + x,  x = max((k−1)/n · S/β_node, (n−k)/n · S·o/β_nic)
///
/// Here k members are on a node, and hop is the latency of the slower kind of link. Where the
/// cluster has NCCL's constants for the group, (√x + √τ)² takes the place of x (see
/// all_reduce_time; the tuner knows nothing of sends).
///
/// Within a node, t_launch and β are NCCL's as well. The launch then has NCCL's base latency of
/// Ring/Simple on top, 8.4 us (src/graph/tuning.cc), because sends run by Simple as well. In all
/// other cases t_launch is the cluster's `collective_launch`, and β_node the whole rate of NVLink.
///
/// NCCL posts n−1 sends in one kernel and runs up to eight side by side, a batch
/// (NCCL_MAX_DEV_WORK_P2P_PER_BATCH of src/include/device.h). So there is a latency per batch, not
/// per send. We assume that batches follow one another. Source of x: NVIDIA, nccl-tests issue 130.
///
/// tests/validation/expert_dispatch_test.cpp compares with two published points. Congestion between
/// switches, which grows with nodes, is not modeled.
[[nodiscard]] Seconds all_to_all_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);

/// Time that one message of `size` occupies the link between neighbors of a pipeline: S/β. The
/// latency of an exchange is left out, because the software decides it.
///
/// `pipeline` is the placement of the pipeline-parallel group. When it spans nodes, the slowest
/// link (a NIC) paces every stage. Within a node of a cluster with a message curve, the time is
/// what the curve says beyond its smallest message.
[[nodiscard]] Seconds message_time(Bytes size, const GroupPlacement& pipeline,
                                   const ClusterSpec& cluster);
/// Whether message_time() follows the cluster's message curve: the pipeline stays within a node and
/// there is a curve.
[[nodiscard]] bool is_message_measured(const GroupPlacement& pipeline, const ClusterSpec& cluster);

}  // namespace ptdp
