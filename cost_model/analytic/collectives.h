// Communication: volumes and times of collectives and pipeline messages.
#pragma once

#include <cstdint>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/parallel_config.h"
#include "cost_model/spec/rank_grid.h"
#include "cost_model/spec/transformer_config.h"
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

/// Time of an all-reduce over a group.
///
///   t = t_launch + steps·hops + 2(n−1)/n · S/β
///
/// Within a node, a measured curve of that many ranks takes its place where the cluster has one.
/// Across nodes a ring runs at β = min(NVLink, k·NIC/o), where k members per node bring their NICs
/// and o is the oversubscription of the network tier; 2(N−1) of its 2(n−1) steps cross nodes.
/// Source: NCCL's ring model, src/graph/tuning.cc; busbw as in nccl-tests doc/PERFORMANCE.md.
/// Holds where NCCL picks Ring/Simple, above some MiB.
[[nodiscard]] Seconds all_reduce_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
/// The measured curve that all_reduce_time follows for this group; nullptr: the formula.
[[nodiscard]] const MeasuredCurve* measured_curve(const GroupPlacement& group,
                                                  const ClusterSpec& cluster);
/// Half of an all-reduce, by the same model: a ring's all-reduce is a reduce-scatter and then an
/// all-gather. `size` is the whole buffer.
[[nodiscard]] Seconds all_gather_time(Bytes size, const GroupPlacement& group,
                                      const ClusterSpec& cluster);
[[nodiscard]] Seconds reduce_scatter_time(Bytes size, const GroupPlacement& group,
                                          const ClusterSpec& cluster);

/// Time that one message of `size` occupies the link between neighbours of a pipeline: S/β, without
/// the latency of an exchange, which the software decides. `pipeline` is the placement of the
/// pipeline-parallel group; where it spans nodes, the slowest link (a NIC) paces every stage.
[[nodiscard]] Seconds message_time(Bytes size, const GroupPlacement& pipeline,
                                   const ClusterSpec& cluster);

}  // namespace ptdp
