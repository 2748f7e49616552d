// Finds the key on which the costs of a microbatch depend, and caches the costs.
#include "planner/search/costs_cache.h"

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/slowest_card.h"

namespace ptdp {

int CostsCache::class_of(const ParallelConfig& config) {
  const auto [found, is_new] =
      classes_.try_emplace(key_of(config), static_cast<int>(classes_.size()));
  if (is_new) {
    costs_.emplace_back();
  }
  return found->second;
}

const std::shared_ptr<const MicrobatchCosts>& CostsCache::find(int costs_class,
                                                               const ParallelConfig& config) {
  std::shared_ptr<const MicrobatchCosts>& costs =
      costs_[static_cast<std::size_t>(costs_class)][config.micro_batch_size];
  if (costs == nullptr) {
    costs = std::make_shared<const MicrobatchCosts>(microbatch_costs(scenario_, config));
  }
  return costs;
}

CostsCache::Key CostsCache::key_of(const ParallelConfig& config) const {
  const ClusterSpec& cluster = scenario_.cluster;
  const auto place = [](const GroupPlacement& group) {
    return Place{group.nodes, group.ranks_per_node};
  };
  const RankGrid grid(config);
  const auto place_experts = [&](ExpertDimension dimension) {
    return place(scenario_.job.model.num_experts == 0
                     ? GroupPlacement{}
                     : place_expert_group(config, dimension, cluster));
  };
  return {config.tp,
          config.cp,
          config.ep,
          config.etp,
          config.sequence_parallel,
          config.recompute_modules,
          traits_of(config.schedule).splits_backward,
          casts_shards(scenario_.stack, config),
          hides_dispatch(scenario_, config),
          busy_cores(config, cluster),
          slowest_card_factor(config.world_size(), cluster.gpu.card_spread),
          place(place_group(grid, Dimension::kTensor, cluster)),
          place(place_group(grid, Dimension::kContext, cluster)),
          place_experts(ExpertDimension::kExpert),
          place_experts(ExpertDimension::kTensor),
          place_experts(ExpertDimension::kTensorAndExpert)};
}

}  // namespace ptdp
