#include "planner/report/sections/traffic_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/text/plural.h"
#include "planner/explain/binding.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// Returns what a group is, and which link limits it: "8 GPUs within a node, 300 GB/s each way".
std::string links_of(const GroupPlacement& group, const ClusterSpec& cluster) {
  const LinkSpec& link = group.is_within_node() ? cluster.nvlink : cluster.nic;
  return fmt::format("{} {}, {}/s for each{}", devices(group.size, cluster.gpu),
                     group.is_within_node() ? "within a node"
                                            : fmt::format("over {}", plural(group.nodes, "node")),
                     bytes(Bytes(link.effective_bandwidth().value() / group.oversubscription)),
                     group.oversubscription > 1.0
                         ? fmt::format(" through links that {:.3g} share", group.oversubscription)
                         : "");
}

}  // namespace

std::optional<ReportSection> traffic_section(const Plan& plan) {
  if (plan.config.world_size() == 1) {
    return std::nullopt;
  }
  const ClusterSpec& cluster = plan.scenario.cluster;
  const PlannedJob job(plan.scenario, plan.config);
  const Traffic& sent = plan.predicted.traffic;
  const CostBreakdown& cost = plan.predicted.breakdown;
  BarsView view{.unit = "B"};
  const auto add = [&](std::string name, Bytes size, std::string_view term) {
    if (size > Bytes(0.0)) {
      const GroupPlacement group = *placement_of(term, job);
      const Seconds exposed = cost.*std::ranges::find(kCostTerms, term, &CostTerm::name)->time;
      view.bars.push_back({.name = std::move(name) +
                                   (group.is_within_node() ? ", within a node" : ", between nodes"),
                           .value = size.value(),
                           .tint = Tint::kCommunication,
                           .note = fmt::format("Groups of {}; {} of the iteration waits for it.",
                                               links_of(group, cluster), duration(exposed))});
    }
  };
  add("tensor parallel", sent.tensor_parallel, "tensor_parallel");
  add("context parallel", sent.context_parallel, "context_parallel");
  add("experts' tokens", sent.expert_parallel, "expert_parallel");
  add("pipeline", sent.pipeline, "pipeline_messages");
  add("data parallel", sent.data_parallel, "data_parallel");
  return ReportSection{
      .id = "traffic",
      .title = "What does a GPU send, and over which links?",
      .note =
          "By one GPU per iteration, on the stage that sends most. A group is as its worst "
          "members lie; rates are those that large messages reach.",
      .view = std::move(view)};
}

}  // namespace ptdp
