#include "planner/clusters/new_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/network/collectives.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostNotes = 4;  // of a probe; its file has all

/// Reads a rate with its unit; a number without one counts in `unit`.
std::optional<BytesPerSecond> rate_of(std::string_view text, double unit) {
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const std::string_view tail : {std::string_view("/s"), std::string_view("ps")}) {
    if (rest.size() > tail.size() && rest.ends_with(tail)) {
      rest.remove_suffix(tail.size());
    }
  }
  if (rest == "Gb") {
    unit = kGiga / 8.0;
  } else if (rest == "GB") {
    unit = kGiga;
  } else if (!rest.empty()) {
    return std::nullopt;
  }
  return error == std::errc{} && std::isfinite(number) && number > 0.0
             ? std::optional(BytesPerSecond(number * unit))
             : std::nullopt;
}

std::string rate_text(BytesPerSecond rate) {
  return fmt::format("{:.4g} GB/s", rate.value() / kGiga);
}

/// Returns the shipped cluster whose nodes have this GPU, one that is no copy of a machine's own
/// measurements first; nullopt: none has it.
std::optional<ClusterSpec> shipped_cluster_of(const std::string& gpu) {
  std::optional<ClusterSpec> found;
  for (const std::string& name : list_profiles(ProfileKind::kCluster)) {
    ClusterSpec cluster = find_cluster(name);
    const bool is_better = !found || name.size() < found->name.size();
    if (cluster.gpu.name == gpu && is_better) {
      found = std::move(cluster);
    }
  }
  return found;
}

/// Returns the rate of a GPU's NVLinks: those since Blackwell move 50 GB/s a direction, older ones
/// since Volta 25. Source: NVIDIA data sheets of V100, A100, H100 and B200.
BytesPerSecond nvlink_rate(int links, const ClusterSpec& cluster) {
  constexpr double kBlackwellNode = 900.0 * kGiga;
  const double each = cluster.nvlink.bandwidth.value() >= kBlackwellNode ? 50.0 : 25.0;
  return gigabytes_per_second(links * each);
}

/// Returns the software that ran a layer, on this GPU: without a rate of its attention there, with
/// attention that no kernel fuses.
StackSpec stack_of(const ProbedLayer& probed, const GpuSpec& gpu) {
  StackSpec stack = find_stack(probed.stack);
  stack.precision = probed.precision;
  const auto has_rate = [&](const std::string& kernel) {
    return std::any_of(gpu.attention_rates.begin(), gpu.attention_rates.end(),
                       [&](const AttentionRate& rate) { return rate.kernel == kernel; });
  };
  if (!has_rate(stack.attention) && !has_rate(stack.other_attention)) {
    stack.attention = "unfused";
    stack.other_attention.clear();
  }
  return stack;
}

/// Puts together a cluster step by step, and keeps what it did.
class ClusterMaker {
 public:
  explicit ClusterMaker(const ClusterFacts& facts) : facts_(facts) {}

  NewCluster make() {
    begin();
    set_node();
    set_link();
    set_nics();
    set_memory();
    set_copies();
    if (facts_.probe) {
      set_probe(facts_.probe->report, facts_.probe->place);
    }
    for (const CollectiveBench& bench : facts_.benches) {
      set_bench(bench);
    }
    set_nodes();
    name_it();
    return std::move(made_);
  }

