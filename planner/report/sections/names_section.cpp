// Explains the fields of one-line configurations.
#include "planner/report/sections/names_section.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cost_model/inputs/config_fields.h"

namespace ptdp {

ReportSection names_section(const std::vector<Plan>& plans) {
  TableView view{.columns = {"name", "meaning"}};
  for_each_config_field([&](const auto& field) {
    const bool is_printed =
        field.traits.is_always_printed || std::ranges::any_of(plans, [&](const Plan& plan) {
          return field.applies(plan.config) && !field.is_usual(plan.config);
        });
    if (is_printed && !field.traits.meaning.empty()) {
      const std::string label =
          field.traits.label.empty() ? "" : std::string(field.traits.label) + ": ";
      view.rows.push_back(
          {std::string(field.short_key()), label + std::string(field.traits.meaning)});
    }
  });
  return {.id = "names", .title = "What do the names mean?", .view = std::move(view)};
}

}  // namespace ptdp
