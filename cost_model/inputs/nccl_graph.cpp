#include "cost_model/inputs/nccl_graph.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostChannels = 64;  // NCCL's MAXCHANNELS

constexpr std::array<NamedValue<CpuVendor>, 3> kCpuVendors = {
    {{CpuVendor::kIntel, "intel"}, {CpuVendor::kAmd, "amd"}, {CpuVendor::kOther, "other"}}};
constexpr std::array<NamedValue<NodeLink>, 2> kNodeLinks = {
    {{NodeLink::kNvlink, "nvlink"}, {NodeLink::kPci, "pci"}}};
constexpr std::array<NamedValue<NcclAlgorithm>, 5> kAlgorithms = {
    {{NcclAlgorithm::kTree, "tree"},
     {NcclAlgorithm::kRing, "ring"},
     {NcclAlgorithm::kNvls, "nvls"},
     {NcclAlgorithm::kNvlsTree, "nvls-tree"},
     {NcclAlgorithm::kPat, "pat"}}};
constexpr std::array<NamedValue<NcclProtocol>, 3> kProtocols = {
    {{NcclProtocol::kLl, "ll"},
     {NcclProtocol::kLl128, "ll128"},
     {NcclProtocol::kSimple, "simple"}}};

/// Reads or writes a subset of an enum as a list of names; the whole enum may be left out. Throws
/// Error for an empty list.
template <class Fields, class Value, std::size_t kSize>
void subset(Fields& fields, const std::string& key,
            Described<Fields, std::array<bool, kSize>>& enabled,
            const std::array<NamedValue<Value>, kSize>& names) {
  const bool is_whole = std::all_of(enabled.begin(), enabled.end(), [](bool is) { return is; });
  if (!fields.optional(key, !is_whole)) {
    return;
  }
  std::vector<Value> values;
  for (const NamedValue<Value>& entry : names) {
    if (enabled[static_cast<std::size_t>(entry.value)]) {
      values.push_back(entry.value);
    }
  }
  fields.choices(key, values, NamedValues<Value>(names));
  if constexpr (Fields::kIsReading) {
    if (values.empty()) {
      throw Error(fields.place_of(key) + ": expected at least one");
    }
    enabled.fill(false);
    for (const Value value : values) {
      enabled[static_cast<std::size_t>(value)] = true;
    }
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, NvlsSpec>& nvls) {
  fields.count("channels", nvls.channels, 2, kMostChannels);
  fields.quantity("bandwidth_GBps", nvls.bandwidth, kGiga,
                  {1e-3, 1e5, "gigabytes per second, not gigabits"});
  if (fields.optional("ramp_us", nvls.ramp.has_value())) {
    fields.quantity("ramp_us", held(nvls.ramp), kMicro, kLatencyRange);
  }
}

template <class Fields>
void describe(Fields& fields, Described<Fields, NcclGroupRate>& rate) {
  fields.count("gpus", rate.gpus, 2, 100'000);
  fields.number("share", rate.share, {1e-3, 1.0});
}

template <class Fields>
void describe(Fields& fields, Described<Fields, NcclSpec>& nccl) {
  fields.count("compute_capability", nccl.compute_capability, 50, 1000);
  fields.choice("cpu_vendor", nccl.cpu, NamedValues<CpuVendor>(kCpuVendors));
  if (fields.optional("node_link", nccl.node_link != NodeLink::kNvlink)) {
    fields.choice("node_link", nccl.node_link, NamedValues<NodeLink>(kNodeLinks));
  }
  fields.count("channels", nccl.channels, 1, kMostChannels);
  if (fields.optional("channels_per_nic", nccl.channels_per_nic > 0)) {
    fields.count("channels_per_nic", nccl.channels_per_nic, 1, kMostChannels);
  }
  if (fields.optional("nvls", nccl.nvls.channels > 0)) {
    fields.object("nvls", nccl.nvls);
  }
  if (fields.optional("nic_latency_us", nccl.nic_latency.value() > 0.0)) {
    fields.quantity("nic_latency_us", nccl.nic_latency, kMicro, kLatencyRange);
  }
  fields.quantity("launch_us", nccl.launch, kMicro, kLatencyRange);
  fields.quantity("ramp_us", nccl.ramp, kMicro, kLatencyRange);
  if (fields.optional("simple_ramp_us", nccl.simple_ramp.value() > 0.0)) {
    fields.quantity("simple_ramp_us", nccl.simple_ramp, kMicro, kLatencyRange);
  }
  if (fields.optional("group_rates", !nccl.group_rates.empty())) {
    fields.objects("group_rates", nccl.group_rates);
  }
  subset(fields, "algorithms", nccl.enabled.algorithms, kAlgorithms);
  if constexpr (Fields::kIsReading) {
    for (std::size_t i = 1; i < nccl.group_rates.size(); ++i) {
      if (nccl.group_rates[i].gpus <= nccl.group_rates[i - 1].gpus) {
        throw Error(fields.place_of("group_rates") + ": expected numbers of GPUs that grow, got " +
                    std::to_string(nccl.group_rates[i].gpus));
      }
    }
    if (!nccl.enabled.algorithms[static_cast<std::size_t>(NcclAlgorithm::kRing)]) {
      throw Error(fields.place_of("algorithms") +
                  ": expected \"ring\" among them, the only one for every group and collective");
    }
  }
  subset(fields, "protocols", nccl.enabled.protocols, kProtocols);
}

template void describe(ObjectReader&, NvlsSpec&);
template void describe(ObjectWriter&, const NvlsSpec&);
template void describe(ObjectReader&, NcclGroupRate&);
template void describe(ObjectWriter&, const NcclGroupRate&);
template void describe(ObjectReader&, NcclSpec&);
template void describe(ObjectWriter&, const NcclSpec&);

}  // namespace ptdp
