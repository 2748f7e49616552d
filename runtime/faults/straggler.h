// Which rank holds the others up.
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
  double factor = 1.0;  ///< Times as long as the ranks that it is compared with.
  Seconds lost;         ///< Of a step: what it computes longer, which the others wait for.
};

/// Ranks of a stage compute the same: one that takes 1.4 times as long as the median of them, and
/// loses a twentieth of the step, is a straggler. A rank alone on its stage is compared by how its
/// time relates to what is predicted of its stage, where something is; since predictions err, it
/// takes a factor of 1.8. The slowest of them; none in most runs. Of the steps from `first_step`
/// on, which have all their actions. `predicted` [s]: compute of a step, by rank of the pipeline;
/// empty where nothing is predicted. `step`: the time of one.
[[nodiscard]] std::optional<MeasuredStraggler> find_straggler(const TrainingSettings& settings,
                                                              std::span<const RankRecord> ranks,
                                                              std::size_t first_step,
                                                              std::span<const double> predicted,
                                                              Seconds step);

}  // namespace ptdp
