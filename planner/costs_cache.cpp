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
  const RankGrid grid(config);
  const GroupPlacement tensor = place_group(grid, Dimension::kTensor, cluster);
  const GroupPlacement context = place_group(grid, Dimension::kContext, cluster);
  const GroupPlacement experts =
      scenario_.job.model.num_experts == 0
          ? GroupPlacement{}
          : place_expert_group(config, ExpertDimension::kExpert, cluster);
  return {config.tp,
          config.cp,
          config.ep,
          config.etp,
          config.micro_batch_size,
          config.sequence_parallel,
          splits_backward(config.schedule),
          tensor.nodes,
          tensor.ranks_per_node,
          context.nodes,
          context.ranks_per_node,
          busy_cores(config, cluster),
          experts.nodes,
          experts.ranks_per_node};
}

}  // namespace ptdp
