#include "cost_model/inputs/cluster_spec.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/profile_files.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

// Ranges hold every machine there is, with room: a value outside was given in a wrong unit.
constexpr Range kFraction = {1e-6, 1.0, "a fraction of the peak"};
constexpr Range kTeraflopsRange = {1e-3, 1e6, "TFLOP/s, dense"};
constexpr Range kBandwidthRange = {1e-3, 1e5, "gigabytes per second, not gigabits"};
constexpr Range kMemoryRange = {1e-6, 1e6, "GiB"};
constexpr Range kFactorRange = {1e-2, 1e2, "times as long"};
constexpr std::int64_t kMostGpus = 100'000'000;
constexpr int kMostCores = 100'000;

constexpr std::array<NamedValue<AllReduceAcrossNodes>, 3> kAllReducesAcrossNodes = {
    {{AllReduceAcrossNodes::kFlat, "flat"},
     {AllReduceAcrossNodes::kHierarchical, "hierarchical"},
     {AllReduceAcrossNodes::kFaster, "faster"}}};

constexpr std::array<NamedValue<LowBitFormat>, 4> kLowBitFormats = {
    {{LowBitFormat::kFp8, "fp8"},
     {LowBitFormat::kFp8Block, "fp8-block"},
     {LowBitFormat::kFp8Mx, "fp8-mx"},
     {LowBitFormat::kNvfp4, "nvfp4"}}};

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

void check_rates(const std::vector<AttentionRate>& rates, const std::string& place) {
  std::set<std::pair<std::string, int>> seen;
  for (const AttentionRate& rate : rates) {
    if (!seen.emplace(rate.kernel, rate.head_width).second) {
      throw Error(place + ": " + rate.kernel + " for heads of " +
                  (rate.head_width > 0 ? std::to_string(rate.head_width) : "any width") + " twice");
    }
  }
}

void check_measured(const GpuSpec& gpu, const std::string& place) {
  const auto refuse = [&](const MeasuredOperation& entry, const char* why) {
    throw Error(place + ": " + std::string(name_of(entry.operation())) + " in " +
                std::string(name_of(entry.precision())) + why);
  };
  const std::vector<MeasuredOperation>& measured = gpu.measured_operations;
  for (const MeasuredOperation& entry : measured) {
    if (find_measured(measured, entry.operation(), entry.precision()) != &entry) {
      refuse(entry, " twice");
    }
    if (gpu.peak(entry.precision()).value() <= 0.0) {
      refuse(entry, ", of which the GPU has no peak");
    }
  }
}

void check_low_bits(const GpuSpec& gpu, const std::string& place) {
  const auto refuse = [&](LowBitFormat format, const char* why) {
    throw Error(place + ": " +
                std::string(name_of(format, NamedValues<LowBitFormat>(kLowBitFormats))) + why);
  };
  const std::vector<LowBitProducts>& all = gpu.low_bit_products;
  for (const LowBitProducts& products : all) {
    const auto is_same = [&](const LowBitProducts& other) {
      return other.format == products.format;
    };
    if (std::count_if(all.begin(), all.end(), is_same) > 1) {
      refuse(products.format, " twice");
    }
    if (gpu.peak(products.format).value() <= 0.0) {
      refuse(products.format, ", of which the GPU has no peak");
    }
  }
}

