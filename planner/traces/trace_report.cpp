#include "planner/traces/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/measured/quantile.h"
#include "cost_model/text/plural.h"
#include "planner/traces/trace_steps.h"
#include "planner/traces/trace_terms.h"

namespace ptdp {
namespace {

// Iterations that differ by so much from the fastest to the slowest are worth a warning.
constexpr double kUnevenSteps = 1.25;

struct TimeOfKind {
  WorkKind kind;
  Seconds TraceTimes::*time;
};

constexpr auto kTimesOfKinds =
    std::to_array<TimeOfKind>({{WorkKind::kProduct, &TraceTimes::products},
                               {WorkKind::kAttention, &TraceTimes::attention},
                               {WorkKind::kNorm, &TraceTimes::norms},
                               {WorkKind::kElementWise, &TraceTimes::element_wise},
                               {WorkKind::kOptimizer, &TraceTimes::optimizer},
                               {WorkKind::kCopy, &TraceTimes::copies}});

/// The purposes of a sweep: the kinds of compute, then each collective, then copies from and to the
/// host.
struct Purposes {
  std::size_t collectives = 0;

  [[nodiscard]] static std::size_t of(WorkKind kind) { return static_cast<std::size_t>(kind); }
  [[nodiscard]] static std::size_t of_collective(std::size_t use) {
    return of(WorkKind::kCollective) + use;
  }
  [[nodiscard]] std::size_t host_copies() const { return of(WorkKind::kCollective) + collectives; }
  [[nodiscard]] std::size_t count() const { return host_copies() + 1; }
};

std::vector<BusySpan> spans_of(const Trace& trace, const TraceCollectives& collectives,
                               const Purposes& purposes) {
  std::vector<BusySpan> spans;
  spans.reserve(trace.work.size());
  for (std::size_t i = 0; i < trace.work.size(); ++i) {
    const GpuWork& work = trace.work[i];
    BusySpan span{.start = work.start, .end = work.end, .purpose = Purposes::of(work.kind)};
    if (work.kind == WorkKind::kCollective) {
      span.purpose = Purposes::of_collective(collectives.use_of[i]);
    } else if (work.kind == WorkKind::kHostCopy) {
      span.purpose = purposes.host_copies();
    }
    spans.push_back(span);
  }
  return spans;
}

TraceTimes times_of(const SweptWindow& window, const Purposes& purposes) {
  TraceTimes times{.host_copies = to_seconds(window.alone[purposes.host_copies()]),
                   .idle = to_seconds(window.idle)};
  for (const TimeOfKind& known : kTimesOfKinds) {
    times.*known.time = to_seconds(window.alone[Purposes::of(known.kind)]);
  }
  for (std::size_t use = 0; use < purposes.collectives; ++use) {
    times.exposed += to_seconds(window.alone[Purposes::of_collective(use)]);
  }
  return times;
}

void add_times(TraceTimes& sum, const TraceTimes& times, double weight) {
  for (const TraceTerm& known : kTraceTerms) {
    sum.*known.time += weight * (times.*known.time);
  }
}

/// Sweeps over the trace, and fills in the times of iterations and of collectives.
void fill_times(TraceReport& report, const Trace& trace, const TraceSteps& steps,
                TraceCollectives collectives) {
  const Purposes purposes{.collectives = collectives.uses.size()};
  const std::vector<BusySpan> spans = spans_of(trace, collectives, purposes);
  const std::vector<SweptWindow> swept = sweep(spans, steps.windows, purposes.count());
  const double weight = 1.0 / static_cast<double>(swept.size());
  std::vector<double> totals;
  for (std::size_t i = 0; i < swept.size(); ++i) {
    report.steps.push_back(
        {.number = steps.windows[i].number, .times = times_of(swept[i], purposes)});
    add_times(report.mean, report.steps.back().times, weight);
    totals.push_back(report.steps.back().times.total().value());
    for (std::size_t use = 0; use < collectives.uses.size(); ++use) {
      const std::size_t purpose = Purposes::of_collective(use);
      const Nanoseconds busy = swept[i].busy[purpose];
      const Nanoseconds alone = swept[i].alone[purpose];
      collectives.uses[use].time += weight * to_seconds(busy);
      collectives.uses[use].exposed += weight * to_seconds(alone);
      collectives.uses[use].hidden += weight * to_seconds(busy - alone);
    }
  }
  std::erase_if(collectives.uses,
                [](const CollectiveUse& use) { return use.time == Seconds(0.0); });
  report.time = Seconds(median(totals));
  report.collectives = std::move(collectives.uses);
}

std::vector<std::string> trace_warnings(const TraceReport& report, const Trace& trace,
                                        const TraceSteps& steps) {
  std::vector<std::string> warnings;
  if (!steps.are_marked) {
    warnings.emplace_back(
        "no complete iteration is marked (ProfilerStep#N, by the profiler's step()): the whole "
        "trace counts as one");
  } else if (steps.first_left_out == 0) {
    warnings.emplace_back("one iteration alone is in it, which the profiler's start may slow");
  }
  const auto [fastest, slowest] = std::ranges::minmax(
      report.steps, {}, [](const TracedStep& step) { return step.times.total(); });
  if (slowest.times.total() > kUnevenSteps * fastest.times.total()) {
    warnings.push_back(fmt::format("iterations take {:.4g} to {:.4g} ms",
                                   1e3 * fastest.times.total().value(),
                                   1e3 * slowest.times.total().value()));
  }
  if (trace.other_devices > 0) {
    warnings.push_back(
        fmt::format("work of {} is left out", plural(trace.other_devices, "other device")));
  }
  if (trace.without_time > 0) {
    warnings.push_back(plural(trace.without_time, "event") +
                       " of the GPU without a valid time: left out");
  }
  const bool lacks_groups = std::ranges::any_of(
      report.collectives, [](const CollectiveUse& use) { return use.ranks == 0; });
  if (lacks_groups) {
    warnings.emplace_back(
        "the trace does not say the groups of its collectives (PyTorch does from 2.2 on): no "
        "bandwidth");
  }
  return warnings;
}

}  // namespace

std::optional<double> TraceReport::error() const {
  return plan ? std::optional(plan->predicted.iteration_time.value / time - 1.0) : std::nullopt;
}

bool TraceReport::is_inside() const {
  return plan && time >= plan->predicted.iteration_time.low &&
         time <= plan->predicted.iteration_time.high;
}

TraceReport report_trace(const Trace& trace, const std::string& place,
                         const std::optional<Plan>& plan, std::vector<std::string> assumptions) {
  if (plan && trace.world_size > 0 && trace.world_size != plan->config.world_size()) {
    throw Error(fmt::format("{}: distributedInfo.world_size: expected the plan's {}, found {}",
                            place, plural(plan->config.world_size(), "GPU"), trace.world_size));
  }
  const TraceSteps steps = steps_of(trace);
  TraceReport report{.file = place,
                     .rank = trace.rank,
                     .world_size = trace.world_size,
                     .device = trace.device,
                     .device_name = trace.device_name,
                     .steps = {},
                     .are_marked = steps.are_marked,
                     .steps_left_out = steps.first_left_out + steps.incomplete,
                     .mean = {},
                     .time = {},
                     .plan = plan,
                     .assumptions = std::move(assumptions)};
  fill_times(report, trace, steps, collectives_of(trace, steps.windows));
  if (report.time <= Seconds(0.0)) {
    throw Error(place + ": expected iterations that take time, found none");
  }
  report.work = work_by_shape(trace, steps.windows);
  report.warnings = trace_warnings(report, trace, steps);
  return report;
}

}  // namespace ptdp
