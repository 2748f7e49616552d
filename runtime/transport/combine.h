// Checks elements that arrive from another rank, and combines them with a rank's own.
#pragma once

#include <optional>
#include <string>

#include "cost_model/error.h"
#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Throws Error(kRuntimeFault) when the buffer that rank `from` sent differs in size or type from
/// the one that rank `to` expects.
inline void check_received(Buffer sent, int from, Buffer expected, int to) {
  if (sent.size != expected.size || sent.type != expected.type) {
    const auto described = [](Buffer buffer) {
      return std::to_string(buffer.size) + " " + std::string(name_of(buffer.type));
    };
    throw Error("rank " + std::to_string(from) + " sent " + described(sent) + " to rank " +
                    std::to_string(to) + ", which expects " + described(expected),
                ExitStatus::kRuntimeFault);
  }
}

/// Combines x with `to`, element by element, into `to`. Without a reduction it copies x to `to`.
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