/// Reads the nested object or list at `key`; a text there names a shipped profile, which `find`
/// reads. Throws Error for a path, and for a name that `find` does not know.
template <class Value, class Find>
void object_or_name(ObjectReader& fields, const std::string& key, Value& value, Find find) {
  if (fields.is_text(key)) {
    std::string name;
    fields.name(key, name);
    if (name.ends_with(".json")) {
      throw Error(fields.place_of(key) +
                  ": expected an object or the name of a shipped profile, got " + in_quotes(name));
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
void describe(Fields& fields, Described<Fields, AttentionRate>& rate) {
  fields.name("kernel", rate.kernel);
  if (fields.optional("head_width", rate.head_width > 0)) {
    fields.count("head_width", rate.head_width, 1, 100'000);
  }
  fields.number("forward", rate.forward, kFraction);
  fields.number("backward", rate.backward, kFraction);
  if (fields.optional("half_rate_length", rate.half_rate_length > 0.0)) {
    fields.number("half_rate_length", rate.half_rate_length, {0.0, 1e6});
  }
  if (fields.optional("backward_half_rate_length", rate.backward_half_rate_length.has_value())) {
    fields.number("backward_half_rate_length", held(rate.backward_half_rate_length), {0.0, 1e6});
  }
  if (fields.optional("start_us", rate.start.value() > 0.0)) {
    fields.quantity("start_us", rate.start, kMicro, kLatencyRange);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LowBitProducts>& products) {
  fields.choice("format", products.format, NamedValues<LowBitFormat>(kLowBitFormats));
  fields.number("efficiency", products.efficiency, kFraction);
  if (fields.optional("sustained", products.sustained.has_value())) {
    fields.number("sustained", held(products.sustained), kFraction);
  }
  fields.number("startup_depth", products.startup_depth, {0.0, 1e6});
  fields.quantity("start_us", products.start, kMicro, kLatencyRange);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, MatmulTile>& tile) {
  fields.count("rows", tile.rows, 1, 100'000);
  fields.count("columns", tile.columns, 1, 100'000);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, GpuSpec>& gpu) {
  fields.name("name", gpu.name);
  fields.text("source", gpu.source);
  if (fields.optional("constants_of", !gpu.constants_of.empty())) {
    fields.name("constants_of", gpu.constants_of);
  }
  fields.quantity("peak_fp16_TFLOPs", gpu.peak_fp16, kTera, kTeraflopsRange);
  if (fields.optional("peak_bf16_TFLOPs", gpu.peak_bf16.value() > 0.0)) {
    fields.quantity("peak_bf16_TFLOPs", gpu.peak_bf16, kTera, kTeraflopsRange);
  }
  if (fields.optional("peak_fp32_TFLOPs", gpu.peak_fp32.value() > 0.0)) {
    fields.quantity("peak_fp32_TFLOPs", gpu.peak_fp32, kTera, kTeraflopsRange);
  }
  if (fields.optional("peak_tf32_TFLOPs", gpu.peak_tf32.value() > 0.0)) {
    fields.quantity("peak_tf32_TFLOPs", gpu.peak_tf32, kTera, kTeraflopsRange);
  }
  if (fields.optional("peak_fp64_TFLOPs", gpu.peak_fp64.value() > 0.0)) {
    fields.quantity("peak_fp64_TFLOPs", gpu.peak_fp64, kTera, kTeraflopsRange);
  }
  if (fields.optional("peak_fp8_TFLOPs", gpu.peak_fp8.value() > 0.0)) {
    fields.quantity("peak_fp8_TFLOPs", gpu.peak_fp8, kTera, kTeraflopsRange);
  }
  if (fields.optional("peak_fp4_TFLOPs", gpu.peak_fp4.value() > 0.0)) {
    fields.quantity("peak_fp4_TFLOPs", gpu.peak_fp4, kTera, kTeraflopsRange);
  }
  if (fields.optional("fp8_any_layout", gpu.fp8_any_layout)) {
    fields.flag("fp8_any_layout", gpu.fp8_any_layout);
  }
  if (fields.optional("fp8_mx", gpu.fp8_mx)) {
    fields.flag("fp8_mx", gpu.fp8_mx);
  }
  fields.quantity("memory_GiB", gpu.memory, kGibi, kMemoryRange);
  fields.quantity("memory_bandwidth_GBps", gpu.memory_bandwidth, kGiga, kBandwidthRange);
  fields.count("num_multiprocessors", gpu.num_multiprocessors, 1, 100'000);
  fields.number("matmul_efficiency", gpu.matmul_efficiency, kFraction);
  if (fields.optional("fp8_matmul_efficiency", gpu.fp8_matmul_efficiency.has_value())) {
    fields.number("fp8_matmul_efficiency", held(gpu.fp8_matmul_efficiency), kFraction);
  }
  if (fields.optional("low_bit_products", !gpu.low_bit_products.empty())) {
    fields.objects("low_bit_products", gpu.low_bit_products);
    if constexpr (Fields::kIsReading) {
      check_low_bits(gpu, fields.place_of("low_bit_products"));
    }
  }
  if (fields.optional("matmul_sustained", gpu.matmul_sustained != 1.0)) {
    fields.number("matmul_sustained", gpu.matmul_sustained, kFraction);
  }
  if (fields.optional("matmul_start_us", gpu.matmul_start.value() > 0.0)) {
    fields.quantity("matmul_start_us", gpu.matmul_start, kMicro, kLatencyRange);
  }
  fields.number("matmul_startup_depth", gpu.matmul_startup_depth, {0.0, 1e6});
  fields.number("matmul_output_depth", gpu.matmul_output_depth, {0.0, 1e6});
  fields.number("matmul_wave_overlap", gpu.matmul_wave_overlap, {0.0, 1.0});
  if (fields.optional("matmul_tile", gpu.matmul_tile.has_value())) {
    fields.object("matmul_tile", held(gpu.matmul_tile));
  }
  fields.number("matmul_memory_efficiency", gpu.matmul_memory_efficiency, kFraction);
  fields.number("memory_efficiency", gpu.memory_efficiency, kFraction);
  if (fields.optional("cast_efficiency", gpu.cast_efficiency.has_value())) {
    fields.number("cast_efficiency", held(gpu.cast_efficiency), kFraction);
  }
  if (fields.optional("cast_start_us", gpu.cast_start.has_value())) {
    fields.quantity("cast_start_us", held(gpu.cast_start), kMicro, kLatencyRange);
  }
  fields.quantity("kernel_latency_us", gpu.kernel_latency, kMicro, kLatencyRange);
  if (fields.optional("attention_rates", !gpu.attention_rates.empty())) {
    fields.objects("attention_rates", gpu.attention_rates);
    if constexpr (Fields::kIsReading) {
      check_rates(gpu.attention_rates, fields.place_of("attention_rates"));
    }
  }
  if (fields.optional("measured_operations", !gpu.measured_operations.empty())) {
    fields.objects("measured_operations", gpu.measured_operations);
    if constexpr (Fields::kIsReading) {
      check_measured(gpu, fields.place_of("measured_operations"));
    }
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, LinkSpec>& link) {
  fields.quantity("bandwidth_GBps", link.bandwidth, kGiga, kBandwidthRange);
  fields.number("efficiency", link.efficiency, kFraction);
  if (fields.optional("collective_efficiency", link.collective_efficiency.has_value())) {
    fields.number("collective_efficiency", held(link.collective_efficiency), kFraction);
  }
  if (fields.optional("sibling_efficiency", link.sibling_efficiency.has_value())) {
    fields.number("sibling_efficiency", held(link.sibling_efficiency), kFraction);
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
        std::pair{"all_gather_curves", &cluster.all_gather_curves}}) {
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
    fields.number("launch_slowdown", cluster.launch_slowdown, {0.1, 10.0, "a factor"});
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

template void describe(ObjectReader&, GpuSpec&);
template void describe(ObjectWriter&, const GpuSpec&);
template void describe(ObjectReader&, AllReduceCurve&);
template void describe(ObjectWriter&, const AllReduceCurve&);
template void describe(ObjectReader&, ClusterSpec&);
template void describe(ObjectWriter&, const ClusterSpec&);

GpuSpec find_gpu(const std::string& name_or_path) {
  return read_profile<GpuSpec>(ProfileKind::kGpu, name_or_path);
}

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
