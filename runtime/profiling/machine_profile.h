// Measures a device of the machine that it runs on, and writes it down as a cluster of such
// devices.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "runtime/profiling/basic_times.h"
#include "runtime/profiling/device_conditions.h"
#include "runtime/profiling/profiled_device.h"

namespace ptdp {

/// What is measured, and for how long.
struct ProfileOptions {
  std::string name = "host";
  ProfiledDevice device;
  /// Precisions to measure. The first decides the constants that all share; later ones are measured
  /// at fewer sizes.
  std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  double seconds = 60.0;  ///< Approximate duration. Small machines and short times get fewer sizes.
  std::string description;  ///< When and on what the profile was measured, for its source.
  /// Called with a line at a time; may be empty.
  std::function<void(const std::string&)> on_progress;
  std::function<bool()> is_cancelled;  ///< Asked whether to stop early; may be empty.
};

/// A measured cluster, and how steady the measurement was.
struct MachineProfile {
  ClusterSpec cluster;
  std::vector<std::pair<Precision, FlopsPerSecond>> products;  ///< Rates of large square products.
  LaunchTimes launches;
  std::vector<HostCopyRates> host_copies;
  /// Median over the models' runs of the spread of a run's repeated times, as a fraction; nullopt
  /// when none was repeated often enough to have one.
  std::optional<double> spread = std::nullopt;
  /// Fraction of its time in which a rank alone on the machine had a core. Less than 1 when other
  /// processes took it.
  double processor_share = 1.0;
  /// Conditions in each round of the first precision. These rounds do the same work.
  std::vector<DeviceConditions> rounds;
  /// Conditions during the whole measurement.
  DeviceConditions conditions;
  /// Operations whose times contradict the others however often they were measured, as "fp32
  /// forward-product: m 64, n 512, k 128, 20.8 us".
  std::vector<std::string> left_out;
  /// Models that the memory does not hold, as "bf16: hidden 12288, 8192 tokens".
  std::vector<std::string> too_large;
  /// Models that the time was too short for, as "bf16: hidden 12288, 8192 tokens".
  std::vector<std::string> too_late;

  /// Returns why the times may not be this machine's; "" when they were steady.
  [[nodiscard]] std::string warning() const;
};

/// Measures the device. It times products, attention, element-wise work and optimizer steps as the
/// device's models use them, alone and with other ranks busy. It times also copies, launches, and
/// messages and collectives between ranks. Returns nullopt when cancelled. Throws OutOfMemory, and
/// Error(kRuntimeFault) when threads cannot be started or times contradict each other too often.
[[nodiscard]] std::optional<MachineProfile> profile_machine(const ProfileOptions& options);

/// Returns how the profile was measured, in words: the cluster's source.
[[nodiscard]] std::string describe_measurement(const ProfileOptions& options,
                                               const MachineProfile& profile);

}  // namespace ptdp
