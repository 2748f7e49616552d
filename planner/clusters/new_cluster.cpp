#include "planner/clusters/new_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/plural.h"
#include "planner/clusters/bench_rates.h"
#include "planner/clusters/probed_gpu.h"

namespace ptdp {
namespace {

/// Rates of one NVLink of a GPU, and of all its links.
struct NvlinkRates {
  double rate_of_each = 25.0;  ///< Rate of one in one direction [10⁹ B/s].
  int links = 0;               ///< Number of links of a GPU; 0: unknown.
};

/// Returns the NVLinks of a GPU by the shipped cluster that has it, or the GPU that stands in for
/// it. Those since Blackwell move 50 GB/s a direction, older ones since Volta 25. Source: NVIDIA
/// data sheets of V100, A100, H100 and B200.
std::optional<NvlinkRates> nvlinks_of(const GpuSpec& gpu) {
  constexpr double blackwell_node = 900.0;
  for (const std::string& name : {gpu.name, gpu.constants_of}) {
    if (const std::optional<ClusterSpec> cluster = shipped_cluster_of(name)) {
      const double all = cluster->nvlink.bandwidth.value() / kGiga;
      const double each = all >= blackwell_node ? 50.0 : 25.0;
      return NvlinkRates{.rate_of_each = each, .links = static_cast<int>(all / each)};
    }
  }
  return std::nullopt;
}

/// Puts together a cluster step by step.
class ClusterMaker {
 public:
  explicit ClusterMaker(const ClusterFacts& facts) : facts_(facts) {}

  NewCluster make() {
    begin();
    check_product();
    set_node();
    set_link();
    set_nics();
    set_memory();
    set_copies();
    std::vector<CollectiveBench> benches = facts_.benches;
    if (facts_.probe) {
      take_probe(made_, facts_.probe->report, facts_.probe->place);
      std::ranges::copy(facts_.probe->report.collectives, std::back_inserter(benches));
    }
    take_benches(made_, std::move(benches));
    set_untold_messages();
    set_nodes();
    name_it();
    return std::move(made_);
  }

 private:
  ClusterSpec& cluster() { return made_.cluster; }

  /// Takes the cluster to begin with, and the GPU.
  void begin() {
    if (!facts_.from && !facts_.gpu) {
      throw Error(
          "--from is missing: a shipped cluster to begin with; or --gpu or --smi, which tell the "
          "GPU of one");
    }
    const std::optional<ClusterSpec> of_gpu =
        facts_.gpu ? shipped_cluster_of(facts_.gpu->name) : std::nullopt;
    if (!facts_.from && !of_gpu) {
      throw Error("--from is missing: no shipped cluster has a GPU " + facts_.gpu->name +
                  "; name one whose nodes are most like yours");
    }
    made_.cluster = facts_.from ? *facts_.from : *of_gpu;
    made_.say("begins as " + cluster().name);
    if (facts_.gpu && facts_.gpu->name == cluster().gpu.name) {
      cluster().gpu = *facts_.gpu;
    } else if (facts_.gpu && of_gpu) {
      take_node_of(*of_gpu);
    } else if (facts_.gpu) {
      take_unknown_gpu();
    }
    const GpuSpec& gpu = cluster().gpu;
    made_.say("GPU: " + gpu.name);
    if (gpu.is_assumed) {
      made_.warn(
          fmt::format("what kernels reach on {} is taken from {}; tools/probe/probe.py measures it",
                      gpu.name, gpu.constants_of));
    }
  }

  /// Throws Error where nvidia-smi shows another shipped GPU than the cluster's.
  void check_product() {
    if (facts_.smi && !may_be(cluster().gpu, facts_.smi->report.product)) {
      throw Error(fmt::format("{}: expected a GPU {}, got {}; --gpu says which GPU the nodes have",
                              facts_.smi->place, cluster().gpu.name, facts_.smi->report.product));
    }
  }

  /// Forgets collectives measured on what the cluster had before.
  void forget_collectives() {
    cluster().all_reduce_curves.clear();
    cluster().reduce_scatter_curves.clear();
    cluster().all_gather_curves.clear();
    cluster().all_to_all_curves.clear();
    cluster().message_curve = MeasuredCurve();
  }

