// What all backends share: counted memory, and tensors.
#include "kernels/backend.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

namespace ptdp {
namespace {

struct ReleaseAligned {
  void operator()(void* memory) const noexcept { ::operator delete (memory, std::align_val_t{64}); }
};

}  // namespace

void* Backend::allocate(std::int64_t bytes) {
  const std::lock_guard lock(memory_mutex_);
  void* memory = allocate_memory(bytes);
  in_use_ += bytes;
  peak_ = std::max(peak_.load(), in_use_.load());
  return memory;
}

void Backend::release(void* memory, std::int64_t bytes) noexcept {
  const std::lock_guard lock(memory_mutex_);
  release_memory(memory, bytes);
  in_use_ -= bytes;
}

std::shared_ptr<void> Backend::message_memory(std::int64_t bytes) {
  void* const memory =
      ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64}, std::nothrow);
  if (memory == nullptr) {
    throw OutOfMemory("out of memory: " + std::to_string(bytes) + " bytes asked for a message");
  }
  return {memory, ReleaseAligned{}};
}

void Backend::run_as_graph(std::int64_t, const std::function<void()>& issue) {
  issue();
}

bool Backend::has_epilogue(const EpilogueCall&) {
  return false;
}

void Backend::matmul_with_epilogue(const EpilogueCall&) {
  throw std::logic_error("a product with an epilogue on a backend that has none");
}

Tensor::Tensor(Backend& backend, DataType type, std::int64_t size)
    : backend_(&backend), buffer_{.data = nullptr, .size = size, .type = type} {
  buffer_.data = backend.allocate(buffer_.bytes());
}

// The destructor is not inline. KernelTable of larger instruction sets thus have no copy of it that
// the linker could give to others.
Tensor::~Tensor() {
  reset();
}

Tensor& Tensor::operator=(Tensor&& other) noexcept {
  if (this != &other) {
    reset();
    swap(other);
  }
  return *this;
}

void Tensor::reset() noexcept {
  if (backend_ != nullptr) {
    backend_->release(buffer_.data, buffer_.bytes());
  }
  backend_ = nullptr;
  buffer_ = {};
}

void Tensor::swap(Tensor& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(buffer_, other.buffer_);
}

}  // namespace ptdp
