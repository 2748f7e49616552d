// A timeline as a trace that chrome://tracing and Perfetto (ui.perfetto.dev) open.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/analysis/memory_profile.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Writes a timeline as JSON, piece by piece (some 64 KiB at a time, so that the whole need not fit
/// into memory): a process per rank, a thread per lane and one for what each neighbour sends in
/// each direction, an arrow from every message that is sent to its receipt (or, where the schedule
/// has no messages, from what makes a result to what takes it on another rank), and a counter
/// "memory [GiB]" per rank where `memory` has a profile for each. Times are whole nanoseconds,
/// rounded so that what follows one another still does: no slices of a lane overlap. What takes no
/// time has no slice. `write` may throw. Source of the format: "Trace Event Format", Google.
void write_trace(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                 std::span<const MemoryProfile> memory,
                 const std::function<void(std::string_view)>& write);

}  // namespace ptdp