  /// Takes what joins the GPUs of a node from a shipped cluster with this GPU.
  void take_node_of(const ClusterSpec& other) {
    forget_collectives();
    cluster().gpu = *facts_.gpu;
    cluster().nvlink = other.nvlink;
    cluster().nccl = other.nccl;
    cluster().nccl_within_node = other.nccl_within_node;
    cluster().gpus_per_tray = 0;
    cluster().all_reduce_across_nodes = other.all_reduce_across_nodes;
    cluster().launch_slowdown = other.launch_slowdown;
    made_.say("links and collectives of a node: those of " + other.name);
  }

  void take_unknown_gpu() {
    const bool is_measured =
        std::any_of(facts_.benches.begin(), facts_.benches.end(),
                    [](const CollectiveBench& bench) { return bench.nodes == 1; });
    if (!facts_.link && !facts_.topology && !is_measured) {
      throw Error("--link is missing: what a GPU " + facts_.gpu->name +
                  " sends to others of its node, such as 450GB for NVLink of an H100 or 32GB for "
                  "PCIe 4.0; --topology or --nccl-tests tell it too");
    }
    is_link_untold_ = !facts_.link && !facts_.topology;
    forget_collectives();
    cluster().gpu = *facts_.gpu;
    cluster().nccl.reset();
    cluster().nccl_within_node.reset();
    cluster().gpus_per_tray = 0;
    made_.warn("collectives that nothing measured are rings: nobody measured NCCL on " +
               cluster().gpu.name);
  }

  /// Sets the GPUs of a node: by the flag, else by the first report that tells them.
  void set_node() {
    std::vector<std::pair<int, std::string>> told;
    if (facts_.gpus_per_node) {
      told.emplace_back(*facts_.gpus_per_node, "--gpus-per-node");
    }
    if (facts_.topology) {
      told.emplace_back(facts_.topology->report.gpus, facts_.topology->place);
    }
    if (facts_.smi) {
      told.emplace_back(facts_.smi->report.gpus, facts_.smi->place);
    }
    if (facts_.slurm && facts_.slurm->gpus_per_node) {
      told.emplace_back(*facts_.slurm->gpus_per_node, "SLURM_GPUS_ON_NODE");
    }
    if (told.empty()) {
      return;
    }
    const auto [count, from] = told.front();
    for (const auto& [other, place] : told) {
      if (other != count) {
        made_.warn(fmt::format("{} says {}, {} {}", from, plural(count, "GPU"), place, other));
      }
    }
    if (!facts_.gpus_per_node && count <= cluster().gpus_per_tray) {
      made_.say(fmt::format("{} by {} are those of a tray: NVLink joins {}", plural(count, "GPU"),
                            from, cluster().gpus_per_node));
    } else if (count != cluster().gpus_per_node) {
      set_node_size(count, from);
    }
  }

  void set_node_size(int count, const std::string& from) {
    cluster().gpus_per_node = count;
    cluster().gpus_per_tray = 0;
    std::erase_if(cluster().network_tiers,
                  [&](const NetworkTier& tier) { return tier.gpus <= count; });
    made_.say(fmt::format("{} a node, by {}", plural(count, "GPU"), from));
    if (!facts_.nics) {
      made_.warn(fmt::format("NICs: {} a GPU is kept; --nic says what a node has",
                             rate_text(cluster().nic.bandwidth)));
    }
  }

  /// Sets the link between the GPUs of a node.
  void set_link() {
    if (facts_.topology) {
      note_topology(facts_.topology->report, facts_.topology->place);
    }
    if (facts_.link) {
      replace_link(*facts_.link, "--link");
    } else if (facts_.topology && facts_.topology->report.gpus > 1) {
      take_topology(facts_.topology->report, facts_.topology->place);
    }
  }

  void note_topology(const NodeTopology& node, const std::string& place) {
    std::ranges::copy(node.warnings, std::back_inserter(made_.warnings));
    if (!node.nics.empty() && facts_.nics &&
        std::cmp_not_equal(node.nics.size(), facts_.nics->count)) {
      made_.warn(fmt::format("{} has {}, --nic says {}", place,
                             plural(std::ssize(node.nics), "NIC"), facts_.nics->count));
    }
  }

