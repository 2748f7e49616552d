// What `nvidia-smi -q -x` says of a node's GPUs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/units.h"

namespace ptdp {

/// The GPUs of a node, which are taken to be alike.
struct SmiReport {
  std::string product;       ///< Name of the product: "NVIDIA H100 80GB HBM3".
  std::string architecture;  ///< As nvidia-smi spells it: "Hopper"; empty: it does not say.
  int gpus = 0;
  Bytes memory;                             ///< Memory of one GPU.
  std::optional<double> power_limit_watts;  ///< Power limit that holds [W].
  std::optional<double> usual_limit_watts;  ///< Power limit as delivered [W].
  int pcie_generation = 0;                  ///< Highest generation of the GPU's PCIe; 0: unknown.
  int pcie_lanes = 0;                       ///< Most lanes of the GPU's PCIe; 0: unknown.
  std::vector<std::string> warnings;        ///< What makes plans doubtful, a line each.
};

/// Reads the XML of `nvidia-smi -q -x`. Throws Error at `place` for text that is no XML or of
/// another program, and for a report without a GPU, its name or its memory.
[[nodiscard]] SmiReport read_smi_report(std::string_view text, const std::string& place);

/// Returns what PCIe of a generation and width moves in one direction, its encoding left out;
/// nullopt: the generation is unknown.
[[nodiscard]] std::optional<BytesPerSecond> pcie_bandwidth(int generation, int lanes);

}  // namespace ptdp
