// A timeline as a trace that chrome://tracing and Perfetto (ui.perfetto.dev) open.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/analysis/memory_profile.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Writes a timeline as JSON that chrome://tracing and Perfetto open. `write` gets it piece by
/// piece, some 64 KiB at a time, so that the whole need not fit into memory; it may throw.
///
/// There is a process per rank, with a thread per lane and one for what each neighbor sends in each
/// direction. An arrow goes from every message that is sent to its receipt. If the schedule has no
/// messages, it goes from what makes a result to what takes it on another rank. Each rank has a
/// counter "memory [GiB]" if `memory` has a profile for each rank; `memory` may be empty.
///
/// Times are whole nanoseconds, rounded so that what follows one another still does: no slices of a
/// lane overlap. What takes no time has no slice. Source of the format: "Trace Event Format",
/// Google.
void write_trace(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                 std::span<const MemoryProfile> memory,
                 const std::function<void(std::string_view)>& write);

}  // namespace ptdp
