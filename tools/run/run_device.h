// Chooses what the ranks of a run compute on: cores of this host, or its GPUs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "planner/plan/plan.h"
#include "tools/shared/gpus.h"

namespace ptdp {

/// The host, or the GPUs of this machine.
struct RunDevice {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<Gpu> gpus = {};  ///< The GPUs of this machine; empty with kCpu.

  [[nodiscard]] bool is_gpu() const { return kind == DeviceKind::kCuda; }
  /// Returns "cpu", or "cuda: " and the GPUs' names, each once.
  [[nodiscard]] std::string name() const;
  /// Total memory of all GPUs in `gpus` [B].
  [[nodiscard]] Bytes memory() const;
  /// Index in `gpus` of the GPU for the rank at `place` on this machine; ranks take turns over the
  /// GPUs.
  [[nodiscard]] int gpu_of(int place) const { return place % static_cast<int>(gpus.size()); }
};

/// Returns the device for ranks that are threads of one process. It has at most the first GPU,
/// because such ranks read each other's memory.
[[nodiscard]] RunDevice shared_by_threads(RunDevice device);

/// Whether the plan is for a host: its profile's GPU is then a core, with one multiprocessor.
[[nodiscard]] bool is_host_plan(const Plan& plan);

/// Returns the device that `asked` names. Without `asked`, returns GPUs if the plan is for GPUs,
/// runs at full size, and there are any; else the host. Throws Error(kBadInput) when GPUs are asked
/// for in a build without CUDA. Throws Error(kRuntimeFault) when GPUs are asked for and there are
/// none.
[[nodiscard]] RunDevice choose_device(std::optional<DeviceKind> asked, const Plan& plan,
                                      bool shrinks);

/// Whether the device is what the plan's prediction is for. A host plan needs a host. Another plan
/// needs all GPUs of its kind: equal multiprocessors, and memory within 10 %, since data sheets
/// round and drivers keep some.
[[nodiscard]] bool is_planned_gpu(const RunDevice& device, const Plan& plan);
/// Throws Error(kBadInput) for GPUs of another kind than the plan's. Does nothing when
/// `allows_other` is set, on a host, or for a host plan.
void check_gpu_type(const RunDevice& device, const Plan& plan, bool allows_other);

/// The place of a rank on its machine.
struct RankPlacement {
  int rank = 0;
  int place = 0;       ///< Place of the rank's process among the processes of its machine, from 0.
  int ranks_here = 1;  ///< Number of ranks on this machine.
  /// Whether each rank is a process, not a thread.
  bool are_processes = false;
};
/// Throws Error(kBadInput) if ranks cannot use NCCL as they are placed: on a host, or with fewer
/// GPUs than ranks. Also throws it if a tensor-parallel group spans machines without NVLink between
/// them. Each process checks only its own rank; all ranks are well placed if no process throws.
void check_nccl_placement(const RunDevice& device, const Plan& plan, const RankPlacement& rank);

/// Returns a note that ranks share GPUs, to be told once; empty when each rank has a GPU or runs on
/// the host.
[[nodiscard]] std::string sharing_note(const RunDevice& device, int ranks_here,
                                       bool are_processes = false);

}  // namespace ptdp
