// Finds the rank that holds the others up.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cost_model/units.h"
#include "runtime/executor/step_record.h"
#include "runtime/executor/training_settings.h"

namespace ptdp {

/// A rank that computes longer than it should.
struct MeasuredStraggler {
  int rank = 0;
  double factor = 1.0;  ///< How many times as long it computes as the ranks it is compared with.
  Seconds lost;         ///< Time of a step that it computes longer, for which the others wait.
};

/// Returns the slowest straggler, or nullopt, as in most runs. A straggler takes 1.4 times as long
/// as the median of the ranks of its stage, which compute the same. It must also lose a twentieth
/// of the step. A rank alone on its stage is compared by the ratio of its time to the prediction.
/// Since predictions err, that takes a factor of 1.8. Steps from `first_step` on count; they must
/// have all their actions. `predicted` is the compute of a step [s] by pipeline rank, empty without
/// a prediction. `step` is the time of one step.
[[nodiscard]] std::optional<MeasuredStraggler> find_straggler(const TrainingSettings& settings,
                                                              std::span<const RankRecord> ranks,
                                                              std::size_t first_step,
                                                              std::span<const double> predicted,
                                                              Seconds step);

}  // namespace ptdp
