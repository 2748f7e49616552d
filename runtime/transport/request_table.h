// The table in which a communicator keeps the requests that it has begun.
#pragma once

#include <cassert>
#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// A table of what is in flight, indexed by request. `Begun` has is_begun(), which is false for a
/// free place, and is_collective. Places are reused and never move. Returning a place allocates no
/// memory, so that it cannot fail in a destructor or after an exception.
template <class Begun>
class RequestTable {
 public:
  [[nodiscard]] Begun& operator[](Request request) {
    assert(request.id >= 1 && request.id <= places_.size());
    return places_[static_cast<std::size_t>(request.id - 1)];
  }

  /// Returns an empty place for a request. Repeated calls return the same place until take() is
  /// called.
  [[nodiscard]] Request free_place() {
    if (free_.empty()) {
      free_.reserve(places_.size() + 1);
      places_.emplace_back();
      free_.push_back({places_.size()});
    }
    (*this)[free_.back()] = {};  // Clears what a request that failed to begin left.
    return free_.back();
  }
  /// Takes the place that the latest free_place() returned.
  void take() noexcept { free_.pop_back(); }
  /// Makes the place of `request` free again.
  void give_back(Request request) noexcept { free_.push_back(request); }

  /// Calls `end` for everything that has begun, and frees those places.
  template <class End>
  void end_all(const End& end) noexcept {
    end_chosen(/*are_messages_too=*/true, end);
  }
  /// Calls `end` for everything that collectives have begun, and frees those places.
  template <class End>
  void end_collectives(const End& end) noexcept {
    end_chosen(/*are_messages_too=*/false, end);
  }

 private:
  template <class End>
  void end_chosen(bool are_messages_too, const End& end) noexcept {
    if (free_.size() == places_.size()) {
      return;
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Begun& begun = places_[i];
      if (begun.is_begun() && (are_messages_too || begun.is_collective)) {
        end(begun);
        free_.push_back({i + 1});
      }
    }
  }

  std::deque<Begun> places_;   ///< What has begun, at index id − 1.
  std::vector<Request> free_;  ///< Free places; the last is the next one that free_place() returns.
};

}  // namespace ptdp
