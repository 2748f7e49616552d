#include "planner/report/sections/memory_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/constraints/constraint.h"
#include "planner/report/sections/drawn_points.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostCurves = 4;

double in_gibibytes(Bytes size) {
  return size.value() / kGibi;
}

/// Returns a time with as many decimals as tell a hundred-thousandth of the step: more digits only
/// make a page larger.
double shown_time(Seconds time, Seconds step) {
  const double scale = std::pow(10.0, 5.0 - std::floor(std::log10(step.value())));
  return std::round(time.value() * scale) / scale;
}

Limit limit_of(const GpuSpec& gpu, double headroom) {
  return {.name = headroom == 0.0 ? "what a GPU has" : "what the headroom leaves",
          .value = in_gibibytes(usable_memory(gpu, headroom))};
}

/// Returns the pipeline ranks to draw, in order.
std::set<int> drawn_ranks(const std::vector<MemoryProfile>& profiles) {
  const auto last = static_cast<int>(profiles.size()) - 1;
  std::set<int> ranks;
  if (profiles.size() <= kMostCurves) {
    for (int rank = 0; rank <= last; ++rank) {
      ranks.insert(rank);
    }
    return ranks;
  }
  const auto heaviest = std::ranges::max_element(
      profiles, {}, [](const MemoryProfile& profile) { return profile.peak; });
  return {0, static_cast<int>(heaviest - profiles.begin()), last / 2, last};
}

}  // namespace

StackedView memory_columns(const std::vector<MemoryBreakdown>& memory, int first,
                           const GpuSpec& gpu, double headroom) {
  StackedView view{.x = {.name = "pipeline stage"},
                   .y = {.name = "memory of a GPU", .unit = "GiB"},
                   .limit = limit_of(gpu, headroom)};
  for (const MemoryTerm& term : kMemoryTerms) {
    view.categories.emplace_back(term.name);
  }
  for (const MemoryBreakdown& one : memory) {
    StackedColumn column{.name = std::to_string(first++)};
    for (const MemoryTerm& term : kMemoryTerms) {
      column.values.push_back(in_gibibytes(one.*term.size));
    }
    view.columns.push_back(std::move(column));
  }
  return view;
}

ReportSection memory_by_stage(const Plan& plan) {
  StackedView view =
      memory_columns(plan.memory.stages, 1, plan.scenario.cluster.gpu, plan.memory_headroom);
  const double limit = view.limit->value;
  return {
      .id = "memory",
      .title = "What fills the memory of a GPU?",
      .note = fmt::format("At the peak of each stage; stage {} holds most, {:.2f} of {:.2f} GiB{}.",
                          plan.memory.heaviest_rank + 1, in_gibibytes(plan.memory.peak()), limit,
                          fitting_remark(plan.memory.probability_of_fitting, plan.memory.beyond)),
      .view = std::move(view)};
}

ReportSection memory_over_time(const Plan& plan, const PlanSimulation& simulation) {
  const std::vector<MemoryProfile>& profiles = simulation.memory;
  const Seconds end = simulation.timeline.times.makespan();
  CurvesView view{.x = {.name = "time in the step", .unit = "s"},
                  .y = {.name = "memory of a GPU", .unit = "GiB"},
                  .limits = {limit_of(plan.scenario.cluster.gpu, plan.memory_headroom)}};
  const std::set<int> ranks = drawn_ranks(profiles);
  for (const int rank : ranks) {
    Curve curve{.name = fmt::format("rank {}", rank), .has_steps = true};
    const std::vector<MemorySample>& samples = profiles[static_cast<std::size_t>(rank)].samples;
    std::vector<double> held;
    std::ranges::transform(samples, std::back_inserter(held),
                           [](const MemorySample& sample) { return in_gibibytes(sample.held); });
    for (const std::size_t place : drawn_points(held)) {
      curve.x.push_back(shown_time(samples[place].time, end));
      curve.y.push_back(std::round(held[place] * 1e4) / 1e4);
    }
    curve.x.push_back(shown_time(end, end));
    curve.y.push_back(curve.y.back());
    view.curves.push_back(std::move(curve));
  }
  return {.id = "memory-over-time",
          .title = "When is memory held?",
          .note = fmt::format(
              "Activations come and go in the simulated step; all else is held throughout. Rank 0 "
              "holds stage 1.{}",
              ranks.size() < profiles.size()
                  ? fmt::format(" Drawn are {} of {} ranks, among them the first, the last and "
                                "the heaviest.",
                                ranks.size(), profiles.size())
                  : ""),
          .view = std::move(view)};
}

}  // namespace ptdp
