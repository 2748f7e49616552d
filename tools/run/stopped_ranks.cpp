#include "tools/run/stopped_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "runtime/launch/launcher.h"

namespace ptdp {
namespace {

/// Whether a process is a stopped sibling: stopped, and started by this process's parent (proc(5)).
bool is_stopped_sibling(const std::string& directory) {
  std::ifstream file(directory + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string state;
  int parent = 0;
  words >> state >> parent;
  return words && parent == ::getppid() && (state == "T" || state == "t");
}

Environment environment_in(const std::string& directory) {
  std::ifstream file(directory + "/environ", std::ios::binary);
  Environment environment;
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (const std::size_t equals = entry.find('='); equals != std::string::npos) {
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

}  // namespace

std::optional<StoppedRank> find_stopped_rank() {
  std::vector<int> stopped;
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc", error);
  // A step of a range-based loop may throw.
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    int process = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), process).ptr;
    if (end == name.data() + name.size() && is_stopped_sibling(entry->path().string())) {
      stopped.push_back(process);
    }
  }
  std::sort(stopped.begin(), stopped.end());
  for (const int process : stopped) {
    try {
      const Launcher launcher = detect_launcher(environment_in("/proc/" + std::to_string(process)));
      if (launcher.kind != LauncherKind::kNone) {
        return StoppedRank{.rank = launcher.rank, .process = process};
      }
    } catch (const Error&) {  // not a rank's environment
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace ptdp
