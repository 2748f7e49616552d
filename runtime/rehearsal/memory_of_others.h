// What caches hold when a rank goes on that waited: the memory of those that computed meanwhile.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace ptdp {

/// Stands for the memory of ranks that take turns with one on its core, where they do not run.
class MemoryOfOthers {
 public:
  explicit MemoryOfOthers(std::int64_t bytes)
      : lines_(static_cast<std::size_t>(bytes) / sizeof(Line)) {}

  /// Reads and writes all of it, so that it is in the core's caches and the rank's own is not. Of
  /// any thread.
  void use() {
    const std::lock_guard lock(mutex_);
    ++times_used_;
    for (Line& line : lines_) {
      ++line.uses;
    }
  }
  [[nodiscard]] std::int64_t times_used() {
    const std::lock_guard lock(mutex_);
    return times_used_;
  }

 private:
  struct alignas(64) Line {
    std::uint64_t uses = 0;
  };

  std::mutex mutex_;
  std::vector<Line> lines_;
  std::int64_t times_used_ = 0;
};

}  // namespace ptdp
