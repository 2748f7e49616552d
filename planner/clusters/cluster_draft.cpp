#include "planner/clusters/cluster_draft.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"

namespace ptdp {
namespace {

/// Raises the data-sheet rate of a link that was measured to be faster.
void raise_link(NewCluster& made, LinkSpec& link, BytesPerSecond measured,
                const std::string& place) {
  if (measured <= link.bandwidth) {
    return;
  }
  made.warn(
      fmt::format("{}: {} measured over a link of {}: the link is taken to be as fast as measured",
                  place, rate_text(measured), rate_text(link.bandwidth)));
  const double growth = measured / link.bandwidth;
  link.efficiency /= growth;
  for (std::optional<double>* rate : {&link.collective_efficiency, &link.sibling_efficiency}) {
    if (*rate) {
      **rate /= growth;
    }
  }
  link.bandwidth = measured;
}

}  // namespace

std::string rate_text(BytesPerSecond rate) {
  return fmt::format("{:.4g} GB/s", rate.value() / kGiga);
}

std::optional<GpuSpec> shipped_gpu_of(const std::string& product) {
  std::string name = product;
  std::replace(name.begin(), name.end(), ' ', '-');
  try {
    return find_gpu(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool may_be(const GpuSpec& gpu, const std::string& product) {
  const std::optional<GpuSpec> shipped = shipped_gpu_of(product);
  return !shipped || gpu.name.starts_with(shipped->name);
}

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

void set_message_rate(NewCluster& made, LinkSpec& link, BytesPerSecond measured,
                      const std::string& what, const std::string& place) {
  raise_link(made, link, measured, place);
  link.collective_efficiency = link.collective_efficiency.value_or(link.efficiency);
  link.efficiency = measured / link.bandwidth;
  made.say(fmt::format("{}: {} of {}, by {}", what, rate_text(measured), rate_text(link.bandwidth),
                       place));
}

}  // namespace ptdp
