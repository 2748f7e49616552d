// What the ranks of a run compute on: cores of this host, or its GPUs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "planner/plan/plan.h"
#include "tools/shared/gpus.h"

namespace ptdp {

struct RunDevice {
  DeviceKind kind = DeviceKind::kCpu;
  std::vector<Gpu> gpus = {};  ///< With kCuda, those of this machine.

  [[nodiscard]] bool is_gpu() const { return kind == DeviceKind::kCuda; }
  /// "cpu", or "cuda: " and the GPUs' names, each once.
  [[nodiscard]] std::string name() const;
  /// Of all GPUs that ranks are spread over.
  [[nodiscard]] Bytes memory() const;
  /// Place in `gpus` of the one that the rank at `place` of this machine uses; they take turns.
  [[nodiscard]] int gpu_of(int place) const { return place % static_cast<int>(gpus.size()); }
};

/// For ranks that are threads of one process: these read each other's memory, and share the first
/// GPU.
[[nodiscard]] RunDevice shared_by_threads(RunDevice device);

/// Whether what stands for a GPU in the plan's profile is a core of a host.
[[nodiscard]] bool is_host_plan(const Plan& plan);

/// What `asked` says, else GPUs where the plan is for them, runs at full size, and there are any:
/// a plan for a host, a shrunk one and a machine without a GPU run on the host. Throws Error:
/// kBadInput where `asked` is for GPUs in a build without CUDA, kRuntimeFault where there is none.
[[nodiscard]] RunDevice choose_device(std::optional<DeviceKind> asked, const Plan& plan,
                                      bool shrinks);

/// Whether the device is what the plan's prediction is for: of a host plan a host, else GPUs all of
/// the plan's kind, by multiprocessors and memory (to 10 %: data sheets round, drivers keep some).
[[nodiscard]] bool is_planned_gpu(const RunDevice& device, const Plan& plan);
/// Throws Error(kBadInput) for GPUs of another kind than the plan's, unless that is allowed, or the
/// plan is for a host.
void check_gpu_type(const RunDevice& device, const Plan& plan, bool allows_other);

/// Where a rank is.
struct RankPlacement {
  int rank = 0;
  int place = 0;       ///< Of the process among those of its machine.
  int ranks_here = 1;  ///< Of its machine.
  bool are_processes = false;
};
/// Throws Error(kBadInput) where ranks that NCCL is to connect have no GPU each, or where a
/// tensor-parallel group lies on several machines without NVLink between them. Each process checks
/// its own rank: all are placed well where none throws.
void check_nccl_placement(const RunDevice& device, const Plan& plan, const RankPlacement& rank);

/// What to say, once, where ranks share GPUs; empty where they do not.
[[nodiscard]] std::string sharing_note(const RunDevice& device, int ranks_here,
                                       bool are_processes = false);

}  // namespace ptdp
