// What the probe (tools/probe) measured on a machine: `ptdp.probe/1`, described in FORMATS.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "cost_model/layer/measured_layers.h"
#include "planner/clusters/nccl_tests.h"

namespace ptdp {

inline constexpr const char* kProbeSchema = "ptdp.probe/1";
/// The software that runs the probe's layers, unless the file names another stack.
inline constexpr const char* kProbedStack = "torchtitan-2024-eager";

/// A layer, and the software that ran it.
struct ProbedLayer {
  MeasuredLayer layer;
  Precision precision = Precision::kBf16;
  std::string stack = kProbedStack;  ///< Name of the stack.
};

/// What a probe says of the GPU of a machine, and of its links. What it did not measure is empty.
struct ProbeReport {
  std::string source;       ///< Device, program and date in one sentence.
  std::string device_name;  ///< Name of the GPU as its driver has it.
  bool is_gpu = true;       ///< False: the probe ran on a CPU.
  Bytes memory;             ///< Memory of the GPU; 0: unknown.
  std::vector<MeasuredOperation> operations;
  std::optional<Seconds> kernel_latency;           ///< Time of the smallest kernel in a row.
  std::optional<Seconds> host_time_per_kernel;     ///< What the host takes to launch it.
  std::optional<BytesPerSecond> memory_bandwidth;  ///< Bytes that a large copy reads and writes.
  /// Rate of products after seconds of work over that after a rest, 0 … 1.
  std::optional<double> matmul_sustained;
  std::vector<ProbedLayer> layers;
  std::vector<CollectiveBench> collectives;
  std::vector<std::string> notes;  ///< What the probe skipped and warned of, and what is left out.
};

/// Reads a probe's file. Throws Error at `place` for a file that the probe does not write. Points
/// that contradict others are left out, and that is noted.
[[nodiscard]] ProbeReport read_probe(std::string_view text, const std::string& place);

}  // namespace ptdp