  /// Takes the links that a topology shows. Where a GPU's links lead into switches, each pair has
  /// all of them. Where they lead to peers, a GPU has the sum.
  void take_topology(const NodeTopology& node, const std::string& place) {
    if (node.nvlinks == 0) {
      use_pcie(place);
      return;
    }
    if (!node.is_joined) {
      throw Error(
          fmt::format("{}: NVLink joins some pairs of GPUs, {} meet over PCIe; --link says "
                      "what collectives of the whole node can move",
                      place, plural(node.pairs_over_pcie, "other")));
    }
    const std::optional<NvlinkRates> known = nvlinks_of(cluster().gpu);
    if (!known) {
      throw Error(
          fmt::format("{}: {} between two GPUs {}, of unknown rate; --link says what one "
                      "GPU moves in one direction",
                      place, plural(node.nvlinks, "NVLink"), cluster().gpu.name));
    }
    if (node.pairs_over_pcie > 0) {
      made_.warn(fmt::format("{}: {} of GPUs have no NVLink: their messages pass peers or PCIe",
                             place, plural(node.pairs_over_pcie, "pair")));
    }
    const bool is_direct = node.links_of_gpu <= known->links;
    const int links = is_direct ? node.links_of_gpu : node.nvlinks;
    replace_link(
        gigabytes_per_second(links * known->rate_of_each),
        fmt::format("{} of {:g} GB/s {} in {}", plural(links, "NVLink"), known->rate_of_each,
                    is_direct ? "to all peers" : "to each peer", place));
  }

  void replace_link(BytesPerSecond rate, const std::string& from) {
    if (rate == cluster().nvlink.bandwidth) {
      return;
    }
    forget_collectives();
    cluster().nvlink.bandwidth = rate;
    // Reduction in switches was measured on the links before.
    for (std::optional<NcclSpec>* nccl : {&cluster().nccl, &cluster().nccl_within_node}) {
      if (*nccl) {
        (*nccl)->nvls = NvlsSpec();
      }
    }
    made_.say(fmt::format("link between GPUs of a node: {} of one, each direction, by {}",
                          rate_text(rate), from));
  }

  void use_pcie(const std::string& place) {
    const auto pcie = facts_.smi ? pcie_bandwidth(facts_.smi->report.pcie_generation,
                                                  facts_.smi->report.pcie_lanes)
                                 : std::nullopt;
    const bool is_pcie = cluster().nccl && cluster().nccl->node_link == NodeLink::kPci;
    if (!pcie && !is_pcie) {
      throw Error(place +
                  ": its GPUs have no NVLink; --link says what PCIe moves in one direction, such "
                  "as 32GB for PCIe 4.0, or --smi its generation");
    }
    if (pcie) {
      replace_link(*pcie, facts_.smi->place + ", PCIe, since " + place + " shows no NVLink");
    }
    if (cluster().nccl) {
      cluster().nccl->node_link = NodeLink::kPci;
    }
    if (cluster().nccl_within_node) {
      cluster().nccl_within_node->node_link = NodeLink::kPci;
    }
  }

  void set_nics() {
    if (!facts_.nics) {
      return;
    }
    const double whole = facts_.nics->count * facts_.nics->each.value();
    cluster().nic.bandwidth = BytesPerSecond(whole / cluster().gpus_per_node);
    cluster().nic.sibling_efficiency.reset();
    for (std::vector<AllReduceCurve>* curves :
         {&cluster().all_reduce_curves, &cluster().reduce_scatter_curves,
          &cluster().all_gather_curves, &cluster().all_to_all_curves}) {
      std::erase_if(*curves, [](const AllReduceCurve& curve) { return curve.nodes > 1; });
    }
    made_.say(fmt::format("NIC: {} a GPU, {} of {} for {}", rate_text(cluster().nic.bandwidth),
                          facts_.nics->count, rate_text(facts_.nics->each),
                          plural(cluster().gpus_per_node, "GPU")));
  }

