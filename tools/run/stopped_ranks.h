// Which ranks beside this one are stopped.
#pragma once

#include <optional>

namespace ptdp {

/// A rank whose process is stopped, as by SIGSTOP or a debugger.
struct StoppedRank {
  int rank = 0;
  int process = 0;
};
/// The first rank that the launcher of this process started on this host and that is stopped, by
/// the process numbers; none where the system does not tell.
[[nodiscard]] std::optional<StoppedRank> find_stopped_rank();

}  // namespace ptdp
