// Where each rank of a job stands, and which links the groups of a strategy cross.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"

namespace ptdp {

/// The dimensions along which ranks form groups (experts have groups of their own over the ranks of
/// a stage, see ExpertDimension).
enum class Dimension { kTensor, kContext, kData, kPipeline };

/// The ranks of a job as a grid. In the order tp-cp-ep-dp-pp of Megatron-LM (parallel_state.py)
/// rank = tp + tp_size·(cp + cp_size·(dp + dp_size·pp)); in tp-cp-ep-pp-dp the last two change
/// places.
class RankGrid {
 public:
  using Coordinates = std::array<std::int64_t, 4>;  ///< Indexed by Dimension.

  explicit RankGrid(const ParallelConfig& config);

  [[nodiscard]] std::int64_t world_size() const { return world_size_; }
  [[nodiscard]] std::int64_t size(Dimension dimension) const;
  /// Distance in ranks between neighbours of a group.
  [[nodiscard]] std::int64_t stride(Dimension dimension) const;
  /// Replicas of the shards, dp_replicate: consecutive dp / dp_replicate of a data-parallel group
  /// share one.
  [[nodiscard]] std::int64_t shard_replicas() const { return shard_replicas_; }
  [[nodiscard]] Coordinates coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const Coordinates& coordinates) const;
  /// The ranks that differ from `rank` in one coordinate only, `rank` included, ascending.
  [[nodiscard]] std::vector<std::int64_t> group(Dimension dimension, std::int64_t rank) const;

 private:
  std::array<std::int64_t, 4> sizes_;
  std::array<std::int64_t, 4> strides_{};
  std::int64_t world_size_ = 1;
  std::int64_t shard_replicas_;
};

/// The groups of experts: the ranks of a pipeline stage as a second grid, rank = etp + etp_size·(ep
/// + ep_size·edp), whatever tp, cp and dp are; in the order tp-cp-ep-pp-dp pipeline stages come
/// before edp, and etp·ep must be tp·cp (places_experts). Source: Megatron-Core,
/// parallel_state.py, expert_decoder_rank_generator.
enum class ExpertDimension {
  kTensor,           ///< GPUs that share an expert: etp, neighbours.
  kExpert,           ///< GPUs that share the experts: ep, etp apart.
  kTensorAndExpert,  ///< Both, neighbours: etp·ep. Megatron-Core's all-gather dispatch spans it.
  kData,             ///< GPUs that hold the same part of the same experts: etp·ep apart.
};

/// GPUs that hold the same experts and share their shards, tp·cp·dp/(dp_replicate·etp·ep): all
/// their replicas without dp_replicate. etp·ep must divide tp·cp·dp/dp_replicate.
[[nodiscard]] std::int64_t expert_data_size(const ParallelConfig& config);

/// Whether the order of ranks has a place for the groups of experts: where stages are not farthest
/// apart, experts must have as many replicas as the rest of the model. Source: Megatron-Core,
/// parallel_state.py ("the data parallel size of the attention and moe layers must be the same").
[[nodiscard]] bool places_experts(const ParallelConfig& config);

/// How the groups along a dimension lie on nodes of consecutive ranks: all of them wait for the one
/// that lies worst.
struct GroupPlacement {
  std::int64_t size = 1;
  /// Members on the node that has fewest of them: the NICs that a ring across nodes can use.
  std::int64_t ranks_per_node = 1;
  std::int64_t nodes = 1;         ///< Nodes that a group touches, at most.
  double oversubscription = 1.0;  ///< Of the network tier that spans it.

  [[nodiscard]] bool is_within_node() const { return nodes == 1; }
};

/// Oversubscription of the lowest network tier that holds both of two ranks, counted from 0.
[[nodiscard]] double oversubscription_between(std::int64_t rank, std::int64_t other,
                                              const ClusterSpec& cluster);

/// GPUs that a job of so many takes of each of its nodes: a job of more than one rack takes equally
/// many whole trays of each, as many as that allows. Source: Megatron-Bridge v0.4.1,
/// scripts/performance/utils/executors.py, which asks Slurm for such segments. A node without trays
/// is taken whole.
[[nodiscard]] std::int64_t gpus_taken_per_node(const ClusterSpec& cluster, std::int64_t world);

/// Placement of the groups along a dimension of `grid` on `cluster`. Where sizes do not divide the
/// node, groups straddle nodes: of three ranks on nodes of eight, ranks 6 to 8 do, with one member
/// on the second. `ranks_per_node` is exact where the stride divides the node or reaches beyond it,
/// else a lower bound.
[[nodiscard]] GroupPlacement place_group(const RankGrid& grid, Dimension dimension,
                                         const ClusterSpec& cluster);
/// The same of the groups that hold the same parameters but the experts', cp·dp/dp_replicate ranks,
/// a tensor-parallel group apart: over them gradients are reduced and ZeRO shards (Megatron-Core,
/// parallel_state.py: with_context_parallel=True).
[[nodiscard]] GroupPlacement place_replicas(const RankGrid& grid, const ClusterSpec& cluster);
/// The same of the dp_replicate ranks that hold the same shard, of experts or of the rest: as far
/// apart as the groups above are large. Source: PyTorch FSDP2's mesh of (replicate, shard).
[[nodiscard]] GroupPlacement place_shard_replicas(const RankGrid& grid, const ClusterSpec& cluster);
/// The same of the groups of experts, of kData within one replica of the shards. etp·ep must divide
/// tp·cp·dp/dp_replicate.
[[nodiscard]] GroupPlacement place_expert_group(const ParallelConfig& config,
                                                ExpertDimension dimension,
                                                const ClusterSpec& cluster);

}  // namespace ptdp
