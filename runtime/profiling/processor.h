// What this process may use of the host it runs on.
#pragma once

#include <string>

namespace ptdp {

/// Returns the number of processors that this process may use, at least 1. These are the processors
/// of its affinity, but no more than its control group's share of time is worth, rounded up.
[[nodiscard]] int available_cores();

/// Returns the processor's name, as "AMD EPYC 9R14 96-Core Processor". Returns "unknown" when the
/// system does not say.
[[nodiscard]] std::string processor_name();

/// Returns the processor's name in the text of a /proc/cpuinfo; "unknown" when it has none.
[[nodiscard]] std::string processor_name_in(const std::string& cpuinfo);
/// Returns how many processors a control group's share of time is worth, rounded up; 0 without a
/// limit. `quota` is "max" or microseconds in each `period`, as texts of the group's files.
[[nodiscard]] int cores_of_quota(const std::string& quota, const std::string& period);

}  // namespace ptdp
