// How a device did while it was measured.
#pragma once

#include <string>
#include <vector>

#include "kernels/device_sample.h"

namespace ptdp {

/// Of a number that was sampled.
struct SampledRange {
  double mean = 0.0;
  double least = 0.0;
  double most = 0.0;
};

/// Samples, put together.
struct DeviceConditions {
  int num_samples = 0;
  SampledRange clock;         ///< [MHz]
  SampledRange memory_clock;  ///< [MHz]
  SampledRange power;         ///< [W]
  SampledRange temperature;   ///< [°C]
  // Fractions of the samples.
  double held_by_power = 0.0;
  double held_by_heat = 0.0;
  double held_by_hardware = 0.0;
};
[[nodiscard]] DeviceConditions conditions_of(const std::vector<DeviceSample>& samples);

/// "clock 1755 MHz (1410 to 1980), memory clock 3201 MHz, 590 W (112 to 701), 41 to 63 C; held back
/// by power 62 % of the time"; empty without samples.
[[nodiscard]] std::string describe_conditions(const DeviceConditions& conditions);

/// By how much the mean clock fell from one to the other, which did the same work; 0 where it did
/// not, or nobody knows.
[[nodiscard]] double clock_drop(const DeviceConditions& first, const DeviceConditions& second);

}  // namespace ptdp
