// Where the reading of a script stands, and how much it may do.
#pragma once

#include <cstddef>
#include <string>

namespace ptdp {

/// The line that is read, for messages, and the work that is left. Every part of the reader counts
/// what it does here, so that no script of a few lines keeps the reader busy for hours.
class ShellLimits {
 public:
  /// Begins at line 1 of a file; `place` is its name.
  explicit ShellLimits(std::string place) : place_(std::move(place)) {}

  void set_line(int line) { line_ = line; }
  [[nodiscard]] int line() const { return line_; }

  /// Counts work: one for each character that is looked at, copied or written. Throws Error beyond
  /// 64 Mi.
  void spend(std::size_t characters) {
    if (characters > left_) {
      refuse_work();
    }
    left_ -= characters;
  }

  /// Throws Error that begins with the file and the line.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  [[noreturn]] void refuse_work() const;

  std::string place_;
  int line_ = 1;
  std::size_t left_ = std::size_t{64} << 20;
};

}  // namespace ptdp
