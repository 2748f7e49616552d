// What ends a search before it has looked at everything.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>

namespace ptdp {

/// Says how much of what a search may take is spent: time, or all of it once somebody interrupts.
/// Copies share what they ask; any thread may.
class SearchLimit {
 public:
  /// No limit.
  SearchLimit() = default;
  /// `spent` returns the share that is spent; from 1 on nothing is left. It never falls.
  explicit SearchLimit(std::function<double()> spent) : spent_(std::move(spent)) {}

  [[nodiscard]] bool is_over() const { return spent_ && spent_() >= 1.0; }

  /// A limit that takes this fraction of what is left of it.
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
