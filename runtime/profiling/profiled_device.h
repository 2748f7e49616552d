// What is particular to a device that is measured: the rest is the same for a host and for a GPU.
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

/// A device, and how it is measured; of what a list is empty of nothing is.
struct ProfiledDevice {
  /// All that is known without measuring: the stack that it trains with, memory, what the nodes and
  /// links of a cluster are that it is a part of. Peaks that it has are those of a data sheet, and
  /// are kept where no product exceeds them.
  ClusterSpec cluster;
  std::string kind;   ///< "core": one of which is measured.
  std::string peaks;  ///< What its peaks are, for its source.
  std::function<std::unique_ptr<Backend>()> make_backend;

  double warm_up = 0.0;               ///< Seconds of products before anything is measured.
  std::vector<std::int64_t> copies;   ///< Bytes, growing; the last one says the memory's bandwidth.
  std::vector<Precision> precisions;  ///< Whose products it can form.
  std::int64_t peak_size = 0;         ///< Of the square products that say the peaks.
  std::vector<std::int64_t> host_copies;  ///< Bytes; from and to the memory of the host.
  /// Whether operations are queued for it, so that launching one takes a time of its own.
  bool queues_work = false;

  /// With steps of at most so many FLOPs, but for the smallest. What exceeds the memory is left
  /// out.
  std::function<std::vector<ProfiledModel>(double most_flops)> models;
  std::vector<int> busy_cores;  ///< Numbers of ranks whose layers are also run at the same time.
  /// Whether ranks compute in their threads, so that others' threads may disturb them.
  bool computes_in_threads = false;
  std::vector<int> link_ranks;       ///< Collectives are measured between so many ranks.
  std::int64_t largest_message = 0;  ///< Bytes of these.
  std::string unmeasured;            ///< What of the cluster is not measured, for its source.

  /// What the device said of itself since the last call; may be empty.
  std::function<std::vector<DeviceSample>()> take_samples;
};

/// A host whose cores are the devices.
struct HostRequest {
  int cores = 1;       ///< That ranks may use.
  int most_ranks = 8;  ///< Collectives are measured for 2, 4, 8 ... so many.
  Bytes memory;        ///< That one rank may take.
  /// Below a few seconds sizes are smaller.
  double seconds = 60.0;
  std::function<std::unique_ptr<Backend>()> make_backend;
};
[[nodiscard]] ProfiledDevice host_device(const HostRequest& request);

/// A GPU, by itself.
struct GpuRequest {
  std::string name;  ///< As its driver calls it: "NVIDIA H200".
  int num_multiprocessors = 0;
  Bytes memory;       ///< All that it has.
  ClusterSpec links;  ///< A cluster whose nodes and links it is to have.
  double seconds = 120.0;
  std::function<std::unique_ptr<Backend>()> make_backend;
  std::function<std::vector<DeviceSample>()> take_samples;
};
[[nodiscard]] ProfiledDevice gpu_device(const GpuRequest& request);

/// Shipped profiles that stand for a GPU, by what its driver calls it.
struct KnownGpu {
  std::string gpu;
  std::string cluster;  ///< Of such GPUs.
};
[[nodiscard]] std::optional<KnownGpu> find_known_gpu(const std::string& name);

}  // namespace ptdp
