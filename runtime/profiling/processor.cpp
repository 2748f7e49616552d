#include "runtime/profiling/processor.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace ptdp {
namespace {

constexpr int kMostProcessors = 1 << 16;

/// Returns the text of a file; "" when it cannot be read.
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the number of processors in this process's affinity.
int cores_of_affinity() {
  // A set that is too small for the machine is refused, so the size grows until it is accepted.
  for (int size = CPU_SETSIZE; size <= kMostProcessors; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(size);
    if (set == nullptr) {
      break;
    }
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, set);
    const bool is_known = sched_getaffinity(0, bytes, set) == 0;
    const int count = is_known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (is_known) {
      return count;
    }
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

/// Returns the smallest share among this process's control group and those above it, of version 2
/// or 1; 0 without a limit.
int cores_of_control_groups() {
  int least = 0;
  const auto limit = [&least](int cores) {
    if (cores > 0) {
      least = least == 0 ? cores : std::min(least, cores);
    }
  };
  std::istringstream lines(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    while (true) {
      if (controllers == ",,") {
        std::istringstream words(text_of("/sys/fs/cgroup" + group + "/cpu.max"));
        std::string quota;
        std::string period;
        words >> quota >> period;
        limit(cores_of_quota(quota, period));
      } else if (controllers.find(",cpu,") != std::string::npos) {
        const std::string directory = "/sys/fs/cgroup/cpu" + group;
        limit(cores_of_quota(text_of(directory + "/cpu.cfs_quota_us"),
                             text_of(directory + "/cpu.cfs_period_us")));
      }
      if (group.empty() || group == "/") {
        break;
      }
      group.erase(group.rfind('/'));
    }
  }
  return least;
}

}  // namespace

int available_cores() {
  const int affinity = std::max(cores_of_affinity(), 1);
  const int share = cores_of_control_groups();
  return share > 0 ? std::min(affinity, share) : affinity;
}

std::string processor_name() {
  return processor_name_in(text_of("/proc/cpuinfo"));
}

std::string processor_name_in(const std::string& cpuinfo) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model name") || line.starts_with("Model")) {
      const std::size_t colon = line.find(':');
      const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
      if (colon != std::string::npos && begin != std::string::npos) {
        std::string name;
        for (const char letter : line.substr(begin)) {
          name += letter >= ' ' && letter <= '~' ? letter : '?';
        }
        return name;
      }
    }
  }
  return "unknown";
}

int cores_of_quota(const std::string& quota, const std::string& period) {
  const double time = std::strtod(quota.c_str(), nullptr);
  const double of = std::strtod(period.c_str(), nullptr);
  return time > 0.0 && of > 0.0 ? std::max(static_cast<int>(std::ceil(time / of)), 1) : 0;
}

}  // namespace ptdp
