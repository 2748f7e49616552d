// What this process may use of the host it runs on.
#pragma once

#include <string>

namespace ptdp {

/// Processors that this process may run on: those of its affinity, and no more than its control
/// group's share of time is worth, rounded up. 1 at least.
[[nodiscard]] int available_cores();

/// "AMD EPYC 9R14 96-Core Processor"; "unknown" where the system does not say.
[[nodiscard]] std::string processor_name();

/// The same out of a /proc/cpuinfo; and of a control group's share: `quota` "max" or microseconds
/// in each `period`, as texts of its files, or 0 where they set no limit.
[[nodiscard]] std::string processor_name_in(const std::string& cpuinfo);
[[nodiscard]] int cores_of_quota(const std::string& quota, const std::string& period);

}  // namespace ptdp
