// Prints whether a configuration fits, its memory by stage, and the changes that make it fit.
#include "planner/answer/fit_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "cost_model/inputs/config_fields.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/planning.h"
#include "planner/constraints/constraint.h"
#include "planner/formatting.h"
#include "planner/text_table.h"

namespace ptdp {
namespace {

Bytes capacity_of(const Plan& plan) {
  return usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom);
}

/// Returns what the memory of a GPU is called: "80.00 GiB", or what the headroom leaves of it.
std::string capacity_text(const Plan& plan) {
  const Bytes memory = plan.scenario.cluster.gpu.memory;
  const std::string left = fitted_memory(memory, plan.memory_headroom);
  return left.empty() ? fmt::format("{:.2f} GiB", memory.value() / kGibi) : left;
}

/// A line of the table: a stage's memory, or what a GPU has.
struct StageRow {
  std::string name;
  const MemoryBreakdown* memory = nullptr;  ///< Memory by category; null for what a GPU has.
  Bytes total;
};

/// Returns the stages to show, in order: the first, the heaviest and the last, or the heaviest
/// alone where the table would repeat it.
std::vector<int> shown_stages(const PlanMemory& memory) {
  const auto looks_alike = [&](const MemoryBreakdown& stage) {
    const MemoryBreakdown& heaviest = memory.stages[static_cast<std::size_t>(memory.heaviest_rank)];
    return std::ranges::all_of(kMemoryTerms, [&](const MemoryTerm& term) {
      constexpr double shown = 0.005;  // GiB
      return std::abs((stage.*term.size - heaviest.*term.size).value()) < shown * kGibi;
    });
  };
  if (std::ranges::all_of(memory.stages, looks_alike)) {
    return {memory.heaviest_rank};
  }
  std::vector<int> stages(1, 0);
  for (const int stage : {memory.heaviest_rank, static_cast<int>(memory.stages.size()) - 1}) {
    if (stage != stages.back()) {
      stages.push_back(stage);
    }
  }
  return stages;
}

/// Returns the value of a field as a change names it.
template <class Field>
std::string value_of(const Field& field, const ParallelConfig& config) {
  if (field.key == "recompute_num_layers") {
    return config.recomputes_by_layers()
               ? fmt::format("{} {}", name_of(config.recompute_method), config.recompute_num_layers)
               : "all layers";
  }
  if (field.key == "offload_num_layers" && config.offload_num_layers == 0) {
    return "all but the last layer";
  }
  const std::string value = spelled(config.*field.member);
  return value.empty() ? "equal" : value;
}

/// Returns what changes: "tp 4 -> 8, dp 16 -> 8"; of a field that meant nothing before only the new
/// value.
std::string difference(const FittingChange& change, const ParallelConfig& from) {
  std::string text;
  for_each_config_field([&](const auto& field) {
    if (std::ranges::find(change.fields, field.key) != change.fields.end()) {
      text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", field.short_key(),
                          field.applies(from) ? value_of(field, from) + " -> " : "",
                          value_of(field, change.candidate.config));
    }
  });
  return text;
}

}  // namespace

std::string fit_line(const Plan& plan) {
  const PlanMemory& memory = plan.memory;
  const Bytes missing = memory.peak() - capacity_of(plan);
  const std::string need =
      fmt::format("stage {} of {} needs {:.2f} of {}", memory.heaviest_rank + 1, plan.config.pp,
                  memory.peak().value() / kGibi, capacity_text(plan));
  if (missing > Bytes(0.0)) {
    constexpr double none = 0.01;
    const bool may_fit = memory.beyond.is_known() && memory.probability_of_fitting >= none;
    return fmt::format(
        "Fits: no{}, {}, {} too much\n",
        may_fit ? fmt::format(" (with {} only)",
                              likelihood_text(memory.probability_of_fitting, memory.beyond.support))
                : "",
        need, binary_size(missing));
  }
  if (!memory.beyond.is_known()) {
    return fmt::format("Fits: yes; {}\n", need);
  }
  constexpr double even_odds = 0.5;
  return fmt::format("Fits: yes{}, with {}; {}\n",
                     memory.probability_of_fitting < even_odds ? " by the formulas" : "",
                     likelihood_text(memory.probability_of_fitting, memory.beyond.support), need);
}

