// A training program's log beside the plan of its run (`ptdp.log/1`, described in FORMATS.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/accuracy/costed_runs.h"
#include "planner/answer_format.h"
#include "planner/logs/steady_state.h"
#include "planner/logs/training_log.h"
#include "planner/plan/plan.h"

namespace ptdp {

inline constexpr const char* kLogSchema = "ptdp.log/1";

/// The loss that a line prints.
struct LoggedLoss {
  std::int64_t step = 0;  ///< Iteration of the line.
  double loss = 0.0;
};

/// What a log measured, beside what was predicted for its run.
struct LogReport {
  std::string file;  ///< Name of the log, for people.
  LogFormat format = LogFormat::kMegatron;
  std::int64_t restarts = 0;  ///< How often the log's iterations fall back.
  SteadyState steady;
  LogMemory memory;                           ///< The most that any GPU is said to use [B].
  std::vector<LogTimer> timers = {};          ///< Megatron's timers, if the log has any.
  std::vector<LoggedLoss> losses = {};        ///< Losses that are numbers, in order.
  std::optional<Plan> plan = std::nullopt;    ///< Plan of the run; nullopt if none is known.
  std::vector<std::string> assumptions = {};  ///< What was assumed of the run, a line each.
  std::vector<std::string> warnings = {};     ///< What makes the numbers doubtful, a line each.

  /// Returns predicted/measured − 1; nullopt without a plan.
  [[nodiscard]] std::optional<double> error() const;
  /// Returns whether the measured time lies in the plan's 90 % interval; false without a plan.
  [[nodiscard]] bool is_inside() const;
};

/// Holds a log against the plan of its run, if there is one; `assumptions` are those of the plan.
/// Throws Error at `place` for a log without a steady state, and for one that contradicts the plan.
[[nodiscard]] LogReport report_log(const TrainingLog& log, const std::string& place,
                                   const std::optional<Plan>& plan,
                                   std::vector<std::string> assumptions = {});

/// Returns the run as a row beside published measured runs; its memory is what the allocator took,
/// or else what tensors took. Throws Error for a report without a plan, or with one of another
/// version of ptdp.
[[nodiscard]] CostedRun costed_run(const LogReport& report);

inline constexpr const char* kNotPredicted = "-";
/// A value of a log beside its prediction, as people read them.
struct LogFigure {
  std::string name;
  std::string predicted;  ///< Empty without a plan, kNotPredicted where nothing is predicted of it.
  std::string measured;
  std::string error;  ///< Predicted/measured − 1; empty where one of them is missing.
};
/// Returns the values that a log is judged by: time, rates and memory.
[[nodiscard]] std::vector<LogFigure> figures_of(const LogReport& report);

/// Returns what the log is, and of what run, a line each.
[[nodiscard]] std::vector<std::string> heading_lines(const LogReport& report);
/// What to type so that a log without a plan has a prediction beside it.
inline constexpr const char* kHowToPredict =
    "To set beside it what is predicted: --plan PLAN.json, --from FILE or --config tp=8,...; for a "
    "log that lists its arguments --cluster will do.";

/// Returns the report as JSON, `ptdp.log/1`.
[[nodiscard]] std::string to_json(const LogReport& report);
/// Returns the report as text for people.
[[nodiscard]] std::string to_text(const LogReport& report);
/// Returns the report in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const LogReport& report);

}  // namespace ptdp
