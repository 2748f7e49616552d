// Time of one call of an operation of a backend that is called again and again.
#pragma once

#include <functional>

#include "kernels/backend.h"

namespace ptdp {

/// Seconds of one call among as many as take a few milliseconds, in the quiet batches.
[[nodiscard]] double time_of(Backend& backend, const std::function<void()>& operation);

}  // namespace ptdp
