// Places the groups of a configuration, and works out what a PlannedJob is asked for, once.
#include "cost_model/pipeline_rank/planned_job.h"

#include <algorithm>

namespace ptdp {

Placements place_groups(const ParallelConfig& config, const ClusterSpec& cluster) {
  const RankGrid grid(config);
  Placements groups{.tensor = place_group(grid, Dimension::kTensor, cluster),
                    .pipeline = place_group(grid, Dimension::kPipeline, cluster),
                    .data = place_replicas(grid, cluster),
                    .shard_replicas = place_shard_replicas(grid, cluster)};
  // Experts that tp does not split are whole on all of its ranks.
  groups.expert_data = config.tp * config.ep * config.etp > 1
                           ? place_expert_group(config, ExpertDimension::kData, cluster)
                           : groups.data;
  if (const int copies = num_copies(config); copies > 1) {
    for (GroupPlacement* data : {&groups.data, &groups.expert_data}) {
      data->size *= copies;
      if (groups.pipeline.is_within_node()) {
        data->ranks_per_node *= copies;
      } else {
        data->nodes *= copies;
        data->oversubscription = std::max(data->oversubscription, groups.pipeline.oversubscription);
      }
    }
  }
  return groups;
}

const Placements& PlannedJob::groups() const {
  if (!groups_) {
    groups_ = place_groups(config_, scenario_.cluster);
  }
  return *groups_;
}

const MicrobatchCosts& PlannedJob::costs() const {
  if (known_costs_ != nullptr) {
    return *known_costs_;
  }
  if (!own_costs_) {
    own_costs_ = microbatch_costs(scenario_, config_);
  }
  return *own_costs_;
}

}  // namespace ptdp
