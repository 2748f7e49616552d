// Explains the fields of one-line configurations, modules and schedules.
#include "planner/report/sections/names_section.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/recompute_modules.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

ReportSection names_section(const std::vector<ParallelConfig>& configs) {
  TableView view{.columns = {"name", "meaning"}};
  for_each_config_field([&](const auto& field) {
    const bool is_printed = field.traits.is_always_printed ||
                            std::ranges::any_of(configs, [&](const ParallelConfig& config) {
                              return field.applies(config) && !field.is_usual(config);
                            });
    if (is_printed && !field.traits.meaning.empty()) {
      const std::string label =
          field.traits.label.empty() ? "" : std::string(field.traits.label) + ": ";
      view.rows.push_back(
          {std::string(field.short_key()), label + std::string(field.traits.meaning)});
    }
  });
  for (const NamedValue<RecomputeModule>& module : kRecomputeModuleNames) {
    if (std::ranges::any_of(configs, [&](const ParallelConfig& config) {
          return repeats(config.recompute) == Repeats::kModules &&
                 config.recompute_modules.has(module.value);
        })) {
      view.rows.push_back(
          {std::string(module.name), "module: " + std::string(meaning_of(module.value))});
    }
  }
  for (const ScheduleTraits& schedule : kSchedules) {
    if (std::ranges::find(configs, schedule.kind, &ParallelConfig::schedule) != configs.end()) {
      view.rows.push_back(
          {std::string(schedule.name), "schedule: " + std::string(schedule.meaning)});
    }
  }
  return {.id = "names", .title = "What do the names mean?", .view = std::move(view)};
}

}  // namespace ptdp
