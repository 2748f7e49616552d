#include "kernels/backend.h"

#include <algorithm>
#include <utility>

namespace ptdp {

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

Tensor::Tensor(Backend& backend, DataType type, std::int64_t size)
    : backend_(&backend), buffer_{.data = nullptr, .size = size, .type = type} {
  buffer_.data = backend.allocate(buffer_.bytes());
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
