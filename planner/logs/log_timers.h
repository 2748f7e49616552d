// Megatron's timers in a log (--timing-log-level), and the terms of a prediction that they time.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/units.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// The time of a part of an iteration [s].
struct LogTimer {
  std::string name;   ///< As Megatron spells it: "forward-compute".
  double low = 0.0;   ///< Least of all ranks; that of one rank if a single one prints.
  double high = 0.0;  ///< Most of all ranks.
};

/// Returns whether a line may hold timers; fast, for the many that hold none.
[[nodiscard]] bool may_hold_timers(std::string_view line);
/// Returns the timers of a line that belong to an iteration: "time (ms) | forward-compute: 265.42
/// |", "    forward-compute .....: (120.00, 265.42)", "    optimizer .....: 12.50".
[[nodiscard]] std::vector<LogTimer> timers_of(std::string_view line);

/// Keeps the timers of many iterations, in bounded memory.
class LoggedTimers {
 public:
  /// Adds the timers of a line; those of very long logs count up to kMostTimedLines.
  void add(std::string_view line);
  /// Returns each timer once, with the medians of its least and most.
  [[nodiscard]] std::vector<LogTimer> medians() const;

 private:
  static constexpr std::size_t kMostTimedLines = 100'000;

  struct Samples {
    std::vector<double> low;
    std::vector<double> high;
  };
  std::map<std::string, Samples, std::less<>> samples_;
  std::size_t lines_ = 0;
};

/// A part of an iteration as predicted and as timers measured it.
struct TimedPart {
  std::string_view name;  ///< Name of the part, for people and files.
  Seconds predicted;      ///< Sum of its terms on the rank that paces the iteration.
  Seconds low;            ///< Least of all ranks; equal to `high` if one rank prints.
  Seconds high;           ///< Most of all ranks.
};

/// Returns the parts of an iteration that the timers measure, beside the prediction's terms.
[[nodiscard]] std::vector<TimedPart> split_by_timers(const std::vector<LogTimer>& timers,
                                                     const CostBreakdown& predicted);

}  // namespace ptdp