 private:
  template <class... Values>
  void say(fmt::format_string<Values...> format, Values&&... values) {
    made_.lines.push_back(fmt::format(format, std::forward<Values>(values)...));
  }
  template <class... Values>
  void warn(fmt::format_string<Values...> format, Values&&... values) {
    made_.warnings.push_back(fmt::format(format, std::forward<Values>(values)...));
  }

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
    say("begins as {}", made_.cluster.name);
    if (!facts_.gpu || facts_.gpu->name == cluster().gpu.name) {
      if (facts_.gpu) {
        cluster().gpu = *facts_.gpu;
      }
    } else if (of_gpu) {
      take_node_of(*of_gpu);
    } else {
      take_unknown_gpu();
    }
    say("GPU: {}", cluster().gpu.name);
    if (cluster().gpu.is_assumed) {
      warn("what kernels reach on {} is taken from {}; tools/probe/probe.py measures it",
           cluster().gpu.name, cluster().gpu.constants_of);
    }
  }

  /// Forgets collectives measured on the GPUs that the cluster had before.
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
    say("links and collectives of a node: those of {}", other.name);
  }

  void take_unknown_gpu() {
    const bool is_told = facts_.link || facts_.topology ||
                         std::any_of(facts_.benches.begin(), facts_.benches.end(),
                                     [](const CollectiveBench& bench) { return bench.nodes == 1; });
    if (!is_told) {
      throw Error("--link is missing: what a GPU " + facts_.gpu->name +
                  " sends to others of its node, such as 450GB for NVLink of an H100 or 32GB for "
                  "PCIe 4.0; --topology or --nccl-tests tell it too");
    }
    forget_collectives();
    cluster().gpu = *facts_.gpu;
    cluster().nccl.reset();
    cluster().nccl_within_node.reset();
    cluster().gpus_per_tray = 0;
    warn("collectives that nothing measured are rings: nobody measured NCCL on {}",
         cluster().gpu.name);
  }

  /// Sets the GPUs of a node.
  void set_node() {
    std::optional<int> count = facts_.gpus_per_node;
    std::string from = "--gpus-per-node";
    if (!count && facts_.topology) {
      count = facts_.topology->report.gpus;
      from = facts_.topology->place;
    } else if (!count && facts_.smi) {
      count = facts_.smi->report.gpus;
      from = facts_.smi->place;
    } else if (!count && facts_.slurm) {
      count = facts_.slurm->gpus_per_node;
      from = "SLURM_GPUS_ON_NODE";
    }
    if (count && *count != cluster().gpus_per_node) {
      cluster().gpus_per_node = *count;
      cluster().gpus_per_tray = 0;
      say("{} a node, by {}", plural(*count, "GPU"), from);
      std::erase_if(cluster().network_tiers,
                    [&](const NetworkTier& tier) { return tier.gpus <= *count; });
    }
  }

  /// Sets the link between the GPUs of a node.
  void set_link() {
    if (facts_.topology) {
      const NodeTopology& node = facts_.topology->report;
      std::copy(node.warnings.begin(), node.warnings.end(), std::back_inserter(made_.warnings));
      if (!node.nics.empty() && facts_.nics &&
          std::cmp_not_equal(node.nics.size(), facts_.nics->count)) {
        warn("{} has {}, --nic says {}", facts_.topology->place, plural(node.nics.size(), "NIC"),
             facts_.nics->count);
      }
    }
    if (facts_.link) {
      replace_link(*facts_.link, "--link");
    } else if (facts_.topology && facts_.topology->report.nvlinks > 0) {
      const int links = facts_.topology->report.nvlinks;
      replace_link(nvlink_rate(links, cluster()),
                   fmt::format("{} NVLinks in {}", links, facts_.topology->place));
    } else if (facts_.topology && facts_.topology->report.gpus > 1) {
      use_pcie();
    }
  }

  void replace_link(BytesPerSecond rate, const std::string& from) {
    if (rate == cluster().nvlink.bandwidth) {
      return;
    }
    forget_collectives();
    cluster().nvlink.bandwidth = rate;
    cluster().nccl_within_node.reset();
    if (cluster().nccl) {
      cluster().nccl->nvls = NvlsSpec();
    }
    say("link between GPUs of a node: {} of one, each direction, by {}", rate_text(rate), from);
  }

  void use_pcie() {
    const std::string& place = facts_.topology->place;
    const auto pcie = facts_.smi ? pcie_bandwidth(facts_.smi->report.pcie_generation,
                                                  facts_.smi->report.pcie_lanes)
                                 : std::nullopt;
    const bool is_shipped = cluster().nvlink.bandwidth.value() < 70.0 * kGiga;
    if (!pcie && !is_shipped) {
      throw Error(place +
                  ": its GPUs have no NVLink; --link says what PCIe moves in one direction, "
                  "such as 32GB for PCIe 4.0, or --smi its generation");
    }
    if (pcie) {
      replace_link(*pcie, facts_.smi->place + ", PCIe, since " + place + " shows no NVLink");
    }
    if (cluster().nccl) {
      cluster().nccl->node_link = NodeLink::kPci;
    }
  }

  void set_nics() {
    if (!facts_.nics) {
      return;
    }
    const double whole = facts_.nics->count * facts_.nics->each.value();
    cluster().nic.bandwidth = BytesPerSecond(whole / cluster().gpus_per_node);
    cluster().nic.sibling_efficiency.reset();
    forget_across_nodes();
    say("NIC: {} a GPU, {} of {} for {}", rate_text(cluster().nic.bandwidth), facts_.nics->count,
        rate_text(facts_.nics->each), plural(cluster().gpus_per_node, "GPU"));
  }

  void forget_across_nodes() {
    for (std::vector<AllReduceCurve>* curves :
         {&cluster().all_reduce_curves, &cluster().reduce_scatter_curves,
          &cluster().all_gather_curves, &cluster().all_to_all_curves}) {
      std::erase_if(*curves, [](const AllReduceCurve& curve) { return curve.nodes > 1; });
    }
  }

  void set_memory() {
    if (!facts_.smi) {
      return;
    }
    const SmiReport& smi = facts_.smi->report;
    cluster().gpu.memory = smi.memory;
    say("memory of a GPU: {:.2f} GiB, by {}", smi.memory.value() / kGibi, facts_.smi->place);
    std::copy(smi.warnings.begin(), smi.warnings.end(), std::back_inserter(made_.warnings));
  }

  void set_copies() {
    if (!facts_.copies) {
      return;
    }
    const auto& [place, rates] = *facts_.copies;
    if (rates.device_to_device) {
      set_efficiency(cluster().nvlink, *rates.device_to_device, "GPU to GPU", place);
    }
    if (rates.host_to_device || rates.device_to_host) {
      const BytesPerSecond slower = !rates.host_to_device ? *rates.device_to_host
                                    : !rates.device_to_host
                                        ? *rates.host_to_device
                                        : std::min(*rates.host_to_device, *rates.device_to_host);
      if (cluster().host) {
        cluster().host->link_bandwidth = slower;
        say("link to the host: {}, by {}", rate_text(slower), place);
      } else {
        warn("{}: the link to the host is of no use: the host's memory is unknown", place);
      }
    }
  }

  /// Sets what messages reach of a link. A rate beyond the data sheet's raises that.
  void set_efficiency(LinkSpec& link, BytesPerSecond measured, const char* what,
                      const std::string& place) {
    raise(link, measured, place);
    // Collectives keep the rate that they have.
    link.collective_efficiency = link.collective_efficiency.value_or(link.efficiency);
    link.efficiency = measured / link.bandwidth;
    say("{}: {} of {}, by {}", what, rate_text(measured), rate_text(link.bandwidth), place);
  }

  /// Raises the data-sheet rate of a link that was measured to be faster.
  void raise(LinkSpec& link, BytesPerSecond measured, const std::string& place) {
    if (measured <= link.bandwidth) {
      return;
    }
    warn("{}: {} measured over a link of {}: the link is taken to be as fast as measured", place,
         rate_text(measured), rate_text(link.bandwidth));
    const double growth = measured / link.bandwidth;
    link.efficiency /= growth;
    if (link.collective_efficiency) {
      *link.collective_efficiency /= growth;
    }
    if (link.sibling_efficiency) {
      *link.sibling_efficiency /= growth;
    }
    link.bandwidth = measured;
  }

  /// Puts what a probe measured in the place of what is known of other GPUs.
  void set_probe(const ProbeReport& probe, const std::string& place) {
    if (!probe.is_gpu && !cluster().cores_per_node) {
      warn("{}: measured on a CPU: kernels of {} are not those of {}", place, probe.device_name,
           cluster().gpu.name);
    }
    if (probe.is_gpu) {
      cluster().gpu.memory = probe.memory;
      say("memory of a GPU: {:.2f} GiB, by {}", probe.memory.value() / kGibi, place);
    }
    set_rates(probe, place);
    set_operations(probe, place);
    set_layers(probe, place);
    for (const CollectiveBench& bench : probe.collectives) {
      set_bench(bench);
    }
    for (std::size_t i = 0; i < std::min(probe.notes.size(), kMostNotes); ++i) {
      warn("{}: {}", place, probe.notes[i]);
    }
    if (probe.notes.size() > kMostNotes) {
      warn("{}: {} more such lines, under skipped and warnings", place,
           probe.notes.size() - kMostNotes);
    }
  }

  void set_rates(const ProbeReport& probe, const std::string& place) {
    GpuSpec& gpu = cluster().gpu;
    if (probe.matmul_sustained) {
      gpu.matmul_sustained = *probe.matmul_sustained;
      say("products keep {:.1f} % of their rate in seconds of work, by {}",
          100.0 * gpu.matmul_sustained, place);
    }
    if (probe.kernel_latency) {
      gpu.kernel_latency = *probe.kernel_latency;
    }
    if (probe.memory_bandwidth) {
      gpu.memory_bandwidth = std::max(gpu.memory_bandwidth, *probe.memory_bandwidth);
      gpu.memory_efficiency = *probe.memory_bandwidth / gpu.memory_bandwidth;
      say("memory: {} of {}, by {}", rate_text(*probe.memory_bandwidth),
          rate_text(gpu.memory_bandwidth), place);
    }
    if (probe.host_time_per_kernel) {
      const Seconds usual = find_stack(kProbedStack).host_time_per_kernel;
      cluster().launch_slowdown = std::clamp(*probe.host_time_per_kernel / usual, 0.1, 10.0);
      say("launches: {:.2f} us each, {:.2f} times as long as usual, by {}",
          probe.host_time_per_kernel->value() / kMicro, cluster().launch_slowdown, place);
    }
  }

  /// Takes products and attention. Element-wise operations of PyTorch are no program's own kernels;
  /// the layers tell what they take.
  void set_operations(const ProbeReport& probe, const std::string& place) {
    GpuSpec& gpu = cluster().gpu;
    std::size_t num_points = 0;
    for (const MeasuredOperation& measured : probe.operations) {
      if (measured.operation() > DeviceOperation::kAttentionBackward ||
          gpu.peak(measured.precision()).value() <= 0.0) {
        continue;
      }
      // Rows of kernels are too short for a limit of power to act on them; a step is not.
      std::vector<MeasuredOperation::Point> points = measured.points();
      for (MeasuredOperation::Point& point : points) {
        point.time = point.time / gpu.matmul_sustained;
      }
      num_points += points.size();
      std::erase_if(gpu.measured_operations, [&](const MeasuredOperation& old) {
        return old.operation() == measured.operation() && old.precision() == measured.precision();
      });
      gpu.measured_operations.emplace_back(measured.operation(), measured.precision(),
                                           std::move(points), place);
    }
    if (num_points == 0) {
      return;
    }
    if (gpu.matmul_start.value() == 0.0) {
      gpu.matmul_start = gpu.kernel_latency;  // measured times of products contain their start
    }
    trust_gpu();
    say("products and attention: {} measured, by {}", plural(num_points, "time"), place);
  }

  /// Drops the line that says that the GPU's constants are assumed.
  void trust_gpu() {
    cluster().gpu.is_assumed = false;
    cluster().gpu.constants_of.clear();
    std::erase_if(made_.warnings, [](const std::string& line) {
      return line.starts_with("what kernels reach on ");
    });
  }

  void set_layers(const ProbeReport& probe, const std::string& place) {
    std::vector<LayerFactor> factors;
    for (const ProbedLayer& probed : probe.layers) {
      const LayerFactor factor =
          factor_of(probed.layer, cluster(), stack_of(probed, cluster().gpu));
      const bool is_known =
          std::any_of(factors.begin(), factors.end(), [&](const LayerFactor& other) {
            return other.tokens == factor.tokens && other.tp == factor.tp;
          });
      if (!is_known) {
        factors.push_back(factor);
      }
    }
    if (factors.empty()) {
      return;
    }
    const auto [least, most] = std::minmax_element(
        factors.begin(), factors.end(),
        [](const LayerFactor& a, const LayerFactor& b) { return a.forward < b.forward; });
    say("{}: {:.2f} to {:.2f} times as long forward as modeled, by {}",
        plural(factors.size(), "layer"), least->forward, most->forward, place);
    cluster().gpu.layer_factors = factors;
    trust_gpu();
  }

  void set_bench(const CollectiveBench& bench) {
    if (bench.nodes == 1 && bench.ranks > cluster().gpus_per_node) {
      throw Error(fmt::format(
          "{}: {} on one node, which has {}; --nodes says on how many nodes they were", bench.place,
          plural(bench.ranks, "rank"), plural(cluster().gpus_per_node, "GPU")));
    }
    if (bench.ranks / bench.nodes > cluster().gpus_per_node) {
      throw Error(fmt::format("{}: {} on each of {} nodes, which have {}", bench.place,
                              plural(bench.ranks / bench.nodes, "rank"), bench.nodes,
                              plural(cluster().gpus_per_node, "GPU")));
    }
    say("{} of {} on {}: {} sizes, {} bus bandwidth at the largest, by {}",
        name_of<BenchedCollective>(bench.collective, kBenchedCollectives),
        plural(bench.ranks, "GPU"), plural(bench.nodes, "node"), bench.points.size(),
        rate_text(bench.bus_bandwidth()), bench.place);
    for (const std::string& note : bench.notes) {
      warn("{}: {}", bench.place, note);
    }
    if (bench.collective == BenchedCollective::kSendReceive) {
      set_messages(bench);
    } else {
      set_curve(bench);
      set_rate(bench);
    }
  }

  void set_messages(const CollectiveBench& bench) {
    if (bench.nodes == 1) {
      cluster().message_curve = MeasuredCurve(bench.points, bench.place);
    }
    set_efficiency(bench.nodes == 1 ? cluster().nvlink : cluster().nic, bench.bus_bandwidth(),
                   bench.nodes == 1 ? "messages within a node" : "messages across nodes",
                   bench.place);
  }

  void set_curve(const CollectiveBench& bench) {
    std::vector<AllReduceCurve>& curves = curves_of(bench.collective);
    std::erase_if(curves, [&](const AllReduceCurve& curve) {
      return curve.ranks == bench.ranks && curve.nodes == bench.nodes;
    });
    curves.push_back({.ranks = bench.ranks,
                      .nodes = bench.nodes,
                      .curve = MeasuredCurve(bench.points, bench.place)});
  }

  std::vector<AllReduceCurve>& curves_of(BenchedCollective collective) {
    switch (collective) {
      case BenchedCollective::kAllGather:
        return cluster().all_gather_curves;
      case BenchedCollective::kReduceScatter:
        return cluster().reduce_scatter_curves;
      case BenchedCollective::kAllToAll:
        return cluster().all_to_all_curves;
      default:
        return cluster().all_reduce_curves;
    }
  }

  /// Sets what collectives reach of the links, for groups that nothing measured.
  void set_rate(const CollectiveBench& bench) {
    if (bench.collective == BenchedCollective::kAllToAll) {
      return;
    }
    if (bench.nodes > 1) {
      set_rate_across_nodes(bench);
      return;
    }
    // The model gives a group a share of the link's rate: that stays.
    const GroupPlacement group{.size = bench.ranks, .ranks_per_node = bench.ranks};
    LinkSpec& link = cluster().nvlink;
    const double modeled = link.collective_efficiency.value_or(link.efficiency);
    const double wanted = modeled * (bench.bus_bandwidth() / ptdp::bus_bandwidth(group, cluster()));
    if (wanted <= 1.0) {
      link.collective_efficiency = wanted;
    } else if (cluster().nccl && cluster().nccl->nvls.channels > 0) {
      cluster().nccl->nvls.bandwidth = bench.bus_bandwidth();
      if (cluster().nccl_within_node) {
        cluster().nccl_within_node->nvls.bandwidth = bench.bus_bandwidth();
      }
    } else {
      warn_of_fast_link(bench);
    }
  }

  /// Sets what collectives reach of NICs; those of several GPUs of a node pass its links, too.
  void set_rate_across_nodes(const CollectiveBench& bench) {
    const BytesPerSecond rate = bench.bus_bandwidth();
    const int members = bench.ranks / bench.nodes;
    const double of_nics = rate / cluster().nic.bandwidth / members;
    if (of_nics > 1.0) {
      warn_of_fast_link(bench);
      return;
    }
    cluster().nic.collective_efficiency = of_nics;
    LinkSpec& within = cluster().nvlink;
    if (members > 1 && within.collective_bandwidth() < rate && rate <= within.bandwidth) {
      within.collective_efficiency = rate / within.bandwidth;
    }
  }

  void warn_of_fast_link(const CollectiveBench& bench) {
    warn("{}: faster than the data sheet of the link: only groups alike follow it", bench.place);
  }

  /// Bounds the cluster by the nodes of a job.
  void set_nodes() {
    if (!facts_.slurm) {
      return;
    }
    const std::int64_t gpus = std::int64_t{facts_.slurm->nodes} * cluster().gpus_per_node;
    if (facts_.slurm->nodes == 1) {
      say("one node, by Slurm: plan with --gpus {} at most", gpus);
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
    say("{} of {}, by Slurm", plural(facts_.slurm->nodes, "node"),
        plural(cluster().gpus_per_node, "GPU"));
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

  ClusterSpec& cluster() { return made_.cluster; }

  const ClusterFacts& facts_;
  NewCluster made_;
};

}  // namespace

