// A backend that allocates and computes nothing. The memory in use is thus the layers' own, without
// the scratch memory of operations.
#pragma once

#include <cstdint>
#include <new>

#include "kernels/forwarding_backend.h"

namespace ptdp {

class IdleBackend final : public ForwardingBackend<IdleBackend> {
 public:
  /// Attention's backward pass replaces its inputs, as a host's does, or not.
  explicit IdleBackend(bool replaces_attention_inputs = true)
      : replaces_(replaces_attention_inputs) {}

  [[nodiscard]] bool replaces_attention_inputs() const override { return replaces_; }
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

 private:
  friend class ForwardingBackend<IdleBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... /*arguments*/) {}

  bool replaces_;
};

}  // namespace ptdp
