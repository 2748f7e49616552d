// Conversions of bf16 under CUDA's names.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"

struct __nv_bfloat16_raw {
  unsigned short x;
};
struct __nv_bfloat16 {
  explicit __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
  explicit operator __nv_bfloat16_raw() const { return {bits}; }
  unsigned short bits;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  return ptdp::baseline::widen(ptdp::baseline::BFloat16{x.bits});
}
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  return __nv_bfloat16(__nv_bfloat16_raw{ptdp::baseline::narrow<ptdp::baseline::BFloat16>(x).bits});
}
inline __nv_bfloat16 __double2bfloat16(double x) {
  return __nv_bfloat16(__nv_bfloat16_raw{ptdp::baseline::narrow<ptdp::baseline::BFloat16>(x).bits});
}
