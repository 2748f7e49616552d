// Fills caches as they are when a waiting rank goes on: with memory of ranks that computed
// meanwhile.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace ptdp {

/// Memory that stands for that of ranks which take turns with one on its core, in a rehearsal
/// without them.
class CacheEvictor {
 public:
  explicit CacheEvictor(std::int64_t bytes)
      : lines_(static_cast<std::size_t>(bytes) / sizeof(Line)) {}

  /// Reads and writes all of the memory, so that the core's caches hold it and not the rank's own.
  /// Any thread may call it.
  void use() {
    const std::lock_guard lock(mutex_);
    ++times_used_;
    for (Line& line : lines_) {
      ++line.uses;
    }
  }
  /// Returns the number of calls of use().
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
