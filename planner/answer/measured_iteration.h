// What a measured iteration says beside its plan: how usual it is, and where to look.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// A term of the predicted time that may hide the difference from what was measured.
struct SuspectTerm {
  std::string_view name;   ///< Name of the term in files.
  Seconds predicted;       ///< Predicted time of the term, calibrated.
  double factor = 1.0;     ///< How many times as long it would have to take, all else as predicted.
  std::string_view where;  ///< What shows whether it does: a command or a view of a profiler.
};

/// A measured iteration beside its plan.
struct MeasuredIteration {
  Seconds measured;
  std::string source;        ///< Where the time is from, for people: "--measured 24s".
  double factor = 1.0;       ///< Measured over predicted time without calibration.
  Estimate<double> factors;  ///< The calibration's factor with its 90 % interval.
  /// Probability that such a run takes as long or longer; as little or less where it is faster than
  /// predicted.
  double probability = 0.5;
  std::vector<SuspectTerm> suspects;  ///< Terms that may hide the difference, likeliest first.
};

/// Terms are suspects up to this factor: beyond it another one is the cause.
inline constexpr double kMostSuspectFactor = 5.0;

/// Compares a measured iteration with its plan. `measured` must be positive.
[[nodiscard]] MeasuredIteration compare_iteration(const Plan& plan, Seconds measured,
                                                  const std::string& source);

/// What may take time without being in any term, for an iteration that is slower than predicted.
inline constexpr std::string_view kBesideTheModel =
    "not in any term: the data loader (compare with mock data), evaluation and checkpoints between "
    "iterations, other jobs on the network, garbage collection, one slow GPU of all.";

/// Returns whether the iteration took no less than predicted.
[[nodiscard]] bool is_slower(const MeasuredIteration& iteration, const Plan& plan);
/// Returns two lines: how far the iteration is from its prediction, and whether that is usual.
[[nodiscard]] std::vector<std::string> verdict_lines(const MeasuredIteration& iteration,
                                                     const Plan& plan);
/// Returns a line: what the suspects explain, or that no term does.
[[nodiscard]] std::string suspects_title(const MeasuredIteration& iteration, const Plan& plan);

/// Returns the comparison as text for people.
[[nodiscard]] std::string to_text(const MeasuredIteration& iteration, const Plan& plan);
/// Returns the comparison as a part of documents.
[[nodiscard]] ObjectWriter measured_json(const MeasuredIteration& iteration);

}  // namespace ptdp
