#include "planner/traces/trace_communication.h"

#include <algorithm>
#include <compare>
#include <map>
#include <utility>

#include "planner/traces/trace_products.h"

namespace ptdp {
namespace {

struct GroupKey {
  TracedCollective kind = TracedCollective::kOther;
  std::string group;
  std::int64_t ranks = 0;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

/// What the kernels of a group did whose size is known.
struct GroupSums {
  Seconds sized_time;
  Bytes sized;
};

GroupKey key_of(const Trace& trace, const GpuWork& work) {
  const CollectiveCall none;
  const CollectiveCall& call =
      work.call == kUnsaid ? none : trace.calls[static_cast<std::size_t>(work.call)];
  return {.kind = collective_kind(call.collective, trace.names[work.name]),
          .group = call.group,
          .ranks = call.size};
}

void add_call(const Trace& trace, const GpuWork& work, CollectiveUse& use, GroupSums& sums) {
  use.calls += 1.0;
  if (work.call == kUnsaid) {
    return;
  }
  const Bytes size = collective_size(use.kind, trace.calls[static_cast<std::size_t>(work.call)]);
  const Seconds time = to_seconds(work.end - work.start);
  if (size > Bytes(0.0) && time > Seconds(0.0)) {
    sums.sized += size;
    sums.sized_time += time;
    const BytesPerSecond rate = bus_factor(use.kind, use.ranks) * (size / time);
    use.best_bandwidth = std::max(use.best_bandwidth, rate);
  }
  use.size += size;
}

}  // namespace

TraceCollectives collectives_of(const Trace& trace, std::span<const TraceWindow> windows) {
  std::map<GroupKey, std::size_t> places;
  for (const GpuWork& work : trace.work) {
    if (work.kind == WorkKind::kCollective) {
      places.try_emplace(key_of(trace, work), 0);
    }
  }
  TraceCollectives found;
  for (auto& [key, place] : places) {
    place = found.uses.size();
    found.uses.push_back({.kind = key.kind, .group = key.group, .ranks = key.ranks});
  }
  std::vector<GroupSums> sums(found.uses.size());
  found.use_of.reserve(trace.work.size());
  for (const GpuWork& work : trace.work) {
    const bool is_collective = work.kind == WorkKind::kCollective;
    const std::size_t place = is_collective ? places.at(key_of(trace, work)) : found.uses.size();
    found.use_of.push_back(place);
    if (is_collective && window_at(windows, work.start) != nullptr) {
      add_call(trace, work, found.uses[place], sums[place]);
    }
  }
  const auto steps = static_cast<double>(std::max<std::size_t>(windows.size(), 1));
  for (std::size_t i = 0; i < found.uses.size(); ++i) {
    CollectiveUse& use = found.uses[i];
    if (sums[i].sized_time > Seconds(0.0)) {
      use.bus_bandwidth = bus_factor(use.kind, use.ranks) * (sums[i].sized / sums[i].sized_time);
    }
    use.calls /= steps;
    use.size = use.size / steps;
  }
  return found;
}

}  // namespace ptdp
