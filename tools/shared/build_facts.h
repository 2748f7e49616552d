// What this program was built with.
#pragma once

#include <string>

namespace ptdp {

/// Returns lines on compiler, kind of build and libraries, for --version.
[[nodiscard]] std::string build_facts();

}  // namespace ptdp
