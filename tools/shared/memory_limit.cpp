#include "tools/shared/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace ptdp {

Bytes memory_limit() {
  double limit = std::numeric_limits<double>::max();
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) {
    limit = static_cast<double>(pages) * static_cast<double>(page);
  }
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    limit = std::min(limit, static_cast<double>(address_space.rlim_cur));
  }
  // Control groups v2 and v1, by the path that a container sees; "max" does not parse as a number.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    double bytes = 0.0;
    if (file >> bytes) {
      limit = std::min(limit, bytes);
    }
  }
  return Bytes(limit);
}

}  // namespace ptdp
