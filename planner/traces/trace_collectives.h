// Which collective a call is, what it moves, and how fast.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/text/named_values.h"
#include "cost_model/units.h"
#include "planner/traces/trace.h"

namespace ptdp {

/// The collectives that traces tell apart. Of two at once the earlier kind here counts: a message
/// that waits for its peer comes last.
enum class TracedCollective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kOther,
  kMessage,            ///< Send, receive, or both at once.
  kMessageOrAllToAll,  ///< What NCCL's kernel of both is where a trace does not say which.
};

/// The names of all collectives, in files and for people.
inline constexpr auto kTracedCollectiveNames = std::to_array<NamedValue<TracedCollective>>(
    {{TracedCollective::kAllReduce, "all-reduce"},
     {TracedCollective::kAllGather, "all-gather"},
     {TracedCollective::kReduceScatter, "reduce-scatter"},
     {TracedCollective::kAllToAll, "all-to-all"},
     {TracedCollective::kBroadcast, "broadcast"},
     {TracedCollective::kReduce, "reduce"},
     {TracedCollective::kOther, "other"},
     {TracedCollective::kMessage, "send/recv"},
     {TracedCollective::kMessageOrAllToAll, "send/recv or all-to-all"}});

/// Returns the kind by PyTorch's name of the call ("_allgather_base"), and where that is "" or says
/// nothing, by the name of the kernel.
[[nodiscard]] TracedCollective collective_kind(std::string_view call, std::string_view kernel);

/// Returns the size of a call as nccl-tests count it: what a rank has of the whole, be it before or
/// after the call. 0 if the trace does not say.
[[nodiscard]] Bytes collective_size(TracedCollective kind, const CollectiveCall& call);

/// Returns what a link carries per byte of collective_size(), as nccl-tests count bus bandwidth:
/// 2(n − 1)/n for an all-reduce of n ranks. 0 for groups of unknown size.
[[nodiscard]] double bus_factor(TracedCollective kind, std::int64_t ranks);

}  // namespace ptdp
