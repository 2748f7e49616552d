// The probe, tools/probe/probe.py, as the program was built with it.
#pragma once

#include <string>

namespace ptdp {

/// Returns the text of the probe.
[[nodiscard]] std::string probe_program();

}  // namespace ptdp
