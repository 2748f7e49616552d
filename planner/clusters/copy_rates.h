// What nvbandwidth measured: copies between GPUs, and between a GPU and its host.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cost_model/units.h"

namespace ptdp {

/// Means over all pairs that nvbandwidth measured; nullopt: it did not, or waived the test.
struct CopyRates {
  std::optional<BytesPerSecond> host_to_device;    ///< By the copy engine, one copy at a time.
  std::optional<BytesPerSecond> device_to_host;    ///< By the copy engine, one copy at a time.
  std::optional<BytesPerSecond> device_to_device;  ///< Reads and writes of a peer, one direction.
};

/// Reads an output of nvbandwidth, text or JSON. Throws Error at `place` for broken JSON, and if
/// none of these copies is in it.
[[nodiscard]] CopyRates read_nvbandwidth(std::string_view text, const std::string& place);

}  // namespace ptdp
