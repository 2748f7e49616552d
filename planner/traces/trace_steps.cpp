#include "planner/traces/trace_steps.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace ptdp {
namespace {

/// What the GPU did of an iteration.
struct StepWork {
  StepMark mark;
  std::optional<Nanoseconds> first_kernel;
  Nanoseconds end = std::numeric_limits<Nanoseconds>::min();
  std::int64_t kernels = 0;
};

/// Returns when the host launched the work; without a launch in the trace, when it ran.
Nanoseconds launched_at(const Trace& trace, const GpuWork& work) {
  const auto launch = trace.launches.find(work.correlation);
  return launch == trace.launches.end() ? work.start : launch->second;
}

/// Returns the marks with a start of their own, each number once.
std::vector<StepWork> marked_steps(const Trace& trace) {
  std::vector<StepWork> steps;
  for (const StepMark& mark : trace.steps) {
    if (steps.empty() ||
        (mark.start >= steps.back().mark.end && mark.number != steps.back().mark.number)) {
      steps.push_back({.mark = mark});
    }
  }
  return steps;
}

void count_work(const Trace& trace, std::vector<StepWork>& steps) {
  for (const GpuWork& work : trace.work) {
    const Nanoseconds launched = launched_at(trace, work);
    auto next = std::ranges::upper_bound(steps, launched, {},
                                         [](const StepWork& step) { return step.mark.start; });
    if (next == steps.begin() || launched >= std::prev(next)->mark.end) {
      continue;  // launched outside of all marks
    }
    StepWork& step = *std::prev(next);
    step.end = std::max(step.end, work.end);
    // Copies of the next batch, and collectives, run ahead of the kernels of an iteration.
    if (work.is_kernel && work.kind != WorkKind::kCollective) {
      step.first_kernel = std::min(step.first_kernel.value_or(work.start), work.start);
      ++step.kernels;
    }
  }
}

/// Removes iterations without kernels, and a last one with less than half as many as usual.
std::int64_t remove_incomplete(std::vector<StepWork>& steps) {
  const std::size_t marked = steps.size();
  std::erase_if(steps, [](const StepWork& step) { return step.kernels == 0; });
  if (steps.size() > 1) {
    std::vector<std::int64_t> kernels;
    for (const StepWork& step : steps) {
      kernels.push_back(step.kernels);
    }
    const auto middle = kernels.begin() + static_cast<std::ptrdiff_t>(kernels.size() / 2);
    std::ranges::nth_element(kernels, middle);
    if (2 * steps.back().kernels < *middle) {
      steps.pop_back();
    }
  }
  return static_cast<std::int64_t>(marked - steps.size());
}

TraceSteps whole_trace(const Trace& trace) {
  TraceWindow whole{.start = std::numeric_limits<Nanoseconds>::max(),
                    .end = std::numeric_limits<Nanoseconds>::min()};
  for (const GpuWork& work : trace.work) {
    whole.start = std::min(whole.start, work.start);
    whole.end = std::max(whole.end, work.end);
  }
  return {.windows = {whole}, .are_marked = false};
}

}  // namespace

TraceSteps steps_of(const Trace& trace) {
  std::vector<StepWork> steps = marked_steps(trace);
  count_work(trace, steps);
  TraceSteps found;
  found.incomplete = remove_incomplete(steps);
  if (steps.empty()) {
    TraceSteps whole = whole_trace(trace);
    whole.incomplete = found.incomplete;
    return whole;
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const StepWork& step = steps[i];
    const bool has_next = i + 1 < steps.size();
    TraceWindow window{.number = step.mark.number,
                       .start = step.first_kernel.value_or(step.mark.start),
                       .end = has_next ? steps[i + 1].first_kernel.value_or(step.mark.end)
                                       : std::max(step.end, step.mark.end)};
    if (!found.windows.empty()) {
      window.start = std::max(window.start, found.windows.back().end);
    }
    window.end = std::max(window.end, window.start);
    found.windows.push_back(window);
  }
  if (found.windows.size() > 1) {
    found.windows.erase(found.windows.begin());
    found.first_left_out = 1;
  }
  return found;
}

}  // namespace ptdp