std::string stage_table(const Plan& plan) {
  // Headings of the categories, in the order of kMemoryTerms.
  constexpr std::array<std::string_view, kMemoryTerms.size()> headings = {
      "weights", "gradients", "optimizer", "activations", "working", "buffers", "reserve"};
  std::vector<StageRow> rows;
  for (const int stage : shown_stages(plan.memory)) {
    const MemoryBreakdown& memory = plan.memory.stages[static_cast<std::size_t>(stage)];
    rows.push_back({fmt::format("{}/{}", stage + 1, plan.config.pp), &memory, memory.total()});
  }
  rows.push_back({plan.memory_headroom == 0.0 ? "a GPU" : "usable", nullptr, capacity_of(plan)});
  const auto gibibytes_of = [](Bytes size) { return fmt::format("{:.2f}", size.value() / kGibi); };
  std::vector<TextColumn<StageRow>> columns = {
      {"stage", -7, [](const StageRow& row) { return row.name; }}};
  for (std::size_t i = 0; i < kMemoryTerms.size(); ++i) {
    columns.push_back({std::string(headings[i]), static_cast<int>(headings[i].size()),
                       [&gibibytes_of, size = kMemoryTerms[i].size](const StageRow& row) {
                         return row.memory == nullptr ? "" : gibibytes_of(row.memory->*size);
                       }});
  }
  columns.push_back({"total", 7, [&](const StageRow& row) { return gibibytes_of(row.total); }});
  return "Memory by stage [GiB]\n" + text_table(columns, rows);
}

std::string typed(const ParallelConfig& config) {
  std::string text = to_string(config);
  std::ranges::replace(text, ' ', ',');
  return text;
}

double probability_of_fitting(Bytes memory, const Scenario& scenario, double memory_headroom,
                              const MemoryBelief& beyond) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  return beyond.probability_of_fitting(memory - reserved_memory(gpu, scenario.stack),
                                       usable_memory(gpu, memory_headroom));
}

std::string changes_text(const FittingChanges& changes, const ChangedConfig& from) {
  const std::string_view verb = from.time > Seconds(0.0) ? "fit" : "run";
  if (changes.found.empty()) {
    return changes.is_complete
               ? fmt::format("No change of one or two fields makes it {}.\n", verb)
               : fmt::format("No change that makes it {} was found within the time limit.\n", verb);
  }
  std::string text = fmt::format("Smallest changes that make it {}\n", verb);
  int number = 0;
  for (const FittingChange& change : changes.found) {
    const Candidate& candidate = change.candidate;
    const Seconds time = candidate.time * from.calibration_factor;
    const double chance = from.beyond.is_known()
                              ? probability_of_fitting(candidate.memory, from.scenario,
                                                       from.options.memory_headroom, from.beyond)
                              : 1.0;
    const std::int64_t gpus = candidate.config.world_size();
    text += fmt::format(
        "  {}. {}\n     {}{}, {:.2f} GiB{}\n     {}--config {}\n", ++number,
        difference(change, from.config), duration(time),
        from.time > Seconds(0.0) ? fmt::format(" ({})", signed_percent(time / from.time - 1.0))
                                 : "",
        candidate.memory.value() / kGibi, fitting_remark(chance, from.beyond),
        gpus > from.options.gpus ? fmt::format("--gpus {} ", gpus) : "", typed(candidate.config));
  }
  return text;
}

std::vector<ObjectWriter> changes_json(const FittingChanges& changes, const ChangedConfig& from) {
  std::vector<ObjectWriter> all;
  for (const FittingChange& change : changes.found) {
    ObjectWriter json = candidate_json(change.candidate, from.calibration_factor);
    json.count("gpus_used", change.candidate.config.world_size());
    json.texts("changed", {change.fields.begin(), change.fields.end()});
    if (from.beyond.is_known()) {
      json.number("probability_of_fitting",
                  probability_of_fitting(change.candidate.memory, from.scenario,
                                         from.options.memory_headroom, from.beyond));
    }
    all.push_back(std::move(json));
  }
  return all;
}

}  // namespace ptdp
