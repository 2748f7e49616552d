// What the probe is to time for some plans: `ptdp.probe-work/1`, described in FORMATS.md.
#pragma once

#include <span>
#include <string>

#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the products, attention, element-wise work, layers and collectives of the plans at their
/// own sizes, each once. Experts are left out: the probe has no grouped products. Throws Error for
/// plans in a precision that the probe does not have.
[[nodiscard]] std::string probe_work(std::span<const Plan> plans);

/// Returns the probe, a program in Python, with `work` in it. `program` is the text of
/// tools/probe/probe.py. Throws Error(kBug) if it has no place for it.
[[nodiscard]] std::string probe_with_work(const std::string& program, const std::string& work);

}  // namespace ptdp
