// The particulars of a device that is measured. The rest is the same for a host and a GPU.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "kernels/backend.h"
#include "kernels/device_sample.h"
#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// A device, and how it is measured. When a list is empty, nothing of its kind is measured.
struct ProfiledDevice {
  /// Everything known without measuring: the training stack, the memory, and the nodes and links of
  /// the cluster. Peaks that it has come from a data sheet, and are kept unless a product exceeds
  /// them.
  ClusterSpec cluster;
  std::string kind;   ///< What one of the measured devices is called: "core".
  std::string peaks;  ///< Where its peaks come from, for its source.
  std::function<std::unique_ptr<Backend>()> make_backend;

  double warm_up = 0.0;  ///< Time of products before anything is measured [s].
  double lead_in = 0.0;  ///< Time of steps right before each measured one [s].
  /// Sizes of copies [B], growing. The last one gives the memory's bandwidth.
  std::vector<std::int64_t> copies;
  std::vector<Precision> precisions;      ///< Precisions in which the device can form products.
  std::int64_t peak_size = 0;             ///< Size of the square products that give the peaks.
  std::vector<std::int64_t> host_copies;  ///< Sizes of copies from and to the host's memory [B].
  /// Whether operations are queued for the device, so that launching one takes a time of its own.
  bool queues_work = false;

  /// Returns the models to run, whose steps have at most so many FLOPs, except for the smallest
  /// models. Models that exceed the memory are left out later.
  std::function<std::vector<ProfiledModel>(double most_flops)> models;
  std::vector<int> busy_cores;  ///< Numbers of ranks whose layers are also run at the same time.
  /// Whether ranks compute in their threads, so that other threads may disturb them.
  bool computes_in_threads = false;
  std::vector<int> link_ranks;       ///< Numbers of ranks between which collectives are measured.
  std::int64_t largest_message = 0;  ///< Size of the largest message and collective [B].
  std::string unmeasured;            ///< What of the cluster is not measured, for its source.

  /// Returns what the device said of itself since the last call; may be empty.
  std::function<std::vector<DeviceSample>()> take_samples;
  /// Returns what its backends remarked so far, a phrase each, for the source; may be empty.
  std::function<std::vector<std::string>()> remarks;
};

/// A host whose cores are to be measured as devices.
struct HostRequest {
  int cores = 1;  ///< Number of cores that ranks may use.
  /// Largest number of ranks in collectives, which are measured for 2, 4, 8 ... ranks.
  int most_ranks = 8;
  Bytes memory;  ///< Memory that one rank may take.
  /// Duration of the measurement [s]. Below a few seconds sizes are smaller.
  double seconds = 60.0;
  std::function<std::unique_ptr<Backend>()> make_backend;
};
/// Returns how to measure a core of the host.
[[nodiscard]] ProfiledDevice host_device(const HostRequest& request);

/// A GPU that is to be measured by itself.
struct GpuRequest {
  std::string name;  ///< Name by the driver: "NVIDIA H200".
  int num_multiprocessors = 0;
  Bytes memory;       ///< Memory of the whole GPU.
  ClusterSpec links;  ///< A cluster whose nodes and links the result takes.
  double seconds = 120.0;
  std::function<std::unique_ptr<Backend>()> make_backend;
  std::function<std::vector<DeviceSample>()> take_samples;
  std::function<std::vector<std::string>()> remarks;  ///< As ProfiledDevice has it.
};
/// Returns how to measure the GPU.
[[nodiscard]] ProfiledDevice gpu_device(const GpuRequest& request);

/// Shipped profiles that stand for a GPU of a driver's name.
struct KnownGpu {
  /// Name of the GPU's profile.
  std::string gpu;
  std::string cluster;  ///< Name of a cluster of such GPUs.
};
/// Returns the shipped profiles for a GPU that its driver calls `name`; nullopt for an unknown GPU.
[[nodiscard]] std::optional<KnownGpu> find_known_gpu(const std::string& name);

}  // namespace ptdp
