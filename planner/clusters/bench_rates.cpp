#include "planner/clusters/bench_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cost_model/error.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/network/collectives.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

void check_group(const CollectiveBench& bench, const ClusterSpec& cluster) {
  if (bench.ranks / bench.nodes > cluster.gpus_per_node) {
    throw Error(
        fmt::format("{}: {} on {}, whose nodes have {}: --gpus-per-node says how many they "
                    "have{}",
                    bench.place, plural(bench.ranks, "rank"), plural(bench.nodes, "node"),
                    plural(cluster.gpus_per_node, "GPU"),
                    bench.nodes == 1 ? ", --nodes on how many nodes the ranks were" : ""));
  }
}

/// Returns the curves of a collective.
std::vector<AllReduceCurve>& curves_of(BenchedCollective collective, ClusterSpec& cluster) {
  switch (collective) {
    case BenchedCollective::kAllGather:
      return cluster.all_gather_curves;
    case BenchedCollective::kReduceScatter:
      return cluster.reduce_scatter_curves;
    case BenchedCollective::kAllToAll:
      return cluster.all_to_all_curves;
    default:
      return cluster.all_reduce_curves;
  }
}

void set_curve(const CollectiveBench& bench, ClusterSpec& cluster) {
  std::vector<AllReduceCurve>& curves = curves_of(bench.collective, cluster);
  std::erase_if(curves, [&](const AllReduceCurve& curve) {
    return curve.ranks == bench.ranks && curve.nodes == bench.nodes;
  });
  curves.push_back({.ranks = bench.ranks,
                    .nodes = bench.nodes,
                    .curve = MeasuredCurve(bench.points, bench.place)});
}

void warn_of_fast_link(NewCluster& made, const CollectiveBench& bench) {
  made.warn(bench.place + ": faster than the data sheet of the link: only groups alike follow it");
}

/// Whether the switches of a node reduced: all-reduces of a whole node that has NVLS take it.
bool is_by_switches(const CollectiveBench& bench, const ClusterSpec& cluster) {
  return bench.collective == BenchedCollective::kAllReduce &&
         bench.ranks == cluster.gpus_per_node && cluster.nccl && cluster.nccl->nvls.channels > 0;
}

/// Sets what collectives within a node reach of its links, or of reduction in its switches.
void set_rate_within_node(NewCluster& made, const CollectiveBench& bench) {
  ClusterSpec& cluster = made.cluster;
  if (is_by_switches(bench, cluster)) {
    for (std::optional<NcclSpec>* nccl : {&cluster.nccl, &cluster.nccl_within_node}) {
      if (*nccl && (*nccl)->nvls.channels > 0) {
        (*nccl)->nvls.bandwidth = bench.bus_bandwidth();
      }
    }
    return;
  }
  // The model gives a group a share of the link's rate: that stays.
  const GroupPlacement group{.size = bench.ranks, .ranks_per_node = bench.ranks};
  LinkSpec& link = cluster.nvlink;
  const double modeled = link.collective_efficiency.value_or(link.efficiency);
  const double wanted = modeled * (bench.bus_bandwidth() / bus_bandwidth(group, cluster));
  if (wanted <= 1.0) {
    link.collective_efficiency = wanted;
  } else {
    warn_of_fast_link(made, bench);
  }
}

/// Sets what collectives reach of NICs; those of several GPUs of a node pass its links, too.
void set_rate_across_nodes(NewCluster& made, const CollectiveBench& bench) {
  ClusterSpec& cluster = made.cluster;
  const BytesPerSecond rate = bench.bus_bandwidth();
  const int members = bench.ranks / bench.nodes;
  const double of_nics = rate / cluster.nic.bandwidth / members;
  if (of_nics > 1.0) {
    warn_of_fast_link(made, bench);
    return;
  }
  cluster.nic.collective_efficiency = of_nics;
  LinkSpec& within = cluster.nvlink;
  if (members > 1 && within.collective_bandwidth() < rate && rate <= within.bandwidth) {
    within.collective_efficiency = rate / within.bandwidth;
  }
}

void take_bench(NewCluster& made, const CollectiveBench& bench) {
  ClusterSpec& cluster = made.cluster;
  check_group(bench, cluster);
  made.say(fmt::format("{} of {} on {}: {} sizes, {} bus bandwidth at the largest, by {}",
                       name_of<BenchedCollective>(bench.collective, kBenchedCollectives),
                       plural(bench.ranks, "GPU"), plural(bench.nodes, "node"), bench.points.size(),
                       rate_text(bench.bus_bandwidth()), bench.place));
  for (const std::string& note : bench.notes) {
    made.warn(bench.place + ": " + note);
  }
  if (bench.collective == BenchedCollective::kSendReceive) {
    if (bench.nodes == 1) {
      cluster.message_curve = MeasuredCurve(bench.points, bench.place);
    }
    set_message_rate(made, bench.nodes == 1 ? cluster.nvlink : cluster.nic, bench.bus_bandwidth(),
                     bench.nodes == 1 ? "messages within a node" : "messages across nodes",
                     bench.place);
    return;
  }
  set_curve(bench, cluster);
  if (bench.collective == BenchedCollective::kAllToAll) {
    return;
  }
  if (bench.nodes == 1) {
    set_rate_within_node(made, bench);
  } else {
    set_rate_across_nodes(made, bench);
  }
}

}  // namespace

void take_benches(NewCluster& made, std::vector<CollectiveBench> benches) {
  const auto group_of = [](const CollectiveBench& bench) {
    return std::tuple(bench.nodes > 1, bench.ranks, bench.nodes, bench.collective);
  };
  // What counts last is the largest group, and of equals the all-reduce, which comes last.
  std::stable_sort(benches.begin(), benches.end(),
                   [&](const CollectiveBench& a, const CollectiveBench& b) {
                     return group_of(a) < group_of(b);
                   });
  const auto twice = std::adjacent_find(benches.begin(), benches.end(),
                                        [&](const CollectiveBench& a, const CollectiveBench& b) {
                                          return group_of(a) == group_of(b);
                                        });
  if (twice != benches.end()) {
    throw Error(fmt::format("{}: {} of {} on {} is in {}, too", (twice + 1)->place,
                            name_of<BenchedCollective>(twice->collective, kBenchedCollectives),
                            plural(twice->ranks, "GPU"), plural(twice->nodes, "node"),
                            twice->place));
  }
  for (const CollectiveBench& bench : benches) {
    take_bench(made, bench);
  }
}

}  // namespace ptdp
