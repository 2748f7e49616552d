// Where a communicator keeps what it has begun.
#pragma once

#include <cassert>
#include <cstddef>
#include <deque>
#include <vector>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// What is under way, by request; is_begun() of a free place is false. Places are used again and do
/// not move; giving one back takes no memory, so that what ends in a destructor or by an exception
/// cannot fail.
template <class Begun>
class RequestTable {
 public:
  [[nodiscard]] Begun& operator[](Request request) {
    assert(request.id >= 1 && request.id <= places_.size());
    return places_[static_cast<std::size_t>(request.id - 1)];
  }

  /// An empty place; the same again until it is taken.
  [[nodiscard]] Request free_place() {
    if (free_.empty()) {
      free_.reserve(places_.size() + 1);
      places_.emplace_back();
      free_.push_back({places_.size()});
    }
    (*this)[free_.back()] = {};  // what something that failed to begin left behind
    return free_.back();
  }
  /// Takes the place that free_place() gave last.
  void take() noexcept { free_.pop_back(); }
  void give_back(Request request) noexcept { free_.push_back(request); }

  /// Ends with `end` all that has begun, or what collectives began of it.
  template <class End>
  void end_all(const End& end) noexcept {
    end_chosen(/*are_messages_too=*/true, end);
  }
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

  std::deque<Begun> places_;   ///< By id − 1.
  std::vector<Request> free_;  ///< The last is free_place().
};

}  // namespace ptdp
