// Orders work of threads that use each other's buffers, when operations outlast the calls that ask
// for them.
#pragma once

#include "kernels/backend.h"

namespace ptdp {

/// Returns whether operations may outlast the calls that ask for them, as on a GPU. They do not on
/// a host.
[[nodiscard]] inline bool is_asynchronous(Backend& backend) {
  return backend.record().device != nullptr;
}

/// One rank's backend, with marks between lanes of different threads. When operations outlast their
/// calls, it marks points of the calling thread's lane and waits for marks of other threads. On a
/// host it does neither, because a mark costs a look at the clock.
class LinkBackend {
 public:
  explicit LinkBackend(Backend& backend)
      : backend_(&backend), is_asynchronous_(is_asynchronous(backend)) {}

  [[nodiscard]] Backend& operator*() const { return *backend_; }
  /// Returns a mark behind everything that the calling thread has asked for, or an empty Event on a
  /// host.
  [[nodiscard]] Event mark() const { return is_asynchronous_ ? backend_->mark() : Event{}; }
  /// Makes what the calling thread asks for later wait for `mark`. An empty mark has no effect.
  void wait_for(const Event& mark) const {
    if (mark.device != nullptr) {
      backend_->wait(mark);
    }
  }

 private:
  Backend* backend_;
  bool is_asynchronous_;
};

}  // namespace ptdp
