// Measures a device of the machine that it runs on, and writes it down as a cluster of such.
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
  /// The first one decides the constants that all share; later ones are measured at fewer sizes.
  std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  double seconds = 60.0;    ///< About: small machines and short times get fewer sizes.
  std::string description;  ///< When and on what, for the source.
  std::function<void(const std::string&)> on_progress;  ///< A line at a time; may be empty.
  std::function<bool()> is_cancelled;                   ///< May be empty.
};

struct MachineProfile {
  ClusterSpec cluster;
  std::vector<std::pair<Precision, FlopsPerSecond>> products;  ///< The rates of square ones.
  LaunchTimes launches;
  std::vector<HostCopyRates> host_copies;
  /// How far repeated times of one operation lay apart, in the median of all operations.
  double spread = 0.0;
  /// Of its time, what a rank alone on the machine had a core: less than 1 where others took it.
  double processor_share = 1.0;
  /// Of the first precision's rounds, which do the same work, and then of all.
  std::vector<DeviceConditions> rounds;
  DeviceConditions conditions;
  /// Operations whose times contradict the others however often they were measured: "fp32
  /// forward-product: m 64, n 512, k 128, 20.8 us".
  std::vector<std::string> left_out;
  /// Models that the memory does not hold: "bf16: hidden 12288, 8192 tokens".
  std::vector<std::string> too_large;

  /// Why the times may not be this machine's; empty where they were steady.
  [[nodiscard]] std::string warning() const;
};

/// Measures products, attention, element-wise work and optimizer steps as the device's models use
/// them, alone and with other ranks busy; copies; launches; messages and collectives between ranks.
/// Nothing where it was cancelled. Throws OutOfMemory, and Error(kRuntimeFault) where threads
/// cannot be started or times contradict each other too often.
[[nodiscard]] std::optional<MachineProfile> profile_machine(const ProfileOptions& options);

/// How the profile was measured: the cluster's source.
[[nodiscard]] std::string describe_measurement(const ProfileOptions& options,
                                               const MachineProfile& profile);

}  // namespace ptdp
