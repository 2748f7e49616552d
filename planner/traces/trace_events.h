// The events of a trace, one by one, and what is kept of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "planner/traces/trace.h"

namespace ptdp {

/// An event of a Chrome trace, as far as it is of use here. A number is nullopt if the event does
/// not have it, or not as a number.
struct TraceEvent {
  std::string phase;     ///< "X" for work with a length.
  std::string category;  ///< "kernel", "cpu_op" ...
  std::string name;
  std::optional<Nanoseconds> start;
  std::optional<Nanoseconds> length;
  std::optional<std::int64_t> device;
  std::optional<std::int64_t> stream;
  std::optional<std::int64_t> correlation;
  std::optional<std::int64_t> op;  ///< "External id".
  CollectiveCall call;
  std::string group_name;  ///< Of the process group, which may have a description, too.
  std::string shapes;      ///< "Input Dims" as JSON without blanks; "" if not said.
};

/// What a trace says beside its events.
struct TraceHeader {
  std::optional<std::int64_t> rank;
  std::optional<std::int64_t> world_size;
  std::map<std::int64_t, std::string> device_names;  ///< By number of the device.
};

/// Returns a time in microseconds, as a trace writes it, in nanoseconds: 12345 for "12.345".
/// Nullopt for what is no time, or beyond 95 years.
[[nodiscard]] std::optional<Nanoseconds> nanoseconds_of(std::string_view microseconds);

/// Keeps of many events what is of use.
class TraceKeeper {
 public:
  /// Adds an event; one that is of no use changes nothing.
  void add(TraceEvent& event);
  /// Returns what was kept, of one device: that of the rank, else the busiest. Throws Error at
  /// `place` if nothing ran on a GPU.
  [[nodiscard]] Trace finish(const TraceHeader& header, const std::string& place);

 private:
  std::uint32_t index_of(const std::string& name);
  std::int32_t call_of(TraceEvent& event);
  void add_gpu_work(TraceEvent& event, bool is_kernel);
  void add_operator(TraceEvent& event);
  void add_step(const TraceEvent& event);
  void link_operators();
  void keep_one_device(const TraceHeader& header);

  Trace trace_{.names = {""}};
  std::unordered_map<std::string, std::uint32_t> indices_{{"", 0}};
  std::map<CollectiveCall, std::int32_t> calls_;
  std::unordered_map<std::int64_t, std::int32_t> calls_of_operators_;
  std::int64_t host_events_ = 0;
};

}  // namespace ptdp
