#include "planner/traces/trace_steps.h"

#include <algorithm>
#include <limits>
#include <map>
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

/// Tells when the host launched work.
class LaunchTimes {
 public:
  explicit LaunchTimes(const Trace& trace) : trace_(trace) {
    const auto known = std::ranges::count_if(
        trace.work, [&](const GpuWork& work) { return trace.launches.contains(work.correlation); });
    are_known_ = 2 * known > std::ssize(trace.work);
  }

  /// Returns when the work was launched; nullopt for what was launched before the trace began. In a
  /// trace without launches it is when the work ran.
  [[nodiscard]] std::optional<Nanoseconds> of(const GpuWork& work) const {
    if (!are_known_) {
      return work.start;
    }
    const auto launch = trace_.launches.find(work.correlation);
    return launch == trace_.launches.end() ? std::nullopt : std::optional(launch->second);
  }

 private:
  const Trace& trace_;
  bool are_known_ = false;
};

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

/// Returns the stream that computes most. Others run ahead of it: they copy the next batch, or
/// prepare its tables.
std::int32_t main_stream(const Trace& trace) {
  std::map<std::int32_t, double> busy;
  for (const GpuWork& work : trace.work) {
    const bool computes = work.is_kernel && work.kind != WorkKind::kCollective;
    busy[work.stream] += computes ? static_cast<double>(work.end - work.start) : 0.0;
  }
  return std::ranges::max_element(busy, {}, [](const auto& entry) { return entry.second; })->first;
}

void count_work(const Trace& trace, std::vector<StepWork>& steps) {
  const std::int32_t stream = main_stream(trace);
  const LaunchTimes launches(trace);
  for (const GpuWork& work : trace.work) {
    const std::optional<Nanoseconds> launched = launches.of(work);
    if (!launched) {
      continue;
    }
    auto next = std::ranges::upper_bound(steps, *launched, {},
                                         [](const StepWork& step) { return step.mark.start; });
    if (next == steps.begin() || *launched >= std::prev(next)->mark.end) {
      continue;  // launched outside of all marks
    }
    StepWork& step = *std::prev(next);
    step.end = std::max(step.end, work.end);
    if (work.stream == stream && work.is_kernel && work.kind != WorkKind::kCollective) {
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
    kernels.reserve(steps.size());
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
