// The candidates of a search as a picture: memory against time.
#pragma once

#include "planner/answer/planning.h"
#include "planner/report/report.h"

namespace ptdp {

/// The most points that the picture shows.
inline constexpr std::size_t kMostCandidatePoints = 2000;

/// Returns the candidates as a scatter of memory [GiB] and time [s], calibrated: the front, the
/// best of each pair of tp and pp, and an even sample of what else can run. A point says by which
/// terms it loses against the plan that was chosen. Points that would take long to simulate have no
/// parts, and are no part of the sample. `result.plans` must not be empty.
[[nodiscard]] ReportSection candidates_section(const PlanningResult& result);

}  // namespace ptdp
