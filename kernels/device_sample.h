// What a device says of itself while it works.
#pragma once

#include <cstdint>

namespace ptdp {

/// Why a device runs below the clock that it could have; bits of DeviceSample::held_back_by.
enum HoldBack : std::uint32_t {
  kHeldByPower = 1,
  kHeldByHeat = 2,
  kHeldByHardware = 4,  ///< A fault of its supply, or another device's.
};

struct DeviceSample {
  double clock = 0.0;         ///< [MHz] Of its multiprocessors.
  double memory_clock = 0.0;  ///< [MHz]
  double power = 0.0;         ///< [W]
  double temperature = 0.0;   ///< [°C]
  std::uint32_t held_back_by = 0;
};

}  // namespace ptdp
