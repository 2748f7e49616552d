// Measures the machine that it runs on, and writes it down as a cluster.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/units.h"
#include "kernels/backend.h"

namespace ptdp {

/// What is measured of a machine, and for how long.
struct ProfileOptions {
  std::string name = "host";
  /// The first one decides the constants that all share; later ones are measured at fewer sizes.
  std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  double seconds = 60.0;    ///< About: small machines and short times get fewer sizes.
  int cores = 1;            ///< That ranks may use.
  int most_ranks = 8;       ///< Collectives are measured for 2, 4, 8 ... so many.
  Bytes memory;             ///< That one rank may take.
  std::string description;  ///< When and on what, for the source.
  std::string stack = "ptdp-cpu";
  std::function<std::unique_ptr<Backend>()> make_backend;
  std::function<void(const std::string&)> on_progress;  ///< A line at a time; may be empty.
  std::function<bool()> is_cancelled;                   ///< May be empty.
};

struct MachineProfile {
  ClusterSpec cluster;
  /// How far repeated times of one operation lay apart, in the median of all operations.
  double spread = 0.0;
  /// Of its time, what a rank alone on the machine had a core: less than 1 where others took it.
  double processor_share = 1.0;
  /// Operations whose times contradict the others however often they were measured: "fp32
  /// forward-product: m 64, n 512, k 128, 20.8 us".
  std::vector<std::string> left_out;

  /// Why the times may not be this machine's; empty where they were steady.
  [[nodiscard]] std::string warning() const;
};

/// Measures products, attention, element-wise work and optimizer steps as small models use them,
/// alone and with other cores busy; copies; messages and collectives between ranks. Nothing where
/// it was cancelled. Throws OutOfMemory, and Error(kRuntimeFault) where threads cannot be started
/// or times contradict each other too often.
[[nodiscard]] std::optional<MachineProfile> profile_machine(const ProfileOptions& options);

}  // namespace ptdp
