// Conversions of fp16 under CUDA's names.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"

struct __half_raw {
  unsigned short x;
};
struct __half {
  explicit __half(__half_raw raw) : bits(raw.x) {}
  explicit operator __half_raw() const { return {bits}; }
  unsigned short bits;
};
inline float __half2float(__half x) {
  return ptdp::baseline::widen(ptdp::baseline::Float16{x.bits});
}
inline __half __float2half_rn(float x) {
  return __half(__half_raw{ptdp::baseline::narrow<ptdp::baseline::Float16>(x).bits});
}
inline __half __double2half(double x) {
  return __half(__half_raw{ptdp::baseline::narrow<ptdp::baseline::Float16>(x).bits});
}
