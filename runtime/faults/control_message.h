// The lines that the processes of a run send each other beside their messages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/faults/watchdog.h"

namespace ptdp {

/// "hello SECRET FIRST_RANK PID HOST": the first line of a connection.
struct Hello {
  std::uint64_t secret = 0;
  int first_rank = 0;
  std::int64_t process = 0;
  std::string host;
};
[[nodiscard]] std::string to_line(const Hello& hello);
[[nodiscard]] std::optional<Hello> parse_hello(std::string_view line);

/// "beat ..." with the lanes that are or were in something. Clocks of hosts differ: times are sent
/// as how long ago they were, by `now` [ns] of the sender's, and are of the receiver's afterwards.
[[nodiscard]] std::string beat_line(std::span<const RankActivity> activities, std::int64_t now);
[[nodiscard]] std::optional<std::vector<RankActivity>> parse_beat(std::string_view line,
                                                                  std::int64_t now);

/// "fault RANK SIGNAL\tPLACE\tWHAT".
[[nodiscard]] std::string fault_line(const RunFault& fault);
[[nodiscard]] std::optional<RunFault> parse_fault(std::string_view line);

inline constexpr std::string_view kGoodbye = "bye";

}  // namespace ptdp
