// A job whose input is larger or smaller: a faster GPU, a slower network, another batch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// An input of a plan that somebody may change by some percent.
enum class ChangedInput { kPeak, kNodeLinks, kNetwork, kMemory, kBatch, kGpus };

/// The names of an input.
struct ChangedInputText {
  ChangedInput input;
  std::string_view key;   ///< Name in files: "gpu_peak".
  std::string_view name;  ///< Name for people: "peak FLOP/s".
};
/// Names of all inputs, in the order of the enumerators.
inline constexpr std::array kChangedInputs = {
    ChangedInputText{ChangedInput::kPeak, "gpu_peak", "peak FLOP/s"},
    ChangedInputText{ChangedInput::kNodeLinks, "node_links", "bandwidth within nodes"},
    ChangedInputText{ChangedInput::kNetwork, "network", "network bandwidth"},
    ChangedInputText{ChangedInput::kMemory, "gpu_memory", "GPU memory"},
    ChangedInputText{ChangedInput::kBatch, "batch", "batch"},
    ChangedInputText{ChangedInput::kGpus, "gpus", "GPUs"}};

/// Returns the names of an input.
[[nodiscard]] const ChangedInputText& text_of(ChangedInput input);

/// How far an input is changed.
struct InputChange {
  ChangedInput input = ChangedInput::kPeak;
  double by = 0.0;  ///< Relative change: -0.2 is 20 % less.
};

/// A job with one input changed.
struct ChangedJob {
  Scenario scenario;
  std::int64_t gpus = 0;
  double change = 0.0;     ///< Relative change of the input, after rounding.
  std::int64_t value = 0;  ///< Sequences or GPUs of the changed job; 0 for other inputs.
};

/// How far a batch may be from the one that is asked for, as a fraction of the job's.
inline constexpr double kNearChange = 0.025;

/// Returns the job of `config` on `gpus` GPUs with one input changed, about as far as asked:
///
///   - kPeak: the peaks of all products, and the measured times of products and attention;
///   - kNodeLinks: the rate of NVLink or PCIe, of NVLS, and the transfer of measured curves within
///     nodes, messages included;
///   - kNetwork: the rate of each GPU's share of the NICs, and the transfer of curves across nodes;
///   - kMemory: the memory of a GPU; what the stack reserves stays;
///   - kBatch: a batch that the plan's dp·b divides, times pp if its schedule needs that, where one
///     is within kNearChange; else a multiple of the largest power of two that is so near;
///   - kGpus: whole nodes or trays, or single GPUs of one node.
///
/// Memory bandwidth and fixed times stay. Returns nullopt where rounding leaves the input as it is,
/// where the cluster has no such number of GPUs, and for links that the job doesn't use.
[[nodiscard]] std::optional<ChangedJob> changed_job(const Scenario& scenario, std::int64_t gpus,
                                                    const ParallelConfig& config,
                                                    const InputChange& change);

}  // namespace ptdp
