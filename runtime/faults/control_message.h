// Texts that the processes of a run exchange over the control channel after their greetings.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/faults/watchdog.h"

namespace ptdp {

/// Returns "beat ..." with the lanes that are or were in something. Clocks of hosts differ. So
/// times are sent relative to `now` [ns] of the sender's clock; the receiver turns them into times
/// of its own.
[[nodiscard]] std::string beat_text(std::span<const RankActivity> activities, std::int64_t now);
/// Parses a beat, with times relative to `now` [ns] of this host's clock. Returns nullopt for other
/// text.
[[nodiscard]] std::optional<std::vector<RankActivity>> parse_beat(std::string_view text,
                                                                  std::int64_t now);

/// Returns a fault as "fault RANK SIGNAL\tPLACE\tWHAT".
[[nodiscard]] std::string fault_text(const RunFault& fault);
/// Parses a fault; nullopt for other text.
[[nodiscard]] std::optional<RunFault> parse_fault(std::string_view text);

/// Text by which a process says that it ends without a fault.
inline constexpr std::string_view kGoodbye = "bye";

}  // namespace ptdp
