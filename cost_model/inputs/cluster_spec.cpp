#include "cost_model/inputs/cluster_spec.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/profile_files.h"

namespace ptdp {
namespace {

constexpr Range kFactorRange = {1e-2, 1e2, "times as long"};
constexpr std::int64_t kMostGpus = 100'000'000;
constexpr int kMostCores = 100'000;

constexpr std::array<NamedValue<AllReduceAcrossNodes>, 3> kAllReducesAcrossNodes = {
    {{AllReduceAcrossNodes::kFlat, "flat"},
     {AllReduceAcrossNodes::kHierarchical, "hierarchical"},
     {AllReduceAcrossNodes::kFaster, "faster"}}};

void check_nccl(const ClusterSpec& cluster, const std::string& place) {
  if (cluster.nccl && cluster.nccl->channels_per_nic == 0) {
    throw Error(place + ": expected channels_per_nic in it, which only nccl_within_node can do " +
                "without");
  }
}

void check_tiers(const ClusterSpec& cluster, const std::string& place) {
  NetworkTier below = {.gpus = cluster.gpus_per_node, .oversubscription = 1.0};
  for (const NetworkTier& tier : cluster.network_tiers) {
    if (tier.gpus <= below.gpus) {
      throw Error(place + ": expected tiers that grow, from more than " +
                  std::to_string(below.gpus) + " GPUs, got one of " + std::to_string(tier.gpus));
    }
    if (tier.oversubscription < below.oversubscription) {
      throw Error(place + ": the tier of " + std::to_string(tier.gpus) +
                  " GPUs is less oversubscribed than the one below it");
    }
    below = tier;
  }
}

void check_curves(const std::vector<AllReduceCurve>& curves, const std::string& place) {
  std::vector<std::pair<int, int>> groups;
  for (const AllReduceCurve& curve : curves) {
    groups.emplace_back(curve.ranks, curve.nodes);
    if (curve.ranks % curve.nodes != 0) {
      throw Error(place + ": " + std::to_string(curve.ranks) + " ranks are not equally many on " +
                  std::to_string(curve.nodes) + " nodes");
    }
  }
  std::sort(groups.begin(), groups.end());
  const auto repeated = std::adjacent_find(groups.begin(), groups.end());
  if (repeated != groups.end()) {
    throw Error(place + ": two curves of " + std::to_string(repeated->first) + " ranks on " +
                std::to_string(repeated->second) + " nodes");
  }
}

void check_busy_cores(const ClusterSpec& cluster, const std::string& place) {
  if (!cluster.busy_cores.empty() && !cluster.cores_per_node) {
    throw Error(place + ": expected cores_per_node beside it");
  }
  int below = 1;
  for (const BusyCores& busy : cluster.busy_cores) {
    if (busy.cores <= below || busy.cores > *cluster.cores_per_node) {
      throw Error(place + ": expected numbers of cores that grow, from more than " +
                  std::to_string(below) + " to " + std::to_string(*cluster.cores_per_node) +
                  ", got " + std::to_string(busy.cores));
    }
    below = busy.cores;
  }
}

/// Reads the nested object or list at `key`. A text there is the name of a shipped profile, or a
/// path ending in .json beside the file that holds it; `find` reads both. Throws Error for one that
/// `find` cannot read.
template <class Value, class Find>
void object_or_name(ObjectReader& fields, const std::string& key, Value& value, Find find) {
  if (fields.is_text(key)) {
    std::string name;
    fields.text(key, name);
    if (name.ends_with(".json")) {
      name = (std::filesystem::path(fields.place()).parent_path() / name).string();
    } else {
      fields.name(key, name);
    }
    try {
      value = find(name);
    } catch (const Error& error) {
      throw Error(fields.place_of(key) + ": " + error.what());
    }
  } else if constexpr (requires { value.begin(); }) {
    fields.objects(key, value);
  } else {
    fields.object(key, value);
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, LinkSpec>& link) {
  fields.quantity("bandwidth_GBps", link.bandwidth, kGiga, kBandwidthRange);
  fields.number("efficiency", link.efficiency, kFractionRange);
  if (fields.optional("collective_efficiency", link.collective_efficiency.has_value())) {
    fields.number("collective_efficiency", held(link.collective_efficiency), kFractionRange);
  }
  if (fields.optional("sibling_efficiency", link.sibling_efficiency.has_value())) {
    fields.number("sibling_efficiency", held(link.sibling_efficiency), kFractionRange);
  }
  fields.quantity("hop_latency_us", link.hop_latency, kMicro, kLatencyRange);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, TimeFactors>& factors) {
  fields.number("matmul", factors.matmul, kFactorRange);
  fields.number("attention", factors.attention, kFactorRange);
  fields.number("memory_bound", factors.memory_bound, kFactorRange);
  fields.number("communication", factors.communication, kFactorRange);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, BusyCores>& busy) {
  fields.count("cores", busy.cores, 2, kMostCores);
  fields.number("matmul", busy.matmul, kFactorRange);
  fields.number("attention", busy.attention, kFactorRange);
  fields.number("memory_bound", busy.memory_bound, kFactorRange);
  fields.number("optimizer", busy.optimizer, kFactorRange);
  fields.number("skew", busy.skew, {0.0, 10.0, "a fraction of compute"});
}

template <class Fields>
void describe(Fields& fields, Described<Fields, AllReduceCurve>& curve) {
  fields.count("ranks", curve.ranks, 2, 100'000);
  if (fields.optional("nodes", curve.nodes > 1)) {
    fields.count("nodes", curve.nodes, 1, 100'000);
  }
  std::vector<MeasuredPoint> points = curve.curve.points();
  fields.objects("points", points);
  if constexpr (Fields::kIsReading) {
    curve.curve = MeasuredCurve(std::move(points), fields.place_of("points"));
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, NetworkTier>& tier) {
  fields.count("gpus", tier.gpus, 1, kMostGpus);
  fields.number("oversubscription", tier.oversubscription,
                {1.0, 1e4, "1 where the tier has full bandwidth, 7 for 1:7"});
}

template <class Fields>
void describe(Fields& fields, Described<Fields, HostSpec>& host) {
  fields.quantity("memory_GiB", host.memory, kGibi, kMemoryRange);
  fields.quantity("memory_bandwidth_GBps", host.memory_bandwidth, kGiga, kBandwidthRange);
  fields.quantity("link_GBps", host.link_bandwidth, kGiga, kBandwidthRange);
}

/// Reads or writes the times that were measured of collectives and messages.
template <class Fields>
void describe_measured_network(Fields& fields, Described<Fields, ClusterSpec>& cluster) {
  if (fields.optional("all_reduce_curves", !cluster.all_reduce_curves.empty())) {
    if constexpr (Fields::kIsReading) {
      object_or_name(fields, "all_reduce_curves", cluster.all_reduce_curves,
                     find_all_reduce_curves);
    } else {
      fields.objects("all_reduce_curves", cluster.all_reduce_curves);
    }
  }
  for (const auto& [key, curves] :
       {std::pair{"reduce_scatter_curves", &cluster.reduce_scatter_curves},
        std::pair{"all_gather_curves", &cluster.all_gather_curves},
        std::pair{"all_to_all_curves", &cluster.all_to_all_curves}}) {
    if (fields.optional(key, !curves->empty())) {
      fields.objects(key, *curves);
    }
    if constexpr (Fields::kIsReading) {
      check_curves(*curves, fields.place_of(key));
    }
  }
  if (fields.optional("message_curve", !cluster.message_curve.empty())) {
    std::vector<MeasuredPoint> points = cluster.message_curve.points();
    fields.objects("message_curve", points);
    if constexpr (Fields::kIsReading) {
      cluster.message_curve = MeasuredCurve(std::move(points), fields.place_of("message_curve"));
    }
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, ClusterSpec>& cluster) {
  fields.name("name", cluster.name);
  fields.text("source", cluster.source);
  fields.name("default_stack", cluster.default_stack);
  if constexpr (Fields::kIsReading) {
    object_or_name(fields, "gpu", cluster.gpu, find_gpu);
  } else {
    fields.object("gpu", cluster.gpu);
  }
  fields.count("gpus_per_node", cluster.gpus_per_node, 1, 100'000);
  if (fields.optional("gpus_per_tray", cluster.gpus_per_tray > 0)) {
    fields.count("gpus_per_tray", cluster.gpus_per_tray, 1, 100'000);
  }
  fields.object("nvlink", cluster.nvlink);
  if constexpr (Fields::kIsReading) {
    if (cluster.nvlink.sibling_efficiency) {
      throw Error(fields.place_of("nvlink") +
                  ": expected no sibling_efficiency, which only a nic has");
    }
  }
  fields.object("nic", cluster.nic);
  fields.quantity("collective_launch_us", cluster.collective_launch, kMicro, kLatencyRange);
  describe_measured_network(fields, cluster);
  if (fields.optional("nccl", cluster.nccl.has_value())) {
    fields.object("nccl", held(cluster.nccl));
  }
  if (fields.optional("nccl_within_node", cluster.nccl_within_node.has_value())) {
    fields.object("nccl_within_node", held(cluster.nccl_within_node));
  }
  if (fields.optional("all_reduce_across_nodes",
                      cluster.all_reduce_across_nodes != AllReduceAcrossNodes::kFlat)) {
    fields.choice("all_reduce_across_nodes", cluster.all_reduce_across_nodes,
                  NamedValues<AllReduceAcrossNodes>(kAllReducesAcrossNodes));
  }
  if (fields.optional("host", cluster.host.has_value())) {
    fields.object("host", held(cluster.host));
  }
  if (fields.optional("network_tiers", !cluster.network_tiers.empty())) {
    fields.objects("network_tiers", cluster.network_tiers);
  }
  if (fields.optional("cores_per_node", cluster.cores_per_node.has_value())) {
    fields.count("cores_per_node", held(cluster.cores_per_node), 1, kMostCores);
  }
  if (fields.optional("launch_slowdown", cluster.launch_slowdown != 1.0)) {
    fields.number("launch_slowdown", cluster.launch_slowdown, kLaunchSlowdownRange);
  }
  if (fields.optional("busy_cores", !cluster.busy_cores.empty())) {
    fields.objects("busy_cores", cluster.busy_cores);
  }
  if (fields.optional("time_factors", cluster.time_factors != TimeFactors{})) {
    fields.object("time_factors", cluster.time_factors);
  }
  if constexpr (Fields::kIsReading) {
    check_nccl(cluster, fields.place_of("nccl"));
    check_tiers(cluster, fields.place_of("network_tiers"));
    check_curves(cluster.all_reduce_curves, fields.place_of("all_reduce_curves"));
    check_busy_cores(cluster, fields.place_of("busy_cores"));
  }
}

template void describe(ObjectReader&, AllReduceCurve&);
template void describe(ObjectWriter&, const AllReduceCurve&);
template void describe(ObjectReader&, ClusterSpec&);
template void describe(ObjectWriter&, const ClusterSpec&);

std::vector<AllReduceCurve> find_all_reduce_curves(const std::string& name_or_path) {
  ObjectReader reader = open_profile(ProfileKind::kCurve, name_or_path);
  std::string name;
  std::string source;
  reader.name("name", name);
  reader.text("source", source);
  std::vector<AllReduceCurve> curves;
  reader.objects("all_reduce_curves", curves);
  reader.finish();
  return curves;
}

}  // namespace ptdp
