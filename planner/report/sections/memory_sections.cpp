#include "planner/report/sections/memory_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/constraints/constraint.h"

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

Limit limit_of(const Plan& plan) {
  const GpuSpec& gpu = plan.scenario.cluster.gpu;
  return {.name = plan.memory_headroom == 0.0 ? "what a GPU has" : "what the headroom leaves",
          .value = in_gibibytes(usable_memory(gpu, plan.memory_headroom))};
}

/// Returns the samples to draw: all, or the least and the largest of equally long runs.
std::vector<MemorySample> thinned(const std::vector<MemorySample>& samples) {
  if (samples.size() <= kMostMemoryPoints) {
    return samples;
  }
  const std::size_t runs = kMostMemoryPoints / 2;
  std::vector<MemorySample> kept;
  for (std::size_t run = 0; run < runs; ++run) {
    const auto first = samples.begin() + static_cast<std::ptrdiff_t>(run * samples.size() / runs);
    const auto end =
        samples.begin() + static_cast<std::ptrdiff_t>((run + 1) * samples.size() / runs);
    auto [least, largest] = std::minmax_element(
        first, end, [](const MemorySample& a, const MemorySample& b) { return a.held < b.held; });
    kept.push_back(*std::min(least, largest));
    if (least != largest) {
      kept.push_back(*std::max(least, largest));
    }
  }
  return kept;
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

ReportSection memory_by_stage(const Plan& plan) {
  StackedView view{.x = {.name = "pipeline stage"},
                   .y = {.name = "memory of a GPU", .unit = "GiB"},
                   .limit = limit_of(plan)};
  for (const MemoryTerm& term : kMemoryTerms) {
    view.categories.emplace_back(term.name);
  }
  for (std::size_t stage = 0; stage < plan.memory.stages.size(); ++stage) {
    StackedColumn column{.name = std::to_string(stage + 1)};
    for (const MemoryTerm& term : kMemoryTerms) {
      column.values.push_back(in_gibibytes(plan.memory.stages[stage].*term.size));
    }
    view.columns.push_back(std::move(column));
  }
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
                  .limits = {limit_of(plan)}};
  const std::set<int> ranks = drawn_ranks(profiles);
  for (const int rank : ranks) {
    Curve curve{.name = fmt::format("rank {}", rank), .has_steps = true};
    for (const MemorySample& sample : thinned(profiles[static_cast<std::size_t>(rank)].samples)) {
      curve.x.push_back(shown_time(sample.time, end));
      curve.y.push_back(std::round(in_gibibytes(sample.held) * 1e4) / 1e4);
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