NodeNics parse_nics(std::string_view text, const std::string& place) {
  const std::size_t times = text.find('x');
  int count = 0;
  if (times != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + times, count);
    const std::optional<BytesPerSecond> each = rate_of(text.substr(times + 1), kGiga / 8.0);
    if (error == std::errc{} && end == text.data() + times && count > 0 && count <= 1000 && each) {
      return {.count = count, .each = *each};
    }
  }
  throw Error(place + ": expected the NICs of a node and the rate of each, such as 8x400Gb, got " +
              in_quotes(text));
}

BytesPerSecond parse_rate(std::string_view text, const std::string& place) {
  if (const std::optional<BytesPerSecond> rate = rate_of(text, kGiga)) {
    return *rate;
  }
  throw Error(place + ": expected gigabytes per second in one direction, such as 450GB, got " +
              in_quotes(text));
}

NewCluster make_cluster(const ClusterFacts& facts) {
  NewCluster made = ClusterMaker(facts).make();
  // What is written must be read again: the reader knows what a cluster cannot be.
  const std::string text = cluster_file(made.cluster);
  ObjectReader reader = ObjectReader::from_text(text, made.cluster.name);
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
  return text + "Next: ptdp-plan --gpus N --model NAME --cluster " + file + "\n";
}

}  // namespace ptdp
