#include "planner/traces/trace_events.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr std::string_view kStepName = "ProfilerStep#";
constexpr double kLatestTime = 3e15;  // us; the year 2065, and sums of three such fit 64 bits in ns

enum class EventUse : std::uint8_t { kNone, kKernel, kCopy, kFill, kLaunch, kOperator, kMark };

/// Returns the use of a category; old versions of PyTorch begin them with a capital.
EventUse use_of(std::string_view category) {
  if (category == "kernel" || category == "Kernel") {
    return EventUse::kKernel;
  }
  if (category == "gpu_memcpy" || category == "Memcpy") {
    return EventUse::kCopy;
  }
  if (category == "gpu_memset" || category == "Memset") {
    return EventUse::kFill;
  }
  if (category == "cpu_op" || category == "Operator" || category == "operator") {
    return EventUse::kOperator;
  }
  if (category.ends_with("_runtime") || category.ends_with("_driver") || category == "Runtime") {
    return EventUse::kLaunch;
  }
  return category == "user_annotation" ? EventUse::kMark : EventUse::kNone;
}

/// Returns the number of a device or a stream; 0 for none.
std::int32_t small_number(std::optional<std::int64_t> given) {
  const std::int64_t number = given.value_or(0);
  return number >= 0 && number <= std::numeric_limits<std::int32_t>::max()
             ? static_cast<std::int32_t>(number)
             : 0;
}

/// Returns the device of the rank if it is among these, else the busiest one.
std::int32_t chosen_device(const std::map<std::int32_t, double>& busy, const TraceHeader& header) {
  if (header.rank && *header.rank >= 0) {
    const std::size_t per_node = header.device_names.size();
    const std::int64_t local =
        per_node == 0 ? *header.rank : *header.rank % static_cast<std::int64_t>(per_node);
    if (busy.contains(small_number(local))) {
      return small_number(local);
    }
  }
  return std::ranges::max_element(busy, {}, [](const auto& entry) { return entry.second; })->first;
}

}  // namespace

std::optional<Nanoseconds> nanoseconds_of(std::string_view microseconds) {
  double approximate = 0.0;
  const char* const end = microseconds.data() + microseconds.size();
  const auto [stop, error] = std::from_chars(microseconds.data(), end, approximate);
  if (error != std::errc() || stop != end || !(std::abs(approximate) <= kLatestTime)) {
    return std::nullopt;
  }
  std::int64_t whole = 0;
  const auto [point, wrong] = std::from_chars(microseconds.data(), end, whole);
  const std::string_view fraction(point, static_cast<std::size_t>(end - point));
  const bool is_decimal =
      wrong == std::errc() && fraction.find_first_not_of("0123456789", 1) == std::string_view::npos;
  if (!is_decimal || (!fraction.empty() && fraction.front() != '.')) {
    return std::llround(1e3 * approximate);
  }
  std::int64_t thousandths = 0;
  for (std::size_t i = 1; i <= 3; ++i) {
    thousandths = 10 * thousandths + (i < fraction.size() ? fraction[i] - '0' : 0);
  }
  thousandths += fraction.size() > 4 && fraction[4] >= '5' ? 1 : 0;
  return 1000 * whole + (microseconds.starts_with('-') ? -thousandths : thousandths);
}

std::uint32_t TraceKeeper::index_of(const std::string& name) {
  const auto [entry, is_new] =
      indices_.try_emplace(name, static_cast<std::uint32_t>(trace_.names.size()));
  if (is_new) {
    trace_.names.push_back(name);
  }
  return entry->second;
}

std::int32_t TraceKeeper::call_of(TraceEvent& event) {
  if (event.call.collective.empty() && event.call.size == 0) {
    return kUnsaid;
  }
  if (event.call.group.empty() || event.call.group == "undefined") {
    event.call.group = event.group_name;
  }
  const auto [entry, is_new] =
      calls_.try_emplace(event.call, static_cast<std::int32_t>(trace_.calls.size()));
  if (is_new) {
    trace_.calls.push_back(event.call);
  }
  return entry->second;
}

