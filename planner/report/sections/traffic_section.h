// The bytes that a plan sends, by group and by the links that they cross.
#pragma once

#include <optional>

#include "planner/plan/plan.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns what each GPU sends in an iteration [B] for each kind of group, with the links that the
/// group's worst members cross. Returns nullopt for a plan of one GPU.
[[nodiscard]] std::optional<ReportSection> traffic_section(const Plan& plan);

}  // namespace ptdp
