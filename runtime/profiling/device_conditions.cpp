#include "runtime/profiling/device_conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ptdp {
namespace {

constexpr double kSteadyClock = 1.001;  // largest over smallest

SampledRange range_of(const std::vector<DeviceSample>& samples, double DeviceSample::*number) {
  SampledRange range{.least = samples.front().*number, .most = samples.front().*number};
  for (const DeviceSample& sample : samples) {
    range.mean += sample.*number / static_cast<double>(samples.size());
    range.least = std::min(range.least, sample.*number);
    range.most = std::max(range.most, sample.*number);
  }
  return range;
}

/// Returns the fraction of the samples in which this reason held the device back.
double share_of(const std::vector<DeviceSample>& samples, HoldBack reason) {
  const auto count = std::count_if(samples.begin(), samples.end(), [&](const DeviceSample& sample) {
    return (sample.held_back_by & reason) != 0;
  });
  return static_cast<double>(count) / static_cast<double>(samples.size());
}

/// Returns a text as "1755 MHz (1410 to 1980)".
std::string text_of(const SampledRange& range, const char* unit) {
  if (range.most <= range.least * kSteadyClock) {
    return fmt::format("{:.0f} {}", range.mean, unit);
  }
  return fmt::format("{:.0f} {} ({:.0f} to {:.0f})", range.mean, unit, range.least, range.most);
}

}  // namespace

DeviceConditions conditions_of(const std::vector<DeviceSample>& samples) {
  if (samples.empty()) {
    return {};
  }
  return {.num_samples = static_cast<int>(samples.size()),
          .clock = range_of(samples, &DeviceSample::clock),
          .memory_clock = range_of(samples, &DeviceSample::memory_clock),
          .power = range_of(samples, &DeviceSample::power),
          .temperature = range_of(samples, &DeviceSample::temperature),
          .held_by_power = share_of(samples, kHeldByPower),
          .held_by_heat = share_of(samples, kHeldByHeat),
          .held_by_hardware = share_of(samples, kHeldByHardware)};
}

std::string describe_conditions(const DeviceConditions& conditions) {
  if (conditions.num_samples == 0) {
    return "";
  }
  std::string text =
      fmt::format("clock {}, memory clock {}, {}, {}", text_of(conditions.clock, "MHz"),
                  text_of(conditions.memory_clock, "MHz"), text_of(conditions.power, "W"),
                  text_of(conditions.temperature, "C"));
  std::string reasons;
  for (const auto& [name, share] :
       {std::pair{"power", conditions.held_by_power}, std::pair{"heat", conditions.held_by_heat},
        std::pair{"its hardware", conditions.held_by_hardware}}) {
    if (share > 0.0) {
      reasons += fmt::format("{}{} {:.0f} %", reasons.empty() ? "" : ", by ", name, 100.0 * share);
    }
  }
  if (!reasons.empty()) {
    text += "; held back by " + reasons + " of the time";
  }
  return text;
}

double clock_drop(const DeviceConditions& first, const DeviceConditions& second) {
  if (first.clock.mean <= 0.0 || second.clock.mean <= 0.0) {
    return 0.0;
  }
  return std::max(1.0 - second.clock.mean / first.clock.mean, 0.0);
}

}  // namespace ptdp
