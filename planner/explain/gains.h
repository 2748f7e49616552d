// What single changes would make an answer faster, and by how much.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/explain/flips.h"
#include "planner/search/search.h"

namespace ptdp {

/// What somebody has to change.
enum class GainKind {
  kMemory,   ///< More memory on a GPU, for another value of one key of the configuration.
  kInput,    ///< An input, at the increase that gains most of those searched.
  kSoftware  ///< Something that the stack does not do.
};
inline constexpr std::array kGainKinds = {NamedValue<GainKind>{GainKind::kMemory, "memory"},
                                          NamedValue<GainKind>{GainKind::kInput, "input"},
                                          NamedValue<GainKind>{GainKind::kSoftware, "software"}};

/// A change of one thing, and what it gains.
struct Gain {
  GainKind kind = GainKind::kInput;
  std::string change;     ///< What changes, after "with": "20 % more GPU memory".
  ParallelConfig config;  ///< The plan that is chosen after the change.
  Seconds time;           ///< Its time of an iteration, not calibrated.
  /// Share of the time per sequence that is saved, 0 to 1; of GPU-seconds under kCost.
  double saved = 0.0;
};

/// What is known of an answer when gains are looked for.
struct Answer {
  const Scenario& scenario;
  const SearchOptions& options;
  Candidate chosen;  ///< The plan that was chosen.
};

/// What single changes gain.
struct Gains {
  std::vector<Gain> found;  ///< The largest gain first.
  bool is_complete = true;  ///< Whether all were looked at before the limit was over.
};

/// Finds which changes of memory or software would make the answer faster. Every gain is the
/// difference of two costed plans:
///
///   - for each key of the configuration but the degrees, the best value if memory were no limit,
///     with the memory that a GPU would need beyond what it has;
///   - for each thing that a stack can do and this one does not, the best plan on the same degrees.
///
/// Changes that gain nothing are left out.
[[nodiscard]] Gains find_gains(const Answer& answer);

/// Returns the gains with those of inputs, the largest first: for each input the best plan at the
/// increase in `flips` that gains most.
[[nodiscard]] Gains with_inputs(Gains gains, const Answer& answer, const Flips& flips);

}  // namespace ptdp
