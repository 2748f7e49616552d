// Which configurations a framework can run, while a search looks for the best.
#pragma once

#include <cstdint>
#include <functional>

#include "planner/export/exporter.h"

namespace ptdp {

/// Returns a function that says whether the exporter refuses a configuration of this scenario on
/// `gpus` GPUs. Several threads may call it at once.
[[nodiscard]] std::function<bool(const ParallelConfig&)> refused_by(const Exporter& exporter,
                                                                    const Scenario& scenario,
                                                                    std::int64_t gpus);

}  // namespace ptdp
