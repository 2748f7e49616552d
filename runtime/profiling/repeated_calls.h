// Times an operation of a backend by calling it again and again.
#pragma once

#include <functional>

#include "kernels/backend.h"

namespace ptdp {

/// Returns the time [s] of one call, in batches of as many calls as take a few milliseconds.
/// Batches that were disturbed do not count.
[[nodiscard]] double time_of(Backend& backend, const std::function<void()>& operation);

}  // namespace ptdp
