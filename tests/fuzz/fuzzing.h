// Functions that the fuzz targets share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "cost_model/error.h"

namespace ptdp {

/// Runs `check` on the input. To refuse the input with an Error is right; any other exception is a
/// finding.
template <class Check>
int fuzz(const std::uint8_t* data, std::size_t size, Check check) {
  try {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes as libFuzzer gives them
    check(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.status() != ExitStatus::kBadInput) {
      std::abort();
    }
  }
  return 0;
}

/// Ends the process if the condition does not hold, which libFuzzer reports with the input.
inline void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

}  // namespace ptdp
