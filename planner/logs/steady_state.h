// What an iteration takes once a run has warmed up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/units.h"
#include "planner/logs/training_log.h"

namespace ptdp {

/// The fewest lines of progress that have a steady state: the first one is left out.
inline constexpr std::size_t kFewestLogRecords = 3;
/// A line whose iterations take so many times the median has a pause in it, or longer sequences.
inline constexpr double kPause = 1.5;
/// The first lines are left out as long as their iterations take more than so many times the median
/// of the log's second half.
inline constexpr double kWarmUp = 1.1;

/// What a log does not say of its run, but a plan does.
struct LoggedJob {
  double sequences = 0.0;       ///< Global batch, in sequences.
  double tokens = 0.0;          ///< Tokens of an iteration.
  double tokens_per_gpu = 0.0;  ///< Tokens of an iteration over the GPUs in use.
};

/// The time of a line's iterations.
struct LoggedTime {
  std::int64_t step = 0;   ///< Iteration of the line.
  double seconds = 0.0;    ///< Time of one of its iterations [s].
  bool is_steady = false;  ///< Whether it is one of the steady state.
};

/// What an iteration takes in a steady state.
struct SteadyState {
  Seconds time;                 ///< Median over the lines.
  Seconds low;                  ///< A tenth of the lines take less.
  Seconds high;                 ///< A tenth of the lines take more.
  std::int64_t lines = 0;       ///< Lines behind these numbers.
  std::int64_t warm_up = 0;     ///< Lines left out at the start.
  std::int64_t slow = 0;        ///< Lines among `lines` that take kPause times the median and more.
  std::int64_t first_step = 0;  ///< Iteration of the first line behind these numbers.
  std::int64_t last_step = 0;   ///< Iteration of the last line behind these numbers.
  std::optional<double> tflops_per_gpu;  ///< Median of what the program printed.
  std::optional<double> loss;            ///< Loss of the last line that has one; may be NaN.
  std::int64_t loss_step = 0;            ///< Iteration of that line.
  std::int64_t skipped = 0;              ///< Iterations in these lines without an optimizer step.
  /// Where times come from, if the log has none: "tokens per second", "time stamps" or "sequences
  /// per second".
  std::string derived_from;
  std::vector<LoggedTime> times;  ///< Times of all lines that have one, in order.
};

/// Finds the steady state. Lines of another batch than the last one are left out, and those of
/// skipped iterations if others are left. Throws Error at `place` for a log that has too few lines
/// or says too little. It throws one for a batch, or rates beside times, other than the job's, too.
[[nodiscard]] SteadyState find_steady_state(const TrainingLog& log,
                                            const std::optional<LoggedJob>& job,
                                            const std::string& place);

}  // namespace ptdp
