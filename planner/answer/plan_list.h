// The plans of a search, and what it takes to search again: `ptdp.plans/1` read back.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

inline constexpr std::array kObjectiveNames = {NamedValue<Objective>{Objective::kTime, "time"},
                                               NamedValue<Objective>{Objective::kCost, "cost"}};

struct PlanList {
  Scenario scenario;
  SearchOptions options;
  std::vector<Plan> plans;  ///< As listed: best first.
};

/// What `ptdp-plan --format json` wrote. Throws Error naming the place, also for plans that do not
/// follow from the inputs (checked(), plan.h).
[[nodiscard]] PlanList parse_plan_list(std::string_view text, const std::string& place);
/// A file of that, or of one plan: a search without pins.
[[nodiscard]] PlanList read_plan_list(const std::filesystem::path& path);
/// Files of one plan each, all of one job, cluster, stack and number of GPUs. At least one.
[[nodiscard]] PlanList read_plan_files(const std::vector<std::filesystem::path>& paths);

/// The flags of a search, but for its threads: which never change a result.
template <class Fields>
void describe(Fields& fields, Described<Fields, SearchOptions>& options);

}  // namespace ptdp
