// The collectives of a trace, by group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "planner/traces/trace.h"
#include "planner/traces/trace_collectives.h"
#include "planner/traces/trace_steps.h"

namespace ptdp {

/// A collective of one group in an average iteration.
struct CollectiveUse {
  TracedCollective kind = TracedCollective::kOther;
  std::string group;       ///< As the trace names the group; "" if it does not.
  std::int64_t ranks = 0;  ///< Ranks of the group; 0 if unknown.
  double calls = 0.0;
  Bytes size;       ///< Sum of collective_size(); 0 if unknown.
  Seconds time;     ///< Time in which one of its kernels ran, waiting for other ranks included.
  Seconds hidden;   ///< Part of it in which the GPU computed, or ran another collective.
  Seconds exposed;  ///< The rest, which adds to the iteration.
  BytesPerSecond bus_bandwidth;   ///< Over all its kernels; 0 if size or ranks are unknown.
  BytesPerSecond best_bandwidth;  ///< Of its fastest kernel, which waited least.
};

/// The collectives of a trace, and which of them a piece of work is part of.
struct TraceCollectives {
  std::vector<CollectiveUse> uses;  ///< In the order of TracedCollective, then of groups.
  std::vector<std::size_t> use_of;  ///< For all work of the trace; uses.size() for no collective.
};

/// Returns the collectives. Times but not bandwidths are left at 0. Work belongs to the window in
/// which it starts.
[[nodiscard]] TraceCollectives collectives_of(const Trace& trace,
                                              std::span<const TraceWindow> windows);

}  // namespace ptdp
