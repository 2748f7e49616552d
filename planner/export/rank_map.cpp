// The members of every group of every rank, as CSV: what a framework's process groups must be.
#include <fmt/format.h>

#include "cost_model/inputs/rank_grid.h"
#include "planner/export/exporter.h"

namespace ptdp {
namespace {

std::string joined(const std::vector<std::int64_t>& ranks) {
  return fmt::format("{}", fmt::join(ranks, " "));
}

/// Returns the ranks of the expert grid that differ from `rank` along one dimension: etp
/// neighbors, ep of them etp apart, or all that hold the same experts. Source: rank_grid.h.
std::vector<std::int64_t> expert_group(const ParallelConfig& config, std::int64_t rank,
                                       ExpertDimension dimension) {
  const std::int64_t stage_ranks = std::int64_t{1} * config.tp * config.cp * config.dp;
  const bool is_consecutive = config.rank_order == RankOrder::kTpCpEpDpPp;
  const std::int64_t block = std::int64_t{1} * config.etp * config.ep;
  // Place of the rank within its pipeline stage, and the ranks between equal places of stages.
  const std::int64_t edp_stride = is_consecutive ? block : block * config.pp;
  std::vector<std::int64_t> group;
  const std::int64_t within = rank % block;
  switch (dimension) {
    case ExpertDimension::kTensor:
      for (std::int64_t i = 0; i < config.etp; ++i) {
        group.push_back(rank - within % config.etp + i);
      }
      break;
    case ExpertDimension::kExpert:
      for (std::int64_t i = 0; i < config.ep; ++i) {
        group.push_back(rank - within + within % config.etp + i * config.etp);
      }
      break;
    case ExpertDimension::kTensorAndExpert:
      for (std::int64_t i = 0; i < block; ++i) {
        group.push_back(rank - within + i);
      }
      break;
    case ExpertDimension::kData: {
      const std::int64_t first =
          is_consecutive ? rank - rank % stage_ranks + within : rank % edp_stride;
      for (std::int64_t i = 0; i < stage_ranks / block; ++i) {
        group.push_back(first + i * edp_stride);
      }
      break;
    }
  }
  return group;
}

}  // namespace

std::vector<ExportRefusal> rank_map_refusals(const Plan& /*plan*/) {
  return {};
}

Export rank_map_export(const Plan& plan) {
  const RankGrid grid(plan.config);
  const NodesInUse use = nodes_in_use(plan);
  const bool has_expert_groups = has_experts(plan.scenario.job.model);
  std::string csv = "rank,node,local_rank,tp,cp,dp,pp,tp_group,cp_group,dp_group,pp_group";
  csv += has_expert_groups ? ",etp_group,ep_group,edp_group\n" : "\n";
  for (std::int64_t rank = 0; rank < grid.world_size(); ++rank) {
    const RankGrid::Coordinates at = grid.coordinates(rank);
    csv += fmt::format("{},{},{}", rank, rank / use.gpus_per_node, rank % use.gpus_per_node);
    for (const Dimension dimension :
         {Dimension::kTensor, Dimension::kContext, Dimension::kData, Dimension::kPipeline}) {
      csv += fmt::format(",{}", at[static_cast<std::size_t>(dimension)]);
    }
    for (const Dimension dimension :
         {Dimension::kTensor, Dimension::kContext, Dimension::kData, Dimension::kPipeline}) {
      csv += "," + joined(grid.group(dimension, rank));
    }
    if (has_expert_groups) {
      for (const ExpertDimension dimension :
           {ExpertDimension::kTensor, ExpertDimension::kExpert, ExpertDimension::kData}) {
        csv += "," + joined(expert_group(plan.config, rank, dimension));
      }
    }
    csv += "\n";
  }
  Export result;
  result.files = {{"rank_map.csv", csv}};
  result.expressed = {{"order of ranks", std::string(name_of(plan.config.rank_order))}};
  result.checks = {"A framework's process groups have these members: compare rank 0's first."};
  return result;
}

}  // namespace ptdp
