// What is kept of the trace of one rank.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "cost_model/units.h"
#include "planner/traces/kernel_kinds.h"

namespace ptdp {

/// Times of a trace [ns], exact: a double holds an absolute time no finer than 0.25 us.
using Nanoseconds = std::int64_t;
/// Returns a time of a trace in seconds.
[[nodiscard]] constexpr Seconds to_seconds(Nanoseconds time) {
  return Seconds(1e-9 * static_cast<double>(time));
}

/// Stands for what an event does not say.
inline constexpr std::int64_t kUnsaid = -1;

/// What the profiler says about a call of a collective.
struct CollectiveCall {
  std::string collective;   ///< As PyTorch spells it: "allreduce"; "" if the trace does not say.
  std::string group;        ///< Description of the process group, else its name; "" if unknown.
  std::string dtype;        ///< Type of the elements: "BFloat16".
  std::int64_t size = 0;    ///< Ranks of the group; 0 if unknown.
  std::int64_t sent = 0;    ///< Elements that the rank puts in.
  std::int64_t gotten = 0;  ///< Elements that the rank gets out.

  friend auto operator<=>(const CollectiveCall&, const CollectiveCall&) = default;
};

/// A kernel, a copy or a fill that ran on the GPU.
struct GpuWork {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  std::int64_t correlation = kUnsaid;  ///< Number of the launch.
  std::int64_t op = kUnsaid;           ///< Number of the operator that launched it.
  std::uint32_t name = 0;              ///< Index into Trace::names.
  std::int32_t call = kUnsaid;         ///< Index into Trace::calls.
  std::int32_t device = 0;
  std::int32_t stream = 0;
  WorkKind kind = WorkKind::kElementWise;
  bool is_kernel = true;  ///< Whether it is neither a copy nor a fill.
};

/// An operator of PyTorch whose kernels are products or attention.
struct HostOperator {
  WorkKind kind = WorkKind::kProduct;
  std::uint32_t name = 0;    ///< Index into Trace::names.
  std::uint32_t shapes = 0;  ///< Index into Trace::names: shapes of inputs as JSON; "" if not said.
};

/// An iteration as the host marked it: "ProfilerStep#7".
struct StepMark {
  std::int64_t number = 0;
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// What is kept of a trace, in the order of the file.
struct Trace {
  std::vector<std::string> names;  ///< Each name once; the first is "".
  std::vector<CollectiveCall> calls;
  std::vector<GpuWork> work;                                 ///< Of one device.
  std::unordered_map<std::int64_t, HostOperator> operators;  ///< By number.
  std::unordered_map<std::int64_t, Nanoseconds> launches;    ///< Start of launches, by number.
  std::vector<StepMark> steps;                               ///< In order of their start.
  std::int64_t rank = kUnsaid;
  std::int64_t world_size = 0;     ///< 0 if the trace does not say.
  std::int32_t device = 0;         ///< Of the work that is kept.
  std::string device_name;         ///< "NVIDIA H100"; "" if the trace does not say.
  std::int64_t other_devices = 0;  ///< Devices whose work is left out.
  std::int64_t without_time = 0;   ///< Events of GPUs left out because their time is none.
};

}  // namespace ptdp
