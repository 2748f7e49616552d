// Where each rank of a job stands, and which links the groups of a strategy cross.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"

namespace ptdp {

/// A dimension along which ranks form groups. Experts have groups of their own over the ranks of a
/// pipeline stage: see ExpertDimension.
enum class Dimension { kTensor, kContext, kData, kPipeline };

/// The ranks of a job as a grid. In the order tp-cp-ep-dp-pp of Megatron-LM (parallel_state.py),
/// rank = tp + tp_size·(cp + cp_size·(dp + dp_size·pp)). In tp-cp-ep-pp-dp, dp and pp change
/// places.
class RankGrid {
 public:
  using Coordinates = std::array<std::int64_t, 4>;  ///< Place in the grid, indexed by Dimension.

  explicit RankGrid(const ParallelConfig& config);

  [[nodiscard]] std::int64_t world_size() const { return world_size_; }
  /// Returns the number of ranks of a group along `dimension`.
  [[nodiscard]] std::int64_t size(Dimension dimension) const;
  /// Returns the distance in ranks between neighbors of a group along `dimension`.
  [[nodiscard]] std::int64_t stride(Dimension dimension) const;
  /// Returns dp_replicate, the replicas of ZeRO's shards. Each run of dp / dp_replicate consecutive
  /// members of a data-parallel group shares one replica.
  [[nodiscard]] std::int64_t shard_replicas() const { return shard_replicas_; }
  [[nodiscard]] Coordinates coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const Coordinates& coordinates) const;
  /// Returns the ranks of the group of `rank` along `dimension`, `rank` included, ascending. They
  /// differ in that coordinate only.
  [[nodiscard]] std::vector<std::int64_t> group(Dimension dimension, std::int64_t rank) const;

 private:
  std::array<std::int64_t, 4> sizes_;
  std::array<std::int64_t, 4> strides_{};
  std::int64_t world_size_ = 1;
  std::int64_t shard_replicas_;
};

/// A dimension along which the ranks of a pipeline stage form groups for experts. The ranks are a
/// second grid, rank = etp + etp_size·(ep + ep_size·edp), whatever tp, cp and dp are. In the order
/// tp-cp-ep-pp-dp pipeline stages come before edp, and etp·ep must be tp·cp (places_experts()).
/// Source: Megatron-Core, parallel_state.py, expert_decoder_rank_generator.
enum class ExpertDimension {
  kTensor,  ///< GPUs that share an expert: etp neighbors.
  kExpert,  ///< GPUs that share the experts: ep of them, etp apart.
  /// GPUs of an expert-tensor and expert group together: etp·ep neighbors. Megatron-Core's
  /// all-gather dispatch spans them.
  kTensorAndExpert,
  kData,  ///< GPUs that hold the same part of the same experts, etp·ep apart.
};

/// Returns the number of GPUs that hold the same experts and share ZeRO's shards of them,
/// tp·cp·dp/(dp_replicate·etp·ep). Without dp_replicate these are all replicas of an expert. etp·ep
/// must divide tp·cp·dp/dp_replicate.
[[nodiscard]] std::int64_t expert_data_size(const ParallelConfig& config);

/// Returns whether the order of ranks has a place for the groups of experts. If pipeline stages are
/// not farthest apart, experts must have as many replicas as the rest of the model. Source:
/// Megatron-Core, parallel_state.py ("the data parallel size of the attention and moe layers must
/// be the same").
[[nodiscard]] bool places_experts(const ParallelConfig& config);

/// How the groups along a dimension lie on nodes of consecutive ranks. It describes the group that
/// lies worst, since all groups wait for it.
struct GroupPlacement {
  std::int64_t size = 1;  ///< Ranks of a group.
  /// Members on the node that has fewest of them: the NICs that a ring across nodes can use.
  std::int64_t ranks_per_node = 1;
  std::int64_t nodes = 1;         ///< The most nodes that a group touches.
  double oversubscription = 1.0;  ///< Oversubscription of the network tier that spans a group.
  bool is_alone = false;          ///< Whether the job has no other such group: all ranks are in it.

  [[nodiscard]] bool is_within_node() const { return nodes == 1; }
};

/// Returns the oversubscription of the lowest network tier that holds two ranks, counted from 0.
[[nodiscard]] double oversubscription_between(std::int64_t rank, std::int64_t other,
                                              const ClusterSpec& cluster);

/// Returns the GPUs that a job of `world` GPUs takes of each of its nodes. A job of more than one
/// rack takes equally many whole trays of each, as many as divide the job. A node without trays is
/// taken whole. Source: Megatron-Bridge v0.4.1, scripts/performance/utils/executors.py, which asks
/// Slurm for such segments.
[[nodiscard]] std::int64_t gpus_taken_per_node(const ClusterSpec& cluster, std::int64_t world);

/// Places the groups along a dimension of `grid` on `cluster`. Groups whose sizes do not divide the
/// node straddle nodes: of groups of three on nodes of eight, ranks 6 to 8 do, with one member on
/// the second node. `ranks_per_node` is exact if the stride divides the node or reaches beyond it,
/// else a lower bound.
[[nodiscard]] GroupPlacement place_group(const RankGrid& grid, Dimension dimension,
                                         const ClusterSpec& cluster);
/// Places the groups that hold the same parameters, experts aside: cp·dp/dp_replicate ranks, a
/// tensor-parallel group apart. Gradients are reduced and ZeRO shards over them (Megatron-Core,
/// parallel_state.py: with_context_parallel=True).
[[nodiscard]] GroupPlacement place_replicas(const RankGrid& grid, const ClusterSpec& cluster);
/// Places the groups of dp_replicate ranks that hold the same shard, of experts or of other
/// parameters. Members lie dp/dp_replicate ranks of a data-parallel group apart. Source: PyTorch
/// FSDP2's mesh of (replicate, shard).
[[nodiscard]] GroupPlacement place_shard_replicas(const RankGrid& grid, const ClusterSpec& cluster);
/// Places the groups of experts along `dimension`. Groups along kData lie within one replica of
/// ZeRO's shards. etp·ep must divide tp·cp·dp/dp_replicate.
[[nodiscard]] GroupPlacement place_expert_group(const ParallelConfig& config,
                                                ExpertDimension dimension,
                                                const ClusterSpec& cluster);

}  // namespace ptdp
