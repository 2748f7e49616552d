// What would flip the choice: another input, searched again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/explain/changed_inputs.h"
#include "planner/search/search.h"

namespace ptdp {

/// Relative changes of an input that are searched; the ends of the grid come first.
inline constexpr std::array kInputChanges = {-0.2, 0.2, -0.1, 0.1, -0.05, 0.05};
/// How many of kInputChanges are ends: the grid where time is short.
inline constexpr std::size_t kNumEnds = 2;

/// What becomes of the answer when one input changes.
struct FlipPoint {
  double change = 0.0;     ///< Relative change of the input.
  std::int64_t value = 0;  ///< Sequences or GPUs there; 0 for other inputs.
  /// Time of an iteration of the answer's own plan, not calibrated; nullopt if it can't run there.
  std::optional<Seconds> same;
  std::optional<Candidate> best;  ///< The plan that is chosen there; nullopt if nothing fits.
  bool is_same = false;           ///< Whether that is the answer's own plan.
};

/// An input and what becomes of the answer along its changes.
struct InputFlips {
  ChangedInput input = ChangedInput::kPeak;
  std::vector<FlipPoint> points;  ///< By change, the smallest first.
};

/// What changes of inputs would do to an answer.
struct Flips {
  std::vector<InputFlips> inputs;      ///< In the order of kChangedInputs; only those with points.
  bool is_coarse = false;              ///< Whether work was left for the ends of the grid alone.
  std::vector<ChangedInput> left_out;  ///< Inputs for which not even the ends were searched.
};

/// Searches at each change of each input, and costs `answer` there, the configuration that was
/// chosen. That stays the choice where it is the best but for the options' tie. Every value is that
/// of a whole search. Inputs are left out once the options' flip_work is spent; what lies between
/// the ends is searched if these took at most a third of it. The options' limit leaves out in the
/// same way.
[[nodiscard]] Flips find_flips(const Scenario& scenario, const SearchOptions& options,
                               const ParallelConfig& answer);

/// A change of an input at which another plan is chosen.
struct Flip {
  ChangedInput input = ChangedInput::kPeak;
  const FlipPoint* point = nullptr;  ///< Points into the Flips.
};
/// Returns the smallest change at which another plan is chosen, the first of equal ones; nullopt if
/// there is none. Other numbers of GPUs, and batches that the plan does not divide, count only if
/// there is no other change: they nearly always make another plan.
[[nodiscard]] std::optional<Flip> smallest_flip(const Flips& flips);

}  // namespace ptdp
