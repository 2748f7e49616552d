// Reads the plans of a search, and what it takes to search again, from `ptdp.plans/1`.
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

/// Names of the objectives, as --objective and documents have them.
inline constexpr std::array kObjectiveNames = {NamedValue<Objective>{Objective::kTime, "time"},
                                               NamedValue<Objective>{Objective::kCost, "cost"}};

/// Plans of one search, with the inputs to search again.
struct PlansDocument {
  Scenario scenario;
  SearchOptions options;
  std::vector<Plan> plans;  ///< Plans in the order of the list: best first.
};

/// Reads what `ptdp-plan --format json` of this version wrote. Throws Error with the place of the
/// fault, also for plans that do not follow from the inputs (checked(), plan.h).
[[nodiscard]] PlansDocument parse_plans_document(std::string_view text, const std::string& place);
/// Reads a file of `ptdp.plans/1`, or of one plan, which stands for a search without pins. Throws
/// Error.
[[nodiscard]] PlansDocument read_plans_document(const std::filesystem::path& path);
/// Reads the plan of a file, or the best one of a file of `ptdp.plans/1`. Throws Error, also for a
/// list without a plan.
[[nodiscard]] Plan read_best_plan(const std::filesystem::path& path);
/// Reads files of one plan each, at least one file. Throws Error unless all are of one job,
/// cluster, stack and number of GPUs.
[[nodiscard]] PlansDocument read_plan_files(const std::vector<std::filesystem::path>& paths);

/// Describes the flags of a search that can change its result.
template <class Fields>
void describe(Fields& fields, Described<Fields, SearchOptions>& options);

}  // namespace ptdp
