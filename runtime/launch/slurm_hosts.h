// Parses lists of hosts as Slurm writes them.
#pragma once

#include <string>
#include <string_view>

namespace ptdp {

/// Returns the first host of a list such as "gpu[001-004,7],login1" or "rack[1-2]node[5,8]". Throws
/// Error(kBadInput), naming the list, for other text.
[[nodiscard]] std::string first_slurm_host(std::string_view list);

}  // namespace ptdp
