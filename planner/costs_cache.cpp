#include "planner/costs_cache.h"

#include "cost_model/analytic/core_sharing.h"
#include "cost_model/spec/rank_grid.h"

namespace ptdp {

const MicrobatchCosts& CostsCache::find(const ParallelConfig& config) {
  const Key key = key_of(config);
  const auto found = costs_.find(key);
  return found != costs_.end()
             ? found->second
             : costs_.emplace(key, microbatch_costs(scenario_, config)).first->second;
}

CostsCache::Key CostsCache::key_of(const ParallelConfig& config) const {
  const ClusterSpec& cluster = scenario_.cluster;
  const GroupPlacement tensor = place_group(RankGrid(config), Dimension::kTensor, cluster);
  const auto place_experts = [&](ExpertDimension dimension) {
    const GroupPlacement group = scenario_.job.model.num_experts == 0
                                     ? GroupPlacement{}
                                     : place_expert_group(config, dimension, cluster);
    return Place{group.nodes, group.ranks_per_node};
  };
  return {config.tp,
          config.cp,
          config.ep,
          config.etp,
          config.micro_batch_size,
          config.sequence_parallel,
          splits_backward(config.schedule),
          busy_cores(config, cluster),
          Place{tensor.nodes, tensor.ranks_per_node},
          place_experts(ExpertDimension::kExpert),
          place_experts(ExpertDimension::kTensor),
          place_experts(ExpertDimension::kTensorAndExpert)};
}

}  // namespace ptdp