  void set_memory() {
    if (!facts_.smi) {
      return;
    }
    const SmiReport& smi = facts_.smi->report;
    cluster().gpu.memory = smi.memory;
    made_.say(fmt::format("memory of a GPU: {:.2f} GiB, by {}", smi.memory.value() / kGibi,
                          facts_.smi->place));
    std::ranges::copy(smi.warnings, std::back_inserter(made_.warnings));
  }

  void set_copies() {
    if (!facts_.copies) {
      return;
    }
    const auto& [place, rates] = *facts_.copies;
    if (rates.device_to_device) {
      set_message_rate(made_, cluster().nvlink, *rates.device_to_device, "GPU to GPU", place);
      is_link_untold_ = false;
    }
    if (!rates.host_to_device && !rates.device_to_host) {
      return;
    }
    const BytesPerSecond slower = !rates.host_to_device ? *rates.device_to_host
                                  : !rates.device_to_host
                                      ? *rates.host_to_device
                                      : std::min(*rates.host_to_device, *rates.device_to_host);
    if (cluster().host) {
      cluster().host->link_bandwidth = slower;
      made_.say(fmt::format("link to the host: {}, by {}", rate_text(slower), place));
    } else {
      made_.warn(place + ": the link to the host is of no use: the host's memory is unknown");
    }
  }

  /// Lets messages within a node reach what collectives do, where nothing else tells their link.
  void set_untold_messages() {
    LinkSpec& link = cluster().nvlink;
    if (is_link_untold_ && cluster().message_curve.empty() && link.collective_efficiency) {
      link.efficiency = *link.collective_efficiency;
      made_.warn(
          "messages within a node are taken to reach what collectives do; --link and "
          "--nvbandwidth say more");
    }
  }

  /// Bounds the cluster by the nodes of a job.
  void set_nodes() {
    if (!facts_.slurm) {
      return;
    }
    const int of_node =
        cluster().gpus_per_tray > 0 ? cluster().gpus_per_tray : cluster().gpus_per_node;
    const std::int64_t gpus = std::int64_t{facts_.slurm->nodes} * of_node;
    made_.say(fmt::format("{} of {}, by Slurm", plural(facts_.slurm->nodes, "node"),
                          plural(of_node, "GPU")));
    if (gpus <= cluster().gpus_per_node) {
      made_.say(fmt::format("plan with --gpus {} at most", gpus));
      return;
    }
    std::vector<NetworkTier>& tiers = cluster().network_tiers;
    double oversubscription = 1.0;
    for (const NetworkTier& tier : tiers) {
      oversubscription = tier.oversubscription;
      if (tier.gpus >= gpus) {
        break;
      }
    }
    std::erase_if(tiers, [&](const NetworkTier& tier) { return tier.gpus >= gpus; });
    tiers.push_back({.gpus = gpus, .oversubscription = oversubscription});
  }

  void name_it() {
    const std::string from = cluster().name;
    cluster().name = facts_.name.empty() ? "my-" + from : facts_.name;
    std::string source = "ptdp-plan new-cluster";
    for (const std::string& line : made_.lines) {
      source += "; " + line;
    }
    cluster().source = source + ". Of " + from + ": " + cluster().source;
  }

  const ClusterFacts& facts_;
  NewCluster made_;
  /// Whether nothing but collectives says what joins the GPUs of a node.
  bool is_link_untold_ = false;
};

}  // namespace

NewCluster make_cluster(const ClusterFacts& facts) {
  NewCluster made = ClusterMaker(facts).make();
  // What is written must be read again: the reader knows what a cluster cannot be.
  ObjectReader reader = ObjectReader::from_text(cluster_file(made.cluster), made.cluster.name);
  reader.schema(schema_of(ProfileKind::kCluster));
  ClusterSpec checked;
  describe(reader, checked);
  reader.finish();
  return made;
}

std::string to_text(const NewCluster& made, const std::string& file) {
  std::string text = made.cluster.name + "\n";
  for (const std::string& line : made.lines) {
    text += "  " + line + "\n";
  }
  if (!made.warnings.empty()) {
    text += "Assumed or doubtful\n";
    for (const std::string& line : made.warnings) {
      text += "  " + line + "\n";
    }
  }
  return text + as_typed("Next: ptdp-plan --gpus N --model NAME --cluster ") + file + "\n";
}

}  // namespace ptdp
