// How threads that work on each other's buffers keep their work in order where it outlasts the
// calls that ask for it.
#pragma once

#include "kernels/backend.h"

namespace ptdp {

/// Whether operations may outlast their calls, as on a GPU. On a host they do not.
[[nodiscard]] inline bool is_asynchronous(Backend& backend) {
  return backend.record().device != nullptr;
}

/// A rank's backend. Where operations outlast their calls it marks points of the calling thread's
/// lane and waits for those of others; on a host it does neither, since a mark costs a look at the
/// clock.
class LinkBackend {
 public:
  explicit LinkBackend(Backend& backend)
      : backend_(&backend), is_asynchronous_(is_asynchronous(backend)) {}

  [[nodiscard]] Backend& operator*() const { return *backend_; }
  /// Behind what the calling thread asked for.
  [[nodiscard]] Event mark() const { return is_asynchronous_ ? backend_->record() : Event{}; }
  /// What the calling thread asks for from here on comes behind `mark`.
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
