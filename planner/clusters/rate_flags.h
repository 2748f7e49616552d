// Rates of links and NICs as people write them: "4x400Gb", "450GB".
#pragma once

#include <string>
#include <string_view>

#include "cost_model/units.h"

namespace ptdp {

/// NICs of a node.
struct NodeNics {
  int count = 0;
  BytesPerSecond each;  ///< Data-sheet rate of one, per direction.
};
/// Reads "4x400Gb" (gigabits per second) or "4x50GB" (gigabytes per second). Throws Error at
/// `place` for anything else.
[[nodiscard]] NodeNics parse_nics(std::string_view text, const std::string& place);
/// Reads "450GB" or "450" (gigabytes per second and direction), or "3600Gb". Throws Error at
/// `place` for anything else.
[[nodiscard]] BytesPerSecond parse_rate(std::string_view text, const std::string& place);

}  // namespace ptdp
