// What ends a search before it has looked at everything.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

namespace ptdp {

/// Says what share of its limit a search has spent: of its time, or all once somebody interrupts.
/// Copies ask the same function; any thread may ask.
class SearchLimit {
 public:
  /// Makes a limit that is never over.
  SearchLimit() = default;
  /// Makes a limit of a function that returns the share that is spent. From 1 on the limit is over;
  /// the share must never fall.
  explicit SearchLimit(std::function<double()> spent) : spent_(std::move(spent)) {}

  [[nodiscard]] bool is_over() const { return spent_ && spent_() >= 1.0; }

  /// Returns a limit that is over once this fraction of what is left of this one is spent.
  [[nodiscard]] SearchLimit share(double fraction) const {
    if (!spent_) {
      return {};
    }
    const double from = std::min(spent_(), 1.0);
    const double part = fraction * (1.0 - from);
    return SearchLimit([spent = spent_, from, part] {
      const double now = spent();
      return now >= 1.0 ? 1.0 : (now - from) / part;
    });
  }

 private:
  std::function<double()> spent_;
};

}  // namespace ptdp
