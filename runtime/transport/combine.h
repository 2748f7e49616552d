// What is done with elements that arrive.
#pragma once

#include <optional>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Combines x with `to`, element by element; without a reduction `to` becomes x.
inline void combine(Buffer x, Buffer to, std::optional<Reduction> reduction, Backend& backend) {
  if (x.empty()) {
    return;
  }
  if (!reduction.has_value()) {
    backend.copy(x, to);
    return;
  }
  switch (*reduction) {
    case Reduction::kSum:
      backend.add(x, to);
      break;
    case Reduction::kMaximum:
      backend.maximum(x, to);
      break;
  }
}

}  // namespace ptdp
