#include "planner/traces/trace_terms.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ptdp {
namespace {

/// The start or the end of a span.
struct Edge {
  Nanoseconds time = 0;
  std::size_t purpose = 0;
  int change = 0;  ///< How many more spans run from here on: 1 or −1.
};

std::vector<Edge> edges_of(std::span<const BusySpan> spans) {
  std::vector<Edge> edges;
  edges.reserve(2 * spans.size());
  for (const BusySpan& span : spans) {
    if (span.end > span.start) {
      edges.push_back({span.start, span.purpose, 1});
      edges.push_back({span.end, span.purpose, -1});
    }
  }
  std::ranges::sort(edges, {}, &Edge::time);
  return edges;
}

/// Adds the time from `start` to `end`, in which `running` ran, to the windows that it meets.
class WindowFiller {
 public:
  WindowFiller(std::span<const TraceWindow> windows, std::size_t purposes)
      : windows_(windows),
        swept_(windows.size(), {.alone = std::vector<Nanoseconds>(purposes),
                                .busy = std::vector<Nanoseconds>(purposes)}) {}

  void add(Nanoseconds start, Nanoseconds end, const std::map<std::size_t, int>& running) {
    while (current_ < windows_.size() && windows_[current_].end <= start) {
      ++current_;
    }
    for (std::size_t i = current_; i < windows_.size() && windows_[i].start < end; ++i) {
      const Nanoseconds time = std::min(end, windows_[i].end) - std::max(start, windows_[i].start);
      for (const auto& [purpose, count] : running) {
        swept_[i].busy[purpose] += time;
      }
      swept_[i].alone[running.begin()->first] += time;
    }
  }

  /// Returns the windows, with idle what nothing filled.
  std::vector<SweptWindow> finish() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      swept_[i].idle = windows_[i].end - windows_[i].start;
      for (const Nanoseconds time : swept_[i].alone) {
        swept_[i].idle -= time;
      }
    }
    return std::move(swept_);
  }

 private:
  std::span<const TraceWindow> windows_;
  std::vector<SweptWindow> swept_;
  std::size_t current_ = 0;
};

}  // namespace

std::vector<SweptWindow> sweep(std::span<const BusySpan> spans,
                               std::span<const TraceWindow> windows, std::size_t purposes) {
  WindowFiller filler(windows, purposes);
  std::map<std::size_t, int> running;
  Nanoseconds from = 0;
  for (const Edge& edge : edges_of(spans)) {
    if (!running.empty() && edge.time > from) {
      filler.add(from, edge.time, running);
    }
    from = edge.time;
    const auto entry = running.try_emplace(edge.purpose, 0).first;
    entry->second += edge.change;
    if (entry->second == 0) {
      running.erase(entry);
    }
  }
  return filler.finish();
}

}  // namespace ptdp
