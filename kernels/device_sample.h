// What a device reports about itself while it works.
#pragma once

#include <cstdint>

namespace ptdp {

/// Why a device runs below its full clock; bits of DeviceSample::held_back_by.
enum HoldBack : std::uint32_t {
  kHeldByPower = 1,     ///< The power limit.
  kHeldByHeat = 2,      ///< The temperature limit.
  kHeldByHardware = 4,  ///< A fault of the power supply, or another device's.
};

/// One reading of a device's clocks, power and temperature.
struct DeviceSample {
  double clock = 0.0;              ///< Clock of the multiprocessors [MHz].
  double memory_clock = 0.0;       ///< Clock of the memory [MHz].
  double power = 0.0;              ///< Power [W].
  double temperature = 0.0;        ///< Temperature [°C].
  std::uint32_t held_back_by = 0;  ///< Bits of HoldBack.
};

}  // namespace ptdp
