// Backends that allocate and compute nothing. The memory in use is thus the layers' own, without
// the scratch memory of operations.
#pragma once

#include <cstdint>
#include <new>

#include "kernels/forwarding_backend.h"

namespace ptdp {

/// A base for backends that compute nothing. A derived class says in run() what an operation does
/// instead (ForwardingBackend).
template <class Derived>
class IdleBackendOf : public ForwardingBackend<Derived> {
 public:
  void use_lane(int /*lane*/) override {}
  [[nodiscard]] Event record() override { return {}; }
  void wait(const Event& /*event*/) override {}
  void synchronize() override {}
  [[nodiscard]] double seconds_between(const Event& /*first*/, const Event& /*second*/) override {
    return 0.0;
  }

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    return ::operator new(static_cast<std::size_t>(bytes));
  }
  void release_memory(void* memory, std::int64_t /*bytes*/) noexcept override {
    ::operator delete(memory);
  }
};

/// A backend whose operations do nothing.
class IdleBackend final : public IdleBackendOf<IdleBackend> {
 public:
  /// Attention's backward pass replaces its inputs, as a host's does, or not.
  explicit IdleBackend(bool replaces_attention_inputs = true)
      : replaces_(replaces_attention_inputs) {}

  [[nodiscard]] bool replaces_attention_inputs() const override { return replaces_; }

 private:
  friend class ForwardingBackend<IdleBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... /*arguments*/) {}

  bool replaces_;
};

}  // namespace ptdp
