// An open file, socket or pipe of the system, closed with its owner.
#pragma once

#include <unistd.h>

#include <utility>

namespace ptdp {

/// Owns a file descriptor of the system, or none.
class Descriptor {
 public:
  Descriptor() = default;
  /// Takes ownership of `number`. A negative number, as failed system calls return, means none.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  /// Closes the descriptor if it is open. Returns false if written data may be lost; errno says
  /// why.
  bool close() noexcept { return !is_open() || ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_ = -1;
};

}  // namespace ptdp
