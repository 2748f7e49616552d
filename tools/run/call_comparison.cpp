#include "tools/run/call_comparison.h"

#include <set>
#include <string>
#include <utility>

#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

Seconds predicted_call(const Plan& plan, const CallEstimate& call) {
  const ClusterSpec& cluster = plan.scenario.cluster;
  const Placements groups = place_groups(plan.config, cluster);
  const Bytes size(static_cast<double>(call.bytes));
  const GroupPlacement& group = call.group == CallGroup::kTensor ? groups.tensor : groups.data;
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce_time(size, group, cluster);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter_time(size, group, cluster);
    case CollectiveKind::kAllGather:
      return all_gather_time(size, group, cluster);
    case CollectiveKind::kSend:
      return exchange_latency(plan.scenario, groups) + message_time(size, groups.pipeline, cluster);
  }
  return {};
}

/// Returns the median time of a rank's calls like `call`. Without such a recorded call, the time of
/// the action that makes it counts.
Seconds measured_call(const RankRecord& rank, const CallEstimate& call, std::size_t first_step) {
  std::vector<double> times;
  for (std::size_t step = first_step; step < rank.steps.size(); ++step) {
    bool is_within_actions = call.group == CallGroup::kTensor;
    for (const SubSpan& sub : rank.steps[step].sub_spans) {
      if (sub.group == call.group && sub.kind == call.kind && sub.bytes == call.bytes) {
        is_within_actions = true;
        times.push_back(sub.span.length().value());
      }
    }
    if (!is_within_actions) {
      times.push_back(rank.steps[step].actions[call.action].length().value());
    }
  }
  return Seconds(times.empty() ? 0.0 : median(std::move(times)));
}

}  // namespace

std::vector<CallComparison> compare_calls(const RunRecord& record, const ParallelConfig& config,
                                          std::size_t first_step, const Plan* predicted) {
  std::vector<CallComparison> calls;
  std::set<std::pair<CallGroup, CollectiveKind>> seen;
  const std::size_t ranks_of_stage = static_cast<std::size_t>(config.tp) * config.dp;
  for (std::size_t first = 0; first < record.ranks.size(); first += ranks_of_stage) {
    const RankRecord& rank = record.ranks[first];
    for (const CallEstimate& call : rank.estimates) {
      if (seen.emplace(call.group, call.kind).second) {
        calls.push_back(
            {.group = std::string(kCallGroupNames[static_cast<std::size_t>(call.group)]),
             .collective = std::string(kCollectiveNames[static_cast<std::size_t>(call.kind)]),
             .size = Bytes(static_cast<double>(call.bytes)),
             .predicted = predicted != nullptr ? predicted_call(*predicted, call) : Seconds(),
             .estimated = Seconds(call.seconds),
             .measured = measured_call(rank, call, first_step)});
      }
    }
  }
  return calls;
}

}  // namespace ptdp
