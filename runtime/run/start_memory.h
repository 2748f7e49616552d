// Whether what is taken of GPUs at start-up leaves each rank the memory that its plan needs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "runtime/launch/launch.h"

namespace ptdp {

/// What a plan says of the memory of each rank's GPU, which the rank has to itself.
struct PlannedMemory {
  std::vector<Bytes> peaks;  ///< Largest memory through the allocator, by pipeline rank.
  Bytes reserve;             ///< Memory left to the driver, NCCL and other libraries.
  Bytes device;              ///< Memory of the GPU.
};

/// Compares `taken`, the bytes of the rank's GPU beside its allocator, with the plan, if there is
/// one. Every rank of `host` calls it before the first step, when communicators exist and libraries
/// are loaded. Where ranks took more than their reserve, rank 0 gets a note about the one that took
/// most; all others get "". Throws Error(kRuntimeFault) on a rank whose peak does not fit any more.
[[nodiscard]] std::string compare_start_memory(const std::optional<PlannedMemory>& planned,
                                               Bytes taken, int pipeline_rank,
                                               const HostSide& host);

}  // namespace ptdp
