// The trace of a rank beside the plan of its run (`ptdp.trace/1`, described in FORMATS.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/answer_format.h"
#include "planner/plan/plan.h"
#include "planner/traces/trace.h"
#include "planner/traces/trace_communication.h"
#include "planner/traces/trace_parts.h"
#include "planner/traces/trace_products.h"

namespace ptdp {

inline constexpr const char* kTraceSchema = "ptdp.trace/1";

/// An iteration of a trace.
struct TracedStep {
  std::int64_t number = 0;  ///< As the trace names it; 0 for a trace as a whole.
  TraceTimes times;
};

/// Where the time of a rank went, beside what was predicted for its run.
struct TraceReport {
  std::string file;             ///< Name of the trace, for people.
  std::int64_t rank = kUnsaid;  ///< kUnsaid if the trace does not say.
  std::int64_t world_size = 0;  ///< 0 if the trace does not say.
  std::int32_t device = 0;
  std::string device_name;          ///< "" if the trace does not say.
  std::vector<TracedStep> steps;    ///< The iterations that count.
  bool are_marked = true;           ///< False if the trace counts as a whole.
  std::int64_t steps_left_out = 0;  ///< The first iteration, and incomplete ones.
  TraceTimes mean;                  ///< The average iteration.
  Seconds time;                     ///< Median time of an iteration.
  std::vector<WorkUse> work = {};   ///< By shape or name, the longest first.
  std::vector<CollectiveUse> collectives = {};
  std::optional<Plan> plan = std::nullopt;    ///< Plan of the run; nullopt if none is known.
  std::vector<std::string> assumptions = {};  ///< What was assumed of the run, a line each.
  std::vector<std::string> warnings = {};     ///< What makes the numbers doubtful, a line each.

  /// Returns predicted/measured − 1 of the iteration; nullopt without a plan.
  [[nodiscard]] std::optional<double> error() const;
  /// Returns whether the measured time lies in the plan's 90 % interval; false without a plan.
  [[nodiscard]] bool is_inside() const;
};

/// Splits a trace by what its GPU did, and sets the plan of its run beside that, if there is one;
/// `assumptions` are those of the plan. Throws Error at `place` for a trace of another world than
/// the plan's.
[[nodiscard]] TraceReport report_trace(const Trace& trace, const std::string& place,
                                       const std::optional<Plan>& plan,
                                       std::vector<std::string> assumptions = {});

/// Returns the report as JSON, `ptdp.trace/1`.
[[nodiscard]] std::string to_json(const TraceReport& report);
/// Returns the report as text for people.
[[nodiscard]] std::string to_text(const TraceReport& report);
/// Returns the report in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const TraceReport& report);

}  // namespace ptdp