void TraceKeeper::add_gpu_work(TraceEvent& event, bool is_kernel) {
  if (!event.start || !event.length || *event.length < 0) {
    ++trace_.without_time;
    return;
  }
  const WorkKind kind = is_kernel ? kind_of_kernel(event.name) : kind_of_copy(event.name);
  trace_.work.push_back(
      {.start = *event.start,
       .end = *event.start + *event.length,
       .correlation = event.correlation.value_or(kUnsaid),
       .op = event.op.value_or(kUnsaid),
       .name = index_of(event.name),
       .call = kind == WorkKind::kCollective ? call_of(event) : std::int32_t{kUnsaid},
       .device = small_number(event.device),
       .stream = small_number(event.stream),
       .kind = kind,
       .is_kernel = is_kernel});
}

void TraceKeeper::add_operator(TraceEvent& event) {
  if (!event.op) {
    return;
  }
  if (const std::optional<WorkKind> kind = kind_of_operator(event.name)) {
    trace_.operators.try_emplace(*event.op, HostOperator{.kind = *kind,
                                                         .name = index_of(event.name),
                                                         .shapes = index_of(event.shapes)});
  } else if (const std::int32_t call = call_of(event); call != kUnsaid) {
    calls_of_operators_.try_emplace(*event.op, call);
  }
}

void TraceKeeper::add_step(const TraceEvent& event) {
  if (!event.start || !event.length || *event.length < 0) {
    return;
  }
  StepMark step{.start = *event.start, .end = *event.start + *event.length};
  const std::string_view number = std::string_view(event.name).substr(kStepName.size());
  if (std::from_chars(number.data(), number.data() + number.size(), step.number).ec ==
      std::errc()) {
    trace_.steps.push_back(step);
  }
}

void TraceKeeper::add(TraceEvent& event) {
  if (event.phase != "X") {
    return;
  }
  const EventUse use = use_of(event.category);
  const bool is_on_gpu =
      use == EventUse::kKernel || use == EventUse::kCopy || use == EventUse::kFill;
  if (is_on_gpu) {
    add_gpu_work(event, use == EventUse::kKernel);
    return;
  }
  ++host_events_;
  if (event.name.starts_with(kStepName) && (use == EventUse::kMark || use == EventUse::kOperator)) {
    add_step(event);
  } else if (use == EventUse::kLaunch && event.correlation && event.start) {
    trace_.launches.try_emplace(*event.correlation, *event.start);
  } else if (use == EventUse::kOperator) {
    add_operator(event);
  }
}

/// Gives work the kind of the operator that launched it.
void TraceKeeper::link_operators() {
  // PyTorch 1.x writes the number of the launch in its place.
  const bool has_numbers = std::ranges::any_of(
      trace_.work, [](const GpuWork& work) { return work.op > 0 && work.op != work.correlation; });
  if (!has_numbers) {
    trace_.operators.clear();
    return;
  }
  for (GpuWork& work : trace_.work) {
    if (work.kind == WorkKind::kCollective) {
      const auto call = calls_of_operators_.find(work.op);
      work.call =
          work.call == kUnsaid && call != calls_of_operators_.end() ? call->second : work.call;
    } else if (const auto op = trace_.operators.find(work.op);
               work.is_kernel && op != trace_.operators.end()) {
      work.kind = op->second.kind;
    }
  }
}

void TraceKeeper::keep_one_device(const TraceHeader& header) {
  std::map<std::int32_t, double> busy;
  for (const GpuWork& work : trace_.work) {
    busy[work.device] += static_cast<double>(work.end - work.start);
  }
  trace_.device = chosen_device(busy, header);
  trace_.other_devices = static_cast<std::int64_t>(busy.size()) - 1;
  std::erase_if(trace_.work, [&](const GpuWork& work) { return work.device != trace_.device; });
  if (const auto name = header.device_names.find(trace_.device);
      name != header.device_names.end()) {
    trace_.device_name = name->second;
  }
}

Trace TraceKeeper::finish(const TraceHeader& header, const std::string& place) {
  if (trace_.work.empty()) {
    throw Error(place + ": expected kernels of a GPU, found " + plural(host_events_, "event") +
                " of the host and no GPU kernels in it; profile with ProfilerActivity.CUDA");
  }
  link_operators();
  keep_one_device(header);
  std::ranges::sort(trace_.steps, {}, &StepMark::start);
  trace_.rank = header.rank.value_or(kUnsaid);
  trace_.world_size = header.world_size.value_or(0);
  return std::move(trace_);
}

}  // namespace ptdp
