// Physical quantities as distinct types, so that bytes are never added to seconds.
#pragma once

#include <compare>

namespace ptdp {

/// A number with a unit that the compiler checks, stored as a double in the SI base unit of its
/// tag. No integer would do: FLOP counts of a training run (1e25) exceed 64 bits.
template <class Tag>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}

  /// Returns the number in base units: seconds, bytes, floating-point operations, or bytes or
  /// operations per second.
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) {
    return Quantity(a.value_ + b.value_);
  }
  friend constexpr Quantity operator-(Quantity a, Quantity b) {
    return Quantity(a.value_ - b.value_);
  }
  friend constexpr Quantity operator*(Quantity a, double factor) {
    return Quantity(a.value_ * factor);
  }
  friend constexpr Quantity operator*(double factor, Quantity a) { return a * factor; }
  friend constexpr Quantity operator/(Quantity a, double divisor) {
    return Quantity(a.value_ / divisor);
  }
  /// Returns the ratio of two quantities of one kind, a plain number.
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<struct SecondsTag>;
using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes size, BytesPerSecond rate) {
  return Seconds(size.value() / rate.value());
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return Seconds(work.value() / rate.value());
}
constexpr BytesPerSecond operator/(Bytes size, Seconds time) {
  return BytesPerSecond(size.value() / time.value());
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return FlopsPerSecond(work.value() / time.value());
}

inline constexpr double kMicro = 1e-6;
inline constexpr double kMega = 1e6;
inline constexpr double kGiga = 1e9;
inline constexpr double kTera = 1e12;
inline constexpr double kPeta = 1e15;
inline constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;

constexpr Seconds microseconds(double us) {
  return Seconds(us * kMicro);
}
constexpr Bytes gibibytes(double gib) {
  return Bytes(gib * kGibi);
}
constexpr BytesPerSecond gigabytes_per_second(double rate) {
  return BytesPerSecond(rate * kGiga);
}
constexpr FlopsPerSecond teraflops(double rate) {
  return FlopsPerSecond(rate * kTera);
}

}  // namespace ptdp
