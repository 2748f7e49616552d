// What the processes of a run tell each other beside their messages, once they have greeted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/faults/watchdog.h"

namespace ptdp {

/// "beat ..." with the lanes that are or were in something. Clocks of hosts differ: times are sent
/// as how long ago they were, by `now` [ns] of the sender's, and are of the receiver's afterwards.
[[nodiscard]] std::string beat_text(std::span<const RankActivity> activities, std::int64_t now);
[[nodiscard]] std::optional<std::vector<RankActivity>> parse_beat(std::string_view text,
                                                                  std::int64_t now);

/// "fault RANK SIGNAL\tPLACE\tWHAT".
[[nodiscard]] std::string fault_text(const RunFault& fault);
[[nodiscard]] std::optional<RunFault> parse_fault(std::string_view text);

inline constexpr std::string_view kGoodbye = "bye";

}  // namespace ptdp
