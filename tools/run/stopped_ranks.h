// Finds ranks on this host that are stopped.
#pragma once

#include <optional>

namespace ptdp {

/// A rank whose process is stopped, as by SIGSTOP or a debugger.
struct StoppedRank {
  int rank = 0;
  int process = 0;
};
/// Returns the first stopped rank, by process number, that this process's launcher started on this
/// host. Returns nullopt when there is none or the system does not tell.
[[nodiscard]] std::optional<StoppedRank> find_stopped_rank();

}  // namespace ptdp
