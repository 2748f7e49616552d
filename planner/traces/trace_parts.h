// The parts of an iteration as a trace measured them and as a plan predicts them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"
#include "planner/plan/prediction.h"
#include "planner/traces/trace_communication.h"

namespace ptdp {

/// What the ranks of a group share, as far as terms of a prediction tell it apart.
enum class GroupRole : std::uint8_t { kTensor, kContext, kExpert, kData, kPipeline, kUnknown };

/// Returns the role of a group by its description ("TENSOR_MODEL_PARALLEL_GROUP", "mesh_tp"), else
/// by the only degree of the configuration that its collective and its size go with.
[[nodiscard]] GroupRole role_of(const CollectiveUse& use, const ParallelConfig& config);

/// The time of an average iteration by what the GPU did; the terms add up to total().
struct TraceTimes {
  Seconds products;
  Seconds attention;
  Seconds norms;
  Seconds element_wise;
  Seconds optimizer;
  Seconds copies;
  Seconds exposed;      ///< Communication while nothing computed.
  Seconds host_copies;  ///< Copies from and to the host while nothing else ran.
  Seconds idle;

  /// Returns the sum of what counts as compute: all but exposed, host_copies and idle.
  [[nodiscard]] Seconds compute() const;
  /// Returns the time of the iteration.
  [[nodiscard]] Seconds total() const;
};

/// A term of TraceTimes with its names.
struct TraceTerm {
  std::string_view name;   ///< Name in files.
  std::string_view label;  ///< Name for people.
  Seconds TraceTimes::*time;
};
/// All terms of TraceTimes, with their names.
inline constexpr std::array kTraceTerms = {
    TraceTerm{"products", "products", &TraceTimes::products},
    TraceTerm{"attention", "attention", &TraceTimes::attention},
    TraceTerm{"norms", "norms", &TraceTimes::norms},
    TraceTerm{"element_wise", "element-wise", &TraceTimes::element_wise},
    TraceTerm{"optimizer", "optimizer", &TraceTimes::optimizer},
    TraceTerm{"copies", "copies", &TraceTimes::copies},
    TraceTerm{"exposed_communication", "exposed communication", &TraceTimes::exposed},
    TraceTerm{"host_copies", "host copies", &TraceTimes::host_copies},
    TraceTerm{"idle", "idle", &TraceTimes::idle}};

/// A part of an iteration; what a prediction or a trace does not tell apart is nullopt.
struct TracePart {
  std::string_view name;  ///< Name of the part, for people and files.
  std::optional<Seconds> predicted;
  std::optional<Seconds> measured;
};

/// Returns the predicted time that a trace shows as compute. What is recomputed has its
/// communication in it.
[[nodiscard]] Seconds predicted_compute(const CostBreakdown& predicted);

/// Returns the parts, whose predicted times add up to the prediction and whose measured times add
/// up to the iteration.
[[nodiscard]] std::vector<TracePart> split_by_trace(const TraceTimes& times,
                                                    const std::vector<CollectiveUse>& collectives,
                                                    const CostBreakdown& predicted,
                                                    const ParallelConfig& config);

}  // namespace ptdp
